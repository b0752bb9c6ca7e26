//! Entries of page tables: an address and its flags in one word.

use kernel_core::area::{Cache, Prot};
use x86_64::structures::paging::PageTableFlags as Flags;

/// The entry holds a counted reference to its frame (a bit that the processor ignores).
pub const COUNTED: Flags = Flags::BIT_9;

/// The page is kept although the program has no right to it: the processor finds no page, so the
/// kernel's own copies cannot access it either (a bit that the processor ignores).
const KEPT: Flags = Flags::BIT_10;

const ADDRESS_MASK: u64 = 0x000F_FFFF_FFFF_F000;

/// One entry of a table of any level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// An entry that maps nothing.
    pub const EMPTY: Entry = Entry(0);

    /// An entry for a frame.
    pub fn new(phys: usize, flags: Flags) -> Self {
        Entry(phys as u64 & ADDRESS_MASK | flags.bits())
    }

    /// The entry without some flags.
    pub(super) fn without(self, flags: Flags) -> Self {
        Entry(self.0 & !flags.bits())
    }

    /// Physical address of the frame.
    pub fn phys(self) -> usize {
        (self.0 & ADDRESS_MASK) as usize
    }

    /// All flag bits.
    pub fn flags(self) -> Flags {
        Flags::from_bits_truncate(self.0)
    }

    /// Whether a frame is entered, even if the program cannot access it.
    pub fn is_present(self) -> bool {
        self.flags().intersects(Flags::PRESENT.union(KEPT))
    }

    /// Whether stores are allowed.
    pub fn is_writable(self) -> bool {
        self.flags().contains(Flags::WRITABLE)
    }

    /// Whether the entry holds a reference to its frame.
    pub fn is_counted(self) -> bool {
        self.flags().contains(COUNTED)
    }

    /// Whether this entry allows everything that the old one allows, so that a processor that has
    /// the old one in its translation cache does no harm: an access that needs a new right faults
    /// there, and the processor reads the entry again.
    pub(super) fn only_adds_to(self, old: Entry) -> bool {
        const RIGHTS: Flags = Flags::PRESENT
            .union(Flags::USER_ACCESSIBLE)
            .union(Flags::WRITABLE);
        let (new, old_flags) = (self.flags(), old.flags());
        self.phys() == old.phys()
            && self.cache() == old.cache()
            && new.contains(old_flags & RIGHTS)
            && old_flags.contains(new & Flags::NO_EXECUTE)
    }

    /// The cache attribute.
    pub fn cache(self) -> Cache {
        let flags = self.flags();
        if flags.contains(Flags::NO_CACHE) {
            Cache::Uncached
        } else if flags.contains(Flags::WRITE_THROUGH) {
            Cache::WriteCombining
        } else {
            Cache::WriteBack
        }
    }
}

/// Flags of a user page with these rights. A page without any right stays entered but
/// inaccessible, so that its contents are kept.
pub fn user_flags(prot: Prot, cache: Cache) -> Flags {
    let mut flags = if prot.is_empty() {
        KEPT
    } else {
        Flags::PRESENT | Flags::USER_ACCESSIBLE
    };
    flags.set(Flags::WRITABLE, prot.contains(Prot::WRITE));
    flags.set(Flags::NO_EXECUTE, !prot.contains(Prot::EXEC));
    flags | cache_flags(cache)
}

pub(super) fn cache_flags(cache: Cache) -> Flags {
    match cache {
        Cache::WriteBack => Flags::empty(),
        Cache::WriteCombining => Flags::WRITE_THROUGH,
        Cache::Uncached => Flags::NO_CACHE,
    }
}
