//! Moves mappings: inside one address space (MREMAP), where they also grow and shrink, and from one
//! to another.

use alloc::sync::Arc;

use ::syscall::error::{EBUSY, EFAULT, EPERM, Error, Result};
use kernel_core::area::{Area, Placement, Prot};
use kernel_core::queue;

use super::{
    AddrSpace, Backing, Pieces, check_range, defer_unmapped, release, reprotected, unmapped,
};
use crate::mm::paging::Entry;

impl AddrSpace {
    /// Moves the mappings in `[old, old+old_size)` to another place with rights `prot`. The part
    /// beyond `new_size` is unmapped; room that nothing fills becomes plain memory. `EBUSY` for
    /// pinned mappings and when the ranges overlap, `EPERM` when a mapping may not have the
    /// rights.
    pub fn remap(
        &self,
        old: usize,
        old_size: usize,
        at: Placement,
        new_size: usize,
        prot: Prot,
    ) -> Result<(usize, Pieces)> {
        check_range(old, old_size)?;
        check_range(0, new_size)?;
        if let Placement::Fixed(new) | Placement::FixedNoReplace(new) = at {
            check_range(new, new_size)?;
            if new < old + old_size && old < new + new_size {
                return Err(Error::new(EBUSY));
            }
        }
        let mut inner = self.inner.lock();
        if inner.has_pinned(old, old_size) {
            return Err(Error::new(EBUSY));
        }
        let forbidden =
            |area: &Area<Backing>| !area.backing.is_own() && !area.max_prot.contains(prot);
        if inner
            .areas
            .overlapping(old, old_size)
            .any(|(_, area)| forbidden(area))
        {
            return Err(Error::new(EPERM));
        }
        let kept = old_size.min(new_size);
        // Holes between the mappings become areas.
        let moved = inner.areas.overlapping(old, kept).count();
        inner.check_more_areas(moved)?;
        let mut entries = inner.room_for_entries(old, kept)?;
        // After this nothing fails: pages that are taken out but not entered would be lost.
        inner.check_tables(kept, entries.capacity(), moved)?;
        let (new, mut removed) = inner.place(at, new_size, 0)?;
        if kept < old_size {
            inner.take(old + kept, old_size - kept, &mut removed);
        }
        let areas = inner.areas.remove(old, kept);
        inner.table.update(old, kept, |page, entry| {
            entries.push((page, entry));
            Entry::EMPTY
        });
        // The new place is plain memory first; the moved mappings replace their part of it.
        let backing = Backing::Private;
        let plain = Area {
            len: new_size,
            prot,
            max_prot: Prot::all(),
            pinned: false,
            backing,
        };
        inner.areas.insert(new, plain);
        for (base, mut area) in areas {
            area.prot = prot;
            let target = new + (base - old);
            drop(inner.areas.remove(target, area.len));
            inner.areas.insert(target, area);
        }
        let mut failed = None;
        for (page, entry) in entries {
            match failed {
                None => {
                    failed = inner
                        .enter(new + (page - old), reprotected(entry, prot))
                        .err()
                }
                Some(_) => release(entry),
            }
        }
        drop(inner);
        let pieces = unmapped(removed);
        match failed {
            None => Ok((new, pieces)),
            Some(error) => {
                defer_unmapped(pieces);
                Err(error)
            }
        }
    }

    /// Moves the mappings of `source` in `[addr, addr+len)` here (`OP_TRANSFER`). `EFAULT` for a
    /// hole, `EBUSY` for pinned ones.
    pub fn transfer(
        &self,
        source: &Arc<AddrSpace>,
        addr: usize,
        len: usize,
        at: Placement,
        prot: Prot,
    ) -> Result<(usize, Pieces)> {
        check_range(addr, len)?;
        if core::ptr::eq(Arc::as_ptr(source), self) {
            return Err(Error::new(EBUSY));
        }
        let (moved, mut entries) = {
            let mut inner = source.inner.lock();
            inner.check_areas()?;
            if !inner.areas.covers(addr, len) {
                return Err(Error::new(EFAULT));
            }
            if inner.has_pinned(addr, len) {
                return Err(Error::new(EBUSY));
            }
            let moved = inner.areas.overlapping(addr, len).count();
            (moved, inner.room_for_entries(addr, len)?)
        };
        let (here, mut replaced) = {
            let mut inner = self.inner.lock();
            inner.check_more_areas(moved)?;
            // After this nothing fails: the pages would be lost to both spaces.
            inner.check_tables(len, entries.capacity(), moved)?;
            inner.place(at, len, 0)?
        };
        let areas = {
            let mut inner = source.inner.lock();
            let areas = inner.areas.remove(addr, len);
            inner.table.update(addr, len, |page, entry| {
                entries.push((page, entry));
                Entry::EMPTY
            });
            areas
        };
        let mut inner = self.inner.lock();
        for (base, mut area) in areas {
            if let Backing::Borrowed { source: lender, .. } = &mut area.backing {
                let from_here = lender
                    .as_ref()
                    .is_some_and(|l| core::ptr::eq(Arc::as_ptr(l.value()), self));
                *lender = match lender.take() {
                    // Borrowed from the space that it leaves now, or from the one that it enters.
                    None => Some(queue::Entry::new(source.clone())),
                    Some(_) if from_here => None,
                    other => other,
                };
            }
            area.prot = if area.backing.is_own() {
                prot
            } else {
                prot & area.max_prot
            };
            inner.areas.insert(here + (base - addr), area);
        }
        let mut failed = None;
        for (page, entry) in entries {
            let target = here + (page - addr);
            let area_prot = inner
                .areas
                .find(target)
                .map_or(Prot::empty(), |(_, a)| a.prot);
            if failed.is_none() {
                failed = inner.enter(target, reprotected(entry, area_prot)).err();
            } else {
                release(entry);
            }
        }
        if failed.is_some() {
            inner.take(here, len, &mut replaced);
        }
        drop(inner);
        let pieces = unmapped(replaced);
        match failed {
            None => Ok((here, pieces)),
            Some(error) => {
                defer_unmapped(pieces);
                Err(error)
            }
        }
    }
}
