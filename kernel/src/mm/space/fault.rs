//! Finds the page behind an address, for page faults, copies by the kernel, and lending to other
//! spaces.

use alloc::sync::Arc;
use core::ops::Range;

use ::syscall::error::{EFAULT, ENOMEM, Error, Result};
use x86_64::structures::paging::PageTableFlags;

use super::backing::SharedPages;
use super::{AddrSpace, Backing, Cache, Inner, Lents, Prot};
use crate::mm::frame::{self, FrameRef};
use crate::mm::paging::{self, COUNTED, Entry};
use crate::mm::{PAGE_SIZE, USER_END, daemons, phys};

/// Longest chain of address spaces that borrow a page from each other.
const MAX_DEPTH: usize = 8;

/// Bytes that one page table of the last level covers.
const TABLE_BYTES: usize = 512 * PAGE_SIZE;

/// A page found for an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    phys: usize,
    cache: Cache,
    /// Whether it is RAM with a reference count; otherwise device memory.
    counted: bool,
    /// Whether the area in which it was found allows the asker to store.
    writable: bool,
}

impl Page {
    /// Whether the area in which it was found allows the asker to store.
    pub(super) fn is_writable(self) -> bool {
        self.writable
    }
}

/// Who asks for a page.
pub(super) enum Asker<'a> {
    /// The program itself, with the rights of the area.
    Program,
    /// A mapping elsewhere that will enter the frame, too. The loans of this page are added to its
    /// loans. Plain memory gives any right.
    Borrower(&'a mut Lents),
}

/// Result of the part of a page search that runs under the lock.
enum Found {
    Page(Page),
    /// The page must come from `addr` of `source` (`None`: this space).
    Elsewhere {
        source: Option<Arc<AddrSpace>>,
        addr: usize,
        /// The area is the buffer of a client's request.
        is_request: bool,
    },
}

impl Inner {
    /// Makes the private page at `addr` present, and exclusively this space's if `own`.
    fn private_page(&mut self, addr: usize, prot: Prot, own: bool, lend: bool) -> Result<Entry> {
        let old = self.table.get(addr);
        let mut flags = paging::user_flags(prot, Cache::WriteBack) | COUNTED;
        if !old.is_present() {
            let frame = frame::alloc_zeroed().ok_or(Error::new(ENOMEM))?.into_phys();
            frame::set_shared(frame, lend);
            let entry = Entry::new(frame, flags);
            self.enter(addr, entry)?;
            return Ok(entry);
        }
        let mut frame = old.phys();
        let mut exclusive = frame::refs(frame) == 1 || frame::is_shared(frame);
        if own && !exclusive {
            let copy = frame::alloc_undefined()
                .ok_or(Error::new(ENOMEM))?
                .into_phys();
            phys::copy_frame(copy, frame);
            frame = copy;
            exclusive = true;
        }
        if lend {
            frame::set_shared(frame, true);
        }
        flags.set(
            PageTableFlags::WRITABLE,
            exclusive && prot.contains(Prot::WRITE),
        );
        let entry = Entry::new(frame, flags);
        if entry == old {
            return Ok(entry);
        }
        if frame == old.phys() {
            // Same frame, same reference: only the flags change.
            self.table.set(addr, entry).ok_or(Error::new(ENOMEM))?;
        } else {
            self.enter(addr, entry)?;
        }
        Ok(entry)
    }

    /// Makes the page at `addr` present, which is the page at `offset` of shared memory.
    fn shared_page(
        &mut self,
        addr: usize,
        prot: Prot,
        pages: &SharedPages,
        offset: usize,
    ) -> Result<Entry> {
        let flags = paging::user_flags(prot, Cache::WriteBack) | COUNTED;
        let old = self.table.get(addr);
        if old.is_present() {
            return Ok(Entry::new(old.phys(), flags));
        }
        let mut pages = pages.lock();
        let frame = match pages.get(&offset) {
            Some(frame) => frame.clone(),
            None => {
                let frame = frame::alloc_zeroed().ok_or(Error::new(ENOMEM))?;
                pages.insert(offset, frame.clone());
                frame
            }
        };
        let entry = Entry::new(frame.into_phys(), flags);
        self.enter(addr, entry)?;
        Ok(entry)
    }

    /// Makes the page at `addr` present, which is device memory: the area `area` begins at the
    /// physical address `phys`.
    fn device_page(
        &mut self,
        addr: usize,
        area: Range<usize>,
        phys: usize,
        flags: PageTableFlags,
    ) -> Result<Entry> {
        let entry = |at| Entry::new(phys + (at - area.start), flags);
        if self.table.get(addr) == entry(addr) {
            return Ok(entry(addr));
        }
        self.enter(addr, entry(addr))?;
        // One fault enters all pages of the same page table: entries cost nothing, and a program
        // that uses one page of a large device uses others.
        let first = (addr & !(TABLE_BYTES - 1)).max(area.start);
        let last = (addr | (TABLE_BYTES - 1)).min(area.end - 1);
        for at in (first..=last).step_by(PAGE_SIZE) {
            if !self.table.get(at).is_present() {
                self.enter(at, entry(at))?;
            }
        }
        Ok(entry(addr))
    }
}

impl AddrSpace {
    /// Physical address of the byte at `addr`; faults the page in for writing (futex key).
    pub fn phys_at(&self, addr: usize) -> Result<usize> {
        let page = self.page(addr, Prot::WRITE, Asker::Program, 0)?;
        Ok(page.phys + addr % PAGE_SIZE)
    }

    /// Physical address of the byte at `addr`, which the program must be able to read, if it is in
    /// RAM that is allocated and freed page by page.
    pub fn ram_at(&self, addr: usize) -> Result<Option<usize>> {
        let page = self.page(addr, Prot::READ, Asker::Program, 0)?;
        Ok(page.counted.then_some(page.phys + addr % PAGE_SIZE))
    }

    /// Handles a page fault of the program: makes the page present with the requested right.
    /// `EFAULT`: not mapped or not allowed; `ENOMEM`.
    pub(crate) fn fault(&self, addr: usize, need: Prot) -> Result<()> {
        self.page(addr, need, Asker::Program, 0).map(|_| ())
    }

    /// Copies bytes out of the space; `EFAULT` as in `mm::user`.
    pub fn read(&self, addr: usize, bytes: &mut [u8]) -> Result<()> {
        check_copy(addr, bytes.len())?;
        let mut done = 0;
        while done < bytes.len() {
            let at = addr + done;
            let count = (PAGE_SIZE - at % PAGE_SIZE).min(bytes.len() - done);
            let page = self.copy_page(at, Prot::READ)?;
            phys::read(page + at % PAGE_SIZE, &mut bytes[done..done + count]);
            done += count;
        }
        Ok(())
    }

    /// Copies bytes into the space; `EFAULT` as in `mm::user`.
    pub fn write(&self, addr: usize, bytes: &[u8]) -> Result<()> {
        check_copy(addr, bytes.len())?;
        let mut done = 0;
        while done < bytes.len() {
            let at = addr + done;
            let count = (PAGE_SIZE - at % PAGE_SIZE).min(bytes.len() - done);
            let page = self.copy_page(at, Prot::WRITE)?;
            phys::write(page + at % PAGE_SIZE, &bytes[done..done + count]);
            done += count;
        }
        Ok(())
    }

    /// The frame for a copy. Device memory above the kernel's physical map cannot be copied.
    fn copy_page(&self, addr: usize, need: Prot) -> Result<usize> {
        let page = self.page(addr, need, Asker::Program, 0)?;
        if phys::is_mapped(page.phys, PAGE_SIZE) {
            Ok(page.phys)
        } else {
            Err(Error::new(EFAULT))
        }
    }

    /// The page at `addr` for a mapping elsewhere: present, and not subject to copy on write.
    pub(super) fn lend(
        &self,
        addr: usize,
        need: Prot,
        lents: &mut Lents,
        depth: usize,
    ) -> Result<Page> {
        self.page(addr, need, Asker::Borrower(lents), depth)
    }

    /// Makes the page at `addr` present for an access and enters it.
    fn page(&self, addr: usize, need: Prot, mut asker: Asker<'_>, depth: usize) -> Result<Page> {
        if addr >= USER_END || depth > MAX_DEPTH {
            return Err(Error::new(EFAULT));
        }
        let addr = addr & !(PAGE_SIZE - 1);
        let found = self.page_here(addr, need, &mut asker)?;
        let (source, source_addr, is_request) = match found {
            Found::Page(page) => return Ok(page),
            Found::Elsewhere {
                source,
                addr,
                is_request,
            } => (source, addr, is_request),
        };
        let lender = source.as_deref().unwrap_or(self);
        let mut lents = Lents::default();
        let mut lend = || lender.lend(source_addr, need, &mut lents, depth + 1);
        let found = match is_request {
            true => daemons::for_client(lender.root, lend),
            false => lend(),
        };
        let page = match found {
            Err(why) if is_request => return self.substitute(addr, why),
            page => page?,
        };
        if let Asker::Borrower(all) = asker {
            all.add(&lents);
        }
        let mut inner = self.inner.lock();
        let Some(Backing::Borrowed { lents: known, .. }) = inner.areas.backing_mut(addr) else {
            return Err(Error::new(EFAULT));
        };
        // A loan takes some of the kernel's own memory, and a program can have very many.
        if known.lacks(&lents)
            && let Err(why) = frame::check_room()
        {
            drop(inner);
            return match is_request {
                true => self.substitute(addr, why),
                false => Err(why),
            };
        }
        known.add(&lents);
        let Some((_, area)) = inner.areas.find(addr) else {
            return Err(Error::new(EFAULT));
        };
        let mut prot = area.prot;
        prot.set(Prot::WRITE, prot.contains(Prot::WRITE) && page.writable);
        let entry = shared_entry(page, prot);
        inner.enter(addr, entry)?;
        drop(inner);
        Ok(Page {
            writable: prot.contains(Prot::WRITE),
            ..page
        })
    }

    /// The spare page in place of one of a client's buffer that cannot be had: a client must not
    /// be able to make its daemon fault. This takes no memory; the tables are there, too.
    fn substitute(&self, addr: usize, why: Error) -> Result<Page> {
        let mut inner = self.inner.lock();
        let prot = inner.areas.find(addr).ok_or(why)?.1.prot;
        let Some(Backing::Borrowed {
            spare: Some(spare), ..
        }) = inner.areas.backing_mut(addr)
        else {
            return Err(why);
        };
        // The client gets ENOMEM if memory was lacking for one of the pages, else EFAULT.
        let no_memory = Error::new(ENOMEM);
        let is_memory = why == no_memory || spare.why == Some(no_memory);
        spare.why = Some(if is_memory {
            no_memory
        } else {
            Error::new(EFAULT)
        });
        let flags = paging::user_flags(prot, Cache::WriteBack) | COUNTED;
        let phys = spare.frame.clone().into_phys();
        inner.enter(addr, Entry::new(phys, flags))?;
        Ok(Page {
            phys,
            cache: Cache::WriteBack,
            counted: true,
            writable: prot.contains(Prot::WRITE),
        })
    }

    /// The part of `page` that needs only this space.
    fn page_here(&self, addr: usize, need: Prot, asker: &mut Asker<'_>) -> Result<Found> {
        let mut inner = self.inner.lock();
        let (base, area) = inner.areas.find(addr).ok_or(Error::new(EFAULT))?;
        let prot = area.prot;
        let plain = matches!(area.backing, Backing::Private);
        // The processor cannot allow stores or fetches without loads.
        let readable = !prot.is_empty() || !need.contains(Prot::READ);
        let allowed = readable && prot.contains(need - Prot::READ);
        let lend = matches!(asker, Asker::Borrower(_));
        let exempt = plain && lend;
        if !allowed && !exempt {
            return Err(Error::new(EFAULT));
        }
        let borrowed = matches!(area.backing, Backing::Borrowed { .. });
        if let Asker::Borrower(lents) = asker {
            area.backing.lend_to(lents);
        }
        let entry = inner.table.get(addr);
        let entry = match &area.backing {
            Backing::Private => {
                let own = lend || need.contains(Prot::WRITE);
                inner.private_page(addr, prot, own, lend)?
            }
            Backing::Shared { pages, first } => {
                let (pages, offset) = (pages.clone(), first + (addr - base));
                inner.shared_page(addr, prot, &pages, offset)?
            }
            Backing::Physical { phys, cache } => {
                let (phys, flags) = (*phys, paging::user_flags(prot, *cache));
                let range = base..base + area.len;
                inner.device_page(addr, range, phys, flags)?
            }
            Backing::Contiguous | Backing::Scheme(_) | Backing::Frames => {
                // Entered when mapped.
                if !entry.is_present() {
                    return Err(Error::new(EFAULT));
                }
                reprotected_up(entry, prot)
            }
            Backing::Borrowed {
                source, addr: from, ..
            } => {
                if !entry.is_present() || need.contains(Prot::WRITE) && !entry.is_writable() {
                    let addr = from + (addr - base);
                    return Ok(Found::Elsewhere {
                        source: source.as_ref().map(|source| source.value().clone()),
                        addr,
                        is_request: area.pinned,
                    });
                }
                entry
            }
        };
        if entry != inner.table.get(addr) {
            // Only flags differ: the reference stays with the entry.
            inner.table.set(addr, entry).ok_or(Error::new(ENOMEM))?;
        }
        let writable = if borrowed {
            // The rights that its lender allowed. They may be fewer than the area's, and borrowing
            // from the borrower adds none.
            entry.is_writable()
        } else {
            plain || prot.contains(Prot::WRITE)
        };
        Ok(Found::Page(Page {
            phys: entry.phys(),
            cache: entry.cache(),
            counted: entry.is_counted(),
            writable,
        }))
    }
}

/// An entry for a page lent by another space, with a reference of its own.
pub(super) fn shared_entry(page: Page, prot: Prot) -> Entry {
    let mut flags = paging::user_flags(prot, page.cache);
    if page.counted {
        FrameRef::share(page.phys).into_phys();
        flags |= COUNTED;
    }
    Entry::new(page.phys, flags)
}

/// The entry with exactly the rights of `prot`.
fn reprotected_up(entry: Entry, prot: Prot) -> Entry {
    let mut flags = paging::user_flags(prot, entry.cache());
    flags.set(COUNTED, entry.is_counted());
    Entry::new(entry.phys(), flags)
}

/// Checks a range for a copy: wholly below the end of user space.
fn check_copy(addr: usize, len: usize) -> Result<()> {
    match addr.checked_add(len) {
        Some(end) if addr < USER_END && end < USER_END || len == 0 => Ok(()),
        _ => Err(Error::new(EFAULT)),
    }
}
