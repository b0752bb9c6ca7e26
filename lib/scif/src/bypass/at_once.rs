//! The fast path: sending, receiving and short copies that need nothing but the mapped memory.
//! Sending and receiving are inlined into the functions that all calls of C programs go through,
//! because one more function call would cost as much as the work itself.

use hal::copy::SMALL_BYTES;
use scif_abi::flags::SendFlags;

use super::short_write::ShortWrite;
use super::{BLOCK, Bypass};
use crate::raw::{Data, Room};

/// Whether a call that moves this many bytes may take the fast path.
#[inline]
pub(super) const fn is_short(bytes: usize) -> bool {
    bytes.wrapping_sub(1) < SMALL_BYTES
}

impl Bypass {
    /// [`send`](Self::send), if the mapped rings take the bytes at once. Returns their count.
    /// `None`: nothing was sent. The code is inlined into the caller, which should be the only one
    /// of a program: the function that all sends in C call anyway.
    #[inline(always)]
    pub fn send_at_once<'a>(&self, data: impl Data<'a>, flags: u32) -> Option<usize> {
        if !is_short(data.bytes()) || flags & !SendFlags::BLOCK.bits() != 0 {
            return None;
        }
        match (self.rings.get(), data.readable()) {
            (Some(rings), Some(from)) => rings.send_here(from, from.len()),
            _ => None,
        }
    }

    /// [`recv`](Self::recv), if the mapped rings can answer at once; inlined as
    /// [`send_at_once`](Self::send_at_once) is. Returns the count. `None`: nothing was received.
    #[inline(always)]
    pub fn recv_at_once<'a>(&self, mut buffer: impl Room<'a>, flags: u32) -> Option<usize> {
        let bytes = buffer.bytes();
        let rings = self.rings.get()?;
        let to = buffer.writable()?;
        match flags {
            0 if bytes > 0 && rings.finds_nothing_here() => Some(0),
            0 if bytes > 0 => rings.recv_some_here(to),
            BLOCK if is_short(bytes) => rings.recv_all_here(to),
            _ => None,
        }
    }

    /// Whether the connection is alive and stores into the peer's memory need no draining, by the
    /// looks of a short send. `false` says nothing: [`is_connected`](Self::is_connected) and
    /// [`gathers`](Self::gathers) find out.
    #[inline(always)]
    pub fn can_store_at_once(&self) -> bool {
        let rings = self.rings.get();
        rings.is_some_and(|rings| rings.is_sendable_in(rings.memory.control.now()))
    }

    /// [`vwriteto`](Self::vwriteto) of a short copy between mapped memory, which the caller may let
    /// end later. `None`: nothing is known to be copied.
    #[inline(always)]
    pub fn begin_short_write<'a>(
        &self,
        from: impl Data<'a>,
        remote: i64,
    ) -> Option<ShortWrite<'_>> {
        if !is_short(from.bytes()) {
            return None;
        }
        self.rings.get()?.put_short(from.readable()?, remote)
    }
}
