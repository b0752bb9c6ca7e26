//! The bell: a pipe that wakes the progress thread.

use core::sync::atomic::{AtomicBool, Ordering};

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};

use crate::error::Result;

/// The bell; see the module.
pub struct Bell {
    writer: Fd,
    has_rung: AtomicBool,
}

impl Bell {
    /// A bell, and the descriptor that is readable when it has rung.
    ///
    /// # Errors
    /// Those of opening a pipe.
    pub fn new() -> Result<(Self, Fd)> {
        let reader = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC | O_NONBLOCK, 0)?;
        let bell = Self {
            writer: Fd::new(reader.dup(b"write")?),
            has_rung: AtomicBool::new(false),
        };
        Ok((bell, reader))
    }

    /// Wakes the thread, unless that was done since it last began to work.
    #[cold]
    pub fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::SeqCst) {
            // It fails when the pipe is full; then the thread is awake.
            let _ = self.writer.write(&[1]);
        }
    }

    /// Empties the pipe; to be called by the thread when it is awake and about to look for work.
    pub fn quiet(&self, reader: &Fd) {
        if self.has_rung.load(Ordering::SeqCst) {
            // Read before the bell can ring again.
            let _ = reader.read(&mut [0; 8]);
            self.has_rung.store(false, Ordering::SeqCst);
        }
    }
}
