//! The system memory page table: where the card sees the host's memory.
//!
//! The table has 32 entries of 16 GiB each. At first entry *i* shows host memory from *i* × 16 GiB
//! on, which is all that most machines have. Memory above that takes entries that are not in use.
//! An entry in use does not change until the link is restarted, so a card address never changes
//! its meaning while the card may use it. Neighbours in the host's memory are neighbours for the
//! card, or cannot be reached, because runs of pages may cross the borders of entries.

use alloc::rc::Rc;
use core::cell::RefCell;

use hal::mmio::Mmio;

use super::registers::{ADDRESS, SMPT_ENTRIES, SMPT_SHIFT, SMPT_WINDOW, smpt, smpt_value};
use crate::hardware::Bus;

/// One entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The host memory that it shows, in units of 16 GiB.
    page: u64,
    /// Whether card addresses in it are in use.
    is_used: bool,
    /// Whether some of them stay in use after the link ends.
    is_kept: bool,
}

/// The table as the registers should have it.
pub struct Smpt {
    registers: Rc<dyn Mmio>,
    entries: RefCell<[Entry; SMPT_ENTRIES]>,
}

/// The entry in use that shows a page of 16 GiB. It stays a call: as a part of its callers its loop
/// would be unrolled for the whole table.
#[inline(never)]
fn used(entries: &[Entry], page: Option<u64>) -> Option<usize> {
    let mut entries = entries.iter();
    entries.position(|entry| entry.is_used && Some(entry.page) == page)
}

impl Smpt {
    /// A linear table. Writes nothing to the registers.
    pub fn new(registers: Rc<dyn Mmio>) -> Self {
        let entries = core::array::from_fn(|index| Entry {
            page: index as u64,
            is_used: false,
            is_kept: false,
        });
        Self {
            registers,
            entries: RefCell::new(entries),
        }
    }

    /// Writes all registers: a reset leaves nothing in them.
    pub fn write_all(&self) {
        for (index, entry) in self.entries.borrow().iter().enumerate() {
            self.registers.write32(smpt(index), smpt_value(entry.page));
        }
    }

    /// The entry that shows a page of 16 GiB; takes a free one if none does.
    fn entry_of(&self, page: u64) -> Option<usize> {
        let mut entries = self.entries.borrow_mut();
        let entries = entries.as_mut_slice();
        if let Some(index) = used(entries, Some(page)) {
            return Some(index);
        }
        let below = used(entries, page.checked_sub(1)).map(|index| index + 1);
        let above = used(entries, page.checked_add(1)).map(|index| index.checked_sub(1));
        let may_take = |index: &usize| {
            let is_free = entries.get(*index).is_some_and(|entry| !entry.is_used);
            let follows = below.is_none_or(|place| place == *index);
            is_free && follows && above.is_none_or(|place| place == Some(*index))
        };
        // Its place in the linear table, or else the last one that is free.
        let linear = usize::try_from(page).ok().filter(may_take);
        let index = linear.or_else(|| (0..entries.len()).rfind(may_take))?;
        let entry = &mut entries[index];
        entry.is_used = true;
        if entry.page != page {
            entry.page = page;
            self.registers.write32(smpt(index), smpt_value(page));
        }
        Some(index)
    }

    /// [`Bus::address`] for memory that the card sees as long as this driver lives.
    pub fn keep(&self, physical: u64) -> Option<u64> {
        let index = self.entry_of(physical >> SMPT_SHIFT)?;
        self.entries.borrow_mut()[index].is_kept = true;
        self.address(physical)
    }

    /// Forgets the addresses of the link that has ended, which the card no longer uses. The table
    /// becomes linear again, except for entries that are kept: left as it was, an entry could show
    /// a page that does not follow its neighbour's. Write the table before the card may use it.
    pub fn forget(&self) {
        for (index, entry) in self.entries.borrow_mut().iter_mut().enumerate() {
            entry.is_used = entry.is_kept;
            if !entry.is_kept {
                entry.page = index as u64;
            }
        }
    }
}

impl Bus for Smpt {
    fn address(&self, physical: u64) -> Option<u64> {
        let index = self.entry_of(physical >> SMPT_SHIFT)?;
        let within = physical & ((1 << SMPT_SHIFT) - 1);
        let address = SMPT_WINDOW + ((index as u64) << SMPT_SHIFT) + within;
        (address <= ADDRESS).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[derive(Default)]
    struct Written(RefCell<Vec<(usize, u32)>>);

    impl Mmio for Written {
        fn read32(&self, _: usize) -> u32 {
            0
        }
        fn write32(&self, offset: usize, value: u32) {
            self.0.borrow_mut().push((offset, value));
        }
    }

    const PAGE: u64 = 1 << SMPT_SHIFT;

    #[test]
    fn memory_below_512_gib_is_linear() {
        let written = Rc::new(Written::default());
        let table = Smpt::new(written.clone());
        table.write_all();
        assert_eq!(written.0.borrow().len(), 32);
        assert_eq!(written.0.borrow()[31], (smpt(31), 31 << 2));
        assert_eq!(table.address(0x1234), Some(0x80_0000_1234));
        assert_eq!(
            table.address(31 * PAGE + 5),
            Some(0x80_0000_0000 + 31 * PAGE + 5)
        );
        assert_eq!(written.0.borrow().len(), 32);
    }

    #[test]
    fn memory_above_takes_entries_that_are_not_used() {
        let written = Rc::new(Written::default());
        let table = Smpt::new(written.clone());
        for page in 0..30 {
            table.address(page * PAGE);
        }
        // The last free entry is taken first; its successor would have to follow it, and there is
        // none.
        let first = table.address(40 * PAGE).unwrap();
        assert_eq!(first, SMPT_WINDOW + 31 * PAGE);
        assert_eq!(table.address(41 * PAGE), None);
        // Before it there is room.
        assert_eq!(table.address(39 * PAGE), Some(SMPT_WINDOW + 30 * PAGE));
        assert_eq!(table.address(50 * PAGE), None);
        assert_eq!(
            *written.0.borrow(),
            [(smpt(31), 40 << 2), (smpt(30), 39 << 2)]
        );
        // Entries that are no longer in use can be taken.
        table.forget();
        assert_eq!(table.keep(50 * PAGE), Some(SMPT_WINDOW + 31 * PAGE));
        table.forget();
        assert_eq!(table.address(60 * PAGE), Some(SMPT_WINDOW + 30 * PAGE));
    }

    #[test]
    fn neighbours_are_neighbours_although_a_kept_entry_is_between() {
        let table = Smpt::new(Rc::new(Written::default()));
        for page in 20..32 {
            table.address(page * PAGE);
        }
        assert_eq!(table.keep(100 * PAGE), Some(SMPT_WINDOW + 19 * PAGE));
        table.forget();
        let moved = table.address(19 * PAGE);
        assert_eq!(moved, Some(SMPT_WINDOW + 31 * PAGE));
        // The entry of the next page is free, but not behind it.
        assert_eq!(table.address(20 * PAGE), None);
        assert_eq!(table.address(18 * PAGE), Some(SMPT_WINDOW + 30 * PAGE));
        assert_eq!(table.address(21 * PAGE), Some(SMPT_WINDOW + 21 * PAGE));
    }

    #[test]
    fn neighbours_are_neighbours_for_the_next_link_too() {
        let table = Smpt::new(Rc::new(Written::default()));
        table.address(40 * PAGE);
        assert_eq!(table.address(31 * PAGE), Some(SMPT_WINDOW + 30 * PAGE));
        table.forget();
        assert_eq!(table.address(30 * PAGE), Some(SMPT_WINDOW + 30 * PAGE));
        assert_eq!(table.address(31 * PAGE), Some(SMPT_WINDOW + 31 * PAGE));
    }
}
