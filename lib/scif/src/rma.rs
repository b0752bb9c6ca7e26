//! Transfers between the registered memory of both ends, and fences that tell when they are done.

use client_memory::shared::Memory;
use scif_abi::flags::{FenceFlags, RmaFlags};
use syscall::error::EINVAL;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::raw::{self, Range};
use crate::window::Part;

/// Whose transfers a fence is about.
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

/// "All transfers so far": what [`Endpoint::fence_mark`] gives and [`Endpoint::fence_wait`] takes.
/// Belongs to the endpoint it came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark(i32);

impl Mark {
    /// The mark as the C interface has it.
    pub const fn number(self) -> i32 {
        self.0
    }
}

/// A value that [`Endpoint::fence_signal`] writes: 8 bytes at an offset that should be a multiple
/// of 8 (it must be one of 4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Signal {
    /// Where, in a registered address space.
    pub offset: i64,
    /// What.
    pub value: u64,
}

impl Endpoint {
    /// `scif_readfrom`: copies from the peer's windows at `remote` into `local`. Without
    /// [`RmaFlags::SYNC`] the copy has only been started when the call returns.
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
    /// As [`read_from`](Self::read_from).
    pub fn write_to(&self, local: Part<'_>, remote: i64, flags: RmaFlags) -> Result<()> {
        let (offset, length) = (local.offset(), local.length());
        Ok(self
            .bypass()
            .writeto(self.fd(), offset, length, remote, flags.bits())?)
    }

    /// `scif_vreadfrom` into ordinary memory: fills `buffer` from the peer's windows at `remote`.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn vread_from(&self, buffer: &mut [u8], remote: i64, flags: RmaFlags) -> Result<()> {
        Ok(self
            .bypass()
            .vreadfrom(self.fd(), buffer, remote, flags.bits())?)
    }

    /// `scif_vwriteto` out of ordinary memory: copies `data` into the peer's windows at `remote`.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn vwrite_to(&self, data: &[u8], remote: i64, flags: RmaFlags) -> Result<()> {
        Ok(self
            .bypass()
            .vwriteto(self.fd(), data, remote, flags.bits())?)
    }

    /// `scif_vreadfrom` into a part of memory that need not be registered. With
    /// [`RmaFlags::USECACHE`] the daemon keeps knowing the memory, and, as with
    /// [`read_from`](Self::read_from), the copy may only have been started when the call returns.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from), and `EFAULT` when `place` is not inside.
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

    /// `scif_vwriteto` out of a part of memory that need not be registered; as
    /// [`vread_into`](Self::vread_into).
    ///
    /// # Errors
    /// As [`vread_into`](Self::vread_into).
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

    /// `scif_fence_mark`: names all transfers that were started so far.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENODEV`, `ENOMEM`, `ENOTCONN`.
    pub fn fence_mark(&self, initiator: Initiator) -> Result<Mark> {
        self.bypass().release_stale();
        Ok(Mark(raw::fence_mark(self.fd(), initiator.flag().bits())?))
    }

    /// `scif_fence_wait`: waits until the transfers that `mark` names are done.
    ///
    /// # Errors
    /// `ECONNRESET`, `EINVAL` when the mark is another endpoint's, `ENODEV`, `ENOMEM`, `ENOTCONN`.
    pub fn fence_wait(&self, mark: Mark) -> Result<()> {
        self.bypass().release_stale();
        Ok(raw::fence_wait(self.fd(), mark.0)?)
    }

    /// `scif_fence_signal`: writes `local` into a window of this endpoint, `remote` into one of the
    /// peer, or both, once all transfers that were started so far are done. Returns before that.
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
        self.bypass().release_stale();
        Ok(raw::fence_signal(
            self.fd(),
            local.offset,
            local.value,
            remote.offset,
            remote.value,
            flags.bits(),
        )?)
    }
}

fn part_of(memory: &Memory, place: core::ops::Range<usize>) -> Result<Range<'_>> {
    let length = place.end.checked_sub(place.start);
    let length = length.ok_or(Error::from_errno(EINVAL))?;
    Ok(memory.range().part(place.start, length)?)
}
