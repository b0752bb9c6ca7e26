//! Words that a waiting thread has the kernel look at (operation 64 of `SYS_FUTEX`,
//! `kernel/src/sched/idle_poll.rs`), as programs see them.
//!
//! `idle-poll-test`, which starts itself with another word for the parts that must end badly. No
//! check depends on how long something takes: a wait that ends before a look could be made is
//! repeated, and the kernel counts those that a look has ended in time.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use guest_tests::{Suite, kernel_count};
use hal::event::Queue;
use libredox::Fd;
use runtime::io::Read;
use runtime::process::{self, Command};
use runtime::{path, probe, thread};
use syscall::error::{EAGAIN, EBADF, EFAULT, EINTR, EINVAL, EOPNOTSUPP, Error, Result};
use syscall::flag::{ContextVerb, EventFlags, MapFlags, O_RDWR};
use syscall::{Map, SYS_FMAP, SYS_FUNMAP, SYS_FUTEX};

runtime::main!(main);

/// The operation.
const FUTEX_POLL: usize = 64;
/// Most words.
const MOST: usize = 32;
const PAGE: usize = 4096;
/// As long as the kernel lets a thread wait.
const LONG: usize = usize::MAX;
/// Waits that a look ends in time, at least, and tries for that on a busy machine.
const SEEN: u64 = 10;
const TRIES: u64 = 3000;
/// A wait that is to end without a change.
const SHORT: usize = 1_000_000;
/// The line of a program that is about to wait.
const READY: &str = "ready\n";

/// A word's address and the value it had.
type Entry = [usize; 2];

fn main() -> i32 {
    let mode = runtime::env::args().nth(1);
    match mode.as_deref() {
        Some("wait") => wait_for_ever(),
        Some("leave") => leave(),
        _ => all(),
    }
}

fn all() -> i32 {
    let mut suite = Suite::new("idle-poll-test");
    refusals(&mut suite);
    values(&mut suite);
    suite.check(
        "a store by a thread that sleeps",
        other_stores(Then::Sleeps),
    );
    suite.check(
        "a store by a thread that yields",
        other_stores(Then::Yields),
    );
    suite.check(
        "a store by a thread that computes",
        other_stores(Then::Computes),
    );
    suite.check("memory that goes meanwhile", memory_goes());
    queue_refusals(&mut suite);
    suite.check("an event that is there", event_is_there());
    suite.check("an event that comes", event_comes());
    suite.check("a queue that is closed", queue_ends());
    suite.check("an interruption", interrupted(false));
    suite.check("an interruption beside a queue", interrupted(true));
    suite.check("too many words", too_many());
    suite.check("a kill", kill());
    suite.check("the end of the program", end());
    suite.finish()
}

fn poll(list: &[Entry], longest: usize) -> Result<usize> {
    raw(list.as_ptr().addr(), list.len(), longest)
}

fn raw(list: usize, count: usize, longest: usize) -> Result<usize> {
    raw_beside(list, count, longest, 0)
}

/// The last argument is 0, or the number behind that of an event queue's descriptor.
fn raw_beside(list: usize, count: usize, longest: usize, queue: usize) -> Result<usize> {
    let arguments = [list, FUTEX_POLL, count, longest, queue, 0];
    Error::demux(probe::syscall(SYS_FUTEX, arguments))
}

fn poll_beside(list: &[Entry], longest: usize, queue: usize) -> Result<usize> {
    raw_beside(list.as_ptr().addr(), list.len(), longest, queue + 1)
}

fn entry(word: &AtomicU32, value: u32) -> Entry {
    [core::ptr::from_ref(word).addr(), value as usize]
}

fn refusals(suite: &mut Suite) {
    let word = AtomicU32::new(7);
    let list = [entry(&word, 7); MOST + 1];
    suite.equal("no word", poll(&[], SHORT), error(EINVAL));
    suite.equal("a word too many", poll(&list, SHORT), error(EINVAL));
    suite.equal("as many as there may be", poll(&list[1..], SHORT), Ok(0));
    suite.equal(
        "a list that is not there",
        raw(PAGE, 1, SHORT),
        error(EFAULT),
    );
    suite.equal(
        "a list of the kernel",
        raw(1 << 63, 1, SHORT),
        error(EFAULT),
    );
    suite.equal(
        "a list at the end",
        raw(usize::MAX, 1, SHORT),
        error(EFAULT),
    );
    let [address, value] = list[0];
    for (name, address, number) in [
        ("a word that is not aligned", address + 1, EINVAL),
        ("a word that is not there", PAGE, EFAULT),
        ("a word of the kernel", 0xffff_8000_0000_1000, EFAULT),
        ("a word at the end", usize::MAX - 3, EFAULT),
    ] {
        let found = poll(&[list[0], [address, value]], SHORT);
        suite.equal(name, found, error(number));
    }
    // The firmware's memory, which is no RAM of programs.
    let firmware = map_firmware();
    let found = firmware.and_then(|address| poll(&[[address, 0]], SHORT));
    suite.equal("a device's word", found, error(EOPNOTSUPP));
}

fn map_firmware() -> Result<usize> {
    let file = Fd::new(path::open("/scheme/memory/physical@uc", O_RDWR)?);
    let map = Map {
        offset: 0xf_0000,
        size: PAGE,
        flags: MapFlags::PROT_READ | MapFlags::MAP_SHARED,
        address: 0,
    };
    fmap(file.raw(), &map)
}

fn fmap(fd: usize, map: &Map) -> Result<usize> {
    let arguments = [
        fd,
        core::ptr::from_ref(map).addr(),
        size_of::<Map>(),
        0,
        0,
        0,
    ];
    Error::demux(probe::syscall(SYS_FMAP, arguments))
}

fn error(number: i32) -> Result<usize> {
    Err(Error::new(number))
}

fn values(suite: &mut Suite) {
    let (first, last) = (AtomicU32::new(1), AtomicU32::new(2));
    let found = poll(&[entry(&first, 1), entry(&last, 2)], SHORT);
    suite.equal("nothing changes", found, Ok(0));
    let found = poll(&[entry(&first, 1), entry(&last, 3)], LONG);
    suite.equal("the last has another value", found, Ok(1));
    let found = poll(&[entry(&first, 1)], 0);
    suite.equal("no time", found, Ok(0));
    // The upper half of an entry's value is not looked at.
    let [address, value] = entry(&first, 1);
    let found = poll(&[[address, value | 1 << 32]], SHORT);
    suite.equal("a value of 33 bits", found, Ok(0));
}

/// The occupation of the other thread after its store.
#[derive(Clone, Copy)]
enum Then {
    Sleeps,
    Yields,
    Computes,
}

static WAITS: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
static WORD: AtomicU32 = AtomicU32::new(0);

/// Waits until a word has changed, as often as it takes.
fn wait_for(list: &[Entry]) -> Result<usize> {
    loop {
        match poll(list, LONG) {
            Ok(0) => {}
            found => return found,
        }
    }
}

/// Another thread stores when this one waits, or is about to.
fn other_stores(then: Then) -> core::result::Result<(), String> {
    let before = kernel_count("idle_polls_seen")?;
    for round in 0..TRIES {
        store_once(then, round % 20)?;
        if kernel_count("idle_polls_seen")? - before >= SEEN {
            runtime::println!("idle-poll-test: {SEEN} waits seen in {} tries", round + 1);
            return Ok(());
        }
    }
    Err(format!("{TRIES} tries"))
}

fn store_once(then: Then, pauses: u64) -> core::result::Result<(), String> {
    WAITS.store(false, Ordering::Release);
    STOP.store(false, Ordering::Release);
    let before = WORD.load(Ordering::Acquire);
    let store = move || {
        while !WAITS.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // Some time for the other one to fall asleep; it need not be enough.
        (0..pauses).for_each(|_| thread::yield_now());
        WORD.store(before + 1, Ordering::Release);
        while !STOP.load(Ordering::Acquire) {
            match then {
                Then::Sleeps => return,
                Then::Yields => thread::yield_now(),
                Then::Computes => core::hint::spin_loop(),
            }
        }
    };
    let other = thread::spawn(store).map_err(text)?;
    WAITS.store(true, Ordering::Release);
    let found = wait_for(&[entry(&WORD, before)]);
    STOP.store(true, Ordering::Release);
    other.join().map_err(text)?;
    match found {
        Ok(1) => Ok(()),
        found => Err(format!("{found:?}")),
    }
}

fn text(error: Error) -> String {
    format!("{error}")
}

/// The page of a word is unmapped while a thread waits: the wait ends, and what becomes of the
/// frame is not looked at.
fn memory_goes() -> core::result::Result<(), String> {
    let before = kernel_count("idle_polls_seen")?;
    for _ in 0..TRIES {
        match unmap_once()? {
            Ok(1) | Err(Error { errno: EFAULT }) => {}
            found => return Err(format!("{found:?}")),
        }
        if kernel_count("idle_polls_seen")? - before >= SEEN {
            return Ok(());
        }
    }
    Err(format!("{TRIES} tries"))
}

fn unmap_once() -> core::result::Result<Result<usize>, String> {
    let map = Map {
        offset: 0,
        size: PAGE,
        flags: MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE,
        address: 0,
    };
    let page = fmap(usize::MAX, &map).map_err(text)?;
    probe::poke(page, 0);
    let waits = kernel_count("idle_polls")?;
    let other = thread::spawn(move || wait_for(&[[page, 0]])).map_err(text)?;
    while kernel_count("idle_polls")? == waits {
        thread::yield_now();
    }
    let unmapped = probe::syscall(SYS_FUNMAP, [page, PAGE, 0, 0, 0, 0]);
    Error::demux(unmapped).map_err(text)?;
    other.join().map_err(text)
}

/// A signal interrupts a wait, and no other than that.
fn interrupted(is_beside: bool) -> core::result::Result<(), String> {
    let interrupt = (ContextVerb::Interrupt as usize).to_ne_bytes();
    for _ in 0..5 {
        let other = thread::spawn(move || {
            let queue = is_beside.then(watched_pipe).transpose()?;
            let word = AtomicU32::new(3);
            let list = [entry(&word, 3)];
            let wait = || match &queue {
                Some((queue, _)) => poll_beside(&list, LONG, queue.descriptor()),
                None => poll(&list, LONG),
            };
            let found = loop {
                match wait() {
                    Ok(0) => {}
                    found => break found,
                }
            };
            // The next one is an ordinary wait.
            word.store(4, Ordering::Release);
            wait().and(found)
        });
        let other = other.map_err(text)?;
        let status = runtime::fd::dup_upper(other.thread_fd(), b"status");
        let status = Fd::new(status.map_err(text)?);
        while !other.is_finished() {
            let _ = runtime::fd::write(status.raw(), &interrupt);
            thread::yield_now();
        }
        match other.join().map_err(text)? {
            Err(Error { errno: EINTR }) => {}
            found => return Err(format!("{found:?}")),
        }
    }
    Ok(())
}

/// Of five threads that name 16 words each, at least one is refused.
fn too_many() -> core::result::Result<(), String> {
    static REFUSED: AtomicU32 = AtomicU32::new(0);
    let before = WORD.load(Ordering::Acquire);
    let wait = move || {
        loop {
            match poll(&[entry(&WORD, before); MOST], LONG) {
                Ok(0) => {}
                Err(Error { errno: EAGAIN }) => {
                    REFUSED.fetch_add(1, Ordering::AcqRel);
                    thread::yield_now();
                }
                found => return found,
            }
        }
    };
    let others: Result<alloc::vec::Vec<_>> = (0..5).map(|_| thread::spawn(wait)).collect();
    let others = others.map_err(text)?;
    while REFUSED.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    WORD.store(before + 1, Ordering::Release);
    for other in others {
        match other.join().map_err(text)? {
            Ok(1) => {}
            found => return Err(format!("{found:?}")),
        }
    }
    Ok(())
}

fn queue_refusals(suite: &mut Suite) {
    let word = AtomicU32::new(3);
    let list = [entry(&word, 3)];
    for (name, queue) in [
        ("a queue that is not open", 60_000),
        ("a queue behind the last number", usize::MAX - 1),
        ("a file that is no queue", 1),
    ] {
        suite.equal(name, poll_beside(&list, LONG, queue), error(EBADF));
    }
    match Queue::<()>::new() {
        Ok(queue) => {
            let found = poll_beside(&list, SHORT, queue.descriptor());
            suite.equal("a queue without events", found, Ok(0));
        }
        Err(_) => suite.check("a queue", Err(String::from("there is none"))),
    }
}

/// A queue that watches a pipe, and both ends of that.
fn watched_pipe() -> Result<(Queue<()>, [Fd; 2])> {
    let reader = Fd::new(path::open("/scheme/pipe", 0)?);
    let writer = Fd::new(runtime::fd::dup(reader.raw(), b"write")?);
    let mut queue = Queue::new()?;
    queue.subscribe(reader.raw(), EventFlags::EVENT_READ, ())?;
    Ok((queue, [reader, writer]))
}

/// It ends a wait, and stays for whoever reads the queue.
fn event_is_there() -> core::result::Result<(), String> {
    let (mut queue, [_reader, writer]) = watched_pipe().map_err(text)?;
    let word = AtomicU32::new(3);
    runtime::fd::write(writer.raw(), b"x").map_err(text)?;
    for _ in 0..2 {
        match poll_beside(&[entry(&word, 3)], LONG, queue.descriptor()) {
            Ok(1) => {}
            found => return Err(format!("{found:?}")),
        }
    }
    let mut events = alloc::vec::Vec::new();
    queue
        .wait(Some(Duration::ZERO), &mut events)
        .map_err(text)?;
    match events.len() {
        1 => Ok(()),
        count => Err(format!("{count} events")),
    }
}

/// Whoever watches a queue is told of its end, as nothing comes from it any more.
fn queue_ends() -> core::result::Result<(), String> {
    let (inner, _pipe) = watched_pipe().map_err(text)?;
    let mut outer: Queue<()> = Queue::new().map_err(text)?;
    let watched = outer.subscribe(inner.descriptor(), EventFlags::EVENT_READ, ());
    watched.map_err(text)?;
    drop(inner);
    let mut events = alloc::vec::Vec::new();
    outer
        .wait(Some(Duration::ZERO), &mut events)
        .map_err(text)?;
    match events.len() {
        1 => Ok(()),
        count => Err(format!("{count} events")),
    }
}

/// Another thread makes it while this one waits, or is about to.
fn event_comes() -> core::result::Result<(), String> {
    for _ in 0..20 {
        let (queue, [_reader, writer]) = watched_pipe().map_err(text)?;
        let word = AtomicU32::new(3);
        let other = thread::spawn(move || {
            thread::yield_now();
            runtime::fd::write(writer.raw(), b"x").map(|_| writer)
        });
        let other = other.map_err(text)?;
        loop {
            match poll_beside(&[entry(&word, 3)], LONG, queue.descriptor()) {
                Ok(0) => {}
                Ok(1) => break,
                found => return Err(format!("{found:?}")),
            }
        }
        other.join().map_err(text)?.map_err(text)?;
    }
    Ok(())
}

/// Waits until something ends this process.
fn wait_for_ever() -> i32 {
    let word = AtomicU32::new(0);
    runtime::print!("{READY}");
    let found = wait_for(&[entry(&word, 0)]);
    runtime::println!("the wait ended with {found:?}");
    4
}

/// Ends while another thread waits.
fn leave() -> i32 {
    let wait = || wait_for(&[entry(&WORD, 0)]);
    let Ok(waits) = kernel_count("idle_polls") else {
        return 5;
    };
    if thread::spawn(wait).is_err() {
        return 6;
    }
    while kernel_count("idle_polls") == Ok(waits) {
        thread::yield_now();
    }
    process::exit(7)
}

fn kill() -> core::result::Result<(), String> {
    for _ in 0..10 {
        let mut said = Fd::new(path::open("/scheme/pipe", O_RDWR).map_err(text)?);
        let output = Fd::new(runtime::fd::dup(said.raw(), b"write").map_err(text)?);
        let child = Command::new("idle-poll-test")
            .arg("wait")
            .stdout(&output)
            .spawn();
        let mut child = child.map_err(text)?;
        drop(output);
        said.read_exact(&mut [0; READY.len()]).map_err(text)?;
        child.kill().map_err(text)?;
        let status = child.wait().map_err(text)?;
        if status.signal().is_none() {
            return Err(format!("ended with {status:?}, not by the signal"));
        }
    }
    Ok(())
}

fn end() -> core::result::Result<(), String> {
    let mut child = Command::new("idle-poll-test")
        .arg("leave")
        .spawn()
        .map_err(text)?;
    match child.wait().map_err(text)?.code() {
        Some(7) => Ok(()),
        status => Err(format!("ended with {status:?}")),
    }
}
