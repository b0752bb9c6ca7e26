//! What tells event queues that something has changed, for descriptors of this library's making.

use core::sync::atomic::{AtomicBool, Ordering};

use runtime::{Error, Result, fd, path, sys};
use syscall::error::EINTR;
use syscall::flag::{O_NONBLOCK, RwFlags};

/// Both ends of a pipe, out of sight of the program.
pub struct Bell {
    reader: usize,
    writer: usize,
    /// What the program is told of `O_NONBLOCK`; the pipe has it always.
    is_nonblocking: AtomicBool,
}

impl Bell {
    /// A bell, and the descriptor that is the program's.
    ///
    /// Reading the pipe does not wait: a thread that has begun to read another file of that number
    /// when `dup2` puts the descriptor there would wait for ever.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new() -> Result<(Self, usize)> {
        let number = path::open("/scheme/pipe", O_NONBLOCK)?;
        let ends =
            fd::dup_upper(number, b"write").and_then(|writer| match fd::dup_upper(number, b"") {
                Ok(reader) => Ok(Self {
                    reader,
                    writer,
                    is_nonblocking: AtomicBool::new(false),
                }),
                Err(error) => {
                    let _ = fd::close(writer);
                    Err(error)
                }
            });
        match ends {
            Ok(bell) => Ok((bell, number)),
            Err(error) => {
                let _ = fd::close(number);
                Err(error)
            }
        }
    }

    /// What event queues watch, as long as the bell is there, whatever becomes of the program's
    /// descriptors.
    pub fn reader(&self) -> usize {
        self.reader
    }

    /// Whether the program has set `O_NONBLOCK`.
    pub fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::SeqCst)
    }

    /// Takes note of that.
    pub fn set_nonblocking(&self, set: bool) {
        self.is_nonblocking.store(set, Ordering::SeqCst);
    }

    /// Makes an event. The byte is taken out again: what counts is not in the pipe, which would be
    /// full otherwise when nobody listens.
    pub fn ring(&self) {
        if fd::write(self.writer, &[1]).is_err() {
            return;
        }
        // Some more than one: a process may have been killed in between.
        let mut bytes = [0_u8; 16];
        let flags = RwFlags::NONBLOCK.bits() as usize;
        loop {
            let place = bytes.as_mut_ptr() as usize;
            let arguments = [self.reader, place, bytes.len(), usize::MAX, flags, 0];
            // SAFETY: a local array, as long as that.
            let taken = unsafe { sys::call(syscall::SYS_READ2, arguments) };
            if !matches!(taken, Err(Error { errno: EINTR })) {
                return;
            }
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // What was opened above.
        let _ = fd::close(self.writer);
        let _ = fd::close(self.reader);
    }
}
