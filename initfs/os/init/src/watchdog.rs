//! Kills a daemon that does not get ready, so that it cannot stop the boot.

use alloc::sync::Arc;
use core::time::Duration;

use runtime::sync::Signal;
use runtime::thread::JoinHandle;
use runtime::time::Instant;
use runtime::{process, thread};

/// Time for a daemon to get ready. It is long, because an emulated machine on a busy host is slow.
const LIMIT: Duration = Duration::from_secs(30);

/// A thread that watches one daemon until this is dropped.
pub struct Watchdog {
    ready: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the daemon's time now. If no thread can be started, the daemon is unwatched.
    pub fn over(pid: u32) -> Self {
        let ready = Arc::new(Signal::new());
        let (seen, limit) = (Arc::clone(&ready), Instant::now() + LIMIT);
        let thread = thread::spawn(move || {
            if !seen.wait_until(limit) {
                // Its death ends init's wait, which then reports it.
                let _ = process::kill(pid, 9);
            }
        });
        if let Err(error) = &thread {
            runtime::println!("init: process {pid} starts unwatched: {error}");
        }
        Watchdog {
            ready,
            thread: thread.ok(),
        }
    }
}

impl Drop for Watchdog {
    /// Stops watching. Afterwards no process is killed, even if the process id is reused.
    fn drop(&mut self) {
        self.ready.set();
        // The thread returns no result.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
