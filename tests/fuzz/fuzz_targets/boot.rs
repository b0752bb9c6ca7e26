//! Input read while the kernel boots: the loader's tables, the initfs image and programs.
//! Damaged ones are refused with an error, and whatever is accepted lies where it may.
#![no_main]

// The loader of programs is `no_std`.
extern crate alloc;

use std::collections::BTreeSet;

use arbitrary::{Arbitrary, Result, Unstructured};
use bootstrap::image::{Image, Kind};
use kernel_core::bootinfo;
use kernel_core::memmap::{self, FRAME, MemoryMap};
use kernel_core::screen::{Grid, LETTER_HEIGHT, LETTER_WIDTH, Layout, MAX_BYTES};
use libfuzzer_sys::fuzz_target;
use syscall::flag::MapFlags;

// Parts of programs that only build for the image, and of one that is no library.
#[path = "../../../lib/os/runtime/src/elf.rs"]
#[allow(dead_code, reason = "only the loader uses the entry")]
mod elf;
#[path = "../../../xtask/src/elf.rs"]
mod packer;

/// Memory maps of overlapping areas, as the loader may give them: what is found free is free.
fn memory_map(input: &mut Unstructured<'_>) -> Result<()> {
    let mut map = MemoryMap::new();
    let areas = input.int_in_range(0..=140)?;
    for _ in 0..areas {
        let kind = match u8::arbitrary(input)? % 3 {
            0 => memmap::Kind::Free,
            1 => memmap::Kind::Reclaim,
            _ => memmap::Kind::Reserved,
        };
        let [base, size] = if bool::arbitrary(input)? {
            <[u8; 2]>::arbitrary(input)?.map(|number| u64::from(number) << 11)
        } else {
            <[u64; 2]>::arbitrary(input)?
        };
        map.push(base, size, kind);
    }
    check_map(&mut map, u16::arbitrary(input)?);
    Ok(())
}

fn check_map(map: &mut MemoryMap, size: u16) {
    let mut from = 0;
    // No more ranges than areas have ends.
    for _ in 0..=4 * memmap::CAPACITY {
        let Some((start, end)) = map.next_free(from) else {
            break;
        };
        assert!(
            start >= from && start < end,
            "{start:#x} {end:#x} {from:#x}"
        );
        assert_eq!((start % FRAME, end % FRAME), (0, 0));
        for area in map.areas() {
            let apart = area.end() <= start || end <= area.base;
            assert!(
                area.kind == memmap::Kind::Free || apart,
                "{start:#x} to {end:#x} is not free: {area:x?}"
            );
        }
        from = end;
    }
    assert_eq!(map.next_free(from), None, "ranges without an end");
    let limit = 1 << 32;
    let size = u64::from(size) + 1;
    if let Some(taken) = map.take(size, limit) {
        assert!(taken + size <= limit);
        let next = map.next_free(taken);
        assert!(next.is_none_or(|(start, _)| start >= taken + size));
    }
}

fn loader(input: &mut Unstructured<'_>) -> Result<()> {
    let address = u64::from(u32::arbitrary(input)?);
    let is_pvh = bool::arbitrary(input)?;
    let bytes = input.bytes(input.len())?;
    let mut info = if is_pvh {
        let read = |at: u64, length: u64| {
            let start = usize::try_from(at.checked_sub(address)?).ok()?;
            bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
        };
        let Ok(info) = bootinfo::pvh(address, read) else {
            return Ok(());
        };
        info
    } else {
        bootinfo::multiboot2(bytes, address)
    };
    if let Some((start, length)) = info.command_line {
        let start = (start - address) as usize;
        let text = &bytes[start..start + length as usize];
        for line in bootinfo::environment(text).lines() {
            let (key, _) = line.split_once('=').expect("a setting in each line");
            assert!(!key.is_empty());
        }
    }
    check_map(&mut info.map, 4096);
    if let Some(screen) = info.screen {
        check_screen(&screen, bytes);
    }
    Ok(())
}

/// A screen that is accepted has room for every letter of its layout, and no bytes put one
/// elsewhere.
fn check_screen(info: &bootinfo::ScreenInfo, text: &[u8]) {
    let address_bits = 46;
    let Ok(layout) = Layout::of(info, address_bits) else {
        return;
    };
    let (width, height, pitch) = (
        u64::from(info.width),
        u64::from(info.height),
        u64::from(info.pitch),
    );
    let letter = match layout.scale {
        0 => (1, 1),
        scale => (LETTER_WIDTH * scale, LETTER_HEIGHT * scale),
    };
    assert!((layout.columns * letter.0) as u64 <= width);
    assert!((layout.rows * letter.1) as u64 <= height);
    assert!(width * u64::from(info.bits / 8) <= pitch);
    assert!(pitch * height <= MAX_BYTES);
    assert!(info.address + pitch * height <= 1 << address_bits);
    let mut grid = Grid::new();
    grid.resize(layout);
    for part in text.chunks(64) {
        grid.write(part);
        grid.paint(|column, row, _| assert!(column < layout.columns && row < layout.rows));
    }
}

/// An image in which everything is where the header says, from any list of files; or any bytes.
fn image(input: &mut Unstructured<'_>) -> Result<()> {
    let bytes = input.bytes(input.len())?;
    let Ok(image) = Image::read(bytes) else {
        return Ok(());
    };
    let whole = bytes.as_ptr_range();
    let mut waiting = vec![(0, 0)];
    let mut visited = BTreeSet::new();
    while let Some((index, depth)) = waiting.pop() {
        let inode = image.inode(index).expect("an entry leads to an inode");
        let data = inode.data.as_ptr_range();
        assert!(whole.start <= data.start && data.end <= whole.end);
        // Below the root every path leads back to its inode, by the names on the way.
        if !visited.insert(index) {
            continue;
        }
        assert!(depth <= bytes.len(), "a path without an end");
        let parent = image.inode(inode.parent).expect("a parent");
        assert!(parent.kind == Kind::Dir);
        assert_eq!(
            image.file(&inode.path).is_ok(),
            image.lookup(0, &inode.path).is_ok()
        );
        for (name, child) in &inode.entries {
            // Names that cannot be looked up are in damaged images only.
            if !name.is_empty() && !name.contains('/') && *name != "." && *name != ".." {
                assert!(image.lookup(index, name).is_ok());
            }
            waiting.push((*child, depth + 1));
        }
    }
    for path in ["", ".", "..", "/", "a/../b", "../../x", "bin/init"] {
        if let Ok(index) = image.lookup(0, path) {
            assert!(visited.contains(&index));
        }
    }
    Ok(())
}

/// The loader of programs: what it accepts can be mapped as it says.
fn program(input: &mut Unstructured<'_>) -> Result<()> {
    const LIMIT: usize = 0x0000_8000_0000_0000;
    let mut bytes = input.bytes(input.len())?;
    let length = bytes.len();
    let Ok(program) = elf::read(&mut bytes) else {
        return Ok(());
    };
    assert!(!program.segments.is_empty() && program.header_count <= 64);
    for segment in &program.segments {
        let (start, size) = segment.pages();
        assert!(start >= FRAME as usize && start % FRAME as usize == 0);
        assert!(size > 0 && size % FRAME as usize == 0 && start + size <= LIMIT);
        assert!(start <= segment.address);
        assert!(segment.address + segment.memory_size <= start + size);
        assert!(segment.file_size <= segment.memory_size);
        let both = MapFlags::PROT_WRITE | MapFlags::PROT_EXEC;
        assert!(!segment.protection.contains(both), "{segment:?}");
    }
    if program.headers != 0 {
        let size = program.header_count * elf::HEADER_SIZE;
        let inside = program.segments.iter().any(|segment| {
            segment.address <= program.headers
                && program.headers + size <= segment.address + segment.file_size
        });
        assert!(inside && size <= length);
    }
    Ok(())
}

/// The packer's reading of the bootstrap program.
fn bootstrap_program(input: &mut Unstructured<'_>) -> Result<()> {
    let base = 0x1000;
    let bytes = input.bytes(input.len())?;
    if let Ok(flat) = packer::flatten(bytes, base) {
        assert_eq!(flat.base, base);
        assert!((base..base + flat.bytes.len() as u64).contains(&flat.entry));
        // Without symbols it is the same program.
        if let Ok(kept) = packer::without_symbols(bytes) {
            let again = packer::flatten(&kept, base).expect("nothing of it was taken away");
            assert_eq!(
                (again.entry, again.bytes.len()),
                (flat.entry, flat.bytes.len())
            );
        }
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let mut input = Unstructured::new(rest);
    // Input that ends early is an input like any other.
    let _ = match first % 5 {
        0 => memory_map(&mut input),
        1 => loader(&mut input),
        2 => image(&mut input),
        3 => program(&mut input),
        _ => bootstrap_program(&mut input),
    };
});
