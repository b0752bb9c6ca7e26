//! The roots of some schemes of the kernel, kept open: whoever waits for several files opens an
//! event queue each time, and the namespace, which takes longer than all the rest, is asked once.

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

/// Those that are kept. Schemes of the kernel do not end.
static KEPT: [Root; 2] = [Root::new("event"), Root::new("pipe")];

impl Root {
    const fn new(name: &'static str) -> Self {
        let fd = AtomicUsize::new(NO_FD);
        Self { name, fd }
    }

    /// The one of this scheme, if it is kept.
    pub fn of(name: &str) -> Option<&'static Self> {
        KEPT.iter().find(|root| root.name == name)
    }

    /// Its descriptor; `open` opens it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get(&self, open: impl FnOnce(&str) -> Result<usize>) -> Result<usize> {
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
        let known = root.fd.swap(NO_FD, Ordering::AcqRel);
        if known != NO_FD {
            // It can be closed.
            let _ = fd::close(known);
        }
    }
}
