//! Moves, grows and shrinks mappings inside one address space (MREMAP).

use ::syscall::error::{EBUSY, EPERM, Error, Result};
use kernel_core::area::{Area, Placement, Prot};

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
        let (new, mut removed) = inner.place(at, new_size)?;
        if kept < old_size {
            removed.extend(inner.take(old + kept, old_size - kept));
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
                // Without memory for page tables, the pages that are not yet moved are lost.
                defer_unmapped(pieces);
                Err(error)
            }
        }
    }
}
