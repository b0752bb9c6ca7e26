//! Sending, receiving and short copies where nothing but the mapped memory is needed. The first two
//! are for the functions that all calls of C programs go through: to call another function from
//! these would cost as much as what that does.

use hal::copy::SMALL_BYTES;
use scif_abi::flags::SendFlags;

use super::{BLOCK, Bypass};
use crate::raw::{Data, Room};

/// Whether a call that needs this many bytes may go the short way.
#[inline]
pub(super) const fn is_short(bytes: usize) -> bool {
    bytes.wrapping_sub(1) < SMALL_BYTES
}

impl Bypass {
    /// [`send`](Self::send) if it is one that the mapped rings take at once; if not, nothing was
    /// sent. Its code becomes a part of the caller, which should be the only one of a program: the
    /// function that all sends in C call anyway.
    #[inline(always)]
    pub fn send_at_once<'a>(&self, data: impl Data<'a>, flags: u32) -> bool {
        if !is_short(data.bytes()) || flags & !SendFlags::BLOCK.bits() != 0 {
            return false;
        }
        match (self.rings.get(), data.readable()) {
            (Some(rings), Some(from)) => rings.send_here(from),
            _ => false,
        }
    }

    /// [`recv`](Self::recv) if the mapped rings answer it at once, as
    /// [`send_at_once`](Self::send_at_once); the count. `None`: nothing was received.
    #[inline(always)]
    pub fn recv_at_once<'a>(&self, mut buffer: impl Room<'a>, flags: u32) -> Option<usize> {
        let bytes = buffer.bytes();
        let rings = self.rings.get()?;
        let to = buffer.writable()?;
        match flags {
            0 if bytes > 0 && rings.finds_nothing_here() => Some(0),
            0 if bytes > 0 => rings.recv_some_here(to),
            BLOCK if is_short(bytes) => rings.recv_all_here(to).then_some(bytes),
            _ => None,
        }
    }

    /// As [`vwriteto`](Self::vwriteto) with `then` behind it, which stores into the peer's memory;
    /// only where that is a short copy between mapped memory. `None`: call both.
    #[inline]
    pub fn vwrite_short_then<'a, T>(
        &self,
        from: impl Data<'a>,
        remote: i64,
        then: impl FnOnce() -> T,
    ) -> Option<T> {
        if !is_short(from.bytes()) {
            return None;
        }
        self.rings.get()?.put_short(from.readable()?, remote, then)
    }
}
