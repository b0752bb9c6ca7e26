//! Raises events for descriptors that this library makes itself, when their state has changed.

use core::sync::atomic::{AtomicBool, Ordering};

use runtime::{Error, Result, fd, path, sys};
use syscall::error::EINTR;
use syscall::flag::{O_NONBLOCK, RwFlags};

/// Both ends of a pipe, at numbers that the program does not see.
pub struct Bell {
    reader: usize,
    writer: usize,
    /// The `O_NONBLOCK` flag that the program sees; the pipe itself always has it.
    is_nonblocking: AtomicBool,
}

impl Bell {
    /// Makes a bell, and the descriptor for the program.
    ///
    /// Reads of the pipe never wait. If they did, a thread that begins to read another file at a
    /// number where `dup2` then puts this descriptor would wait for ever.
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

    /// The descriptor to which event queues subscribe. It stays open as long as the bell, whatever
    /// happens to the program's descriptors.
    pub fn reader(&self) -> usize {
        self.reader
    }

    /// Whether the program has set `O_NONBLOCK`.
    pub fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::SeqCst)
    }

    /// Sets or clears the `O_NONBLOCK` flag that the program sees.
    pub fn set_nonblocking(&self, set: bool) {
        self.is_nonblocking.store(set, Ordering::SeqCst);
    }

    /// Makes an event. Takes the byte out of the pipe again, which would fill up if nobody
    /// listened; its contents have no meaning.
    pub fn ring(&self) {
        if fd::write(self.writer, &[1]).is_err() {
            return;
        }
        // Room for more than one byte: a process may have been killed between the write and the
        // read.
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
        // Opened in `new`.
        let _ = fd::close(self.writer);
        let _ = fd::close(self.reader);
    }
}
