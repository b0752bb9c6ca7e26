//! Acts that programs must not carry out on themselves or the kernel: run over a stack or a chunk
//! of the heap, change code, execute data, touch the kernel's half of the addresses, use privileged
//! instructions. A child tries each and must be killed for it, with nothing else harmed.
//!
//! `guard-test`, as root, on one node; it starts itself with the name of an act for the children.
//! The suite in `config/tests.toml` lists the report of the kernel that each act must lead to, in
//! the order of [`ACTS`]; and it has the launcher walk all page tables of the machine.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use core::hint::black_box;

use guest_tests::{Suite, at_rest, settled};
use libredox::Fd;
use runtime::probe::{self, Forbidden};
use runtime::process::{Child, Command};
use runtime::{Error, Result, env, fd, fs, path, state, sys, thread};
use syscall::error::{ENOTDIR, EOPNOTSUPP};
use syscall::flag::MapFlags;
use syscall::{Map, PAGE_SIZE};

runtime::main!(main);

/// Physical memory as the kernel sees it begins here, its image and its stacks there.
const KERNEL_MEMORY: usize = 0xFFFF_8000_0000_0000;
const KERNEL_IMAGE: usize = 0xFFFF_FFFF_8010_0000;
const KERNEL_STACKS: usize = 0xFFFF_FF00_0000_1000;
/// No address of this processor: neither half has it.
const NOWHERE: usize = 1 << 60;
/// The signal that stands for each of the exceptions here.
const KILLED: i32 = 11;
/// Pages that may differ: other programs run meanwhile.
const TOLERANCE: usize = 32;
/// How far a heap may reach before its guard must have been met, in bytes.
const FAR: usize = 64 << 20;

const RETURN: u8 = 0xC3;

static CONSTANT: [u8; 64] = [RETURN; 64];

/// The acts of the children, by name. None may return.
const ACTS: &[(&str, fn())] = &[
    ("overflow-stack", || {
        overflow(0);
    }),
    ("overflow-thread", || {
        let other = thread::Builder::new()
            .stack_size(4 * PAGE_SIZE)
            .spawn(|| overflow(0));
        let _ = other.and_then(thread::JoinHandle::join);
    }),
    ("above-thread", || {
        let other = thread::spawn(|| sweep(stack_address(), 1));
        let _ = other.and_then(thread::JoinHandle::join);
    }),
    ("heap-end", || sweep(heap_address(), 1)),
    ("heap-begin", || sweep(heap_address(), -1)),
    ("null", || probe::poke(8, 1)),
    ("write-code", || probe::poke(main as *const () as usize, 0)),
    ("write-constant", || {
        probe::poke((&raw const CONSTANT).addr(), 0)
    }),
    ("execute-constant", || {
        probe::execute((&raw const CONSTANT).addr())
    }),
    ("execute-stack", || {
        let code = black_box([RETURN; 64]);
        probe::execute((&raw const code).addr());
    }),
    ("execute-heap", || {
        let code = black_box(alloc::vec![RETURN; 64]);
        probe::execute(code.as_ptr().addr());
    }),
    ("load-kernel-memory", || load(KERNEL_MEMORY + 0x10_0000)),
    ("store-kernel-memory", || {
        probe::poke(KERNEL_MEMORY + 0x10_0000, 0)
    }),
    ("load-kernel-image", || load(KERNEL_IMAGE)),
    ("execute-kernel-image", || probe::execute(KERNEL_IMAGE)),
    ("store-kernel-stack", || probe::poke(KERNEL_STACKS, 0)),
    ("load-nowhere", || load(NOWHERE)),
    ("cli", || probe::forbidden(Forbidden::Cli)),
    ("hlt", || probe::forbidden(Forbidden::Halt)),
    ("out", || probe::forbidden(Forbidden::Port)),
    ("cr3", || probe::forbidden(Forbidden::Control)),
    ("wrmsr", || probe::forbidden(Forbidden::Register)),
    ("sgdt", || probe::forbidden(Forbidden::Table)),
];

/// Uses stack until there is none.
#[inline(never)]
fn overflow(depth: usize) -> usize {
    if depth == usize::MAX {
        return 0;
    }
    let frame = black_box([depth; 64]);
    black_box(overflow(depth + 1)) + frame[depth % 64]
}

fn stack_address() -> usize {
    let here = black_box(0u8);
    (&raw const here).addr()
}

fn heap_address() -> usize {
    let block = black_box(alloc::vec![0u8; 100]);
    block.as_ptr().addr()
}

fn load(address: usize) {
    probe::peek(address);
}

/// Touches memory from an address on, a page further (or nearer) each time.
fn sweep(from: usize, direction: isize) {
    for step in 0..(FAR / PAGE_SIZE) as isize {
        probe::peek(from.wrapping_add_signed(step * direction * PAGE_SIZE as isize));
    }
}

fn main() -> i32 {
    match env::args().nth(1).as_deref() {
        None => {}
        Some("wait") => {
            runtime::print!("ready");
            let _ = fd::read(0, &mut [0; 1]);
            return 7;
        }
        Some(name) => {
            if let Some((_, act)) = ACTS.iter().find(|(known, _)| *known == name) {
                act();
            }
            // No act returns.
            return 0;
        }
    }
    let mut suite = Suite::new("guard-test");
    rights(&mut suite);
    if let Err(error) = acts(&mut suite) {
        suite.check("acts", Err(alloc::format!("{error}")));
    }
    processor(&mut suite);
    power_off(&mut suite);
    suite.finish()
}

/// Nothing is below the notice of power-off: the kernel counts who has it open and waits for them,
/// and would miscount another way to it.
fn power_off(suite: &mut Suite) {
    let stop = path::open("/scheme/kernel.acpi/kstop", 0).map(Fd::new);
    let below = stop.and_then(|stop| fd::openat_upper(stop.raw(), b"", 0, 0).map(Fd::new));
    let below = below.map(drop).map_err(|error| error.errno);
    suite.equal("an open below the notice of power-off", below, Err(ENOTDIR));
}

/// How a child that carries out an act ends: its signal.
fn signal_of(act: &str) -> Result<Option<i32>> {
    let mut child = Command::new("guard-test").arg(act).spawn()?;
    child.wait().map(|status| status.signal())
}

fn acts(suite: &mut Suite) -> Result<()> {
    // A program that must not notice anything, with memory of its own.
    let (mut other, input) = bystander()?;
    // While this program, the bystander and all daemons run.
    runtime::println!("LAUNCHER audit 0");
    let before = at_rest(free, |_| true);
    for (name, _) in ACTS {
        suite.equal(name, signal_of(name), Ok(Some(KILLED)));
    }
    let is_back = settled(|| before.abs_diff(free()) <= TOLERANCE, &true);
    suite.holds("no memory left behind", is_back);
    suite.equal("the bystander runs", other.try_wait(), Ok(None));
    drop(input);
    suite.equal(
        "the bystander ends well",
        other.wait().map(|s| s.code()),
        Ok(Some(7)),
    );
    Ok(())
}

/// A child that waits for the end of its input, which is returned with it.
fn bystander() -> Result<(Child, Fd)> {
    let pipe = || -> Result<(Fd, Fd)> {
        let read = Fd::new(path::open("/scheme/pipe", syscall::O_RDWR)?);
        let write = Fd::new(fd::dup(read.raw(), b"write")?);
        Ok((read, write))
    };
    let (input, to) = pipe()?;
    let (from, output) = pipe()?;
    let mut command = Command::new("guard-test");
    let child = command.arg("wait").stdin(&input).stdout(&output).spawn()?;
    drop((input, output));
    fd::read(from.raw(), &mut [0; 8])?;
    Ok((child, to))
}

/// No call gives a page that can be written and executed; a page can be first one, then the other.
fn rights(suite: &mut Suite) {
    let own = MapFlags::MAP_PRIVATE;
    let (read, write) = (MapFlags::PROT_READ, MapFlags::PROT_WRITE);
    let execute = MapFlags::PROT_EXEC;
    let all = read | write | execute;
    suite.equal(
        "map to write and execute",
        map(sys::NO_FD, all | own),
        errno(EOPNOTSUPP),
    );
    suite.equal(
        "map to write and execute, shared",
        map(sys::NO_FD, write | execute | MapFlags::MAP_SHARED),
        errno(EOPNOTSUPP),
    );
    let Ok(page) = map(sys::NO_FD, read | write | own) else {
        suite.check("map to read and write", Err(String::from("no page")));
        return;
    };
    let protect = |flags: MapFlags| {
        let words = [page, PAGE_SIZE, flags.bits(), 0, 0, 0];
        sys::demux(probe::syscall(syscall::SYS_MPROTECT, words))
    };
    probe::poke(page, RETURN);
    suite.equal(
        "protect to write and execute",
        protect(all),
        errno(EOPNOTSUPP),
    );
    suite.equal("protect to execute", protect(read | execute), Ok(0));
    probe::execute(page);
    suite.equal("protect to write again", protect(read | write), Ok(0));
    probe::poke(page, RETURN);
    let moved = probe::syscall(
        syscall::SYS_MREMAP,
        [page, PAGE_SIZE, 0, PAGE_SIZE, all.bits(), 0],
    );
    suite.equal(
        "move to write and execute",
        sys::demux(moved),
        errno(EOPNOTSUPP),
    );
    // Another address space, here a copy of our own, by its handle.
    let remote = (|| {
        let space = Fd::new(fd::dup_upper(state::thread_fd(), b"addrspace")?);
        let copy = Fd::new(fd::dup_upper(space.raw(), b"empty")?);
        let words = [
            syscall::flag::ADDRSPACE_OP_MMAP,
            sys::NO_FD,
            0,
            page,
            PAGE_SIZE,
            (all | own).bits(),
        ];
        fd::write(copy.raw(), words.map(usize::to_ne_bytes).as_flattened())
    })();
    suite.equal(
        "map for another to write and execute",
        remote,
        errno(EOPNOTSUPP),
    );
    let words = [page, PAGE_SIZE, 0, 0, 0, 0];
    suite.equal(
        "unmap",
        sys::demux(probe::syscall(syscall::SYS_FUNMAP, words)),
        Ok(0),
    );
}

fn errno<T>(number: i32) -> Result<T> {
    Err(Error::new(number))
}

fn map(fd: usize, flags: MapFlags) -> Result<usize> {
    let map = Map {
        offset: 0,
        size: PAGE_SIZE,
        flags,
        address: 0,
    };
    let words = [fd, (&raw const map).addr(), size_of::<Map>(), 0, 0, 0];
    sys::demux(probe::syscall(syscall::SYS_FMAP, words))
}

/// Free pages.
fn free() -> usize {
    let memory = path::open_upper("/scheme/memory", 0).map(Fd::new);
    let stat = memory.and_then(|memory| memory.statvfs().map_err(Error::from));
    stat.map_or(0, |stat| stat.f_bfree as usize)
}

/// The kernel has switched on what the emulated processor has.
fn processor(suite: &mut Suite) {
    let log = fs::read_to_string("/scheme/sys/log").unwrap_or_default();
    let line: Vec<&str> = log
        .lines()
        .filter(|l| l.contains("processor guards"))
        .collect();
    suite.equal(
        "processor guards",
        line,
        alloc::vec!["kernel: processor guards: NX on, WP on, SMEP on, SMAP on, UMIP on"],
    );
}
