//! Random system calls: whatever a program asks for, the kernel and the other programs go on.
//!
//! Off by default; the boot option `ABI_FUZZ=<rounds>` or `ABI_FUZZ=<first>..<end>` runs a child
//! context for each round, which makes calls with arguments that are half sensible, half hostile.
//! A round is named by its seed. It is meant for the kernel of this project: the upstream one is
//! known to stop on some of these calls.

use crate::contexts::{self, Child, Space, Table};
use crate::suite::{Suite, Verdict, must, scheme_id::*};
use crate::sys;
use alloc::{format, string::String, vec::Vec};
use runtime::probe::poke;
use syscall::number::*;
use syscall::{Map, MapFlags, O_CREAT, O_DIRECTORY, O_NONBLOCK, O_RDWR, PAGE_SIZE};

/// Calls of one round.
const CALLS: usize = 1500;
/// How long a round may take before it is stopped, in steps of a millisecond.
const MOST_TRIES: usize = 400;
/// First of the descriptors a round starts with, and how many there are at most.
const FIRST_FD: usize = 0;
const FDS: usize = 48;
/// A descriptor number that the calls seldom hit, for the end of a round.
const LAST_SLOT: usize = 60_000;
/// A round that keeps more pages than this is reported.
const FEW: u64 = 12;
/// Bytes of memory the calls play with.
const ARENA: usize = 16 * PAGE_SIZE;

const NUMBERS: [usize; 28] = [
    SYS_OPENAT_INTO,
    SYS_OPENAT_INTO2,
    SYS_UNLINKAT,
    SYS_CLOSE,
    SYS_DUP_INTO,
    SYS_DUP2,
    SYS_READ,
    SYS_READ2,
    SYS_WRITE,
    SYS_WRITE2,
    SYS_LSEEK,
    SYS_FCHOWN,
    SYS_FCNTL,
    SYS_FEVENT,
    SYS_FLINK,
    SYS_FRENAME,
    SYS_FPATH,
    SYS_FSTAT,
    SYS_FSYNC,
    SYS_CALL,
    SYS_FMAP,
    SYS_FUNMAP,
    SYS_MREMAP,
    SYS_MPROTECT,
    SYS_CLOCK_GETTIME,
    SYS_FUTEX,
    SYS_NANOSLEEP,
    SYS_YIELD,
];

const NAMES: [&[u8]; 22] = [
    b"write",
    b"create-scheme",
    b"new-context",
    b"cur-context",
    b"addrspace",
    b"empty",
    b"exclusive",
    b"current-addrspace",
    b"filetable",
    b"copy",
    b"current-filetable",
    b"regs/int",
    b"regs/env",
    b"regs/float",
    b"start",
    b"status",
    b"mmap-min-addr",
    b"sched-affinity",
    b"zeroed@wb?phys_contiguous",
    b"cpu-00/77",
    b"4/timer",
    b"grant-fd-1000",
];

/// A small generator: xorshift, 64 bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() % end.max(1)
    }

    /// A word that means something, or is just off what does.
    fn word(&mut self, arena: usize) -> usize {
        match self.below(14) {
            0 => 0,
            1 => self.below(8),
            2..=4 => FIRST_FD + self.below(FDS + 8),
            5 | 6 => arena + self.below(ARENA),
            7 => arena + self.below(ARENA / PAGE_SIZE) * PAGE_SIZE,
            8 => self.below(20) * PAGE_SIZE,
            9 => (1 << 47) - self.below(3) * 8,
            10 => usize::MAX - self.below(4),
            11 => 1 << self.below(64),
            12 => self.next() & 0xFFFF_0000,
            _ => self.next(),
        }
    }

    /// Fills some of the arena with words, names and records.
    fn scribble(&mut self, arena: usize) {
        let at = arena + self.below(ARENA - 256);
        if self.below(2) == 0 {
            let name = NAMES[self.below(NAMES.len())];
            for (i, byte) in name.iter().enumerate() {
                poke(at + i, *byte);
            }
            return;
        }
        let at = arena + self.below(8) * 8;
        for index in 0..self.below(8) {
            let word = self.word(arena);
            for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
                poke(at + 8 * index + i, byte);
            }
        }
    }
}

/// One round, in a context and with descriptors of its own.
fn round(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let mut random = Random((shared.value as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE;
    let arena = sys::fmap_anonymous(ARENA, flags).unwrap_or(0);
    for call in 0..CALLS {
        if call % 4 == 0 {
            // The calls may have unmapped it.
            let flags = flags | MapFlags::MAP_FIXED;
            let map = Map {
                offset: 0,
                size: ARENA,
                flags,
                address: arena,
            };
            if sys::fmap(usize::MAX, &map) == Ok(arena) {
                random.scribble(arena);
                random.scribble(arena);
            }
        }
        let number = match random.below(60) {
            0 => random.next(),
            _ => NUMBERS[random.below(NUMBERS.len())],
        };
        let mut args: [usize; 6] = core::array::from_fn(|_| random.word(arena));
        if random.below(3) > 0 {
            args[0] = FIRST_FD + random.below(FDS);
        }
        if random.below(3) > 0 {
            args[1] = arena + random.below(64) * 8;
            args[2] = [1, 5, 8, 13, 24, 32, 48, 64, 104, 4096, 5000][random.below(11)];
        }
        if matches!(number, SYS_NANOSLEEP | SYS_FUTEX) && random.below(20) > 0 {
            continue;
        }
        // Its own code and stack must survive for the round to mean something.
        if matches!(number, SYS_FUNMAP | SYS_MPROTECT | SYS_MREMAP) && args[0] < arena {
            args[0] = arena + random.below(4) * PAGE_SIZE;
        }
        runtime::probe::syscall(number, args);
    }
    contexts::end(shared.proc_root, shared.slots)
}

/// Descriptors of all kinds at low numbers of a table that only the round has.
fn give(suite: &Suite, table: usize) -> Verdict {
    let mut fds = Vec::new();
    for id in 1..=11 {
        fds.push(must("root", suite.dup(suite.root(id), b""))?);
    }
    let mut open = |id: usize, path: &str, flags: usize| {
        if let Ok(fd) = suite.open(id, path, flags) {
            fds.push(fd);
        }
    };
    for (id, path) in [
        (EVENT, ""),
        (EVENT, ""),
        (MEMORY, "zeroed"),
        (MEMORY, "physical@wc"),
        (MEMORY, "translation"),
        (MEMORY, "zeroed@wb?phys_contiguous"),
        (PIPE, ""),
        (PIPE, ""),
        (IRQ, "bsp"),
        (IRQ, "5"),
        (TIME, "1"),
        (TIME, "4/timer"),
        (SYS, "env"),
        (SYS, "context"),
        (SYS, "iostat"),
        (SYS, "stat"),
        (SYS, ""),
    ] {
        open(id, path, O_RDWR | O_NONBLOCK);
    }
    open(IRQ, "", O_DIRECTORY | O_RDWR);
    open(IRQ, "cpu-00/99", O_CREAT | O_RDWR);
    fds.push(must(
        "socket",
        suite.dup(suite.capability, b"create-scheme"),
    )?);
    let own = must("cur-context", suite.dup(suite.root(PROC), b"cur-context"))?;
    let space = must("addrspace", suite.dup(own, b"addrspace"))?;
    fds.extend([
        must("copy", suite.dup(space, b"exclusive"))?,
        must("copy", suite.dup(space, b"empty"))?,
        must("new-context", suite.dup(suite.root(PROC), b"new-context"))?,
    ]);
    let send = syscall::CallFlags::WRITE | syscall::CallFlags::FD;
    for (index, fd) in fds.into_iter().take(FDS).enumerate() {
        let mut payload = fd.to_le_bytes();
        let number = (FIRST_FD + index) as u64;
        must("give", sys::call(table, &mut payload, send, &[number]))?;
    }
    // With this one, where the calls seldom come, the round ends itself.
    let root = suite.root(PROC);
    let mut payload = root.to_le_bytes();
    let keep = send | syscall::CallFlags::FD_CLONE;
    must("give", sys::call(table, &mut payload, keep, &[root as u64]))?;
    for fd in [own, space] {
        must("close", sys::close(fd))?;
    }
    Ok(())
}

fn one(suite: &Suite, seed: usize) -> Result<bool, String> {
    let record = contexts::record([suite.root(PROC), LAST_SLOT, seed])?;
    let fill = |table: usize| give(suite, table);
    let child = Child::start_with(suite, Space::Clone, Table::Own(&fill), round, record)?;
    let kill = child.privileged_status(suite)?;
    let mut late = true;
    for _ in 0..MOST_TRIES {
        if child.ended_with()?.is_some() {
            late = false;
            break;
        }
        must("sleep", sys::nanosleep(1_000_000))?;
    }
    if late {
        // It may have stopped itself.
        must("go on", contexts::write_words(kill, &[2]))?;
        must("end", contexts::write_words(kill, &[usize::MAX]))?;
    }
    must("close", sys::close(kill))?;
    child.join()?;
    must("record", sys::funmap(record, PAGE_SIZE))?;
    Ok(late)
}

/// The seeds the boot options ask for.
fn seeds(suite: &Suite) -> core::ops::Range<usize> {
    let mut text = [0; 2048];
    let Ok(fd) = suite.open(SYS, "env", O_RDWR) else {
        return 0..0;
    };
    let count = sys::read(fd, &mut text).unwrap_or(0);
    let _ = sys::close(fd);
    let text = core::str::from_utf8(&text[..count]).unwrap_or("");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("ABI_FUZZ="))
        .unwrap_or("0");
    let (first, end) = value.split_once("..").unwrap_or(("0", value));
    let number = |text: &str| text.trim().parse().unwrap_or(0);
    number(first)..number(end)
}

pub fn run(suite: &Suite) {
    let seeds = seeds(suite);
    if seeds.is_empty() {
        return;
    }
    suite.check("random calls", |suite| {
        let mut late = 0;
        let mut free = 0;
        for seed in seeds {
            let outcome = suite
                .with_slots(|suite| one(suite, seed))
                .map_err(|why| format!("seed {seed}: {why}"))?;
            late += usize::from(outcome);
            let now = crate::memory::free_blocks(suite)?;
            if seed % 50 == 49 || now + FEW < free {
                suite.say(&format!(
                    "abi: seed {seed}, {late} stopped, {now} pages free"
                ));
            }
            free = now;
        }
        Ok(())
    });
}
