//! The roots of some schemes, kept open, so that the namespace is asked once, which takes longer
//! than the rest: whoever waits for several files opens an event queue each time, and each
//! connection of SCIF is a file.

use core::sync::atomic::{AtomicUsize, Ordering};

use syscall::error::Result;

use crate::sys::NO_FD;
use crate::fd;

/// A scheme's root.
pub struct Root {
    name: &'static str,
    /// `NO_FD`: not open.
    fd: AtomicUsize,
}

/// Those that are kept.
static KEPT: [Root; 3] = [Root::new("event"), Root::new("pipe"), Root::new("scif")];
/// How often one was closed, or is about to be.
static CHANGES: AtomicUsize = AtomicUsize::new(0);

/// A number that is another one when a root has been closed since: its descriptor may have been
/// another file's then.
pub fn changes() -> usize {
    CHANGES.load(Ordering::Acquire)
}

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
    pub fn get(&self, open: fn(&str) -> Result<usize>) -> Result<usize> {
        loop {
            let known = self.fd.load(Ordering::Acquire);
            if known != NO_FD {
                return Ok(known);
            }
            let changes = changes();
            let new = open(self.name)?;
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            let kept = self.fd.compare_exchange(NO_FD, new, success, failure);
            if kept.is_err() {
                // Another thread was quicker. It can be closed.
                let _ = fd::close(new);
            } else if self::changes() != changes {
                // The namespace may have changed, and `forget` have come too early.
                self.forget();
            }
        }
    }

    fn forget(&self) {
        // Before, for who is about to keep one, and behind, for who has just found this one.
        CHANGES.fetch_add(1, Ordering::AcqRel);
        let known = self.fd.swap(NO_FD, Ordering::AcqRel);
        CHANGES.fetch_add(1, Ordering::AcqRel);
        if known != NO_FD {
            // It can be closed.
            let _ = fd::close(known);
        }
    }
}

/// Closes all of them: the process has another namespace, in which they may be missing.
pub fn forget() {
    KEPT.iter().for_each(Root::forget);
}
