//! Keeps the roots of some schemes open, so that the namespace is asked only once. That request
//! takes longer than the rest of an open, and these opens are frequent: each wait for several
//! files opens an event queue, and each connection of SCIF is a file.

use core::sync::atomic::{AtomicUsize, Ordering};

use syscall::error::Result;

use crate::fd;
use crate::sys::NO_FD;

/// A scheme's root.
pub struct Root {
    name: &'static str,
    /// `NO_FD` if it is not open.
    fd: AtomicUsize,
}

/// The roots that are kept open.
static KEPT: [Root; 3] = [Root::new("event"), Root::new("pipe"), Root::new("scif")];
/// How often a root was closed, or is about to be.
static CHANGES: AtomicUsize = AtomicUsize::new(0);

/// A number that changes when a root is closed, as its descriptor may then be another file's.
pub fn changes() -> usize {
    CHANGES.load(Ordering::Acquire)
}

impl Root {
    const fn new(name: &'static str) -> Self {
        let fd = AtomicUsize::new(NO_FD);
        Self { name, fd }
    }

    /// The root of this scheme, if it is kept.
    pub fn of(name: &str) -> Option<&'static Self> {
        KEPT.iter().find(|root| root.name == name)
    }

    /// Returns its descriptor; opens it by `open` if necessary.
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
                // Another thread was faster. An error does not matter.
                let _ = fd::close(new);
            } else if self::changes() != changes {
                // The namespace may have changed, and `forget` may have run before this root was
                // stored.
                self.forget();
            }
        }
    }

    fn forget(&self) {
        // Counted before the close for a thread that is about to keep a root, and after it for one
        // that has just found this root.
        CHANGES.fetch_add(1, Ordering::AcqRel);
        let known = self.fd.swap(NO_FD, Ordering::AcqRel);
        CHANGES.fetch_add(1, Ordering::AcqRel);
        if known != NO_FD {
            // An error does not matter.
            let _ = fd::close(known);
        }
    }
}

/// Closes all kept roots: the process has another namespace, in which they may be missing.
pub fn forget() {
    KEPT.iter().for_each(Root::forget);
}
