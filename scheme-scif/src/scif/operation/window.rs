//! Windows in the address spaces of programs: `fmap`, and the addresses of pages for trusted
//! drivers.
//!
//! The kernel asks where in *this* task's memory the requested bytes are, and maps those very
//! frames or bus addresses into the program. From then on the program accesses the peer's pages
//! without any help. Mapped pages are recorded with the handle through which they were mapped,
//! because the kernel names that handle when a piece is unmapped; it keeps the handle open until
//! then.
//!
//! A program also maps its own windows, to copy between them and the peer's by itself. The offset
//! names the window, so the program reaches the window's pages whatever its own addresses mean by
//! now. Such a mapping keeps the pages, but does not count as a use of the window and does not
//! delay its end.

use scif_abi::call::PagesHeader;
use scif_abi::flags::Protection;
use scif_core::EndpointId;
use syscall::error::{EACCES, EINVAL, ENODEV, ENXIO, EOVERFLOW, EXDEV, Error, Result};
use syscall::flag::MapFlags;
use zerocopy::IntoBytes;

use crate::access::{Caller, root};
use crate::error::system;
use crate::handle::ranges::Range;
use crate::handle::{Handle, Kind, PageKind};
use crate::ids::{HandleId, RequestId};
use crate::node_memory::{NodeMemory, PAGE};
use crate::path::Content;
use crate::scif::Scif;

/// Most bytes of a window that are joined from pieces for one mapping: joining takes a system call
/// for each page, while other clients wait.
const JOINED_BYTES: u64 = 4 << 20;

/// Bytes of a page address in the answer to `GetPages`.
const ADDRESS_BYTES: usize = size_of::<u64>();

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// The address, in this task's memory, of the bytes that a program wants to map: `size` bytes
    /// at `offset` of a memory handle's object, or of the peer's registered address space.
    ///
    /// # Errors
    /// `EINVAL` when unaligned, empty, or not `MAP_SHARED`; `EACCES` for code, or a right that the
    /// handle or the window does not give; `ENXIO` when not all of it is there; `EBUSY` when pages
    /// of another window at these offsets are still mapped through the handle; those of
    /// `scif_mmap`; `ENODEV` for files of other kinds.
    pub fn map(
        &mut self,
        id: HandleId,
        offset: u64,
        size: usize,
        flags: MapFlags,
    ) -> Result<usize> {
        let handle = self.handles.get(id)?;
        if !matches!(
            handle.kind(),
            Kind::Memory(_)
                | Kind::Endpoint(_)
                | Kind::Window(_)
                | Kind::CachedWindow(_)
                | Kind::OwnWindow(_)
                | Kind::Bypass(_)
                | Kind::Closed
        ) || handle.content() == Content::Messages
        {
            return Err(Error::new(ENODEV));
        }
        let pages = (size as u64).div_ceil(PAGE);
        if pages == 0 || !offset.is_multiple_of(PAGE) || !flags.contains(MapFlags::MAP_SHARED) {
            return Err(Error::new(EINVAL));
        }
        let reads = flags.contains(MapFlags::PROT_READ);
        let writes = flags.contains(MapFlags::PROT_WRITE);
        let denied = |result: Result<()>| result.map_err(|_| Error::new(EACCES));
        if flags.contains(MapFlags::PROT_EXEC) {
            return Err(Error::new(EACCES));
        }
        if reads {
            denied(handle.to_read())?;
        }
        if writes {
            denied(handle.to_write())?;
        }
        let mut protection = Protection::empty();
        protection.set(Protection::READ, reads);
        protection.set(Protection::WRITE, writes);
        match *handle.kind() {
            Kind::Memory(object) => {
                let token = object.ok_or(Error::new(ENXIO))?;
                self.objects.map(&self.memory, token, offset, pages)
            }
            Kind::Bypass(bypass) => self.map_bypass(id, bypass.id(), offset, pages),
            Kind::OwnWindow(endpoint) => {
                self.map_own_window(id, endpoint, offset, pages, protection)
            }
            _ => self.map_window(id, offset, pages, protection),
        }
    }

    fn map_window(
        &mut self,
        id: HandleId,
        offset: u64,
        pages: u64,
        protection: Protection,
    ) -> Result<usize> {
        let (endpoint, is_cached) = self.window_endpoint(id)?;
        let start = i64::try_from(offset).map_err(|_| Error::new(EINVAL))?;
        let length = pages.checked_mul(PAGE).ok_or(Error::new(EINVAL))?;
        let mapped = self
            .engine
            .map_pieces(endpoint, start, length, protection.bits())
            .map_err(system)?;
        let kind = |join| match is_cached {
            true => PageKind::Cached(mapped.window, join),
            false => PageKind::Peer(mapped.window, join),
        };
        let handle = self.handles.get(id)?;
        let is_free = handle.to_map(offset / PAGE, pages, kind(None));
        let count = mapped.pieces.len() as u64;
        let view = is_free.and_then(|()| {
            if count > JOINED_BYTES / PAGE {
                return Err(Error::new(EXDEV));
            }
            let view = self.memory.join(&mapped.pieces);
            view.ok_or(Error::new(EOVERFLOW))
        });
        let view = view.inspect_err(|error| {
            log::debug!("{length:#x} bytes in {count} pieces are not mapped: {error}");
            self.engine.unmap(mapped.window, pages);
        })?;
        self.objects.map_view(view, pages);
        if is_cached {
            self.engine.note_cached(mapped.window, pages);
        }
        let handle = self.handles.get_mut(id)?;
        handle.map(offset / PAGE, pages, kind(view.join));
        Ok(view.address)
    }

    /// The endpoint whose peer's windows a handle maps, and whether a library caches them.
    fn window_endpoint(&mut self, id: HandleId) -> Result<(EndpointId, bool)> {
        match self.handles.get(id)?.kind() {
            Kind::Window(endpoint) => Ok((*endpoint, false)),
            Kind::CachedWindow(endpoint) => Ok((*endpoint, true)),
            _ => Ok((self.handles.endpoint_id(id)?, false)),
        }
    }

    /// Records that a piece of a mapping is unmapped: `size` bytes at `offset`.
    pub fn unmap(&mut self, id: HandleId, offset: u64, size: usize) -> Result<()> {
        let (first, pages) = (offset / PAGE, (size as u64).div_ceil(PAGE));
        let handle = self.handles.get_mut(id)?;
        if let Kind::Memory(object) = handle.kind() {
            if let Some(token) = *object {
                self.objects.unmap(token, first, pages);
            }
            return Ok(());
        }
        for range in handle.unmap(first, pages) {
            self.forget_mapped(range);
        }
        Ok(())
    }

    /// Releases what pages held that are no longer mapped.
    pub(in crate::scif) fn forget_mapped(&mut self, range: Range<PageKind>) {
        match range.mark {
            PageKind::Peer(window, join) => {
                self.engine.unmap(window, range.pages);
                self.objects.unmap_join(&mut self.memory, join, range.pages);
            }
            PageKind::Cached(window, join) => {
                self.engine.unmap_cached(window, range.pages);
                self.objects.unmap_join(&mut self.memory, join, range.pages);
            }
            PageKind::Own(token) => self.objects.end_view(&mut self.memory, token, range.pages),
            PageKind::PeerPart(bypass) => self.engine.unmap_bypass(bypass, range.pages),
            // The engine counts handles, and this one stays open as long as anything is mapped.
            PageKind::LocalPart => {}
        }
    }

    fn map_own_window(
        &mut self,
        id: HandleId,
        endpoint: EndpointId,
        offset: u64,
        pages: u64,
        protection: Protection,
    ) -> Result<usize> {
        let start = i64::try_from(offset).map_err(|_| Error::new(EINVAL))?;
        let length = pages.checked_mul(PAGE).ok_or(Error::new(EINVAL))?;
        let part = self
            .engine
            .local_part(endpoint, start, length, protection.bits())
            .map_err(system)?;
        if part.bytes != length {
            return Err(Error::new(EXDEV));
        }
        // An object is one range of addresses, and so is every part of it.
        let view = self.memory.join(&part.pieces);
        let view = view.filter(|view| view.join.is_none());
        let address = view.ok_or(Error::new(EOVERFLOW))?.address;
        let token = part.pin.0;
        let kind = PageKind::Own(token);
        self.handles.get(id)?.to_map(offset / PAGE, pages, kind)?;
        self.objects.begin_view(token, pages)?;
        let handle = self.handles.get_mut(id)?;
        handle.map(offset / PAGE, pages, kind);
        Ok(address)
    }

    /// `dup(endpoint, "window")`: a handle that only maps the windows of the endpoint's peer;
    /// `"own-window"`, the endpoint's own windows. Mappings made through it do not keep the
    /// endpoint's own file open.
    ///
    /// # Errors
    /// `ENOMEM` when the caller has too many files.
    pub(in crate::scif) fn window_handle(
        &mut self,
        id: HandleId,
        caller: Caller,
        kind: impl FnOnce(EndpointId) -> Kind<R>,
    ) -> Result<HandleId> {
        let kind = kind(self.handles.endpoint_id(id)?);
        let opening = self.handles.get(id)?.duplicate(caller);
        self.handles
            .insert_file(&mut self.engine, Handle::new(opening, kind))
    }

    /// The length that one mapping of own windows can have, asked on an endpoint or on a handle
    /// for mapping them.
    pub(in crate::scif) fn map_run_own(
        &mut self,
        id: HandleId,
        offset: i64,
        length: u64,
    ) -> Result<usize> {
        let endpoint = match *self.handles.get(id)?.kind() {
            Kind::OwnWindow(endpoint) => endpoint,
            _ => self.handles.endpoint_id(id)?,
        };
        let none = Protection::empty().bits();
        let part = self.engine.local_part(endpoint, offset, length, none);
        part.map(|part| part.bytes as usize).map_err(system)
    }

    /// The length that one mapping of the peer's windows can have: as far as its memory is
    /// contiguous, or as many pieces of a window as are joined at a time.
    pub(in crate::scif) fn map_run(
        &mut self,
        id: HandleId,
        offset: i64,
        length: u64,
    ) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        let contiguous = self.engine.map_run(endpoint, offset, length);
        let contiguous = contiguous.map_err(system)?;
        let joined = self.engine.window_run(endpoint, offset, length);
        let joined = joined.map_err(system)?.min(JOINED_BYTES);
        Ok(contiguous.max(joined) as usize)
    }

    /// `GetPages`: stores a header, then the address of every page for this node's processors and
    /// devices.
    pub(in crate::scif) fn get_pages(
        &mut self,
        id: HandleId,
        offset: i64,
        length: u64,
        payload: &mut [u8],
    ) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        root(self.handles.caller(id)?)?;
        let room = payload.len().checked_sub(size_of::<PagesHeader>());
        let fits = room.is_some_and(|room| (room / ADDRESS_BYTES) as u64 >= length / PAGE);
        if !fits {
            return Err(Error::new(EINVAL));
        }
        let got = self
            .engine
            .get_pages(endpoint, offset, length)
            .map_err(system)?;
        let header = PagesHeader {
            cookie: got.cookie.into(),
            pages: (length / PAGE).into(),
            protection: got.protection.into(),
            reserved: 0.into(),
        };
        let (head, addresses) = payload.split_at_mut(size_of::<PagesHeader>());
        head.copy_from_slice(header.as_bytes());
        let mut slots = addresses.chunks_exact_mut(ADDRESS_BYTES);
        for (place, pages) in got.runs {
            for page in 0..pages {
                let address = self.memory.physical(place.offset(page * PAGE));
                let (Some(address), Some(slot)) = (address, slots.next()) else {
                    // Half an answer would be taken for a whole one.
                    let put = self.engine.put_pages(endpoint, got.cookie);
                    put.map_err(system)?;
                    return Err(Error::new(EOVERFLOW));
                };
                slot.copy_from_slice(&address.to_le_bytes());
            }
        }
        Ok((length / PAGE) as usize)
    }

    pub(in crate::scif) fn put_pages(&mut self, id: HandleId, cookie: u64) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        root(self.handles.caller(id)?)?;
        let put = self.engine.put_pages(endpoint, cookie);
        put.map(|()| 0).map_err(system)
    }
}
