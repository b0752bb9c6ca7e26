//! Address spaces of programs: areas ("grants" in Redox) and the page tables made from them.
//!
//! Addresses and lengths are bytes. Unless a function says otherwise: address or length not a
//! multiple of the page size, or length 0, is `EINVAL`; no room `ENOMEM`; ranges that reach beyond
//! user space are `EINVAL`.
//!
//! Ownership of frames: every page table entry of RAM holds one counted reference. A store copies
//! a frame when a *private* area enters it, others reference it too, and it is not marked shared.
//! Lending a page (`borrow`, `map_scheme`) marks its frame shared, so that lender and borrower
//! continue to see the same bytes.
//!
//! Locking: an operation never holds the locks of two spaces at once. A borrowed page is resolved
//! in its source first, then entered here. That is sound because the kernel is not preempted and
//! runs on one processor at a time.

mod backing;
mod bounce;
mod clone;
mod deferred;
mod fault;
mod grant;
mod handle;
mod map;
mod remap;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ::syscall::data::{GrantDesc, GrantFlags};
use ::syscall::error::{EACCES, EBUSY, EEXIST, EFAULT, EINVAL, EIO, ENOMEM, EPERM, Error, Result};
use kernel_core::area::{Area, AreaList};
pub use kernel_core::area::{Cache, Placement, Prot};
use kernel_core::queue;
use spin::Mutex;

pub use backing::Anonymous;
use backing::{Backing, Spare};
use bounce::BounceBuffers;
pub use bounce::{BounceBuffer, bounce_frames};
pub use deferred::{Deferred, has_deferred, next_deferred};
use deferred::{Spaces, defer_drop};
use fault::shared_entry;
use grant::{Lents, defer_unmapped, unless_lent};
pub use grant::{Piece, Pieces, SchemeGrant};
pub use handle::SpaceHandle;

use super::frame::{self, Counts, FrameRef, Releases};
use super::paging::{self, COUNTED, Entry, PageTable};
use super::{MIN_ADDRESS, PAGE_SIZE, USER_END, daemons, list_for};

/// Pages of a device or borrowed mapping that are entered at once; the rest is entered at the
/// first touch.
const EAGER_PAGES: usize = 4096;
/// Longest run of contiguous memory, in pages (4 MiB).
const MAX_CONTIGUOUS: usize = 1024;
/// Most areas of a space, so that lists of them fit into contiguous memory.
const MAX_AREAS: usize = 1 << 16;
/// Areas in a frame of the kernel's heap, or a few more.
const AREAS_OF_FRAME: usize = 16;
/// Frames of the kernel's heap that the new area of a change and the cuts of others take at most.
const FRAMES_OF_CHANGE: usize = 4;
/// Physical addresses end here.
const PHYS_END: usize = 1 << 52;

#[derive(Debug)]
struct Inner {
    areas: AreaList<Backing>,
    table: PageTable,
    /// Lowest address that the kernel chooses (`mmap-min-addr`).
    min: usize,
}

/// An address space. Shared by the threads of a process, by descriptors and by borrowers.
#[derive(Debug)]
pub struct AddrSpace {
    inner: Mutex<Inner>,
    root: usize,
    /// Contexts that run in it.
    users: AtomicUsize,
    /// [`SpaceHandle`]s.
    handles: AtomicUsize,
    /// Whether its last context, a daemon's, has ended and request buffers stay mapped.
    keeps_requests: AtomicBool,
    bounce: Mutex<BounceBuffers>,
}

/// What is left of areas that were taken out of a space. It is dropped only after the space's lock
/// is released, because that may drop another space.
#[derive(Default)]
struct Removed {
    pieces: Pieces,
    sources: Spaces,
}

/// The pieces of which daemons are to be told.
fn unmapped(mut removed: Removed) -> Pieces {
    defer_drop(removed.sources);
    let mut pieces = Pieces::new();
    while let Some(piece) = removed.pieces.pop() {
        unless_lent(piece)
            .into_iter()
            .for_each(|piece| pieces.push(piece));
    }
    pieces
}

/// Checks a range: whole pages, not empty, and in user space; else `EINVAL`.
pub fn check_range(addr: usize, len: usize) -> Result<()> {
    let aligned = addr.is_multiple_of(PAGE_SIZE) && len.is_multiple_of(PAGE_SIZE);
    match addr.checked_add(len) {
        Some(end) if aligned && len > 0 && end <= USER_END => Ok(()),
        _ => Err(Error::new(EINVAL)),
    }
}

impl Inner {
    /// Takes out the areas of a range, and gives their frames back. This takes memory only to cut
    /// the areas at the borders.
    fn take(&mut self, addr: usize, len: usize, removed: &mut Removed) {
        let mut releases = Releases::new();
        let Inner { areas, table, .. } = self;
        areas.remove_each(addr, len, |base, area| {
            table.clear(base, area.len, |entry| {
                if entry.is_counted() {
                    releases.add(entry.phys());
                }
            });
            match area.backing {
                Backing::Scheme(piece) => removed.pieces.push(piece),
                // The loans may end here, and with them files of other mappings. Both only queue
                // work for later.
                Backing::Borrowed {
                    source: Some(source),
                    ..
                } => removed.sources.push(source),
                _ => {}
            }
        });
    }

    /// Cuts the tie of the next area from `addr` on that borrows: its end, and the tie.
    fn cut_tie(&mut self, addr: usize) -> Option<(usize, Backing)> {
        let borrows = |(_, area): &(_, &Area<_>)| matches!(area.backing, Backing::Borrowed { .. });
        let mut areas = self.areas.overlapping(addr, USER_END - addr);
        let (base, end) = areas
            .find(borrows)
            .map(|(base, area)| (base, base + area.len))?;
        drop(areas);
        let backing = self.areas.backing_mut(base)?;
        Some((end, core::mem::replace(backing, Backing::Frames)))
    }

    fn has_pinned(&self, addr: usize, len: usize) -> bool {
        self.areas
            .overlapping(addr, len)
            .any(|(_, area)| area.pinned)
    }

    /// Checks that an operation may add an area, or cut one into three: `ENOMEM` when there are too
    /// many, or when little memory is left, because each takes some of the kernel's own.
    fn check_areas(&self) -> Result<()> {
        self.check_more_areas(0)
    }

    /// [`check_areas`](Self::check_areas) for an operation that also adds `more` areas.
    fn check_more_areas(&self, more: usize) -> Result<()> {
        self.check_count(more)?;
        frame::check_room_for(more.div_ceil(AREAS_OF_FRAME))
    }

    /// The part of [`check_more_areas`](Self::check_more_areas) about their number.
    fn check_count(&self, more: usize) -> Result<()> {
        match self.areas.len() + more + 2 <= MAX_AREAS {
            true => Ok(()),
            false => Err(Error::new(ENOMEM)),
        }
    }

    /// A list with room for the present entries of a range; `ENOMEM` when memory has no run of
    /// that length. Make it before anything changes.
    fn room_for_entries(&mut self, addr: usize, len: usize) -> Result<Vec<(usize, Entry)>> {
        let mut present = 0;
        self.table.update(addr, len, |_, entry| {
            present += 1;
            entry
        });
        list_for(present)
    }

    /// Entered frames of RAM in a range, and those of them without other references.
    fn pages(&mut self, addr: usize, len: usize) -> (usize, usize) {
        let mut counts = Counts::lock();
        let (mut all, mut own) = (0, 0);
        self.table.update(addr, len, |_, entry| {
            if entry.is_counted() {
                all += 1;
                own += usize::from(counts.refs(entry.phys()) == 1);
            }
            entry
        });
        (all, own)
    }

    /// Checks that there is memory for the tables of so many pages in a range of this length, and
    /// for the changes to lists of areas before they are entered.
    fn check_tables(&self, len: usize, pages: usize, areas: usize) -> Result<()> {
        let lists = areas.div_ceil(AREAS_OF_FRAME) + FRAMES_OF_CHANGE;
        frame::check_tables(PageTable::most_tables(len, pages) + lists)
    }

    /// Finds the place for a new area and makes room there. What is there is taken out only if
    /// there is memory to enter so many pages then.
    fn place(&mut self, at: Placement, len: usize, pages: usize) -> Result<(usize, Removed)> {
        self.check_areas()?;
        match at {
            Placement::Any => {
                check_range(0, len)?;
                let addr = self
                    .areas
                    .find_hole(len, self.min, USER_END)
                    .ok_or(Error::new(ENOMEM))?;
                Ok((addr, Removed::default()))
            }
            Placement::Fixed(addr) => {
                check_range(addr, len)?;
                if self.has_pinned(addr, len) {
                    return Err(Error::new(EBUSY));
                }
                if pages > 0 && self.areas.overlapping(addr, len).next().is_some() {
                    self.check_tables(len, pages, 0)?;
                }
                let mut removed = Removed::default();
                self.take(addr, len, &mut removed);
                Ok((addr, removed))
            }
            Placement::FixedNoReplace(addr) => {
                check_range(addr, len)?;
                if self.areas.overlapping(addr, len).next().is_some() {
                    return Err(Error::new(EEXIST));
                }
                Ok((addr, Removed::default()))
            }
        }
    }

    /// Enters a page. On failure, gives back the reference that `entry` holds.
    fn enter(&mut self, addr: usize, entry: Entry) -> Result<()> {
        match self.table.set(addr, entry) {
            Some(old) => {
                release(old);
                Ok(())
            }
            None => {
                release(entry);
                Err(Error::new(ENOMEM))
            }
        }
    }
}

/// Gives back the reference that an entry holds.
fn release(entry: Entry) {
    if entry.is_present() && entry.is_counted() {
        drop(FrameRef::from_counted(entry.phys()));
    }
}

impl AddrSpace {
    /// An empty address space, or `ENOMEM`.
    pub fn new() -> Result<Arc<AddrSpace>> {
        Ok(Arc::new(Self::empty()?))
    }

    fn empty() -> Result<AddrSpace> {
        let table = PageTable::new().ok_or(Error::new(ENOMEM))?;
        let root = table.root();
        let inner = Inner {
            areas: AreaList::default(),
            table,
            min: MIN_ADDRESS,
        };
        Ok(AddrSpace {
            inner: Mutex::new(inner),
            root,
            users: AtomicUsize::new(0),
            handles: AtomicUsize::new(0),
            keeps_requests: AtomicBool::new(false),
            bounce: Mutex::default(),
        })
    }

    /// Physical address of the page tables, for `paging::activate`.
    pub(crate) fn root(&self) -> usize {
        self.root
    }

    /// Lowest address that the kernel chooses for a mapping.
    pub fn min_address(&self) -> usize {
        self.inner.lock().min
    }

    /// Sets the lowest address that the kernel chooses for a mapping.
    pub fn set_min_address(&self, address: usize) {
        self.inner.lock().min = address;
    }

    /// Adds an area and lets `fill` enter its first pages, or `pages` of them at a fixed place.
    /// Undoes this when `fill` fails.
    fn add(
        &self,
        at: Placement,
        area: Area<Backing>,
        pages: usize,
        fill: impl FnOnce(&mut Inner, usize) -> Result<()>,
    ) -> Result<(usize, Pieces)> {
        let mut inner = self.inner.lock();
        let len = area.len;
        let (addr, replaced) = inner.place(at, len, pages)?;
        inner.areas.insert(addr, area);
        let filled = fill(&mut inner, addr);
        let mut failed = Removed::default();
        if filled.is_err() {
            inner.take(addr, len, &mut failed);
        }
        drop(inner);
        drop(failed);
        let pieces = unmapped(replaced);
        match filled {
            Ok(()) => Ok((addr, pieces)),
            Err(error) => {
                defer_unmapped(pieces);
                Err(error)
            }
        }
    }

    /// Unmaps `[addr, addr+len)`; holes are no error. `EBUSY` when a pinned page is in it. The
    /// caller sends Munmap for the returned pieces.
    pub fn unmap(&self, addr: usize, len: usize) -> Result<Pieces> {
        check_range(addr, len)?;
        let mut inner = self.inner.lock();
        if inner.has_pinned(addr, len) {
            return Err(Error::new(EBUSY));
        }
        let is_inside =
            |(base, area): (usize, &Area<Backing>)| base < addr && addr + len < base + area.len;
        if inner.areas.find(addr).is_some_and(is_inside) {
            inner.check_count(0)?;
            // The cut takes memory; a frame that only this space has gives more back.
            if let Err(error) = frame::check_room()
                && inner.pages(addr, len).1 == 0
            {
                return Err(error);
            }
        }
        let mut removed = Removed::default();
        inner.take(addr, len, &mut removed);
        drop(inner);
        Ok(unmapped(removed))
    }

    /// `unmap` for the kernel's own request buffers: takes pinned pages, too.
    pub fn unmap_pinned(&self, addr: usize, len: usize) -> Result<Pieces> {
        check_range(addr, len)?;
        Ok(self.unmap_all(addr, len))
    }

    /// Unmaps everything in a range.
    fn unmap_all(&self, addr: usize, len: usize) -> Pieces {
        let mut removed = Removed::default();
        self.inner.lock().take(addr, len, &mut removed);
        unmapped(removed)
    }

    /// Changes the rights of the mappings in the range; holes are no error. Scheme mappings,
    /// device memory and borrowed ranges can only lose rights (`EACCES`).
    pub fn protect(&self, addr: usize, len: usize, prot: Prot) -> Result<()> {
        check_range(addr, len)?;
        let mut inner = self.inner.lock();
        inner.check_areas()?;
        let forbidden = inner
            .areas
            .overlapping(addr, len)
            .any(|(_, area)| !area.backing.is_own() && !area.max_prot.contains(prot));
        if forbidden {
            return Err(Error::new(EACCES));
        }
        inner.areas.protect(addr, len, prot);
        inner
            .table
            .update(addr, len, |_, entry| reprotected(entry, prot));
        Ok(())
    }

    /// At most `most` mappings in ascending order, after the first `skip`, for the `addrspace`
    /// handle.
    pub fn grants(&self, skip: usize, most: usize) -> Vec<GrantDesc> {
        let inner = self.inner.lock();
        let describe = |(base, area): (usize, &Area<Backing>)| {
            let mut flags = GrantFlags::empty();
            flags.set(GrantFlags::GRANT_READ, !area.prot.is_empty());
            flags.set(GrantFlags::GRANT_WRITE, area.prot.contains(Prot::WRITE));
            flags.set(GrantFlags::GRANT_EXEC, area.prot.contains(Prot::EXEC));
            flags.set(GrantFlags::GRANT_PINNED, area.pinned);
            // An offset has a meaning only together with GRANT_SCHEME.
            let mut offset = u64::MAX;
            match &area.backing {
                Backing::Private => {}
                Backing::Shared { .. } | Backing::Frames | Backing::Borrowed { .. } => {
                    flags |= GrantFlags::GRANT_SHARED;
                }
                Backing::Contiguous => flags |= GrantFlags::GRANT_PHYS_CONTIGUOUS,
                Backing::Physical { .. } => {
                    flags |= GrantFlags::GRANT_SHARED | GrantFlags::GRANT_PHYS;
                }
                Backing::Scheme(piece) => {
                    flags |= GrantFlags::GRANT_SHARED | GrantFlags::GRANT_SCHEME;
                    offset = piece.value().grant.offset;
                }
            }
            GrantDesc {
                base,
                size: area.len,
                flags,
                offset,
            }
        };
        inner
            .areas
            .iter()
            .skip(skip)
            .take(most)
            .map(describe)
            .collect()
    }

    /// Mapped private and shared bytes; device memory counts as neither.
    pub fn bytes(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        let areas = inner.areas.iter();
        areas.fold((0, 0), |(private, shared), (_, area)| match area.backing {
            Backing::Physical { .. } => (private, shared),
            Backing::Private | Backing::Contiguous => (private + area.len, shared),
            _ => (private, shared + area.len),
        })
    }

    /// The description behind the scheme mapping that starts at this address (`grant-fd-<hex>`).
    pub fn scheme_grant_at(&self, addr: usize) -> Option<SchemeGrant> {
        let inner = self.inner.lock();
        match inner.areas.find(addr)? {
            (
                base,
                Area {
                    backing: Backing::Scheme(piece),
                    ..
                },
            ) if base == addr => Some(piece.value().grant.clone()),
            _ => None,
        }
    }

    /// Physical address of the *frame* present at `addr` (low 12 bits zero), without faulting.
    pub fn translate(&self, addr: usize) -> Option<usize> {
        if addr >= USER_END {
            return None;
        }
        let entry = self.inner.lock().table.get(addr);
        entry.is_present().then(|| entry.phys())
    }

    /// Entered frames of RAM, and those of them without other references.
    pub fn pages(&self) -> (usize, usize) {
        self.inner.lock().pages(0, USER_END)
    }

    /// Records that a daemon runs in it.
    pub(crate) fn set_daemon(&self) {
        daemons::add(self.root);
    }

    /// Whether an area holds the address.
    pub(crate) fn is_mapped(&self, addr: usize) -> bool {
        self.inner.lock().areas.find(addr).is_some()
    }

    /// Counts a context that enters the space.
    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the request buffers mapped as long as the space, because a daemon ends here with all
    /// its contexts: another program may keep the space because a device or another machine still
    /// accesses the pages.
    pub(crate) fn keep_requests(&self) {
        self.keeps_requests.store(true, Ordering::Relaxed);
    }

    /// Whether [`keep_requests`](Self::keep_requests) was called.
    pub(crate) fn keeps_requests(&self) -> bool {
        self.keeps_requests.load(Ordering::Relaxed)
    }

    /// Counts a context that leaves. When the last one leaves, cuts the ties to other spaces:
    /// otherwise two spaces that borrow from each other would keep each other alive. Pages that
    /// were entered stay.
    pub(crate) fn remove_user(&self) {
        if self.users.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.cut_ties();
        }
    }

    fn cut_ties(&self) {
        let mut next = 0;
        loop {
            let cut = self.inner.lock().cut_tie(next);
            let Some((end, tie)) = cut else { return };
            next = end;
            // The last reference to another space may go here.
            drop(tie);
        }
    }
}

impl Drop for AddrSpace {
    fn drop(&mut self) {
        defer_unmapped(self.unmap_all(0, USER_END));
    }
}

/// The entry without the rights that `prot` lacks. This never newly allows stores: the next store
/// faults and finds out whether the page must be copied first.
fn reprotected(entry: Entry, prot: Prot) -> Entry {
    let narrowed = if entry.is_writable() || prot.is_empty() {
        prot
    } else {
        // Write-only pages are readable, too: x86 has no write-only mapping.
        (prot - Prot::WRITE) | Prot::READ
    };
    let mut flags = paging::user_flags(narrowed, entry.cache());
    flags.set(COUNTED, entry.is_counted());
    Entry::new(entry.phys(), flags)
}
