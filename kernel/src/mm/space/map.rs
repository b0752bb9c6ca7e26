//! Makes mappings: one method for each kind of memory.

use super::*;

/// Most pages of a range that is borrowed without checking how much memory is free.
const FEW_PAGES: usize = 64;
/// Incomplete pages of a buffer: one before and one behind the complete ones.
const EDGES: usize = 2;

impl AddrSpace {
    /// Maps zero pages that are made when touched. Returns the address and the pieces that a fixed
    /// placement replaced. `EEXIST`, `EBUSY` (over pinned).
    pub fn map_anonymous(
        &self,
        at: Placement,
        len: usize,
        prot: Prot,
        kind: Anonymous,
    ) -> Result<(usize, Pieces)> {
        let backing = match kind {
            Anonymous::Private => Backing::Private,
            Anonymous::Shared => Backing::Shared {
                pages: Arc::default(),
                first: 0,
            },
        };
        let area = Area {
            len,
            prot,
            max_prot: Prot::all(),
            pinned: false,
            backing,
        };
        self.add(at, area, 0, |_, _| Ok(()))
    }

    /// Maps zeroed physically contiguous memory at once. More than 4 MiB or no such run: `ENOMEM`.
    pub fn map_contiguous(
        &self,
        at: Placement,
        len: usize,
        prot: Prot,
        cache: Cache,
    ) -> Result<(usize, Pieces)> {
        check_range(0, len)?;
        let pages = len / PAGE_SIZE;
        if pages > MAX_CONTIGUOUS {
            log::warn!("contiguous memory of {len:#x} bytes refused: 4 MiB is the most");
            return Err(Error::new(ENOMEM));
        }
        let Some(frames) = frame::alloc_contiguous(pages) else {
            let frame::Stats { free, largest, .. } = frame::stats();
            log::warn!(
                "no {pages} contiguous pages: {free} are free, the longest run has {largest}"
            );
            return Err(Error::new(ENOMEM));
        };
        let backing = Backing::Contiguous;
        let area = Area {
            len,
            prot,
            max_prot: Prot::all(),
            pinned: false,
            backing,
        };
        let flags = paging::user_flags(prot, cache) | COUNTED;
        self.add(at, area, pages, |inner, addr| {
            enter_frames(inner, addr, frames, flags)
        })
    }

    /// Maps device memory at an address of the kernel's choice. `EPERM` when a page of the range
    /// is RAM of the allocator, `EINVAL` when the range ends above 2^52 or is not page aligned.
    pub fn map_physical(&self, phys: usize, len: usize, prot: Prot, cache: Cache) -> Result<usize> {
        check_range(0, len)?;
        let end = phys.checked_add(len).filter(|&end| end <= PHYS_END);
        if end.is_none() || !phys.is_multiple_of(PAGE_SIZE) {
            return Err(Error::new(EINVAL));
        }
        if frame::any_ram(phys, len) {
            // No warning: drivers use this to find out whether an address is RAM.
            log::debug!("mapping of physical {phys:#x}, length {len:#x}, refused: it is RAM");
            return Err(Error::new(EPERM));
        }
        let backing = Backing::Physical { phys, cache };
        let area = Area {
            len,
            prot,
            max_prot: prot,
            pinned: false,
            backing,
        };
        let flags = paging::user_flags(prot, cache);
        let (addr, _) = self.add(Placement::Any, area, 0, |inner, addr| {
            for offset in (0..len.min(EAGER_PAGES * PAGE_SIZE)).step_by(PAGE_SIZE) {
                inner.enter(addr + offset, Entry::new(phys + offset, flags))?;
            }
            Ok(())
        })?;
        Ok(addr)
    }

    /// Maps the frames that `source` has at `source_addr` here, at once; absent ones are faulted
    /// in. RAM frames are referenced, device frames entered raw with their cache attribute. A hole
    /// in `source` is `EIO`. `len` is rounded up to pages.
    pub fn map_scheme(
        &self,
        at: Placement,
        len: usize,
        prot: Prot,
        source: &Arc<AddrSpace>,
        source_addr: usize,
        owner: SchemeGrant,
    ) -> Result<(usize, Pieces)> {
        let len = len
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(Error::new(EINVAL))?;
        check_range(0, len)?;
        check_range(source_addr, len).map_err(|_| Error::new(EIO))?;
        // The length comes from a client: check it before reserving room for its pages.
        if !source.inner.lock().areas.covers(source_addr, len) {
            return Err(Error::new(EIO));
        }
        let (entries, lents) = source.lend_all(source_addr, len, prot)?;
        owner.hold(lents);
        let backing = Backing::Scheme(queue::Entry::new(Piece { grant: owner, len }));
        let area = Area {
            len,
            prot,
            max_prot: prot,
            pinned: false,
            backing,
        };
        let mut entries = entries.into_iter();
        let result = self.add(at, area, entries.len(), |inner, addr| {
            for (i, entry) in entries.by_ref().enumerate() {
                inner.enter(addr + i * PAGE_SIZE, entry)?;
            }
            Ok(())
        });
        entries.for_each(release);
        result
    }

    /// Maps frames the kernel owns (metadata, head and tail pages of requests, paths).
    pub fn map_frames(
        &self,
        at: Placement,
        frames: &[FrameRef],
        prot: Prot,
        pinned: bool,
    ) -> Result<(usize, Pieces)> {
        let len = frames
            .len()
            .checked_mul(PAGE_SIZE)
            .ok_or(Error::new(EINVAL))?;
        let backing = Backing::Frames;
        let area = Area {
            len,
            prot,
            max_prot: prot,
            pinned,
            backing,
        };
        let flags = paging::user_flags(prot, Cache::WriteBack) | COUNTED;
        self.add(at, area, frames.len(), |inner, addr| {
            enter_frames(inner, addr, frames.to_vec(), flags)
        })
    }

    /// Maps frames that become the program's own memory, like anonymous memory that it has touched
    /// and filled.
    pub fn map_private(
        &self,
        at: Placement,
        frames: Vec<FrameRef>,
        prot: Prot,
    ) -> Result<(usize, Pieces)> {
        let len = frames
            .len()
            .checked_mul(PAGE_SIZE)
            .ok_or(Error::new(EINVAL))?;
        let area = Area {
            len,
            prot,
            max_prot: Prot::all(),
            pinned: false,
            backing: Backing::Private,
        };
        let flags = paging::user_flags(prot, Cache::WriteBack) | COUNTED;
        self.add(at, area, frames.len(), |inner, addr| {
            enter_frames(inner, addr, frames, flags)
        })
    }

    /// Maps `source`'s pages from `addr` on here. Frames are shared as they are touched, and both
    /// sides see each other's stores. The source must be mapped (`EFAULT`) and must have the
    /// requested rights (`EPERM`), except that plain anonymous memory gives any right. The program
    /// cannot unmap `pinned` mappings.
    pub fn borrow(
        &self,
        source: &Arc<AddrSpace>,
        addr: usize,
        len: usize,
        at: Placement,
        prot: Prot,
        pinned: bool,
    ) -> Result<(usize, Pieces)> {
        check_range(addr, len)?;
        let (entries, lents) = source.lend_present(addr, len, prot)?;
        // A page that is itself borrowed may have fewer rights than its area, and a store does not
        // replace it by a copy.
        let is_lacking = |(_, entry): &(usize, Entry)| !entry.is_writable();
        if prot.contains(Prot::WRITE) && entries.iter().any(is_lacking) {
            entries.into_iter().for_each(|(_, entry)| release(entry));
            return Err(Error::new(EPERM));
        }
        let own = core::ptr::eq(Arc::as_ptr(source), self);
        let lender = (!own).then(|| queue::Entry::new(source.clone()));
        let backing = Backing::Borrowed {
            source: lender,
            addr,
            lents,
            spare: None,
        };
        let area = Area {
            len,
            prot,
            max_prot: prot,
            pinned,
            backing,
        };
        self.add_present(at, area, entries)
    }

    /// Maps a client's buffer for one request: `len` bytes of `source`'s pages from `addr` on, as
    /// [`AddrSpace::borrow`] does, between frames that hold the incomplete pages before and
    /// behind. Returns the address of the first page. `ENOMEM` also when there is no memory for
    /// what the daemon needs to go on if pages cannot be had later.
    pub fn borrow_buffer(
        &self,
        source: &Arc<AddrSpace>,
        addr: usize,
        len: usize,
        [head, tail]: [Option<FrameRef>; 2],
        prot: Prot,
    ) -> Result<usize> {
        let (mut entries, lents) = if len > 0 {
            check_range(addr, len)?;
            source.lend_present(addr, len, prot)?
        } else {
            Default::default()
        };
        let before = if head.is_some() { PAGE_SIZE } else { 0 };
        let behind = if tail.is_some() { PAGE_SIZE } else { 0 };
        let flags = paging::user_flags(prot, Cache::WriteBack) | COUNTED;
        let edge = |frame: FrameRef| Entry::new(frame.into_phys(), flags);
        let is_there =
            |(_, entry): &(usize, Entry)| entry.is_writable() || !prot.contains(Prot::WRITE);
        let spare = if entries.len() == len / PAGE_SIZE && entries.iter().all(is_there) {
            None
        } else {
            let spare = Spare::new().inspect_err(|_| {
                entries.drain(..).for_each(|(_, entry)| release(entry));
            });
            Some(spare?)
        };
        entries.iter_mut().for_each(|(offset, _)| *offset += before);
        entries.extend(head.map(|frame| (0, edge(frame))));
        entries.extend(tail.map(|frame| (before + len, edge(frame))));
        let area = Area {
            len: before + len + behind,
            prot,
            max_prot: prot,
            pinned: true,
            // The pages at the edges are present, so they are never fetched from the source. If
            // there are no others, `addr` has no meaning, and may be less than a page.
            backing: Backing::Borrowed {
                source: Some(queue::Entry::new(source.clone())),
                addr: if len > 0 { addr - before } else { 0 },
                lents,
                spare,
            },
        };
        let (place, len) = (self.place_for_request(area.len), area.len);
        let mut entries = entries.into_iter();
        let result = self.add(place, area, 0, |inner, here| {
            let tables = inner.table.make_tables(here, len);
            tables.ok_or(Error::new(ENOMEM))?;
            let entries = entries.by_ref();
            entries.try_for_each(|(offset, entry)| inner.enter(here + offset, entry))
        });
        entries.for_each(|(_, entry)| release(entry));
        result.map(|(here, _)| here)
    }

    /// Adds an area with pages by offset. Pages for which there is no memory now are entered at
    /// the first touch.
    fn add_present(
        &self,
        at: Placement,
        area: Area<Backing>,
        entries: Vec<(usize, Entry)>,
    ) -> Result<(usize, Pieces)> {
        let mut entries = entries.into_iter();
        let result = self.add(at, area, 0, |inner, addr| {
            for (offset, entry) in entries.by_ref() {
                if inner.enter(addr + offset, entry).is_err() {
                    break;
                }
            }
            Ok(())
        });
        entries.for_each(|(_, entry)| release(entry));
        result
    }

    /// Entries with rights `prot` for another space's mapping of every page of the range; absent
    /// pages are brought in. `EPERM` when this space has fewer rights, except that plain memory
    /// gives any; `EIO` when a page is not available; `ENOMEM`.
    ///
    /// Present pages are lent in one walk along the tables, under one lock of the frames' counts:
    /// a daemon's windows have tens of thousands of pages.
    fn lend_all(&self, addr: usize, len: usize, prot: Prot) -> Result<(Vec<Entry>, Lents)> {
        let mut entries = list_for(len / PAGE_SIZE)?;
        let mut lents = Lents::default();
        entries.resize(len / PAGE_SIZE, Entry::EMPTY);
        {
            let mut inner = self.inner.lock();
            let Inner { areas, table, .. } = &mut *inner;
            if areas
                .overlapping(addr, len)
                .any(|(_, area)| !gives(area, prot))
            {
                return Err(Error::new(EPERM));
            }
            for (_, area) in areas.overlapping(addr, len) {
                area.backing.lend_to(&mut lents);
            }
            let mut counts = Counts::lock();
            for (base, area) in areas.overlapping(addr, len) {
                let (from, to) = (base.max(addr), (base + area.len).min(addr + len));
                let plain = is_plain(area);
                // A borrowed page may have fewer rights than its area: its owner is asked below.
                let is_borrowed = matches!(area.backing, Backing::Borrowed { .. });
                if !plain && area.prot.is_empty() {
                    continue;
                }
                table.update(from, to - from, |page, entry| {
                    let place = &mut entries[(page - addr) / PAGE_SIZE];
                    let mut flags = paging::user_flags(prot, entry.cache());
                    flags.set(COUNTED, entry.is_counted());
                    if plain {
                        if !counts.lend_exclusive(entry.phys()) {
                            return entry;
                        }
                        *place = Entry::new(entry.phys(), flags);
                        return lent(entry, area.prot);
                    }
                    if is_borrowed && !entry.is_writable() && prot.contains(Prot::WRITE) {
                        return entry;
                    }
                    if entry.is_counted() {
                        counts.retain(entry.phys());
                    }
                    *place = Entry::new(entry.phys(), flags);
                    entry
                });
            }
        }
        for index in 0..entries.len() {
            if entries[index] != Entry::EMPTY {
                continue;
            }
            let need = Prot::READ | prot & Prot::WRITE;
            match self.lend(addr + index * PAGE_SIZE, need, &mut lents, 0) {
                Ok(page) => entries[index] = shared_entry(page, prot),
                Err(error) => {
                    entries.into_iter().for_each(release);
                    let no_memory = error.errno == ENOMEM;
                    return Err(Error::new(if no_memory { ENOMEM } else { EIO }));
                }
            }
        }
        Ok((entries, lents))
    }

    /// Entries of the present pages of the range, with their offsets, for another space that
    /// borrows the range with rights `prot`, and room for [`EDGES`] more. `EFAULT`, `EPERM` as for
    /// [`AddrSpace::borrow`], `ENOMEM`.
    fn lend_present(
        &self,
        addr: usize,
        len: usize,
        prot: Prot,
    ) -> Result<(Vec<(usize, Entry)>, Lents)> {
        let (mut entries, mut others): (Vec<(usize, Entry)>, Vec<usize>);
        let mut lents = Lents::default();
        {
            let mut inner = self.inner.lock();
            let Inner { areas, table, .. } = &mut *inner;
            if !areas.covers(addr, len) {
                return Err(Error::new(EFAULT));
            }
            // Absent pages come when the borrower touches them. Without memory for them the lender
            // gets an error now; otherwise the borrower would be ended later, or would work on a
            // buffer for nothing.
            if len > FEW_PAGES * PAGE_SIZE {
                let mut present = 0;
                table.update(addr, len, |_, entry| {
                    present += 1;
                    entry
                });
                if !frame::has_room(len / PAGE_SIZE - present) {
                    return Err(Error::new(ENOMEM));
                }
            }
            if areas
                .overlapping(addr, len)
                .any(|(_, area)| !gives(area, prot))
            {
                return Err(Error::new(EPERM));
            }
            let end = addr + len.min(EAGER_PAGES * PAGE_SIZE);
            // Room for every page in either list: nothing can be allocated under the lock.
            entries = list_for((end - addr) / PAGE_SIZE + EDGES)?;
            others = list_for((end - addr) / PAGE_SIZE)?;
            let mut counts = Counts::lock();
            for (base, area) in areas.overlapping(addr, end - addr) {
                let (from, to) = (base.max(addr), (base + area.len).min(end));
                let plain = is_plain(area);
                table.update(from, to - from, |page, entry| {
                    if plain && counts.lend_exclusive(entry.phys()) {
                        let flags = paging::user_flags(prot, Cache::WriteBack) | COUNTED;
                        entries.push((page - addr, Entry::new(entry.phys(), flags)));
                        lent(entry, area.prot)
                    } else {
                        others.push(page);
                        entry
                    }
                });
            }
        }
        for page in others {
            match self.lend(page, Prot::READ, &mut lents, 0) {
                Ok(found) => {
                    let mut rights = prot;
                    rights.set(
                        Prot::WRITE,
                        prot.contains(Prot::WRITE) && found.is_writable(),
                    );
                    entries.push((page - addr, shared_entry(found, rights)));
                }
                // The page has contents, for which an empty page must not stand in.
                Err(error) if error.errno == ENOMEM => {
                    entries.drain(..).for_each(|(_, entry)| release(entry));
                    return Err(error);
                }
                // Another failure does no harm: the first touch tries again and reports it.
                Err(_) => {}
            }
        }
        Ok((entries, lents))
    }
}

/// Whether the pages are plain memory, which gives borrowers any right.
fn is_plain(area: &Area<Backing>) -> bool {
    matches!(area.backing, Backing::Private)
}

/// Whether another space can have the pages with rights `prot`.
fn gives(area: &Area<Backing>, prot: Prot) -> bool {
    is_plain(area) || area.prot.contains(prot)
}

/// The entry of a lent page for the owner of plain memory: a store no longer copies the page.
fn lent(entry: Entry, rights: Prot) -> Entry {
    let flags = paging::user_flags(rights, Cache::WriteBack) | COUNTED;
    Entry::new(entry.phys(), flags)
}

/// Enters consecutive frames; the entries take over the references.
fn enter_frames(
    inner: &mut Inner,
    addr: usize,
    frames: Vec<FrameRef>,
    flags: x86_64::structures::paging::PageTableFlags,
) -> Result<()> {
    for (i, frame) in frames.into_iter().enumerate() {
        inner.enter(addr + i * PAGE_SIZE, Entry::new(frame.into_phys(), flags))?;
    }
    Ok(())
}
