//! Copy-on-write clones of address spaces.

use alloc::sync::Arc;

use ::syscall::error::{ENOMEM, Error, Result};
use kernel_core::area::Area;
use x86_64::structures::paging::PageTableFlags;

use super::{AddrSpace, Backing, Inner};
use crate::mm::frame::{self, FrameRef};
use crate::mm::paging::{Entry, PageTable};
use crate::mm::phys;

impl AddrSpace {
    /// A copy of the space whose private memory is copied at the first write of either side.
    /// Frames for which `stays` is true are known by their address: they are copied now and remain
    /// this space's. Contiguous, scheme and borrowed mappings are not inherited.
    pub fn clone_cow(&self, stays: impl Fn(usize) -> bool) -> Result<Arc<AddrSpace>> {
        let copy = Self::empty()?;
        {
            let mut inner = self.inner.lock();
            let Inner { areas, table, min } = &mut *inner;
            let mut target = copy.inner.lock();
            target.min = *min;
            for (base, area) in areas.iter() {
                let backing = match &area.backing {
                    Backing::Private => Backing::Private,
                    Backing::Shared { pages, first } => Backing::Shared {
                        pages: pages.clone(),
                        first: *first,
                    },
                    Backing::Physical { phys, cache } => Backing::Physical {
                        phys: *phys,
                        cache: *cache,
                    },
                    _ => continue,
                };
                // Each area takes some of the kernel's own memory, and there may be many.
                frame::check_room()?;
                let private = matches!(backing, Backing::Private);
                let Area {
                    len,
                    prot,
                    max_prot,
                    ..
                } = *area;
                target.areas.insert(
                    base,
                    Area {
                        len,
                        prot,
                        max_prot,
                        pinned: false,
                        backing,
                    },
                );
                if private {
                    clone_private(table, &mut target, base, len, &stays)?;
                }
            }
        }
        Ok(Arc::new(copy))
    }
}

/// Shares the private pages of a range with a clone. Copies pages that others are meant to see or
/// that stay.
fn clone_private(
    table: &mut PageTable,
    target: &mut Inner,
    base: usize,
    len: usize,
    stays: &impl Fn(usize) -> bool,
) -> Result<()> {
    let mut failed = None;
    table.update(base, len, |addr, entry| {
        if failed.is_some() {
            return entry;
        }
        let phys = entry.phys();
        let is_lent = frame::is_shared(phys) && frame::refs(phys) > 1;
        let mine = read_only(entry);
        if is_lent || stays(phys) {
            match frame::alloc_undefined() {
                Some(copy) => {
                    phys::copy_frame(copy.phys(), phys);
                    let theirs = Entry::new(copy.into_phys(), entry.flags());
                    failed = target.enter(addr, theirs).err();
                }
                None => failed = Some(Error::new(ENOMEM)),
            }
            return entry;
        }
        frame::set_shared(phys, false);
        FrameRef::share(phys).into_phys();
        failed = target.enter(addr, mine).err();
        mine
    });
    failed.map_or(Ok(()), Err)
}

fn read_only(entry: Entry) -> Entry {
    let flags = entry.flags() - PageTableFlags::WRITABLE;
    Entry::new(entry.phys(), flags)
}
