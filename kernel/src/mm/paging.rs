//! Page tables: entries by address, the kernel's own map, cache attributes.
//!
//! Before an entry is removed or loses a right, `tlb::exclude_others` takes the tables away from
//! all other processors until this one leaves the kernel. So only this processor's translation
//! cache can hold what is changed, and freed tables and frames are in use nowhere.

mod entry;

use core::arch::asm;

use kernel_core::area::Cache;
use kernel_core::memmap::MemoryMap;
use spin::Once;
use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::registers::model_specific::Msr;
use x86_64::structures::paging::{PageTableFlags as Flags, PhysFrame};

use entry::cache_flags;
pub use entry::{COUNTED, Entry, user_flags};

use super::frame::{self, Use};
use super::{PAGE_SIZE, daemons, phys, tlb};

/// The address at which kernel stacks are mapped: one top-level entry.
pub const STACKS: usize = 0xFFFF_FF00_0000_0000;

const ENTRIES: usize = 512;
const KERNEL_HALF: usize = ENTRIES / 2;
/// Flags of the kernel's data, which programs cannot access.
const KERNEL_DATA: Flags = Flags::PRESENT
    .union(Flags::WRITABLE)
    .union(Flags::NO_EXECUTE)
    .union(Flags::GLOBAL);
const LARGE: usize = 2 << 20;

/// Page attribute table: entry 1 (PWT) is write combining, entry 2 (PCD) UC-, 0 write back,
/// 3 uncacheable; the upper half repeats them.
const PAT: u64 = 0x0007_0106_0007_0106;
const IA32_PAT: u32 = 0x277;

/// The top-level table from which all kernel halves are copied. It is loaded while no program
/// runs.
static KERNEL_ROOT: Once<usize> = Once::new();

unsafe extern "C" {
    static kernel_start: u8;
    static kernel_text_end: u8;
    static kernel_rodata_end: u8;
    static kernel_end: u8;
    static boot_stack_guard: u8;
    static fault_stack_guard: u8;
    static nmi_stack_guard: u8;
}

/// The pages of the image below its fixed stacks, in ascending order: never mapped.
fn guard_pages() -> [usize; 3] {
    [
        &raw const boot_stack_guard as usize,
        &raw const fault_stack_guard as usize,
        &raw const nmi_stack_guard as usize,
    ]
}

/// Whether an address lies in a page below one of the image's fixed stacks.
pub(super) fn is_guard(addr: usize) -> bool {
    guard_pages().contains(&(addr & !(PAGE_SIZE - 1)))
}

/// A kernel address in a form that programs may see: the place within the image, which programs
/// have too, or only the region. Any other number is shown as it is. Addresses of the kernel's
/// data would help an attack.
pub struct MaskedAddress(pub usize);

impl core::fmt::Display for MaskedAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let image = KERNEL_OFFSET..&raw const kernel_end as usize;
        match self.0 {
            address if image.contains(&address) => {
                write!(f, "kernel+{:x}", address - KERNEL_OFFSET)
            }
            address if (STACKS..STACKS + (1 << 39)).contains(&address) => {
                f.write_str("(kernel stack)")
            }
            // Small negative numbers are not addresses.
            address if (phys::BASE..KERNEL_OFFSET).contains(&address) => {
                f.write_str("(kernel memory)")
            }
            other => write!(f, "{other:016x}"),
        }
    }
}

/// Physical range of the kernel image: first byte and length.
pub fn kernel_range() -> (u64, u64) {
    let start = &raw const kernel_start as u64;
    (
        start - KERNEL_OFFSET as u64,
        &raw const kernel_end as u64 - start,
    )
}

const KERNEL_OFFSET: usize = 0xFFFF_FFFF_8000_0000;

/// A table page, accessed through the physical map.
fn table(phys: usize) -> *mut Entry {
    phys::pointer::<[Entry; ENTRIES]>(phys).cast()
}

fn read(table_phys: usize, index: usize) -> Entry {
    // SAFETY: `index` < 512 by construction (`index_of`, loops); table pages belong to us.
    unsafe { table(table_phys).add(index).read_volatile() }
}

/// A last-level entry without the bits that the processor sets by itself, which are not used here.
fn leaf(table_phys: usize, index: usize) -> Entry {
    read(table_phys, index).without(Flags::ACCESSED | Flags::DIRTY)
}

fn write(table_phys: usize, index: usize, entry: Entry) {
    // SAFETY: as in `read`.
    unsafe { table(table_phys).add(index).write_volatile(entry) };
}

/// Index into the table of `level` (3 = top).
fn index_of(addr: usize, level: usize) -> usize {
    (addr >> (12 + 9 * level)) & (ENTRIES - 1)
}

/// The page tables of one address space: the lower half is its own, the upper the kernel's.
#[derive(Debug)]
pub struct PageTable {
    root: usize,
    /// The last-level table that was used last, and the address at which its entries begin: pages
    /// are entered in runs.
    recent: Option<(usize, usize)>,
}

impl PageTable {
    /// Tables with an empty lower half.
    pub fn new() -> Option<PageTable> {
        let root = frame::alloc_raw_checked(Use::Tables)?;
        let kernel = *KERNEL_ROOT.get()?;
        phys::zero_frame(root);
        for i in KERNEL_HALF..ENTRIES {
            write(root, i, read(kernel, i));
        }
        Some(PageTable { root, recent: None })
    }

    /// Physical address for CR3.
    pub fn root(&self) -> usize {
        self.root
    }

    /// The last-level entry of a page; `EMPTY` when there is none.
    pub fn get(&self, addr: usize) -> Entry {
        let mut at = self.root;
        for level in (1..4).rev() {
            let entry = read(at, index_of(addr, level));
            if !entry.is_present() {
                return Entry::EMPTY;
            }
            at = entry.phys();
        }
        leaf(at, index_of(addr, 0))
    }

    /// Sets the last-level entry of a user page and returns the old one; `None` when a table page
    /// is needed and there is no memory for it. Flushes this processor's cached translation.
    pub fn set(&mut self, addr: usize, entry: Entry) -> Option<Entry> {
        let at = self.last_table(addr)?;
        let index = index_of(addr, 0);
        let old = leaf(at, index);
        if old.is_present() {
            if !entry.only_adds_to(old) {
                tlb::exclude_others(self.root);
            }
            write(at, index, entry);
            self.flush(addr);
        } else {
            write(at, index, entry);
        }
        Some(old)
    }

    /// The most tables that so many pages in a range of this length can need.
    pub fn most_tables(len: usize, pages: usize) -> usize {
        // At each level the range may begin and end in the middle of a table.
        let of_range: usize = (1..4).map(|level| (len >> (12 + 9 * level)) + 2).sum();
        of_range.min(3 * pages)
    }

    /// Makes the tables of a range, so that [`set`](Self::set) takes no memory there until a range
    /// with a page of it is cleared; `None` when there is no memory for them.
    pub fn make_tables(&mut self, addr: usize, len: usize) -> Option<()> {
        let mut tables = (addr & !(LARGE - 1)..addr + len).step_by(LARGE);
        tables.try_for_each(|start| self.last_table(start).map(|_| ()))
    }

    /// The last-level table of a user page, made if it is missing.
    fn last_table(&mut self, addr: usize) -> Option<usize> {
        let start = addr & !(LARGE - 1);
        if let Some((base, table)) = self.recent
            && base == start
        {
            return Some(table);
        }
        let mut at = self.root;
        for level in (1..4).rev() {
            let index = index_of(addr, level);
            at = next_table(at, index, Flags::USER_ACCESSIBLE, alloc_table)?;
        }
        self.recent = Some((start, at));
        Some(at)
    }

    /// Calls `visit` with the address and entry of every entered page in the range, in ascending
    /// order; its result becomes the entry. Skips empty tables, so sparse ranges are cheap.
    pub fn update(
        &mut self,
        addr: usize,
        len: usize,
        mut visit: impl FnMut(usize, Entry) -> Entry,
    ) {
        let end = addr + len;
        let mut page = addr;
        let mut changed = 0usize;
        while page < end {
            let mut at = self.root;
            let mut skip = 0;
            for level in (1..4).rev() {
                let entry = read(at, index_of(page, level));
                if !entry.is_present() {
                    skip = 1usize << (12 + 9 * level);
                    break;
                }
                at = entry.phys();
            }
            if skip != 0 {
                page = (page & !(skip - 1)) + skip;
                continue;
            }
            loop {
                let index = index_of(page, 0);
                let old = leaf(at, index);
                if old.is_present() {
                    let new = visit(page, old);
                    if new != old {
                        if !new.only_adds_to(old) {
                            tlb::exclude_others(self.root);
                        }
                        write(at, index, new);
                        changed += 1;
                        if changed <= FLUSH_ALL {
                            self.flush(page);
                        }
                    }
                }
                page += PAGE_SIZE;
                if page >= end || index == ENTRIES - 1 {
                    break;
                }
            }
        }
        if changed > FLUSH_ALL && self.is_loaded() {
            load(self.root);
        }
    }

    /// Empties the range: calls `visit` with every entered page, and frees the tables that only
    /// served the range.
    pub fn clear(&mut self, addr: usize, len: usize, mut visit: impl FnMut(Entry)) {
        tlb::exclude_others(self.root);
        let mut freed_tables = false;
        let mut pages = 0;
        self.recent = None;
        clear_level(
            self.root,
            3,
            addr,
            addr + len,
            &mut freed_tables,
            &mut |page, entry| {
                visit(entry);
                pages += 1;
                if pages <= FLUSH_ALL {
                    self.flush(page);
                }
            },
        );
        // A freed table may be cached although none of its pages was entered.
        if (freed_tables || pages > FLUSH_ALL) && self.is_loaded() {
            load(self.root);
        }
    }

    fn is_loaded(&self) -> bool {
        Cr3::read().0.start_address().as_u64() as usize == self.root
    }

    fn flush(&self, addr: usize) {
        if self.is_loaded() {
            x86_64::instructions::tlb::flush(x86_64::VirtAddr::new_truncate(addr as u64));
        }
    }
}

/// The part of `PageTable::clear` below one table of `level`.
fn clear_level(
    at: usize,
    level: usize,
    start: usize,
    end: usize,
    freed_tables: &mut bool,
    visit: &mut impl FnMut(usize, Entry),
) {
    let span = 1usize << (12 + 9 * level);
    let mut here = start;
    while here < end {
        let index = index_of(here, level);
        let entry = leaf(at, index);
        let base = here & !(span - 1);
        let next = base + span;
        if entry.is_present() && level == 0 {
            write(at, index, Entry::EMPTY);
            visit(here, entry);
        } else if entry.is_present() {
            let table = entry.phys();
            clear_level(table, level - 1, here, end.min(next), freed_tables, visit);
            if base >= start && next <= end {
                write(at, index, Entry::EMPTY);
                frame::free_raw(table, 1, Use::Tables);
                *freed_tables = true;
            }
        }
        here = next;
    }
}

/// Beyond this many changed pages the whole translation cache is flushed instead.
const FLUSH_ALL: usize = 64;

impl Drop for PageTable {
    /// Frees the table pages. Their owner (`AddrSpace`) frees the mapped frames.
    fn drop(&mut self) {
        fn free_below(at: usize, level: usize, entries: core::ops::Range<usize>) {
            for i in entries {
                let entry = read(at, i);
                if level > 0 && entry.is_present() {
                    free_below(entry.phys(), level - 1, 0..ENTRIES);
                    frame::free_raw(entry.phys(), 1, Use::Tables);
                }
            }
        }
        // The idle loop keeps the tables of the program that ran last.
        if self.is_loaded() {
            activate(None);
        }
        daemons::forget(self.root);
        tlb::exclude_others(self.root);
        free_below(self.root, 3, 0..KERNEL_HALF);
        // Otherwise a test that walks all tables would mistake a page of RAM with the kernel's
        // entries for tables in use.
        phys::zero_frame(self.root);
        frame::free_raw(self.root, 1, Use::Tables);
    }
}

fn alloc_table() -> Option<usize> {
    frame::alloc_raw_checked(Use::Tables)
}

/// The table to which an entry leads; makes it if it is missing.
fn next_table(
    at: usize,
    index: usize,
    flags: Flags,
    alloc: impl FnOnce() -> Option<usize>,
) -> Option<usize> {
    let entry = read(at, index);
    if entry.is_present() {
        return Some(entry.phys());
    }
    let new = alloc()?;
    phys::zero_frame(new);
    write(
        at,
        index,
        Entry::new(new, Flags::PRESENT | Flags::WRITABLE | flags),
    );
    Some(new)
}

/// Loads page tables on this processor.
fn load(root: usize) {
    let frame = PhysFrame::containing_address(PhysAddr::new(root as u64));
    // SAFETY: every root holds the kernel half, so kernel code, data and stacks stay mapped.
    unsafe { Cr3::write(frame, Cr3Flags::empty()) };
    tlb::set_root(root);
}

/// The kernel's own tables, for a processor that is starting.
pub fn kernel_root() -> Option<usize> {
    KERNEL_ROOT.get().copied()
}

/// Forgets all of this processor's translations, including those of the kernel's pages.
pub fn flush_kernel() {
    use x86_64::registers::control::{Cr4, Cr4Flags};
    // SAFETY: only the caching of translations changes, and that for a moment.
    unsafe {
        Cr4::update(|cr4| cr4.remove(Cr4Flags::PAGE_GLOBAL));
        Cr4::update(|cr4| cr4.insert(Cr4Flags::PAGE_GLOBAL));
    }
}

/// Switches to a program's tables, or with `None` to the kernel's own.
pub fn activate(root: Option<usize>) {
    let root = root
        .or(KERNEL_ROOT.get().copied())
        .expect("kernel tables exist");
    if Cr3::read().0.start_address().as_u64() as usize != root {
        load(root);
    }
}

/// Maps `[virt, virt + len)` to `phys` in tables under construction, with large pages where the
/// alignment allows.
fn map_kernel(
    root: usize,
    virt: usize,
    phys: usize,
    len: usize,
    flags: Flags,
    alloc: &mut impl FnMut() -> Option<usize>,
) {
    let mut done = 0;
    while done < len {
        let (v, p) = (virt + done, phys + done);
        let large = v % LARGE == 0 && p % LARGE == 0 && len - done >= LARGE;
        let mut at = root;
        for level in (if large { 2 } else { 1 }..4).rev() {
            at = next_table(at, index_of(v, level), Flags::empty(), &mut *alloc)
                .expect("memory for the kernel's page tables");
        }
        if large {
            write(at, index_of(v, 1), Entry::new(p, flags | Flags::HUGE_PAGE));
            done += LARGE;
        } else {
            write(at, index_of(v, 0), Entry::new(p, flags));
            done += PAGE_SIZE;
        }
    }
}

/// Builds the kernel's own page tables and loads them: the image with one protection per section,
/// the physical map, room for stacks, and no identity map. No kernel page is both writable and
/// executable, and text and constants are read-only in the physical map, too.
///
/// # Safety
/// Called once, on the boot page tables, with a map whose free areas nobody uses.
pub(super) unsafe fn init(map: &mut MemoryMap) {
    const LOW: usize = 1 << 32;
    // The tables must be reachable through the boot tables, hence below 4 GiB.
    let ram_end = map.ram_end(u64::MAX) as usize;
    let low_ram_end = (map.ram_end(LOW as u64) as usize).next_multiple_of(PAGE_SIZE);
    let mut alloc = || map.take(PAGE_SIZE as u64, LOW as u64).map(|a| a as usize);
    let root = alloc().expect("a page for the kernel's page tables");
    phys::zero_frame(root);

    let data = KERNEL_DATA;
    let constant = Flags::PRESENT | Flags::NO_EXECUTE | Flags::GLOBAL;
    let text = Flags::PRESENT | Flags::GLOBAL;
    let start = &raw const kernel_start as usize;
    let text_end = &raw const kernel_text_end as usize;
    let rodata_end = &raw const kernel_rodata_end as usize;
    let end = &raw const kernel_end as usize;
    let mut section = |from: usize, to: usize, flags| {
        map_kernel(
            root,
            from,
            from - KERNEL_OFFSET,
            to - from,
            flags,
            &mut alloc,
        );
    };
    section(start, text_end, text);
    section(text_end, rodata_end, constant);
    let mut from = rodata_end;
    for guard in guard_pages() {
        section(from, guard, data);
        from = guard + PAGE_SIZE;
    }
    section(from, end, data);

    let mut physmap = |from: usize, to: usize, flags| {
        map_kernel(root, phys::BASE + from, from, to - from, flags, &mut alloc);
    };
    let limit = ram_end.next_multiple_of(LARGE).max(LOW);
    physmap(0, start - KERNEL_OFFSET, data);
    physmap(start - KERNEL_OFFSET, rodata_end - KERNEL_OFFSET, constant);
    physmap(rodata_end - KERNEL_OFFSET, low_ram_end, data);
    physmap(low_ram_end, LOW, data | Flags::NO_CACHE);
    physmap(LOW, limit, data);

    // The entry for stacks must exist before the first copy of the kernel half is made.
    next_table(root, index_of(STACKS, 3), Flags::empty(), &mut alloc)
        .expect("a page for the kernel's page tables");

    KERNEL_ROOT.call_once(|| root);
    load(root);
    phys::set_limit(limit);
}

/// The last-level table for an address of the kernel's half; makes it if it is missing.
fn kernel_table(virt: usize) -> Option<usize> {
    let next = |at, level| next_table(at, index_of(virt, level), Flags::empty(), alloc_table);
    (1..4).rev().try_fold(*KERNEL_ROOT.get()?, next)
}

/// Maps a page of a device at a kernel address; `None` without memory.
pub(super) fn map_device_page(virt: usize, phys: usize, cache: Cache) -> Option<()> {
    let entry = Entry::new(phys, KERNEL_DATA | cache_flags(cache));
    write(kernel_table(virt)?, index_of(virt, 0), entry);
    Some(())
}

/// Maps a fresh frame at a kernel address of the stack region, unless one is mapped there; `None`
/// without memory.
pub(super) fn map_stack_page(virt: usize) -> Option<()> {
    let at = kernel_table(virt)?;
    if !read(at, index_of(virt, 0)).is_present() {
        let frame = frame::alloc_raw_checked(Use::Stacks)?;
        write(at, index_of(virt, 0), Entry::new(frame, KERNEL_DATA));
    }
    Some(())
}

/// Undoes `map_stack_page`; nothing happens when no frame is there.
pub(super) fn unmap_stack_page(virt: usize) {
    // A table made here stays, for the next stack.
    let Some(at) = kernel_table(virt) else {
        return;
    };
    let entry = read(at, index_of(virt, 0));
    if entry.is_present() {
        write(at, index_of(virt, 0), Entry::EMPTY);
        x86_64::instructions::tlb::flush(x86_64::VirtAddr::new_truncate(virt as u64));
        // The page is no longer in use, so the others need not flush before the frame is freed.
        tlb::flush_kernel_elsewhere();
        frame::free_raw(entry.phys(), 1, Use::Stacks);
    }
}

/// Sets this processor's memory types and the guards of user pages: supervisor code does not run
/// user pages, and accesses them only in the copies of `user`, which must be told about the guard
/// ([`user::set_guarded`](super::user::set_guarded)).
pub fn init_cpu(smep: bool, smap: bool) {
    use x86_64::registers::control::{Cr4, Cr4Flags};
    // SAFETY: sets the memory types the flags above mean; this processor has used no page with
    // them yet.
    unsafe { Msr::new(IA32_PAT).write(PAT) };
    // SAFETY: the bits are set only when the processor has them; the kernel follows the rule.
    unsafe {
        Cr4::update(|cr4| {
            cr4.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, smep);
            cr4.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, smap);
        });
    }
    if smap {
        // SAFETY: clears AC, so that the guard is active.
        unsafe { asm!("clac", options(nomem, nostack)) };
    }
}
