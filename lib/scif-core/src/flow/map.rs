//! Mappings of the peer's windows, and get_pages and put_pages: references to a peer's pages,
//! which the engine counts.

use scif_abi::flags::Protection;
use scif_abi::{Error, NodeId};

use crate::base::ids::{EndpointId, RemoteWindowId};
use crate::base::pages::PAGE;
use crate::engine::Engine;
use crate::window::offsets::LocalPart;
use crate::window::references::{Mapped, MappedPieces, ReferencedPages};
use crate::window::space::check_range;

impl Engine {
    /// The length of the contiguous part of the peer's registered address space that begins at
    /// `offset`, at most `length`: one [`Engine::map`] can cover it.
    ///
    /// # Errors
    /// `EINVAL`: offset negative or unaligned, length unaligned or 0, or the end beyond the last
    /// offset. `ECONNRESET`, `ENOTCONN`, `ENODEV`. `ENXIO`: not all of the range is registered.
    pub fn map_run(&self, id: EndpointId, offset: i64, length: u64) -> Result<u64, Error> {
        let found = self.find_run(id, offset, length, Protection::empty())?;
        Ok(found.pages * PAGE)
    }

    /// `scif_mmap` of one contiguous run: notes a use of the window's pages. They stay until
    /// [`Engine::unmap`], whatever happens to the window and the connection.
    ///
    /// # Errors
    /// Those of [`Engine::map_run`]. `EINVAL` also: unknown bits in `protection` (`Protection`
    /// bits). `EACCES`: a window does not allow it. `EXDEV`: the range is registered but not one
    /// run.
    pub fn map(
        &mut self,
        id: EndpointId,
        offset: i64,
        length: u64,
        protection: u32,
    ) -> Result<Mapped, Error> {
        let need = Protection::from_bits(protection).ok_or(Error::InvalidArgument)?;
        let found = self.find_run(id, offset, length, need)?;
        if found.pages * PAGE != length {
            return Err(Error::CrossesRuns);
        }
        self.windows.map(found.window, found.pages);
        Ok(found)
    }

    /// The length of the part of the peer's registered address space that begins at `offset` and
    /// lies in one window, at most `length`: one [`Engine::map_pieces`] can cover it.
    ///
    /// # Errors
    /// Those of [`Engine::map_run`].
    pub fn window_run(&self, id: EndpointId, offset: i64, length: u64) -> Result<u64, Error> {
        let found = self.find_run(id, offset, length, Protection::empty())?;
        let pages = self.windows.pages_from(found.window, found.first_page);
        Ok(length.min(pages * PAGE))
    }

    /// `scif_mmap` of a range within one window, in as many pieces as its memory has there. Notes
    /// a use of the pages, as [`Engine::map`] does.
    ///
    /// # Errors
    /// Those of [`Engine::map`]; `EXDEV`: the range is registered but not all in one window.
    pub fn map_pieces(
        &mut self,
        id: EndpointId,
        offset: i64,
        length: u64,
        protection: u32,
    ) -> Result<MappedPieces, Error> {
        let need = Protection::from_bits(protection).ok_or(Error::InvalidArgument)?;
        check_range(offset, length)?;
        let connection = self.online_connection(id)?;
        (self.windows).map_pieces(connection, (offset, length), need)
    }

    /// Notes that a library that copies by itself keeps `pages` mapped pages of `window`, without
    /// its program knowing: the owner may use the offsets again once it has unregistered the
    /// window. Reverted by [`Engine::unmap_cached`].
    pub fn note_cached(&mut self, window: RemoteWindowId, pages: u64) {
        self.windows.note_cached(window, pages);
    }

    /// Notes that `pages` pages of [`Engine::note_cached`] are unmapped.
    pub fn unmap_cached(&mut self, window: RemoteWindowId, pages: u64) {
        self.windows.unmap_cached(window, pages);
    }

    /// `scif_munmap`: notes that `pages` pages of a mapping of `window` are gone. Works in every
    /// state, also after close, unregister and the loss of the node.
    pub fn unmap(&mut self, window: RemoteWindowId, pages: u64) {
        self.windows.release_remote(window, pages, 0);
    }

    /// Whether programs may have memory of `node` mapped, windows or rings, including mappings
    /// from before the node was lost.
    pub fn maps_memory_of(&self, node: NodeId) -> bool {
        self.is_worked_on(node) || self.windows.maps_memory_of(node)
    }

    /// The run at the start of a range, if all of the range is registered and allows `need`.
    fn find_run(
        &self,
        id: EndpointId,
        offset: i64,
        length: u64,
        need: Protection,
    ) -> Result<Mapped, Error> {
        check_range(offset, length)?;
        let connection = self.online_connection(id)?;
        (self.windows).first_run(connection, (offset, length), need)
    }

    /// `scif_get_pages`: the places of all pages of a range within one window of the peer. They
    /// stay until [`Engine::put_pages`] or the endpoint's close.
    ///
    /// # Errors
    /// Those of [`Engine::map_run`]; `ENXIO` also: the range is in several windows.
    pub fn get_pages(
        &mut self,
        id: EndpointId,
        offset: i64,
        length: u64,
    ) -> Result<ReferencedPages, Error> {
        check_range(offset, length)?;
        let connection = self.online_connection(id)?;
        self.windows.get_pages(connection, (offset, length))
    }

    /// `scif_put_pages`: ends a reference of [`Engine::get_pages`].
    ///
    /// # Errors
    /// `ENOTCONN`: neither connected nor disconnected. `EINVAL`: no such cookie on this endpoint.
    pub fn put_pages(&mut self, id: EndpointId, cookie: u64) -> Result<(), Error> {
        let connection = self.endpoints.get(id)?.used_connection()?;
        let is_put = self.windows.put_pages(connection, cookie);
        is_put.then_some(()).ok_or(Error::InvalidArgument)
    }

    /// The part of a range of the own registered address space that lies in its first window: at
    /// most `length` bytes from `offset` on. `protection` is what all windows of the range must
    /// allow (`Protection` bits). For programs that map their own end of a transfer. The driver
    /// keeps the pages, even if the window is unregistered meanwhile.
    ///
    /// # Errors
    /// `EINVAL`: offset negative or unaligned, length unaligned or 0, the end beyond the last
    /// offset, or unknown bits in `protection`. `ECONNRESET`, `ENOTCONN`, `ENODEV`. `ENXIO`: not
    /// all of the range is registered. `EACCES`: a window does not allow it.
    pub fn local_part(
        &self,
        id: EndpointId,
        offset: i64,
        length: u64,
        protection: u32,
    ) -> Result<LocalPart, Error> {
        let need = Protection::from_bits(protection).ok_or(Error::InvalidArgument)?;
        check_range(offset, length)?;
        let connection = self.online_connection(id)?;
        (self.windows).local_part(connection, (offset, length), need)
    }
}
