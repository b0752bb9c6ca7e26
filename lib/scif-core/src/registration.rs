//! register and unregister: the owner's side of a window.

use scif_abi::Error;

use crate::endpoint::EndpointId;
use crate::engine::Engine;
use crate::memory::Memory;
use crate::pages::Pages;
use crate::ticket::Ticket;

impl Engine {
    /// `scif_register`: makes a window of `pages` at `offset`, or where there is room when
    /// `MapFlags::FIXED` is not set. The ticket's value is the offset. When this fails the pages
    /// are not kept; once there is a ticket, `Event::Released` gives them back, at the latest when
    /// the endpoint is closed and nobody uses them any more.
    ///
    /// # Errors
    /// In this order. `EINVAL`: unknown flags, `protection` empty or unknown, no pages or too many,
    /// offset negative, unaligned (FIXED) or beyond the last offset. `ECONNRESET`, `ENOTCONN`,
    /// `ENODEV`: see the endpoint's state. `EAGAIN`: the user's limit on pinned pages.
    /// `EADDRINUSE`: FIXED, and a page is registered. `ENOMEM`: no offsets or windows left. By the
    /// ticket: `ENOMEM` the peer has no memory for it, `ENOTCONN` it refuses, `ECONNRESET`.
    pub fn register(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _pages: Pages,
        _offset: i64,
        _protection: u32,
        _flags: u32,
    ) -> Result<Ticket, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// `scif_unregister`: ends the windows in `offset..offset + length`; all of them or none. The
    /// ticket is done (0) when each is gone or the peer says that it is still in use.
    ///
    /// # Errors
    /// `EINVAL`: unaligned or negative offset, unaligned or empty length, beyond the last offset,
    /// or part of a window. `ECONNRESET`, `ENOTCONN`, `ENODEV`. `ENXIO`: not all of it is
    /// registered.
    pub fn unregister(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _offset: i64,
        _length: u64,
    ) -> Result<Ticket, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// How many pages a user may have registered at one time; `None` as user sets what holds for
    /// all who have no number of their own. Windows that exist stay.
    pub fn set_pinned_limit(&mut self, user: Option<u32>, pages: u64) {
        let _ = (user, pages);
    }

    /// The limit of a user, and how many pages are registered.
    pub fn pinned(&self, user: u32) -> (u64, u64) {
        let _ = user;
        (self.config.pinned_pages_per_user, 0)
    }
}
