//! Wakes threads that wait for a connection whose set-up another thread does. Its endpoint has
//! been connected for long, so it raises no event for them.

use runtime::{fd, path};
use syscall::flag::O_NONBLOCK;

use crate::Result;

/// A pipe whose descriptors the program does not see. Its one byte is never read.
pub struct Settled {
    reader: usize,
    writer: usize,
}

impl Settled {
    /// Makes a pipe with nothing in it.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new() -> Result<Self> {
        let number = path::open("/scheme/pipe", O_NONBLOCK).map_err(|error| error.errno)?;
        let reader = fd::dup_upper(number, b"");
        // The copy is sufficient.
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

    /// The descriptor, which becomes readable once [`say`](Self::say) is called.
    pub fn descriptor(&self) -> usize {
        self.reader
    }

    /// Signals that the set-up has ended.
    pub fn say(&self) {
        // There is room: this is called once.
        let _ = fd::write(self.writer, &[1]);
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        // Both were opened in `new`.
        let _ = fd::close(self.writer);
        let _ = fd::close(self.reader);
    }
}
