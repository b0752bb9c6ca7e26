//! Kills a daemon that does not get ready, so that it cannot stop the boot.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use runtime::time::Instant;
use runtime::{process, thread};

/// Time a daemon has to get ready. Generous: an emulated machine on a busy host is slow.
const LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks.
const STEP: Duration = Duration::from_millis(500);

/// A thread that watches one daemon until this is dropped.
pub struct Watchdog {
    ended: Arc<AtomicBool>,
}

impl Watchdog {
    /// Gives the daemon its time from now on. Without a thread it is unwatched.
    pub fn over(pid: u32) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (seen, limit) = (Arc::clone(&ended), Instant::now() + LIMIT);
        let watching = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                if Instant::now() > limit {
                    // Its death ends init's wait, which then reports it.
                    let _ = process::kill(pid, 9);
                    return;
                }
                thread::sleep(STEP);
            }
        });
        if let Err(error) = watching {
            runtime::println!("init: process {pid} starts unwatched: {error}");
        }
        Watchdog { ended }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
