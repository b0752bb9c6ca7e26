//! What tells event queues that something has changed, for descriptors of this library's making.

use runtime::{Error, Result, fd, path, sys};
use syscall::error::EINTR;
use syscall::flag::{O_NONBLOCK, RwFlags};

/// Both ends of a pipe, out of sight of the program.
pub struct Bell {
    reader: usize,
    writer: usize,
}

impl Bell {
    /// A bell, and the descriptor that event queues watch, which is the program's.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new(is_nonblocking: bool) -> Result<(Self, usize)> {
        let flags = if is_nonblocking { O_NONBLOCK } else { 0 };
        let number = path::open("/scheme/pipe", flags)?;
        let ends =
            fd::dup_upper(number, b"write").and_then(|writer| match fd::dup_upper(number, b"") {
                Ok(reader) => Ok(Self { reader, writer }),
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
