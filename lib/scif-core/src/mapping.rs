//! Mappings of the peer's windows, and get_pages and put_pages: uses of a peer's pages that the
//! engine does not carry out itself but has to know of.

use alloc::vec::Vec;

use scif_abi::Error;

use crate::endpoint::EndpointId;
use crate::engine::Engine;
use crate::memory::{Memory, Place};

/// A window of a peer (or of this node, for connections within it), by a name that is never reused
/// and stays valid after the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteWindowId(pub(crate) u64);

/// What [`Engine::map`] gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// For [`Engine::unmap`].
    pub window: RemoteWindowId,
    /// Where the pages are; contiguous.
    pub place: Place,
    /// Number of the first page within the window.
    pub first_page: u64,
    /// Number of pages.
    pub pages: u64,
}

/// What [`Engine::get_pages`] gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GotPages {
    /// For [`Engine::put_pages`]; never 0.
    pub cookie: u64,
    /// `Protection` bits of the window.
    pub protection: u32,
    /// The pages, as contiguous runs: place of the first, and how many.
    pub runs: Vec<(Place, u64)>,
}

impl Engine {
    /// How many bytes of the peer's registered address space from `offset` on, at most `length`,
    /// are contiguous, so that one [`Engine::map`] can cover them.
    ///
    /// # Errors
    /// `EINVAL`: offset negative or unaligned, length unaligned or 0. `ECONNRESET`, `ENOTCONN`,
    /// `ENODEV`. `ENXIO`: the range is not all registered.
    pub fn map_run(&self, id: EndpointId, _offset: i64, _length: u64) -> Result<u64, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// `scif_mmap` of one contiguous run: notes a use of the window's pages, which stay until
    /// [`Engine::unmap`], whatever happens to window and connection.
    ///
    /// # Errors
    /// As [`Engine::map_run`]; `EACCES`: the window does not allow `protection` (`Protection`
    /// bits). `ENXIO` also: the range is not one run.
    pub fn map(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _offset: i64,
        _length: u64,
        _protection: u32,
    ) -> Result<Mapped, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// `scif_munmap`: `pages` pages of a mapping of `window` are gone. Works in every state, after
    /// close, unregister and the loss of the node too.
    pub fn unmap(&mut self, _mem: &mut dyn Memory, _window: RemoteWindowId, _pages: u64) {}

    /// `scif_get_pages`: the places of all pages of a range within one window of the peer; they
    /// stay until [`Engine::put_pages`] or the endpoint's close.
    ///
    /// # Errors
    /// As [`Engine::map_run`]; `ENXIO` also: the range is in several windows.
    pub fn get_pages(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _offset: i64,
        _length: u64,
    ) -> Result<GotPages, Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }

    /// `scif_put_pages`.
    ///
    /// # Errors
    /// `ENOTCONN`: neither connected nor disconnected. `EINVAL`: no such cookie on this endpoint.
    pub fn put_pages(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        _cookie: u64,
    ) -> Result<(), Error> {
        self.endpoint(id)?;
        Err(Error::NotConnected)
    }
}
