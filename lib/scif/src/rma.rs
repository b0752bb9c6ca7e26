//! Transfers between the registered memory of both ends, and fences that wait for them.

use core::sync::atomic::AtomicU64;

use client_memory::memory::Memory;
use scif_abi::flags::{FenceFlags, RmaFlags};
use syscall::error::EINVAL;

use crate::bypass::ShortWrite;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::raw::{Data, Range, Source, Target};
use crate::window::Part;

/// The side whose transfers a fence covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Initiator {
    /// Those that were started through this endpoint.
    Own,
    /// Those that were started through the peer.
    Peer,
}

impl Initiator {
    const fn flag(self) -> FenceFlags {
        match self {
            Self::Own => FenceFlags::INIT_SELF,
            Self::Peer => FenceFlags::INIT_PEER,
        }
    }
}

/// Stands for all transfers so far: [`Endpoint::fence_mark`] makes it and [`Endpoint::fence_wait`]
/// takes it. It belongs to the endpoint that made it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark(i32);

impl Mark {
    /// The mark as a number, as in the C interface.
    pub const fn number(self) -> i32 {
        self.0
    }
}

/// A value that [`Endpoint::fence_signal`] writes: 8 bytes at an offset that should be a multiple
/// of 8 (it must be one of 4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Signal {
    /// The offset in a registered address space.
    pub offset: i64,
    /// The value.
    pub value: u64,
}

impl Endpoint {
    /// `scif_readfrom`: copies from the peer's windows at `remote` into `local`. Without
    /// [`RmaFlags::SYNC`] the copy may only have been started when the call returns.
    ///
    /// # Errors
    /// `EACCES` when a window does not allow it, `ECONNRESET`, `EINVAL`, `ENODEV`, `ENOMEM`,
    /// `ENOTCONN`, `ENXIO` when not all of the remote range is registered.
    pub fn read_from(&self, local: Part<'_>, remote: i64, flags: RmaFlags) -> Result<()> {
        let (offset, length) = (local.offset(), local.length());
        Ok(self
            .bypass()
            .readfrom(self.fd(), offset, length, remote, flags.bits())?)
    }

    /// `scif_writeto`: copies `local` into the peer's windows at `remote`.
    ///
    /// # Errors
    /// Those of [`read_from`](Self::read_from).
    pub fn write_to(&self, local: Part<'_>, remote: i64, flags: RmaFlags) -> Result<()> {
        let (offset, length) = (local.offset(), local.length());
        Ok(self
            .bypass()
            .writeto(self.fd(), offset, length, remote, flags.bits())?)
    }

    /// `scif_vreadfrom` into ordinary memory: fills `buffer` from the peer's windows at `remote`.
    ///
    /// # Errors
    /// Those of [`read_from`](Self::read_from).
    pub fn vread_from(&self, buffer: &mut [u8], remote: i64, flags: RmaFlags) -> Result<()> {
        Ok(self
            .bypass()
            .vreadfrom(self.fd(), buffer, remote, flags.bits())?)
    }

    /// `scif_vwriteto` out of ordinary memory: copies `data` into the peer's windows at `remote`.
    ///
    /// # Errors
    /// Those of [`read_from`](Self::read_from).
    #[inline]
    pub fn vwrite_to(&self, data: &[u8], remote: i64, flags: RmaFlags) -> Result<()> {
        Ok(self
            .bypass()
            .vwriteto(self.fd(), data, remote, flags.bits())?)
    }

    /// `scif_vreadfrom` into a part of memory that need not be registered. With
    /// [`RmaFlags::USECACHE`] the daemon remembers the memory for later transfers. Then, as with
    /// [`read_from`](Self::read_from), the copy may only have been started when the call returns.
    ///
    /// # Errors
    /// Those of [`read_from`](Self::read_from), and `EFAULT` when `place` is not inside.
    pub fn vread_into(
        &self,
        memory: &Memory,
        place: core::ops::Range<usize>,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<()> {
        let range = part_of(memory, place)?;
        Ok(self
            .bypass()
            .vreadfrom(self.fd(), range, remote, flags.bits())?)
    }

    /// `scif_vwriteto` out of a part of memory that need not be registered. [`RmaFlags::USECACHE`]
    /// has the same effect as for [`vread_into`](Self::vread_into).
    ///
    /// # Errors
    /// Those of [`vread_into`](Self::vread_into).
    pub fn vwrite_out(
        &self,
        memory: &Memory,
        place: core::ops::Range<usize>,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<()> {
        let range = part_of(memory, place)?;
        Ok(self
            .bypass()
            .vwriteto(self.fd(), range, remote, flags.bits())?)
    }

    /// As [`vwrite_to`](Self::vwrite_to), out of memory given by slice or by address.
    ///
    /// # Errors
    /// Those of [`read_from`](Self::read_from), and `EFAULT` for a bad address.
    #[inline]
    pub fn vwrite_source(&self, from: Source<'_>, remote: i64, flags: RmaFlags) -> Result<()> {
        Ok(self
            .bypass()
            .vwriteto(self.fd(), from, remote, flags.bits())?)
    }

    /// Writes a few bytes of own memory to the peer's windows; the copy ends when the result is
    /// dropped. What is stored into the peer's memory before that, through mappings, is on its way
    /// at the same time, and a reader that finds it finds the bytes too; a
    /// [write](Self::vwrite_source) waits until its bytes have arrived. The end is a full fence.
    /// This endpoint must not be called before it. `None`: this cannot be done at once, for
    /// example because the bytes are too many, the windows are not mapped, or stores may be
    /// [gathered](Self::gathers). The bytes may have been written then.
    #[inline(always)]
    pub fn begin_short_write<'a>(
        &self,
        from: impl Data<'a>,
        remote: i64,
    ) -> Option<ShortWrite<'_>> {
        self.bypass().begin_short_write(from, remote)
    }

    /// As [`vread_from`](Self::vread_from), into memory given by slice or by address.
    ///
    /// # Errors
    /// Those of [`read_from`](Self::read_from), and `EFAULT` for a bad address.
    pub fn vread_target(&self, to: Target<'_>, remote: i64, flags: RmaFlags) -> Result<()> {
        Ok(self
            .bypass()
            .vreadfrom(self.fd(), to, remote, flags.bits())?)
    }

    /// Maps `length` bytes of the peer's windows from `offset` on for later transfers, so that
    /// these need no request to the daemon. After another window of the connection has gone, the
    /// first transfer maps the range again. Without this call a range is mapped at its second use.
    /// For connections that are [prepared](Endpoint::prepare).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when it cannot be mapped; `ECONNRESET`, `ENOTCONN`, `ENXIO` when not all of it
    /// is registered.
    pub fn prepare_window(&self, offset: i64, length: u64) -> Result<()> {
        Ok(self.bypass().prepare_window(self.fd(), offset, length)?)
    }

    /// Reverts [`prepare_window`](Self::prepare_window) for the range that begins at `offset`:
    /// from now on the range is treated as any other.
    pub fn forget_window(&self, offset: i64) {
        self.bypass().forget_window(offset);
    }

    /// Makes an atomic operation on the double word (8 bytes) at `offset` of the peer's windows,
    /// in one step for all programs that reach it. Returns what `operation` returns, for example
    /// the former value. `operation` is one access to the word: it must not use the endpoint.
    ///
    /// ```no_run
    /// # use core::sync::atomic::Ordering;
    /// # fn f(endpoint: &scif::Endpoint, offset: i64) -> scif::Result<u64> {
    /// endpoint.fetch(offset, |word| word.fetch_add(1, Ordering::AcqRel))
    /// # }
    /// ```
    ///
    /// # Errors
    /// `EINVAL` unless the offset is a multiple of 8. `EOPNOTSUPP`: the connection is not
    /// [prepared](Endpoint::prepare), or the peer is a card whose bus has no locked operations.
    /// `ECONNRESET`, `ENOTCONN`, `ENXIO` as for a transfer; the operation may have been made
    /// nevertheless.
    pub fn fetch(&self, offset: i64, operation: impl FnOnce(&AtomicU64) -> u64) -> Result<u64> {
        Ok(self.bypass().fetch(self.fd(), offset, operation)?)
    }

    /// `scif_fence_mark`: makes a mark that covers all transfers that were started so far.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENODEV`, `ENOMEM`, `ENOTCONN`.
    pub fn fence_mark(&self, initiator: Initiator) -> Result<Mark> {
        let flags = initiator.flag().bits();
        Ok(Mark(self.bypass().fence_mark(self.fd(), flags)?))
    }

    /// `scif_fence_wait`: waits until the transfers that `mark` covers are done.
    ///
    /// # Errors
    /// `ECONNRESET`, `EINVAL` when the mark is another endpoint's, `ENODEV`, `ENOMEM`, `ENOTCONN`.
    pub fn fence_wait(&self, mark: Mark) -> Result<()> {
        Ok(self.bypass().fence_wait(self.fd(), mark.0)?)
    }

    /// `scif_fence_signal`: writes `local` into a window of this endpoint, `remote` into one of
    /// the peer's, or both, once all transfers that were started so far are done. The call returns
    /// before that.
    ///
    /// # Errors
    /// `EACCES` when a window cannot be written, `ECONNRESET`, `EINVAL` without a signal or for an
    /// offset that is no multiple of 4, `ENODEV`, `ENOMEM`, `ENOTCONN`, `ENXIO` when the 8 bytes
    /// are not inside one window.
    pub fn fence_signal(
        &self,
        initiator: Initiator,
        local: Option<Signal>,
        remote: Option<Signal>,
    ) -> Result<()> {
        let none = Signal {
            offset: 0,
            value: 0,
        };
        let mut flags = initiator.flag();
        flags.set(FenceFlags::SIGNAL_LOCAL, local.is_some());
        flags.set(FenceFlags::SIGNAL_REMOTE, remote.is_some());
        let (local, remote) = (local.unwrap_or(none), remote.unwrap_or(none));
        let (own, peer) = ((local.offset, local.value), (remote.offset, remote.value));
        Ok(self
            .bypass()
            .fence_signal(self.fd(), own, peer, flags.bits())?)
    }
}

fn part_of(memory: &Memory, place: core::ops::Range<usize>) -> Result<Range<'_>> {
    let length = place.end.checked_sub(place.start);
    let length = length.ok_or(Error::from_errno(EINVAL))?;
    Ok(memory.range().part(place.start, length)?)
}
