//! fence_mark, fence_wait and fence_signal.

use scif_abi::Error;

use crate::endpoint::EndpointId;
use crate::engine::Engine;
use crate::memory::Memory;
use crate::ticket::Ticket;

/// What fence_signal shall store where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// Offset in the own registered address space; used with SIGNAL_LOCAL.
    pub local_offset: i64,
    /// What to store there.
    pub local_value: u64,
    /// Offset in the peer's registered address space; used with SIGNAL_REMOTE.
    pub remote_offset: i64,
    /// What to store there.
    pub remote_value: u64,
    /// `FenceFlags` bits.
    pub flags: u32,
}

impl Engine {
    /// `scif_fence_mark`: the ticket's value is a mark (0 to 2^31 - 1) for all transfers started so
    /// far through this endpoint (INIT_SELF) or through the peer (INIT_PEER).
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: not exactly one INIT flag. By the ticket:
    /// `ENOMEM`, `ECONNRESET`.
    pub fn fence_mark(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _flags: u32,
    ) -> Result<Ticket, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// `scif_fence_wait`: the ticket (value 0) is done when all transfers before `mark` are.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: no mark of this endpoint. By the ticket:
    /// `ENOMEM`, `ECONNRESET`.
    pub fn fence_wait(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _mark: i32,
    ) -> Result<Ticket, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// `scif_fence_signal`: stores one or two values when all transfers so far are done. The ticket
    /// (value 0) is done when the stores are queued.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: not exactly one INIT flag, no SIGNAL
    /// flag, or an offset in use is not a multiple of 4. `ENXIO`: eight bytes there are not in one
    /// window. `EACCES`: it may not be written. `ENOMEM`. By the ticket: `ENXIO`, `ECONNRESET`.
    pub fn fence_signal(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _signal: Signal,
    ) -> Result<Ticket, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }
}
