//! A descriptor that its owner closes in its own way and the standard library can borrow, and a
//! read that does not wait.

use libredox::Fd;
use syscall::error::Result;
use syscall::flag::RwFlags;
use syscall::number::SYS_READ2;

/// An open descriptor. Dropping it calls the owner's `close`.
pub struct Descriptor {
    number: usize,
    close: fn(usize),
}

impl Descriptor {
    /// Takes over a descriptor.
    pub fn new(file: Fd, close: fn(usize)) -> Self {
        Self {
            number: file.into_raw(),
            close,
        }
    }

    /// Its number.
    #[inline]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Gives the descriptor up without closing it: the caller does that.
    pub fn into_raw(self) -> usize {
        let number = self.number;
        core::mem::forget(self);
        number
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        (self.close)(self.number);
    }
}

#[cfg(feature = "std")]
impl std::os::fd::AsFd for Descriptor {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        use std::os::fd::{BorrowedFd, RawFd};
        // SAFETY: `new` took it from its owner, and nothing closes it before this value goes,
        // which the result borrows. Numbers of open descriptors never come near the largest
        // `RawFd`.
        unsafe { BorrowedFd::borrow_raw(self.number as RawFd) }
    }
}

/// Lends a descriptor to the standard library.
#[cfg(feature = "std")]
pub fn lend(file: &Fd) -> std::os::fd::BorrowedFd<'_> {
    use std::os::fd::{BorrowedFd, RawFd};
    // SAFETY: its owner closes it, whom the result borrows; numbers as above.
    unsafe { BorrowedFd::borrow_raw(file.raw() as RawFd) }
}

/// Reads what is there now: it does not wait for more, whatever flags the descriptor has.
///
/// # Errors
/// Those of the read. `EAGAIN`: there is nothing.
pub fn read_at_once(file: &Fd, to: &mut [u8]) -> Result<usize> {
    let (place, flags) = (to.as_mut_ptr() as usize, RwFlags::NONBLOCK.bits() as usize);
    // SAFETY: the bytes are exclusively ours during the call, which writes no others.
    unsafe { syscall::syscall5(SYS_READ2, file.raw(), place, to.len(), usize::MAX, flags) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn it_is_closed_once_by_its_own_function() {
        static CLOSED: AtomicUsize = AtomicUsize::new(0);
        fn close(number: usize) {
            CLOSED.fetch_add(number, Ordering::Relaxed);
        }
        drop(Descriptor::new(Fd::new(40), close));
        assert_eq!(CLOSED.load(Ordering::Relaxed), 40);
        assert_eq!(Descriptor::new(Fd::new(2), close).into_raw(), 2);
        assert_eq!(CLOSED.load(Ordering::Relaxed), 40);
    }
}
