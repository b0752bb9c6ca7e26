//! RMA: readfrom, writeto and their v* forms.

use scif_abi::Error;

use crate::copy::CopyEngine;
use crate::endpoint::EndpointId;
use crate::engine::Engine;
use crate::memory::Memory;
use crate::pages::Pages;
use crate::ticket::Ticket;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer's window to here (`readfrom`).
    Read,
    /// From here to the peer's window (`writeto`).
    Write,
}

/// The local side of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Local {
    /// Own registered address space, from this offset.
    Window(i64),
    /// Pages pinned for this transfer, from this byte of them.
    Pages {
        /// The pages. `Event::Released` follows when the transfer is over.
        pages: Pages,
        /// Where in them the data begins (bytes).
        offset: u64,
    },
}

/// A transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rma {
    /// Which way.
    pub direction: Direction,
    /// The side here.
    pub local: Local,
    /// Offset in the peer's registered address space.
    pub remote: i64,
    /// Bytes.
    pub length: u64,
    /// `RmaFlags` bits.
    pub flags: u32,
}

impl Engine {
    /// `scif_readfrom`, `scif_writeto`, and the v* calls on memory that is pinned already: starts a
    /// transfer. The ticket (value 0) is done at once, with SYNC and USECPU when the data is where
    /// it shall be, and when very much is queued on the endpoint when this transfer is over.
    /// [`Engine::pump`] does the work. When this fails, pages are not kept.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`. `EINVAL`: unknown flags, no bytes. `ENXIO`: a range is
    /// not all registered, or an offset is negative. `EACCES`: a window does not allow it.
    /// `EFAULT`: the range is not in the pages. `ENOMEM`: too many transfers.
    pub fn rma(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _rma: Rma,
    ) -> Result<Ticket, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// `scif_vreadfrom` and `scif_vwriteto` with the data beside the call: begins a transfer that
    /// [`Engine::virtual_step`] carries out.
    ///
    /// # Errors
    /// As [`Engine::rma`].
    pub fn virtual_start(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _direction: Direction,
        _remote: i64,
        _length: u64,
        _flags: u32,
    ) -> Result<Ticket, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// Moves up to `budget` bytes of a virtual transfer between `data`, the whole of the caller's
    /// buffer, and the peer's window. Returns the result, once, when it is over; the ticket is then
    /// gone. `None`: call again next turn, or, when [`Engine::virtual_is_ready`] is false, at the
    /// next `Event::Changed` of the endpoint.
    pub fn virtual_step(
        &mut self,
        _mem: &mut dyn Memory,
        _ticket: Ticket,
        _data: &mut [u8],
        _budget: usize,
    ) -> Option<Result<u64, Error>> {
        Some(Err(Error::BadDescriptor))
    }

    /// Whether the next [`Engine::virtual_step`] would get anywhere; false while earlier transfers
    /// of the endpoint are running.
    pub fn virtual_is_ready(&self, _ticket: Ticket) -> bool {
        true
    }

    /// Does about `budget` bytes of queued work, each connection in turn. Call it once in every
    /// turn of the loop, before `next_event`, and whenever the copy engine has completed something.
    /// True: there is more to do right away, so do not sleep.
    pub fn pump(
        &mut self,
        _mem: &mut dyn Memory,
        _copier: &mut dyn CopyEngine,
        _budget: usize,
    ) -> bool {
        false
    }
}
