//! Programs that map, open and move very much: the kernel refuses what is too much, and goes on
//! when they end all at once.
//!
//! `process-limits`, on one node; it starts itself with an argument for the other parts.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use core::sync::atomic::{AtomicBool, Ordering};

use guest_tests::{Suite, kernel_count};
use libredox::Fd;
use runtime::io::Read;
use runtime::process::Command;
use runtime::time::{Duration, sleep};
use runtime::{Error, Result, env, fd, fs, path, probe, state, sys, thread};
use scif_abi::call::MemoryCall;
use syscall::error::{EINVAL, ELOOP, ENOENT, ENOMEM};
use syscall::flag::{
    ADDRSPACE_OP_MMAP, ADDRSPACE_OP_TRANSFER, CallFlags, FUTEX_WAIT, FUTEX_WAKE, MapFlags,
};

runtime::main!(main);

const PROGRAM: &str = "process-limits";
/// The line by which a program reports that it runs until it is killed.
const READY: &str = "ready";
/// Pages that one program maps at most.
const MANY: usize = 100_000;
/// Files that a program opens.
const FILES: &str = "32000";
/// Bytes of a page.
const PAGE: usize = hal::mem::PAGE;
/// Pairs of address spaces that borrow from each other.
const PAIRS: usize = 1000;
/// Frames that other programs may take meanwhile.
const NOISE: u64 = 256;
/// Pages that are mapped to get a certain frame.
const SEARCHED: usize = 4096;

fn main() -> i32 {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            let mut suite = Suite::new(PROGRAM);
            too_many(&mut suite);
            circles(&mut suite);
            suite.equal("words of former pages", status_of("words"), Ok(Some(0)));
            suite.finish()
        }
        ["pairs"] => errno(pairs()),
        ["carried-table"] => errno(carried_table()),
        ["words"] => errno(words_of_former_pages()),
        ["areas"] => areas(),
        ["moved-areas"] => errno(moved_areas()),
        ["mappings"] => errno(mappings()),
        ["files", count] => files(count.parse().unwrap_or(0)),
        _ => {
            runtime::eprintln!("usage: {PROGRAM}");
            2
        }
    }
}

fn errno<T>(result: Result<T>) -> i32 {
    result.err().map_or(0, |error| error.errno)
}

/// The exit status of this program with an argument, or the error number of starting it.
fn status_of(argument: &str) -> core::result::Result<Option<i32>, i32> {
    let mut command = Command::new(PROGRAM);
    let ended = command.arg(argument).spawn();
    let ended = ended.and_then(|mut child| child.wait());
    ended
        .map(|status| status.code())
        .map_err(|error| error.errno)
}

/// Maps the first page of a file, or one of new memory.
fn map_page(file: usize, flags: MapFlags) -> Result<usize> {
    map_page_at(0, file, flags)
}

/// As [`map_page`]; the address counts with `MAP_FIXED`.
fn map_page_at(address: usize, file: usize, flags: MapFlags) -> Result<usize> {
    let map = syscall::Map {
        offset: 0,
        size: PAGE,
        flags,
        address,
    };
    let words = [file, (&raw const map).addr(), size_of_val(&map), 0, 0, 0];
    sys::demux(probe::syscall(syscall::SYS_FMAP, words))
}

/// Maps pages of which no two are one area, until there is no room for more; 0 then.
fn areas() -> i32 {
    for number in 0..MANY {
        let rights = match number % 2 {
            0 => MapFlags::PROT_READ,
            _ => MapFlags::PROT_READ | MapFlags::PROT_WRITE,
        };
        match map_page(sys::NO_FD, rights | MapFlags::MAP_PRIVATE) {
            Ok(_) => {}
            Err(Error { errno: ENOMEM }) if number > 60_000 => return 0,
            Err(error) => return error.errno,
        }
    }
    255
}

/// Moves areas into one address space until it has as many as one can have.
fn moved_areas() -> Result<()> {
    const PAGES: usize = 33_000;
    const AT: usize = 1 << 40;
    let own = Fd::new(fd::dup_upper(state::thread_fd(), b"addrspace")?);
    let source = Fd::new(fd::dup_upper(own.raw(), b"empty")?);
    let target = Fd::new(fd::dup_upper(own.raw(), b"empty")?);
    let change = |space: &Fd, record: [usize; 6]| {
        fd::write(space.raw(), record.map(usize::to_ne_bytes).as_flattened()).map(drop)
    };
    let page = map_page(sys::NO_FD, MapFlags::PROT_READ | MapFlags::MAP_PRIVATE)?;
    let flags = (MapFlags::PROT_READ | MapFlags::MAP_FIXED_NOREPLACE).bits();
    for round in 0..2 {
        // The same page again and again: no two are one area.
        for number in 0..PAGES {
            let at = AT + number * PAGE;
            change(
                &source,
                [ADDRSPACE_OP_MMAP, own.raw(), page, at, PAGE, flags],
            )?;
        }
        let (to, bytes) = (AT + round * PAGES * PAGE, PAGES * PAGE);
        let record = [ADDRSPACE_OP_TRANSFER, source.raw(), AT, to, bytes, flags];
        match (round, change(&target, record)) {
            (0, Ok(())) | (1, Err(Error { errno: ENOMEM })) => {}
            (_, result) => return result.and(Err(Error::new(EINVAL))),
        }
    }
    Ok(())
}

/// Maps a page of a daemon's memory so often that the daemon gets more messages at our end than
/// contiguous memory of the kernel could hold.
fn mappings() -> Result<()> {
    let file = Fd::new(path::open("/scheme/scif/memory", syscall::O_RDWR)?);
    file.call_wo(&[], CallFlags::empty(), &[MemoryCall::PROVIDE, 1])?;
    for _ in 0..40_000 {
        map_page(file.raw(), MapFlags::PROT_READ | MapFlags::MAP_SHARED)?;
    }
    Ok(())
}

/// Opens a file this number of times, and says so; ends when it is killed.
fn files(count: usize) -> i32 {
    let opened: Result<Vec<Fd>> = (0..count)
        .map(|_| Ok(Fd::new(path::open("/scheme/null", syscall::O_RDWR)?)))
        .collect();
    match opened {
        Ok(_files) => {
            runtime::print!("{READY}");
            sleep(Duration::from_secs(3600));
            0
        }
        Err(error) => error.errno,
    }
}

/// A pipe: the end to read from and the end to write to.
fn pipe() -> Result<(Fd, Fd)> {
    let read = Fd::new(path::open("/scheme/pipe", syscall::O_RDWR)?);
    let write = Fd::new(fd::dup(read.raw(), b"write")?);
    Ok((read, write))
}

/// The kernel may keep much for a program, which ends all at once.
fn too_many(suite: &mut Suite) {
    suite.equal(
        "a program of very many areas",
        status_of("areas"),
        Ok(Some(0)),
    );
    suite.equal(
        "very many areas in one space",
        status_of("moved-areas"),
        Ok(Some(0)),
    );
    suite.equal(
        "a program of very many mappings",
        status_of("mappings"),
        Ok(Some(0)),
    );
    let killed = || -> Result<()> {
        let mut children = Vec::new();
        for _ in 0..3 {
            let (mut said, output) = pipe()?;
            let mut command = Command::new(PROGRAM);
            children.push(command.args(["files", FILES]).stdout(&output).spawn()?);
            drop(output);
            said.read_exact(&mut [0; READY.len()])?;
        }
        fs::read("/scheme/sys/iostat")?;
        children.iter_mut().try_for_each(|child| child.kill())?;
        children
            .iter_mut()
            .try_for_each(|child| child.wait().map(drop))
    };
    suite.equal("programs of very many files", errno(killed()), 0);
    suite.equal("their daemon goes on", errno(fs::read("/scheme/null")), 0);
}

/// Makes pairs of address spaces without programs, of which each borrows from the other.
fn pairs() -> Result<()> {
    const AT: usize = 1 << 40;
    let own = Fd::new(fd::dup_upper(state::thread_fd(), b"addrspace")?);
    let flags = MapFlags::PROT_READ | MapFlags::MAP_FIXED_NOREPLACE;
    let map = |space: &Fd, source: usize, at: usize| {
        let record = [ADDRSPACE_OP_MMAP, source, AT, at, PAGE, flags.bits()];
        fd::write(space.raw(), record.map(usize::to_ne_bytes).as_flattened()).map(drop)
    };
    for _ in 0..PAIRS {
        let one = Fd::new(fd::dup_upper(own.raw(), b"empty")?);
        let other = Fd::new(fd::dup_upper(own.raw(), b"empty")?);
        map(&one, sys::NO_FD, AT)?;
        map(&other, sys::NO_FD, AT)?;
        map(&one, other.raw(), AT + PAGE)?;
        map(&other, one.raw(), AT + PAGE)?;
    }
    Ok(())
}

/// Sends a pipe a file table that holds the pipe's read end.
fn carried_table() -> Result<()> {
    let (_read, write) = pipe()?;
    let table = Fd::new(fd::dup_upper(state::thread_fd(), b"filetable")?);
    let copy = Fd::new(fd::dup_upper(table.raw(), b"copy")?);
    drop(table);
    fd::send_fd(write.raw(), copy.raw(), true, &[]).map(drop)
}

/// What refers to itself must not stay when nobody else refers to it.
fn circles(suite: &mut Suite) {
    let lost = || {
        let before = kernel_count("frames_free")?;
        let status = status_of("pairs");
        let after = kernel_count("frames_free")?;
        let few = before.saturating_sub(after) <= NOISE;
        (status == Ok(Some(0)) && few)
            .then_some(())
            .ok_or(alloc::format!("{status:?}, {before} frames, then {after}"))
    };
    suite.check("address spaces that borrow from each other", lost());
    suite.equal(
        "a file table in a pipe that is in the table",
        status_of("carried-table"),
        Ok(Some(ELOOP)),
    );
}

/// The frame behind an address.
fn frame_of(translation: &Fd, address: usize) -> Result<usize> {
    let mut bytes = address.to_ne_bytes();
    fd::call_rw(translation.raw(), &mut bytes, &[])?;
    Ok(usize::from_ne_bytes(bytes))
}

fn futex(word: usize, operation: usize, value: usize) -> Result<usize> {
    let words = [word, operation, value, 0, 0, 0];
    sys::demux(probe::syscall(syscall::SYS_FUTEX, words))
}

/// Starts a thread that waits for a word, and waits until it does.
fn wait_for(word: usize) -> Result<alloc::sync::Arc<AtomicBool>> {
    let count = || kernel_count("futex_subcribers").map_err(|_| Error::new(EINVAL));
    let before = count()?;
    let woken = alloc::sync::Arc::new(AtomicBool::new(false));
    let says = woken.clone();
    thread::spawn(move || {
        let ended = futex(word, FUTEX_WAIT, 0);
        says.store(ended.is_ok(), Ordering::Release);
    })?;
    while count()? <= before {
        thread::yield_now();
    }
    Ok(woken)
}

/// A thread waits for a word whose page goes, and whose frame becomes another page: who waits for
/// a word there must be woken, and nobody else.
fn words_of_former_pages() -> Result<()> {
    const OFFSET: usize = 64;
    let rights = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE;
    let touched = || -> Result<usize> {
        let page = map_page(sys::NO_FD, rights)?;
        probe::poke(page, 0);
        Ok(page)
    };
    let translation = Fd::new(path::open("/scheme/memory/translation", syscall::O_RDONLY)?);
    for _ in 0..8 {
        let former = touched()?;
        let frame = frame_of(&translation, former)?;
        let stale = wait_for(former + OFFSET)?;
        // Another page takes its place, which is never touched.
        map_page_at(
            former,
            sys::NO_FD,
            MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED,
        )?;
        for _ in 0..SEARCHED {
            let page = touched()?;
            if frame_of(&translation, page)? != frame {
                continue;
            }
            let woken = wait_for(page + OFFSET)?;
            if futex(page + OFFSET, FUTEX_WAKE, 1)? != 1 {
                return Err(Error::new(EINVAL));
            }
            // The thread that was woken runs before this one does again, or soon.
            for _ in 0..SEARCHED {
                thread::yield_now();
            }
            let right = woken.load(Ordering::Acquire) && !stale.load(Ordering::Acquire);
            return right.then_some(()).ok_or(Error::new(EINVAL));
        }
    }
    Err(Error::new(ENOENT))
}
