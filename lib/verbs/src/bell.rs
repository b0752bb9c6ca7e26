//! The bell that wakes the progress thread.

use core::sync::atomic::{AtomicBool, Ordering};

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};

use crate::error::Result;

/// See the module.
pub struct Bell {
    writer: Fd,
    has_rung: AtomicBool,
}

impl Bell {
    /// A bell, and the descriptor that is ready when it has rung.
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

    /// Wakes the thread, if nobody has since it began to work last.
    #[cold]
    pub fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::SeqCst) {
            // It fails when the pipe is full, and then the thread is awake.
            let _ = self.writer.write(&[1]);
        }
    }

    /// The thread is awake and about to look.
    pub fn quiet(&self, reader: &Fd) {
        if self.has_rung.load(Ordering::SeqCst) {
            // Before the bell may ring again.
            let _ = reader.read(&mut [0; 8]);
            self.has_rung.store(false, Ordering::SeqCst);
        }
    }
}
