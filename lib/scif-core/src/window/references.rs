//! References to a peer's pages: mappings, and pages of get_pages that were not put. The engine
//! does not use these pages itself. It counts them, because a window stays until the last
//! reference has gone.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::flags::Protection;
use scif_abi::{Error, NodeId};

use crate::base::ids::{ConnectionId, RemoteWindowId};
use crate::base::memory::Place;
use crate::base::pages::PAGE;
use crate::base::rule::{Violation, rule};
use crate::window::Windows;

/// The result of [`Engine::map`](crate::Engine::map).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The window, for [`Engine::unmap`](crate::Engine::unmap).
    pub window: RemoteWindowId,
    /// The place of the pages, which are contiguous.
    pub place: Place,
    /// The number of the first page within the window.
    pub first_page: u64,
    /// Number of pages.
    pub pages: u64,
}

/// The result of [`Engine::map_pieces`](crate::Engine::map_pieces).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedPieces {
    /// The window, for [`Engine::unmap`](crate::Engine::unmap).
    pub window: RemoteWindowId,
    /// The contiguous pieces of the pages, in order: place and number of bytes.
    pub pieces: Vec<(Place, u64)>,
}

/// The result of [`Engine::get_pages`](crate::Engine::get_pages).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferencedPages {
    /// The cookie, for [`Engine::put_pages`](crate::Engine::put_pages); never 0.
    pub cookie: u64,
    /// `Protection` bits of the window.
    pub protection: u32,
    /// The contiguous runs of the pages: the place of the first one, and how many.
    pub runs: Vec<(Place, u64)>,
}

/// The pages of one get_pages call that were not put.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageReference {
    window: RemoteWindowId,
    pages: u64,
}

/// What remains of a window of a lost node: mappings that reach no memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrphanedMapping {
    node: NodeId,
    pages: u64,
}

impl Windows {
    /// The run at the start of a range of a peer's space.
    ///
    /// # Errors
    /// Those of [`cover_remote`](Self::cover_remote).
    pub(crate) fn first_run(
        &self,
        connection: ConnectionId,
        (offset, length): (i64, u64),
        need: Protection,
    ) -> Result<Mapped, Error> {
        let (ids, at) = self.cover_remote(connection, (offset, length), need)?;
        let id = *ids.first().ok_or(Error::NoSuchAddress)?;
        let window = self.remote_window(id).ok_or(Error::NoSuchAddress)?;
        let (place, rest) = window.core.chunks.place(at).ok_or(Error::NoSuchAddress)?;
        Ok(Mapped {
            window: id,
            place,
            first_page: at / PAGE,
            pages: rest.min(length) / PAGE,
        })
    }

    /// How many pages a peer's window has from page `first` on.
    pub(crate) fn pages_from(&self, id: RemoteWindowId, first: u64) -> u64 {
        self.remote(id)
            .map_or(0, |window| window.chunks.pages() - first)
    }

    /// Notes a use of pages of a peer's window.
    pub(crate) fn map(&mut self, id: RemoteWindowId, pages: u64) {
        if let Some(window) = self.remote_mut(id) {
            window.mapped += pages;
        }
    }

    /// Notes a use of a range at byte `at` of a peer's window. Returns its pieces, and what the
    /// window allows. `None`: the range ends beyond the window.
    fn map_range(
        &mut self,
        id: RemoteWindowId,
        at: u64,
        length: u64,
    ) -> Option<(Vec<(Place, u64)>, Protection)> {
        let window = self.remote_mut(id)?;
        let pieces = window.core.chunks.pieces(at, length)?;
        window.mapped += length / PAGE;
        Some((pieces, window.core.protection))
    }

    /// Notes a use of a range within one window of a peer, in any number of pieces.
    ///
    /// # Errors
    /// Those of [`cover_remote`](Self::cover_remote). `EXDEV`: the range is not within one window.
    pub(crate) fn map_pieces(
        &mut self,
        connection: ConnectionId,
        range: (i64, u64),
        need: Protection,
    ) -> Result<MappedPieces, Error> {
        let first = self.first_run(connection, range, need)?;
        let (window, at) = (first.window, first.first_page * PAGE);
        let mapped = self.map_range(window, at, range.1);
        let (pieces, _) = mapped.ok_or(Error::CrossesRuns)?;
        Ok(MappedPieces { window, pieces })
    }

    /// Notes that a library has mapped `pages` pages for copies, without its program knowing.
    pub(crate) fn note_cached(&mut self, id: RemoteWindowId, pages: u64) {
        if let Some(window) = self.remote_mut(id) {
            window.cached += pages;
        }
    }

    /// Notes that such pages are unmapped.
    pub(crate) fn unmap_cached(&mut self, id: RemoteWindowId, pages: u64) {
        if let Some(window) = self.remote_mut(id) {
            window.cached = window.cached.saturating_sub(pages);
        }
        self.release_remote(id, pages, 0);
    }

    /// Refers to all pages of a range within one window of a peer, and returns their places. They
    /// stay until they are put.
    ///
    /// # Errors
    /// Those of [`cover_remote`](Self::cover_remote). `ENXIO` also: the range is not within one
    /// window.
    pub(crate) fn get_pages(
        &mut self,
        connection: ConnectionId,
        range: (i64, u64),
    ) -> Result<ReferencedPages, Error> {
        let first = self.first_run(connection, range, Protection::empty())?;
        let (window, at, pages) = (first.window, first.first_page * PAGE, range.1 / PAGE);
        let mapped = self.map_range(window, at, range.1);
        let (mut runs, protection) = mapped.ok_or(Error::NoSuchAddress)?;
        runs.iter_mut().for_each(|(_, bytes)| *bytes /= PAGE);
        self.last_cookie += 1;
        let cookie = self.last_cookie;
        let spaces = self.spaces.entry(connection).or_default();
        let reference = PageReference { window, pages };
        spaces.references.insert(cookie, reference);
        Ok(ReferencedPages {
            cookie,
            protection: protection.bits(),
            runs,
        })
    }

    /// Ends a reference of get_pages. `false`: no such cookie.
    pub(crate) fn put_pages(&mut self, connection: ConnectionId, cookie: u64) -> bool {
        let spaces = self.spaces.get_mut(&connection);
        let reference = spaces.and_then(|spaces| spaces.references.remove(&cookie));
        if let Some(PageReference { window, pages }) = reference {
            self.release_remote(window, pages, 0);
        }
        reference.is_some()
    }

    /// Ends all references of get_pages of an endpoint that is closed.
    pub(crate) fn put_all_pages(&mut self, connection: ConnectionId) {
        let spaces = self.spaces.get_mut(&connection);
        let references = spaces.map(|spaces| core::mem::take(&mut spaces.references));
        for reference in references.unwrap_or_default().into_values() {
            self.release_remote(reference.window, reference.pages, 0);
        }
    }

    /// Whether programs have windows of `node` mapped, including those from before the node was
    /// lost.
    pub(crate) fn maps_memory_of(&self, node: NodeId) -> bool {
        let mut orphans = self.orphaned_mappings.values();
        orphans.any(|orphan| orphan.node == node)
            || self
                .remote_windows()
                .any(|(_, window)| window.is_mapped() && window.core.node() == node)
    }

    /// Notes that a window is forgotten while `pages` pages of it are mapped.
    pub(super) fn note_orphan(&mut self, window: RemoteWindowId, node: NodeId, pages: u64) {
        if pages > 0 {
            let orphan = OrphanedMapping { node, pages };
            self.orphaned_mappings.insert(window, orphan);
        }
    }

    /// Notes that pages of a forgotten window are no longer mapped.
    pub(super) fn release_orphan(&mut self, window: RemoteWindowId, pages: u64) {
        if let Some(orphan) = self.orphaned_mappings.get_mut(&window) {
            orphan.pages = orphan.pages.saturating_sub(pages);
            if orphan.pages == 0 {
                self.orphaned_mappings.remove(&window);
            }
        }
    }

    /// Checks that windows count the pages of get_pages.
    pub(super) fn check_references(&self) -> Result<(), Violation> {
        let mut pages: BTreeMap<RemoteWindowId, u64> = BTreeMap::new();
        for reference in self.spaces.values().flat_map(|s| s.references.values()) {
            *pages.entry(reference.window).or_default() += reference.pages;
        }
        for (id, pages) in pages {
            let window = self.remote_window(id);
            rule(
                window.is_none_or(|window| window.mapped >= pages),
                "pages that were got count as mapped",
                id,
            )?;
        }
        Ok(())
    }
}
