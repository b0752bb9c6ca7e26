//! FMAP, FUNMAP, MPROTECT and the memory scheme (Redox's `src/scheme/memory.rs`).

use crate::suite::{Check, Suite, Verdict, expect, hold, must, scheme_id::*};
use crate::sys;
use alloc::format;
use runtime::probe::{peek, poke};
use syscall::error::*;
use syscall::{CallFlags, Map, MapFlags, O_RDONLY, O_RDWR, PAGE_SIZE};

const RW: MapFlags = MapFlags::PROT_READ.union(MapFlags::PROT_WRITE);
const PRIVATE: MapFlags = RW.union(MapFlags::MAP_PRIVATE);
const FIXED: MapFlags = PRIVATE.union(MapFlags::MAP_FIXED);
const NO_REPLACE: MapFlags = PRIVATE.union(MapFlags::MAP_FIXED_NOREPLACE);

fn anonymous_at(address: usize, size: usize, flags: MapFlags) -> sys::Outcome {
    sys::fmap(
        usize::MAX,
        &Map {
            offset: 0,
            size,
            flags,
            address,
        },
    )
}

/// The physical frame behind a mapped address, through the memory scheme.
pub fn translate(suite: &Suite, address: usize) -> Result<u64, alloc::string::String> {
    let fd = must("translation", suite.open(MEMORY, "translation", O_RDONLY))?;
    let mut word = (address as u64).to_le_bytes();
    let outcome = sys::call(fd, &mut word, CallFlags::empty(), &[]);
    let _ = sys::close(fd);
    outcome.map_err(|errno| format!("translation: error {errno}"))?;
    Ok(u64::from_le_bytes(word))
}

const CHECKS: &[Check] = &[
    (
        "anonymous memory is zero, writable and goes away",
        anonymous,
    ),
    (
        "FMAP: size 0, unaligned size, unaligned address are EINVAL",
        bad_sizes,
    ),
    (
        "MAP_FIXED replaces, FIXED_NOREPLACE is EEXIST on overlap",
        fixed_addresses,
    ),
    (
        "fixed mappings at address 0 succeed and return 0",
        address_zero,
    ),
    ("mappings cannot reach the kernel half", kernel_half),
    ("FUNMAP and MPROTECT of nothing succeed", nothing_mapped),
    (
        "a read-only page takes no data from the kernel (EFAULT)",
        read_only,
    ),
    ("huge lazy reservations succeed", huge_reservations),
    ("memory:zeroed maps fresh memory at a fixed address", zeroed),
    ("memory: unknown kinds and options", unknown_kinds),
    (
        "contiguous memory is contiguous, zero, and ends at 4 MiB",
        contiguous,
    ),
    (
        "translation drops the low bits; nothing mapped is ENOENT",
        translation,
    ),
    (
        "physical: firmware memory maps, allocator RAM is EPERM, unaligned is EINVAL",
        physical,
    ),
    ("memory in use returns to where it was", nothing_lost),
];

pub fn run(suite: &Suite) {
    suite.check_all(CHECKS);
}

fn anonymous(suite: &Suite) -> Verdict {
    let size = 4 * PAGE_SIZE;
    let at = must("map", sys::fmap_anonymous(size, PRIVATE))?;
    hold("aligned", at % PAGE_SIZE == 0)?;
    for offset in [0, 1, PAGE_SIZE, size - 1] {
        expect("zero", peek(at + offset), 0)?;
        poke(at + offset, 0xa5);
        expect("written", peek(at + offset), 0xa5)?;
    }
    expect("unmap", sys::funmap(at, size), Ok(0))?;
    let fd = must("uname", suite.open(SYS, "uname", O_RDONLY))?;
    let read = sys::raw(syscall::number::SYS_READ, [fd, at, 8, 0, 0, 0]);
    let _ = sys::close(fd);
    expect("read into it", read, Err(EFAULT))
}

fn bad_sizes(_: &Suite) -> Verdict {
    expect("size 0", sys::fmap_anonymous(0, PRIVATE), Err(EINVAL))?;
    expect("size", sys::fmap_anonymous(100, PRIVATE), Err(EINVAL))?;
    expect(
        "address",
        anonymous_at(0x5001, PAGE_SIZE, FIXED),
        Err(EINVAL),
    )
}

fn fixed_addresses(_: &Suite) -> Verdict {
    let at = must("map", sys::fmap_anonymous(3 * PAGE_SIZE, PRIVATE))?;
    poke(at + PAGE_SIZE, 7);
    expect(
        "noreplace",
        anonymous_at(at + PAGE_SIZE, PAGE_SIZE, NO_REPLACE),
        Err(EEXIST),
    )?;
    expect("kept", peek(at + PAGE_SIZE), 7)?;
    expect(
        "fixed",
        anonymous_at(at + PAGE_SIZE, PAGE_SIZE, FIXED),
        Ok(at + PAGE_SIZE),
    )?;
    expect("fresh", peek(at + PAGE_SIZE), 0)?;
    expect(
        "partial unmap",
        sys::funmap(at + PAGE_SIZE, PAGE_SIZE),
        Ok(0),
    )?;
    let hole = anonymous_at(at + PAGE_SIZE, PAGE_SIZE, NO_REPLACE);
    expect("hole filled", hole, Ok(at + PAGE_SIZE))?;
    expect("unmap all", sys::funmap(at, 3 * PAGE_SIZE), Ok(0))
}

fn address_zero(_: &Suite) -> Verdict {
    expect("map", anonymous_at(0, PAGE_SIZE, NO_REPLACE), Ok(0))?;
    expect("unmap", sys::funmap(0, PAGE_SIZE), Ok(0))
}

fn kernel_half(_: &Suite) -> Verdict {
    let at = anonymous_at(1 << 47, PAGE_SIZE, FIXED);
    hold(&format!("refused, got {at:?}"), at.is_err())?;
    let at = anonymous_at((1 << 47) - PAGE_SIZE, 2 * PAGE_SIZE, FIXED);
    hold(&format!("refused, got {at:?}"), at.is_err())
}

fn nothing_mapped(_: &Suite) -> Verdict {
    expect("unmap", sys::funmap(0x6000_0000_0000, PAGE_SIZE), Ok(0))?;
    expect(
        "protect",
        sys::mprotect(0x6000_0000_0000, PAGE_SIZE, MapFlags::PROT_READ),
        Ok(0),
    )
}

fn read_only(suite: &Suite) -> Verdict {
    let at = must("map", sys::fmap_anonymous(PAGE_SIZE, PRIVATE))?;
    poke(at, 1);
    expect(
        "protect",
        sys::mprotect(at, PAGE_SIZE, MapFlags::PROT_READ),
        Ok(0),
    )?;
    let fd = must("uname", suite.open(SYS, "uname", O_RDONLY))?;
    let read = sys::raw(syscall::number::SYS_READ, [fd, at, 8, 0, 0, 0]);
    let _ = sys::close(fd);
    expect("read", read, Err(EFAULT))?;
    expect("content", peek(at), 1)?;
    expect("unmap", sys::funmap(at, PAGE_SIZE), Ok(0))
}

fn huge_reservations(_: &Suite) -> Verdict {
    let size = 1 << 36;
    let at = must("reserve", sys::fmap_anonymous(size, PRIVATE))?;
    poke(at + size - 1, 3);
    expect("touched", peek(at + size - 1), 3)?;
    expect("unmap", sys::funmap(at, size), Ok(0))
}

fn zeroed(suite: &Suite) -> Verdict {
    let fd = must("open", suite.open(MEMORY, "zeroed", O_RDWR))?;
    let at = must("reserve", sys::fmap_anonymous(2 * PAGE_SIZE, PRIVATE))?;
    poke(at, 9);
    let map = Map {
        offset: 0,
        size: PAGE_SIZE,
        flags: FIXED,
        address: at,
    };
    expect("map", sys::fmap(fd, &map), Ok(at))?;
    expect("fresh", peek(at), 0)?;
    expect("close", sys::close(fd), Ok(0))?;
    expect("unmap", sys::funmap(at, 2 * PAGE_SIZE), Ok(0))
}

fn unknown_kinds(suite: &Suite) -> Verdict {
    expect("kind", suite.open(MEMORY, "nonsense", O_RDWR), Err(ENOENT))?;
    expect(
        "cache",
        suite.open(MEMORY, "zeroed@xx", O_RDWR),
        Err(ENOENT),
    )?;
    expect(
        "option",
        suite.open(MEMORY, "zeroed@wb?nothing", O_RDWR),
        Err(ENOENT),
    )
}

fn contiguous(suite: &Suite) -> Verdict {
    let name = "zeroed@wb?phys_contiguous";
    let fd = must("open", suite.open(MEMORY, name, O_RDWR))?;
    let size = 64 * PAGE_SIZE;
    let map = |size| Map {
        offset: 0,
        size,
        flags: PRIVATE,
        address: 0,
    };
    let at = must("map", sys::fmap(fd, &map(size)))?;
    expect("zero", (peek(at), peek(at + size - 1)), (0, 0))?;
    let first = translate(suite, at)?;
    for page in [1, 2, 31, 63] {
        let offset = page * PAGE_SIZE;
        expect(
            "frame",
            translate(suite, at + offset)?,
            first + offset as u64,
        )?;
    }
    expect("5 MiB", sys::fmap(fd, &map(5 << 20)), Err(ENOMEM))?;
    let shared = Map {
        flags: RW | MapFlags::MAP_SHARED,
        ..map(size)
    };
    expect("shared", sys::fmap(fd, &shared), Err(EOPNOTSUPP))?;
    let _ = sys::close(fd);
    expect("unmap", sys::funmap(at, size), Ok(0))
}

fn translation(suite: &Suite) -> Verdict {
    let at = must("map", sys::fmap_anonymous(PAGE_SIZE, PRIVATE))?;
    poke(at, 1);
    let frame = translate(suite, at)?;
    expect("aligned", frame % PAGE_SIZE as u64, 0)?;
    expect("same frame", translate(suite, at + 123)?, frame)?;
    expect("unmap", sys::funmap(at, PAGE_SIZE), Ok(0))?;
    let fd = must("open", suite.open(MEMORY, "translation", O_RDONLY))?;
    let mut word = (at as u64).to_le_bytes();
    expect(
        "absent",
        sys::call(fd, &mut word, CallFlags::empty(), &[]),
        Err(ENOENT),
    )?;
    expect("close", sys::close(fd), Ok(0))
}

fn physical(suite: &Suite) -> Verdict {
    let fd = must("open", suite.open(MEMORY, "physical@uc", O_RDWR))?;
    let flags = MapFlags::PROT_READ | MapFlags::MAP_SHARED;
    let map = |offset| Map {
        offset,
        size: PAGE_SIZE,
        flags,
        address: 0,
    };
    let at = must("BIOS", sys::fmap(fd, &map(0xf_0000)))?;
    let _ = peek(at);
    expect("unmap", sys::funmap(at, PAGE_SIZE), Ok(0))?;
    expect("unaligned", sys::fmap(fd, &map(0xf_0001)), Err(EINVAL))?;
    let own = must("map", sys::fmap_anonymous(PAGE_SIZE, PRIVATE))?;
    poke(own, 1);
    let frame = translate(suite, own)? as usize;
    expect("RAM", sys::fmap(fd, &map(frame)), Err(EPERM))?;
    let _ = (sys::close(fd), sys::funmap(own, PAGE_SIZE));
    Ok(())
}

fn nothing_lost(suite: &Suite) -> Verdict {
    let before = free_blocks(suite)?;
    for _ in 0..50 {
        let at = must("map", sys::fmap_anonymous(64 * PAGE_SIZE, PRIVATE))?;
        for page in 0..64 {
            poke(at + page * PAGE_SIZE, 1);
        }
        expect("unmap", sys::funmap(at, 64 * PAGE_SIZE), Ok(0))?;
    }
    let after = free_blocks(suite)?;
    hold(
        &format!("free pages {before} then {after}"),
        before.abs_diff(after) <= 16,
    )
}

/// Free frames according to fstatvfs of the memory scheme.
pub fn free_blocks(suite: &Suite) -> Result<u64, alloc::string::String> {
    let fd = must("open", suite.open(MEMORY, "zeroed", O_RDONLY))?;
    let mut payload = [0u8; size_of::<syscall::StatVfs>()];
    // StdFsCallKind::Fstatvfs, no arguments
    let outcome = sys::call(fd, &mut payload, CallFlags::STD_FS, &[5, 0, 0]);
    let _ = sys::close(fd);
    must("fstatvfs", outcome)?;
    let word = |at: usize| payload[at..at + 8].try_into().map(u64::from_le_bytes);
    word(16).map_err(|_| alloc::string::String::from("short answer"))
}
