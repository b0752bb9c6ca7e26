//! Kills a daemon that does not get ready, so that it cannot stop the boot.

use alloc::sync::Arc;
use core::time::Duration;

use runtime::sync::Mutex;
use runtime::time::Instant;
use runtime::{process, thread};

/// Time a daemon has to get ready. Generous: an emulated machine on a busy host is slow.
const LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks.
const STEP: Duration = Duration::from_millis(500);

enum Watched {
    Nothing,
    Daemon(u32, Instant),
    Stopped,
}

/// The watching thread's other end.
pub struct Watchdog {
    watched: Arc<Mutex<Watched>>,
}

impl Watchdog {
    /// Starts the thread. Without one the boot goes on unwatched.
    pub fn start() -> Self {
        let watched = Arc::new(Mutex::new(Watched::Nothing));
        let own = Arc::clone(&watched);
        let _ = thread::spawn(move || {
            loop {
                thread::sleep(STEP);
                let mut watched = own.lock();
                match *watched {
                    Watched::Nothing => {}
                    Watched::Daemon(pid, limit) => {
                        if Instant::now() > limit {
                            // Its death ends init's wait, which then reports it.
                            let _ = process::kill(pid, 9);
                            *watched = Watched::Nothing;
                        }
                    }
                    Watched::Stopped => return,
                }
            }
        });
        Watchdog { watched }
    }

    /// Gives this daemon its time from now on.
    pub fn watch(&self, pid: u32) {
        *self.watched.lock() = Watched::Daemon(pid, Instant::now() + LIMIT);
    }

    /// The daemon is ready, or gone.
    pub fn release(&self) {
        *self.watched.lock() = Watched::Nothing;
    }

    /// Ends the thread.
    pub fn stop(&self) {
        *self.watched.lock() = Watched::Stopped;
    }
}
