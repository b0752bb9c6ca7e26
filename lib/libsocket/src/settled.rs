//! Word for threads that wait for a connection which another thread sets up. The endpoint has
//! connected long before, so it has no event for them.

use runtime::{fd, path};
use syscall::flag::O_NONBLOCK;

use crate::Result;

/// A pipe, out of sight of the program: what is in it stays there.
pub struct Settled {
    reader: usize,
    writer: usize,
}

impl Settled {
    /// Nothing is said yet.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new() -> Result<Self> {
        let number = path::open("/scheme/pipe", O_NONBLOCK).map_err(|error| error.errno)?;
        let reader = fd::dup_upper(number, b"");
        // The copy is enough.
        let _ = fd::close(number);
        let reader = reader.map_err(|error| error.errno)?;
        match fd::dup_upper(reader, b"write") {
            Ok(writer) => Ok(Self { reader, writer }),
            Err(error) => {
                let _ = fd::close(reader);
                Err(error.errno)
            }
        }
    }

    /// The descriptor that can be read as soon as the word is said.
    pub fn descriptor(&self) -> usize {
        self.reader
    }

    /// Says it.
    pub fn say(&self) {
        // There is room: it is said once.
        let _ = fd::write(self.writer, &[1]);
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        // What was opened above.
        let _ = fd::close(self.writer);
        let _ = fd::close(self.reader);
    }
}
