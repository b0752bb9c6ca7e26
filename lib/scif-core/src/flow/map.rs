//! Mappings of the peer's windows, and get_pages and put_pages: uses of a peer's pages that the
//! engine does not carry out itself but has to know of.

use alloc::vec::Vec;

use scif_abi::flags::Protection;
use scif_abi::{Error, NodeId};

use crate::base::ids::{ConnectionId, EndpointId, RemoteWindowId};
use crate::base::memory::{Memory, Place};
use crate::base::pages::PAGE;
use crate::engine::Engine;
use crate::flow::register::check_range;
use crate::window::Remote;

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

/// What [`Engine::map_pieces`] gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedPieces {
    /// For [`Engine::unmap`].
    pub window: RemoteWindowId,
    /// Where the pages are: contiguous pieces in order, with their bytes.
    pub pieces: Vec<(Place, u64)>,
}

/// What [`Engine::get_pages`] gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferencedPages {
    /// For [`Engine::put_pages`]; never 0.
    pub cookie: u64,
    /// `Protection` bits of the window.
    pub protection: u32,
    /// The pages, as contiguous runs: place of the first, and how many.
    pub runs: Vec<(Place, u64)>,
}

/// Pages that were got and not put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageReference {
    pub(crate) window: RemoteWindowId,
    pub(crate) pages: u64,
}

/// What is left of a window of a lost node: mappings that lead nowhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrphanedMapping {
    node: NodeId,
    pages: u64,
}

impl Engine {
    /// How many bytes of the peer's registered address space from `offset` on, at most `length`,
    /// are contiguous, so that one [`Engine::map`] can cover them.
    ///
    /// # Errors
    /// `EINVAL`: offset negative or unaligned, length unaligned or 0, or the end beyond the last
    /// offset. `ECONNRESET`, `ENOTCONN`, `ENODEV`. `ENXIO`: the range is not all registered.
    pub fn map_run(&self, id: EndpointId, offset: i64, length: u64) -> Result<u64, Error> {
        let (_, found) = self.find_run(id, offset, length, Protection::empty())?;
        Ok(found.pages * PAGE)
    }

    /// `scif_mmap` of one contiguous run: notes a use of the window's pages, which stay until
    /// [`Engine::unmap`], whatever happens to window and connection.
    ///
    /// # Errors
    /// As [`Engine::map_run`]. `EINVAL` also: unknown bits in `protection` (`Protection` bits).
    /// `EACCES`: a window does not allow it. `EXDEV`: the range is registered but not one run.
    pub fn map(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        offset: i64,
        length: u64,
        protection: u32,
    ) -> Result<Mapped, Error> {
        let need = Protection::from_bits(protection).ok_or(Error::InvalidArgument)?;
        let (_, found) = self.find_run(id, offset, length, need)?;
        if found.pages * PAGE != length {
            return Err(Error::CrossesRuns);
        }
        if let Some(window) = self.windows.remote_mut(found.window) {
            window.mapped += found.pages;
        }
        Ok(found)
    }

    /// How many bytes of the peer's registered address space from `offset` on, at most `length`,
    /// are in one window, so that one [`Engine::map_pieces`] can cover them.
    ///
    /// # Errors
    /// As [`Engine::map_run`].
    pub fn window_run(&self, id: EndpointId, offset: i64, length: u64) -> Result<u64, Error> {
        let (_, found) = self.find_run(id, offset, length, Protection::empty())?;
        let window = self.windows.remote(found.window);
        let pages = window.map_or(0, |window| window.chunks.pages());
        Ok(length.min((pages - found.first_page) * PAGE))
    }

    /// `scif_mmap` of a range within one window, in as many pieces as its memory has there: notes a
    /// use of the pages, as [`Engine::map`] does.
    ///
    /// # Errors
    /// As [`Engine::map`]; `EXDEV`: the range is registered but not all in one window.
    pub fn map_pieces(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        offset: i64,
        length: u64,
        protection: u32,
    ) -> Result<MappedPieces, Error> {
        let need = Protection::from_bits(protection).ok_or(Error::InvalidArgument)?;
        let (_, first) = self.find_run(id, offset, length, need)?;
        let window = self.windows.remote_mut(first.window);
        let window = window.ok_or(Error::NoSuchAddress)?;
        let at = first.first_page * PAGE;
        let pieces = window.chunks.pieces(at, length).ok_or(Error::CrossesRuns)?;
        window.mapped += length / PAGE;
        Ok(MappedPieces {
            window: first.window,
            pieces,
        })
    }

    /// A library that copies by itself keeps `pages` pages of what was mapped of `window`, and its
    /// program does not know: the owner may use the offsets again once it has unregistered the
    /// window. For [`Engine::unmap_cached`].
    pub fn note_cached(&mut self, window: RemoteWindowId, pages: u64) {
        if let Some(window) = self.windows.remote_mut(window) {
            window.cached += pages;
        }
    }

    /// `pages` pages of what [`Engine::note_cached`] was told of are gone.
    pub fn unmap_cached(&mut self, mem: &mut dyn Memory, window: RemoteWindowId, pages: u64) {
        if let Some(remote) = self.windows.remote_mut(window) {
            remote.cached = remote.cached.saturating_sub(pages);
        }
        self.unmap(mem, window, pages);
    }

    /// `scif_munmap`: `pages` pages of a mapping of `window` are gone. Works in every state, after
    /// close, unregister and the loss of the node too.
    pub fn unmap(&mut self, _mem: &mut dyn Memory, window: RemoteWindowId, pages: u64) {
        self.release_remote(window, pages, 0);
    }

    /// Whether programs may have memory of `node` mapped, windows or rings, also such as they were
    /// before the node was lost.
    pub fn maps_memory_of(&self, node: NodeId) -> bool {
        let is_mapped = |remote: &Remote| match remote {
            Remote::Window(window) => window.mapped > 0 && window.ends.peer.node() == node,
            Remote::Granted(_) => false,
        };
        self.is_worked_on(node)
            || self
                .orphaned_mappings
                .values()
                .any(|stray| stray.node == node)
            || self.windows.remote.iter().any(|(_, r)| is_mapped(r))
    }

    /// A window is forgotten while `pages` pages of it are mapped.
    pub(crate) fn note_orphan(&mut self, window: RemoteWindowId, node: NodeId, pages: u64) {
        if pages > 0 {
            self.orphaned_mappings
                .insert(window, OrphanedMapping { node, pages });
        }
    }

    /// Pages of a window that is forgotten are mapped no longer.
    pub(crate) fn release_orphan(&mut self, window: RemoteWindowId, pages: u64) {
        if let Some(stray) = self.orphaned_mappings.get_mut(&window) {
            stray.pages = stray.pages.saturating_sub(pages);
            if stray.pages == 0 {
                self.orphaned_mappings.remove(&window);
            }
        }
    }

    /// The run at the start of a range, if all of it is registered and allows `need`.
    fn find_run(
        &self,
        id: EndpointId,
        offset: i64,
        length: u64,
        need: Protection,
    ) -> Result<(ConnectionId, Mapped), Error> {
        check_range(offset, length)?;
        let id = self.verify(id)?;
        let connection = self.connections.get(id).ok_or(Error::NotConnected)?;
        let (mut first, mut is_allowed) = (None, true);
        for found in connection.remote_space.covering(offset, length) {
            let (start, slot) = found?;
            let id = slot.id;
            let window = self.windows.remote(id).ok_or(Error::NoSuchAddress)?;
            is_allowed &= window.protection.contains(need);
            first.get_or_insert((start, id, window));
        }
        let (start, window_id, window) = first.ok_or(Error::NoSuchAddress)?;
        if !is_allowed {
            return Err(Error::AccessDenied);
        }
        let at = offset.abs_diff(start);
        let (place, rest) = window.chunks.place(at).ok_or(Error::NoSuchAddress)?;
        let mapped = Mapped {
            window: window_id,
            place,
            first_page: at / PAGE,
            pages: rest.min(length) / PAGE,
        };
        Ok((id, mapped))
    }

    /// `scif_get_pages`: the places of all pages of a range within one window of the peer; they
    /// stay until [`Engine::put_pages`] or the endpoint's close.
    ///
    /// # Errors
    /// As [`Engine::map_run`]; `ENXIO` also: the range is in several windows.
    pub fn get_pages(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        offset: i64,
        length: u64,
    ) -> Result<ReferencedPages, Error> {
        let (connection, first) = self.find_run(id, offset, length, Protection::empty())?;
        let window = self.windows.remote_mut(first.window);
        let window = window.ok_or(Error::NoSuchAddress)?;
        let (at, pages) = (first.first_page * PAGE, length / PAGE);
        let pieces = window.chunks.pieces(at, length);
        let mut runs = pieces.ok_or(Error::NoSuchAddress)?;
        runs.iter_mut().for_each(|(_, bytes)| *bytes /= PAGE);
        window.mapped += pages;
        let protection = window.protection.bits();
        self.last_cookie += 1;
        let cookie = self.last_cookie;
        let got = PageReference {
            window: first.window,
            pages,
        };
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.page_references.insert(cookie, got);
        }
        Ok(ReferencedPages {
            cookie,
            protection,
            runs,
        })
    }

    /// `scif_put_pages`.
    ///
    /// # Errors
    /// `ENOTCONN`: neither connected nor disconnected. `EINVAL`: no such cookie on this endpoint.
    pub fn put_pages(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        cookie: u64,
    ) -> Result<(), Error> {
        let connection = self.endpoints.get(id)?.used_connection()?;
        let connection = self.connections.get_mut(connection);
        let got = connection.and_then(|connection| connection.page_references.remove(&cookie));
        let got = got.ok_or(Error::InvalidArgument)?;
        self.unmap(mem, got.window, got.pages);
        Ok(())
    }

    /// The endpoint is closed: pages that were got are put.
    pub(crate) fn put_all_pages(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        for got in core::mem::take(&mut connection.page_references).into_values() {
            self.unmap(mem, got.window, got.pages);
        }
    }
}
