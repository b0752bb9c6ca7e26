//! The roots of some schemes, kept open, so that the namespace is asked once, which takes longer
//! than the rest: whoever waits for several files opens an event queue each time, and each
//! connection of SCIF is a file.

use core::sync::atomic::{AtomicUsize, Ordering};

use syscall::error::Result;

use crate::fd;
use crate::sys::NO_FD;

/// A scheme's root.
pub struct Root {
    name: &'static str,
    /// `NO_FD`: not open.
    fd: AtomicUsize,
}

/// Those that are kept.
static KEPT: [Root; 3] = [Root::new("event"), Root::new("pipe"), Root::new("scif")];

impl Root {
    const fn new(name: &'static str) -> Self {
        let fd = AtomicUsize::new(NO_FD);
        Self { name, fd }
    }

    /// The one of this scheme, if it is kept.
    pub fn of(name: &str) -> Option<&'static Self> {
        KEPT.iter().find(|root| root.name == name)
    }

    /// Closes it, if another thread has not done so.
    pub fn drop_one(&self, root: usize) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let dropped = self.fd.compare_exchange(root, NO_FD, success, failure);
        if dropped.is_ok() {
            // It can be closed.
            let _ = fd::close(root);
        }
    }

    /// Its descriptor; `open` opens it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get(&self, open: fn(&str) -> Result<usize>) -> Result<usize> {
        let known = self.fd.load(Ordering::Acquire);
        if known != NO_FD {
            return Ok(known);
        }
        let new = open(self.name)?;
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self.fd.compare_exchange(NO_FD, new, success, failure) {
            Ok(_) => Ok(new),
            Err(other) => {
                // Another thread was quicker. It can be closed.
                let _ = fd::close(new);
                Ok(other)
            }
        }
    }
}

/// Closes all of them: the process has another namespace, in which they may be missing.
pub fn forget() {
    for root in &KEPT {
        let known = root.fd.load(Ordering::Acquire);
        if known != NO_FD {
            root.drop_one(known);
        }
    }
}
