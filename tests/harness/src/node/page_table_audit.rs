//! Walks all page tables of a node from outside, in its RAM: no page may be both written and
//! executed, no page of the kernel be open to programs, no stack of the kernel lack its guard.
//!
//! The tables are found by their kernel half, which is the same in all of them; nothing in the
//! guest helps. The node must stand still meanwhile. RAM is one piece from physical 0 on, as in
//! QEMU's machines of less than 2 GiB.

use crate::base::report::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGE: u64 = kernel_core::area::PAGE as u64;
const ENTRIES: usize = 512;
const HALF: usize = ENTRIES / 2;
/// Top-level entries of the kernel: its map of physical memory, its stacks, its image.
const KERNEL_ENTRIES: [usize; 3] = [256, 510, 511];
const STACKS: u64 = 0xFFFF_FF00_0000_0000;
const IMAGE: u64 = 0xFFFF_FFFF_8000_0000;
/// Where the image begins, in its own addresses and in physical memory.
const IMAGE_START: u64 = 0x10_0000;
/// Pages of a kernel stack and its guard.
const STACK_SLOT: u64 = 9;
/// Stacks inside the image, each above a page that is not mapped.
const FIXED_STACKS: usize = 3;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

/// RAM beyond this is not one piece any more.
const MOST: u64 = 2 << 30;

type Table = [u64; ENTRIES];

/// The counts of what was checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Audit {
    /// Address spaces, each with the tables of a program.
    pub spaces: usize,
    /// Pages of programs, counted in each space.
    pub user_pages: u64,
    /// Pages of the kernel; a large one counts as the small ones it covers.
    pub kernel_pages: u64,
}

/// A page as the tables of one space show it.
struct Page {
    address: u64,
    physical: u64,
    bytes: u64,
    writable: bool,
    executable: bool,
    user: bool,
}

/// Looks through the RAM of a node.
///
/// # Errors
/// The first few pages that break a rule, or that there are no tables at all.
pub fn audit(ram: &File) -> Result<Audit> {
    let bytes = ram
        .metadata()
        .context(|| "look at a node's RAM".to_string())?
        .len();
    if bytes > MOST {
        return Err(format!("RAM of {bytes} bytes is not in one piece: give the node less").into());
    }
    let memory = Memory { ram, bytes };
    let roots = memory.roots()?;
    let Some(&first) = roots.first() else {
        return Err("no page tables found in the node's RAM: did the kernel move?".into());
    };
    let mut found = Findings::default();
    let kernel = memory.pages(first, HALF..ENTRIES)?;
    check_kernel(&kernel, &mut found);
    let text: BTreeSet<u64> = kernel
        .iter()
        .filter(|page| page.executable)
        .flat_map(|page| (page.physical..page.physical + page.bytes).step_by(PAGE as usize))
        .collect();
    let mut user_pages = 0;
    for &root in &roots {
        for page in memory.pages(root, 0..HALF)? {
            user_pages += 1;
            found.check(page.writable && page.executable, || {
                format!(
                    "{:#x} of the space at {root:#x} is written and executed",
                    page.address
                )
            });
            found.check(page.writable && text.contains(&page.physical), || {
                format!(
                    "{:#x} of the space at {root:#x} is kernel code",
                    page.address
                )
            });
        }
    }
    found.conclude()?;
    Ok(Audit {
        // The kernel's own tables have the same shape and no program.
        spaces: roots.len() - 1,
        user_pages,
        kernel_pages: kernel.iter().map(|page| page.bytes / PAGE).sum(),
    })
}

/// Entries that break a rule; the first few are printed.
#[derive(Default)]
struct Findings {
    lines: Vec<String>,
    count: usize,
}

impl Findings {
    fn check(&mut self, wrong: bool, line: impl FnOnce() -> String) {
        if wrong {
            self.count += 1;
            if self.lines.len() < 5 {
                self.lines.push(line());
            }
        }
    }

    fn conclude(self) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        Err(format!(
            "{} pages break a rule: {}",
            self.count,
            self.lines.join("; ")
        )
        .into())
    }
}

fn check_kernel(pages: &[Page], found: &mut Findings) {
    for page in pages {
        let address = page.address;
        found.check(page.writable && page.executable, || {
            format!("{address:#x} of the kernel is written and executed")
        });
        found.check(page.user, || {
            format!("{address:#x} of the kernel is open to programs")
        });
        found.check(page.executable && address < IMAGE, || {
            format!("{address:#x} of the kernel is executed outside its image")
        });
        let stack = (STACKS..IMAGE).contains(&address);
        let slot = (address.wrapping_sub(STACKS)) / PAGE % STACK_SLOT;
        found.check(stack && slot == 0, || {
            format!("the guard of the stack at {address:#x} is mapped")
        });
    }
    let image: BTreeMap<u64, u64> = pages
        .iter()
        .filter(|page| page.address >= IMAGE)
        .map(|page| (page.address, page.bytes))
        .collect();
    let ends = image.iter().map(|(address, bytes)| address + bytes);
    let holes = ends
        .zip(image.keys().skip(1))
        .filter(|(end, next)| end != *next)
        .count();
    found.check(holes != FIXED_STACKS, || {
        format!("{holes} of {FIXED_STACKS} stacks of the kernel's image have a guard")
    });
}

struct Memory<'a> {
    ram: &'a File,
    bytes: u64,
}

impl Memory<'_> {
    fn table(&self, at: u64) -> Result<Table> {
        if at + PAGE > self.bytes {
            return Err(format!("a table at {at:#x} is outside RAM").into());
        }
        let mut bytes = [0; PAGE as usize];
        self.ram
            .read_exact_at(&mut bytes, at)
            .context(|| format!("read a table at {at:#x}"))?;
        let mut table = [0; ENTRIES];
        for (entry, bytes) in table.iter_mut().zip(bytes.chunks_exact(8)) {
            *entry = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        Ok(table)
    }

    /// Physical addresses of all top-level tables, the kernel's own included.
    fn roots(&self) -> Result<Vec<u64>> {
        let mut roots: Vec<(u64, Vec<u64>)> = Vec::new();
        for at in (0..self.bytes).step_by(PAGE as usize) {
            let table = self.table(at)?;
            let kernel = &table[HALF..];
            let shaped = (HALF..ENTRIES).all(|index| {
                let present = table[index] & PRESENT != 0;
                present == KERNEL_ENTRIES.contains(&index)
            });
            if shaped && self.translate(&table, IMAGE + IMAGE_START)? == Some(IMAGE_START) {
                roots.push((at, kernel.iter().map(|entry| entry & ADDRESS).collect()));
            }
        }
        // The first could only differ if something else in RAM looked like tables.
        if let Some((_, kernel)) = roots.first() {
            let differs = roots.iter().find(|(_, other)| other != kernel);
            if let Some((at, _)) = differs {
                return Err(format!("the kernel's half of the space at {at:#x} is its own").into());
            }
        }
        Ok(roots.into_iter().map(|(at, _)| at).collect())
    }

    /// Physical address behind an address of the kernel; `None` where nothing is mapped, or where
    /// what looks like tables is none.
    fn translate(&self, root: &Table, address: u64) -> Result<Option<u64>> {
        let mut table = *root;
        for level in (0..4).rev() {
            let span = PAGE << (9 * level);
            let entry = table[(address / span) as usize % ENTRIES];
            let next = entry & ADDRESS;
            if entry & PRESENT == 0 {
                return Ok(None);
            }
            if level == 0 || entry & LARGE != 0 {
                return Ok(Some((next & !(span - 1)) + address % span));
            }
            if next + PAGE > self.bytes {
                return Ok(None);
            }
            table = self.table(next)?;
        }
        Ok(None)
    }

    /// All pages below some top-level entries, in ascending order.
    fn pages(&self, root: u64, entries: std::ops::Range<usize>) -> Result<Vec<Page>> {
        let mut pages = Vec::new();
        self.walk(root, 3, entries, 0, (true, true, true), &mut pages)?;
        Ok(pages)
    }

    /// `rights`: what the tables above allow (store, execute, programs).
    fn walk(
        &self,
        at: u64,
        level: u32,
        entries: std::ops::Range<usize>,
        base: u64,
        rights: (bool, bool, bool),
        pages: &mut Vec<Page>,
    ) -> Result<()> {
        let table = self.table(at)?;
        let span = PAGE << (9 * level);
        for index in entries {
            let entry = table[index];
            if entry & PRESENT == 0 {
                continue;
            }
            let mut address = base + index as u64 * span;
            if level == 3 && index >= HALF {
                address |= 0xFFFF << 48;
            }
            let rights = (
                rights.0 && entry & WRITABLE != 0,
                rights.1 && entry & NO_EXECUTE == 0,
                rights.2 && entry & USER != 0,
            );
            if level > 0 && entry & LARGE == 0 {
                self.walk(
                    entry & ADDRESS,
                    level - 1,
                    0..ENTRIES,
                    address,
                    rights,
                    pages,
                )?;
                continue;
            }
            pages.push(Page {
                address,
                physical: entry & ADDRESS & !(span - 1),
                bytes: span,
                writable: rights.0,
                executable: rights.1,
                user: rights.2,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::shared_memory::new_memory;

    /// RAM of a small machine: kernel tables at 0x1000, a program's at 0x2000, lower tables behind.
    struct Ram {
        file: File,
        next: u64,
    }

    const KERNEL: u64 = 0x1000;
    const PROGRAM: u64 = 0x2000;
    const TABLE: u64 = PRESENT | WRITABLE | USER;
    const DATA: u64 = PRESENT | WRITABLE | NO_EXECUTE;

    impl Ram {
        /// A good one.
        fn new() -> Ram {
            let file = new_memory("audit", 4 << 20).unwrap();
            let mut ram = Ram { file, next: 0x3000 };
            ram.map(KERNEL, 0xFFFF_8000_0000_0000, DATA | LARGE, 1);
            for page in 1..STACK_SLOT {
                ram.map(KERNEL, STACKS + page * PAGE, 0x20_0000 | DATA, 0);
            }
            let image = IMAGE + IMAGE_START;
            for page in [0, 1, 3, 5, 7] {
                let rights = if page == 0 { PRESENT } else { DATA };
                let physical = IMAGE_START + page * PAGE;
                ram.map(KERNEL, image + page * PAGE, physical | rights, 0);
            }
            for index in KERNEL_ENTRIES {
                let entry = ram.get(KERNEL, index);
                ram.set(PROGRAM, index, entry);
            }
            ram.map(PROGRAM, 0x40_0000, 0x30_0000 | PRESENT | USER, 0);
            ram.map(PROGRAM, 0x40_1000, 0x30_1000 | DATA | USER, 0);
            ram
        }

        fn get(&self, table: u64, index: usize) -> u64 {
            let mut bytes = [0; 8];
            self.file
                .read_exact_at(&mut bytes, table + 8 * index as u64)
                .unwrap();
            u64::from_le_bytes(bytes)
        }

        fn set(&self, table: u64, index: usize, entry: u64) {
            let at = table + 8 * index as u64;
            self.file.write_all_at(&entry.to_le_bytes(), at).unwrap();
        }

        fn map(&mut self, root: u64, address: u64, entry: u64, last: u32) {
            let mut at = root;
            for level in (last + 1..4).rev() {
                let index = (address >> (12 + 9 * level)) as usize % ENTRIES;
                if self.get(at, index) == 0 {
                    self.set(at, index, self.next | TABLE);
                    self.next += PAGE;
                }
                at = self.get(at, index) & ADDRESS;
            }
            self.set(at, (address >> (12 + 9 * last)) as usize % ENTRIES, entry);
        }
    }

    fn complaint(ram: &Ram) -> String {
        audit(&ram.file).unwrap_err().message
    }

    #[test]
    fn a_good_machine_passes_and_is_counted() {
        let ram = Ram::new();
        let expected = Audit {
            spaces: 1,
            user_pages: 2,
            kernel_pages: 512 + 8 + 5,
        };
        assert_eq!(audit(&ram.file).unwrap(), expected);
    }

    #[test]
    fn every_rule_can_be_broken() {
        let mut ram = Ram::new();
        ram.map(PROGRAM, 0x40_2000, 0x30_2000 | PRESENT | WRITABLE | USER, 0);
        assert!(complaint(&ram).contains("0x402000 of the space at 0x2000 is written and exec"));

        let mut ram = Ram::new();
        ram.map(PROGRAM, 0x40_2000, IMAGE_START | DATA | USER, 0);
        assert!(complaint(&ram).contains("is kernel code"));

        let mut ram = Ram::new();
        ram.map(KERNEL, 0xFFFF_8000_0020_0000, DATA | LARGE | USER, 1);
        assert!(complaint(&ram).contains("0xffff800000200000 of the kernel is open"));

        let mut ram = Ram::new();
        ram.map(
            KERNEL,
            IMAGE + IMAGE_START,
            IMAGE_START | PRESENT | WRITABLE,
            0,
        );
        assert!(complaint(&ram).contains("of the kernel is written and executed"));

        let mut ram = Ram::new();
        ram.map(KERNEL, 0xFFFF_8000_0020_0000, PRESENT | LARGE, 1);
        assert!(complaint(&ram).contains("is executed outside its image"));

        let mut ram = Ram::new();
        ram.map(KERNEL, STACKS + STACK_SLOT * PAGE, 0x20_0000 | DATA, 0);
        assert!(complaint(&ram).contains("the guard of the stack"));

        let mut ram = Ram::new();
        ram.map(KERNEL, IMAGE + IMAGE_START + 2 * PAGE, 0x10_2000 | DATA, 0);
        assert!(complaint(&ram).contains("2 of 3 stacks"));
    }

    #[test]
    fn a_machine_without_tables_does_not_pass() {
        let file = new_memory("audit", 1 << 20).unwrap();
        assert!(audit(&file).unwrap_err().message.contains("no page tables"));
    }
}
