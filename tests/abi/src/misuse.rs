//! Calls that a careful program does not make, and requests that end badly. These checks are for
//! the kernel of this project only: Redox's stops on some of them, and does others in its own way.

use crate::contexts;
use crate::contexts::{Child, Space};
use crate::ipc;
use crate::serving::*;
use crate::suite::{Check, Suite, Verdict, expect, hold, must, scheme_id::*};
use crate::sys;
use alloc::{format, string::String, vec::Vec};
use runtime::probe::{peek, poke};
use syscall::error::*;
use syscall::number::*;
use syscall::schemev2::{CqeOpcode, Opcode, Sqe};
use syscall::{
    CallFlags, ContextStatus, ContextVerb, Event, EventFlags, Map, MapFlags, MremapFlags,
    O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, PAGE_SIZE, TimeSpec,
};

/// More than the bounce buffers of an address space.
const MANY: usize = 33;
const PRIVATE: MapFlags = MapFlags::PROT_READ
    .union(MapFlags::PROT_WRITE)
    .union(MapFlags::MAP_PRIVATE);

const CHECKS: &[Check] = &[
    (
        "a small buffer in the first page, when the daemon has many others",
        buffer_in_first_page,
    ),
    (
        "an offset of the clock that no clock can show is EINVAL",
        clock_offset,
    ),
    (
        "a mapping through a daemon gives no right that the daemon lacks",
        rights_of_daemon,
    ),
    (
        "a copy of a file table that nobody has entered ends no locks",
        unused_table,
    ),
    (
        "a request with a page that cannot be had fails",
        absent_payload,
    ),
    (
        "an object that is made in a request that fails is closed",
        object_of_failed_request,
    ),
    (
        "a request that is answered before it is read is not read later",
        answered_unread,
    ),
    (
        "of mappings that fail a daemon is told of 16 at a time",
        unanswered_munmaps,
    ),
    (
        "a number that is taken is refused before a daemon is asked",
        taken_number,
    ),
    (
        "several records in one write: those before a bad one count",
        several_records,
    ),
    (
        "an interrupt ends the wait of a reader that was woken in vain",
        interrupt_after_wake,
    ),
    (
        "a long write to the console is taken in parts",
        console_in_parts,
    ),
];

pub fn run(suite: &Suite) {
    if is_this_projects(suite) {
        suite.check_all(CHECKS);
    }
}

/// Whether this is the kernel of this project, by the last line of `uname`.
pub fn is_this_projects(suite: &Suite) -> bool {
    let mut text = [0; 128];
    let count = suite.open(SYS, "uname", O_RDONLY).and_then(|fd| {
        let count = sys::read(fd, &mut text);
        sys::close(fd).and(count)
    });
    count.is_ok_and(|count| text[..count].ends_with(b"\nskiff\n"))
}

/// Whether the daemon has nothing to read; its socket is non-blocking afterwards.
fn is_idle(server: &Server<'_>) -> Result<bool, String> {
    must(
        "nonblock",
        sys::fcntl(server.socket, syscall::F_SETFL, O_NONBLOCK),
    )?;
    Ok(sys::read(server.socket, &mut Sqe::default()) == Err(EAGAIN))
}

fn end(server: Server<'_>) -> Verdict {
    expect("close the socket", sys::close(server.socket), Ok(0))
}

fn buffer_in_first_page(suite: &Suite) -> Verdict {
    let server = Server::new(suite)?;
    let (fd, number) = server.file()?;
    let mut waiting = Vec::new();
    for _ in 0..MANY {
        let client = Client::start(suite, SYS_READ, |page| [fd, page + BUFFER, 4, 0, 0, 0])?;
        waiting.push((server.expect(Opcode::Read)?, client));
    }
    let first = Map {
        offset: 0,
        size: PAGE_SIZE,
        flags: PRIVATE | MapFlags::MAP_FIXED_NOREPLACE,
        address: 0,
    };
    expect("map", sys::fmap(usize::MAX, &first), Ok(0))?;
    let client = Client::start(suite, SYS_READ, |_| [fd, 8, 4, 0, 0, 0])?;
    waiting.push((server.expect(Opcode::Read)?, client));
    expect("unmap", sys::funmap(0, PAGE_SIZE), Ok(0))?;
    for (sqe, client) in waiting {
        server.answer(&sqe, Ok(4))?;
        expect("read", client.finish()?, Ok(4))?;
    }
    server.close(fd, number)?;
    end(server)
}

fn clock_offset(suite: &Suite) -> Verdict {
    let fd = must("open", suite.open(SYS, "update_time_offset", O_WRONLY))?;
    for offset in [i128::MAX, i128::MIN, i128::from(i64::MAX) * 1_000_000_000] {
        let outcome = sys::write(fd, &offset.to_ne_bytes());
        expect("too far away", outcome, Err(EINVAL))?;
    }
    let day = 86_400_000_000_000_i128;
    let before = sys::clock(syscall::CLOCK_REALTIME).map_err(|e| format!("clock: {e}"))?;
    expect("a day", sys::write(fd, &day.to_ne_bytes()), Ok(16))?;
    let after = sys::clock(syscall::CLOCK_REALTIME).map_err(|e| format!("clock: {e}"))?;
    expect("none", sys::write(fd, &0_i128.to_ne_bytes()), Ok(16))?;
    hold("a day later", after - before >= day as u128)?;
    expect("close", sys::close(fd), Ok(0))
}

fn rights_of_daemon(suite: &Suite) -> Verdict {
    let server = Server::new(suite)?;
    let (fd, number) = server.file()?;
    let shared = must("shared", sys::fmap_anonymous(PAGE_SIZE, SHARED))?;
    poke(shared, 7);
    // The second time, the daemon has the page from another address, with the same rights.
    let own = must("cur-context", suite.dup(suite.root(PROC), b"cur-context"))?;
    let space = must("addrspace", suite.dup(own, b"addrspace"))?;
    let empty = must("empty", suite.dup(space, b"empty"))?;
    let there = 0x40_0000;
    let pass = [
        syscall::ADDRSPACE_OP_MMAP,
        usize::MAX,
        0,
        there,
        PAGE_SIZE,
        (SHARED | MapFlags::MAP_FIXED_NOREPLACE).bits(),
    ];
    expect("map there", contexts::write_words(empty, &pass), Ok(there))?;
    let reading = MapFlags::PROT_READ | MapFlags::MAP_SHARED;
    let borrow = Map {
        offset: there,
        size: PAGE_SIZE,
        flags: reading,
        address: 0,
    };
    let borrowed = must("borrow", sys::fmap(empty, &borrow))?;
    expect("zero", peek(borrowed), 0)?;
    let protect = sys::mprotect(shared, PAGE_SIZE, MapFlags::PROT_READ);
    expect("protect", protect, Ok(0))?;
    for memory in [shared, borrowed] {
        for (flags, wanted) in [(SHARED, Err(EPERM)), (reading, Ok(()))] {
            let client = Client::start(suite, SYS_FMAP, |page| {
                let map = Map {
                    offset: 0,
                    size: PAGE_SIZE,
                    flags,
                    address: 0,
                };
                for (at, byte) in map.iter().enumerate() {
                    poke(page + BUFFER + at, *byte);
                }
                [fd, page + BUFFER, 32, 0, 0, 0]
            })?;
            let sqe = server.expect(Opcode::MmapPrep)?;
            server.answer(&sqe, Ok(memory))?;
            // Of the mapping that fails, or at the end of the client.
            let sqe = server.expect(Opcode::Munmap)?;
            server.answer(&sqe, Ok(0))?;
            expect("fmap", client.finish()?.map(|_| ()), wanted)?;
        }
    }
    server.close(fd, number)?;
    for fd in [empty, space, own] {
        must("close", sys::close(fd))?;
    }
    expect("unmap", sys::funmap(borrowed, PAGE_SIZE), Ok(0))?;
    expect("unmap", sys::funmap(shared, PAGE_SIZE), Ok(0))?;
    end(server)
}

fn unused_table(suite: &Suite) -> Verdict {
    const LOCK: usize = 12;
    let server = Server::new(suite)?;
    let (fd, _) = server.file()?;
    let client = Client::start(suite, SYS_CALL, |page| {
        put_word(page + 256, 0, LOCK);
        let flags = CallFlags::STD_FS.bits() | 3;
        [fd, page + BUFFER, 8, flags, page + 256, 0]
    })?;
    let sqe = server.expect(Opcode::StdFsCall)?;
    server.special(CqeOpcode::RespondAndNotifyOnDetach, sqe.tag, 0)?;
    expect("lock", client.finish()?, Ok(0))?;
    let own = must("cur-context", suite.dup(suite.root(PROC), b"cur-context"))?;
    let table = must("filetable", suite.dup(own, b"filetable"))?;
    let copy = must("copy", suite.dup(table, b"copy"))?;
    for fd in [copy, table, own] {
        must("close", sys::close(fd))?;
    }
    hold("the lock stays", is_idle(&server)?)?;
    expect("close", sys::close(fd), Ok(0))?;
    server.expect(Opcode::Detach)?;
    server.expect(Opcode::CloseMsg)?;
    end(server)
}

/// Makes the call that its page names with a page as its buffer that cannot be had: it was borrowed
/// from this address space before it existed, and then its place was unmapped.
fn absent_buffer(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let page = shared.value;
    let gone = sys::fmap_anonymous(PAGE_SIZE, PRIVATE).unwrap_or(0);
    let flags = MremapFlags::KEEP_OLD.bits() | PRIVATE.bits();
    let borrowed = sys::raw(SYS_MREMAP, [gone, PAGE_SIZE, 0, PAGE_SIZE, flags, 0]).unwrap_or(0);
    let _ = sys::funmap(gone, PAGE_SIZE);
    let mut args = core::array::from_fn(|i| word(page, 1 + i));
    args[1] = borrowed;
    put_word(page, RESULT, runtime::probe::syscall(word(page, 0), args));
    put_word(page, DONE, 1);
    contexts::end(shared.proc_root, shared.slots)
}

/// A client that calls with such a buffer.
fn start_absent(suite: &Suite, number: usize, args: [usize; 6]) -> Result<Client, String> {
    let page = shared_page()?;
    put_word(page, 0, number);
    for (index, argument) in args.into_iter().enumerate() {
        put_word(page, 1 + index, argument);
    }
    let record = contexts::share(suite, page)?;
    let child = Child::start(suite, Space::Clone, absent_buffer, record)?;
    Ok(Client { page, child })
}

fn absent_payload(suite: &Suite) -> Verdict {
    let server = Server::new(suite)?;
    let (fd, number) = server.file()?;
    let args = [fd, 0, PAGE_SIZE, 0, 0, 0];
    for (call, opcode) in [(SYS_WRITE, Opcode::Write), (SYS_READ, Opcode::Read)] {
        let client = start_absent(suite, call, args)?;
        let sqe = server.expect(opcode)?;
        // The daemon must not fault.
        let at = sqe.args[1] as usize;
        match opcode {
            Opcode::Read => poke(at, 1),
            _ => expect("content", peek(at), 0)?,
        }
        server.answer(&sqe, Ok(PAGE_SIZE))?;
        expect("client", client.finish()?, Err(EFAULT))?;
    }
    server.close(fd, number)?;
    end(server)
}

fn object_of_failed_request(suite: &Suite) -> Verdict {
    const MADE: usize = 77;
    let server = Server::new(suite)?;
    let (fd, number) = server.file()?;
    let slot = suite.slot();
    let client = start_absent(suite, SYS_DUP_INTO, [fd, 0, PAGE_SIZE, slot, 0, 0])?;
    let sqe = server.expect(Opcode::Dup)?;
    expect("name", peek(sqe.args[1] as usize), 0)?;
    server.answer(&sqe, Ok(MADE))?;
    expect("dup", client.finish()?, Err(EFAULT))?;
    expect("close", sys::close(fd), Ok(0))?;
    for wanted in [MADE, number] {
        let sqe = server.expect(Opcode::CloseMsg)?;
        expect("closed", sqe.args[0] as usize, wanted)?;
    }
    end(server)
}

fn answered_unread(suite: &Suite) -> Verdict {
    let server = Server::new(suite)?;
    let (fd, number) = server.file()?;
    // The lowest free tag is the next.
    let first = Sqe::default();
    let client = Client::start(suite, SYS_FSYNC, |_| [fd, 0, 0, 0, 0, 0])?;
    for _ in 0..1000 {
        must("settle", sys::nanosleep(1_000_000))?;
        if server.answer(&first, Ok(0)).is_ok() {
            break;
        }
    }
    expect("fsync", client.finish()?, Ok(0))?;
    hold("nothing to read", is_idle(&server)?)?;
    server.close(fd, number)?;
    end(server)
}

fn taken_number(suite: &Suite) -> Verdict {
    let server = Server::new(suite)?;
    let (fd, number) = server.file()?;
    for (call, args) in [
        (SYS_DUP_INTO, [fd, 0, 1, fd, 0, 0]),
        (SYS_OPENAT_INTO, [fd, 0, 1, O_RDWR, 0, fd]),
    ] {
        let client = Client::start(suite, call, |page| {
            let mut args = args;
            args[1] = page + BUFFER;
            args
        })?;
        must("settle", sys::nanosleep(20_000_000))?;
        if !is_idle(&server)? {
            return Err(String::from("the daemon was asked"));
        }
        expect("taken", client.finish()?, Err(EEXIST))?;
    }
    server.close(fd, number)?;
    end(server)
}

fn several_records(suite: &Suite) -> Verdict {
    let queue = must("queue", suite.open(EVENT, "", O_RDWR | O_NONBLOCK))?;
    let pipe = must("pipe", suite.open(PIPE, "", O_RDONLY | O_NONBLOCK))?;
    let write = must("write end", suite.dup(pipe, b"write"))?;
    let event = |id| Event {
        id,
        flags: EventFlags::EVENT_READ,
        data: 5,
    };
    let bytes: Vec<u8> = [event(pipe), event(usize::MAX)]
        .iter()
        .flat_map(|event| event.iter().copied())
        .collect();
    let size = size_of::<Event>();
    expect("one of two", sys::write(queue, &bytes), Ok(size))?;
    expect("a bad one", sys::write(queue, &bytes[size..]), Err(EBADF))?;
    expect("write", sys::write(write, b"x"), Ok(1))?;
    let found = ipc::next_event(queue).map_err(|e| format!("no event: {e}"))?;
    expect("event", (found.id, found.data), (pipe, 5))?;

    let timer = must("timer", suite.open(TIME, "4/timer", O_RDWR))?;
    let far = TimeSpec {
        tv_sec: 1 << 40,
        tv_nsec: 0,
    };
    let many: Vec<u8> = (0..2000)
        .flat_map(|_| far.iter().copied().collect::<Vec<_>>())
        .collect();
    let most = 1024 * size_of::<TimeSpec>();
    expect(
        "as many as there may be",
        sys::write(timer, &many),
        Ok(most),
    )?;
    expect("no more", sys::write(timer, &far), Err(ENOMEM))?;
    for fd in [timer, queue, pipe, write] {
        must("close", sys::close(fd))?;
    }
    Ok(())
}

fn unanswered_munmaps(suite: &Suite) -> Verdict {
    const MOST: usize = 16;
    let server = Server::new(suite)?;
    let (fd, number) = server.file()?;
    let hole = 0x5000_0000_0000;
    for round in 0..MOST + 4 {
        let client = Client::start(suite, SYS_FMAP, |page| {
            let map = Map {
                offset: round * PAGE_SIZE,
                size: 100,
                flags: SHARED,
                address: 0,
            };
            for (at, byte) in map.iter().enumerate() {
                poke(page + BUFFER + at, *byte);
            }
            [fd, page + BUFFER, 32, 0, 0, 0]
        })?;
        let sqe = server.expect(Opcode::MmapPrep)?;
        expect("size", sqe.args[1], 100)?;
        server.answer(&sqe, Ok(hole))?;
        expect("fmap", client.finish()?, Err(EIO))?;
        if round < MOST {
            let sqe = server.expect(Opcode::Munmap)?;
            expect("whole pages", sqe.args[1] as usize, PAGE_SIZE)?;
            expect("offset", sqe.args[3] as usize, round * PAGE_SIZE)?;
        }
    }
    hold("the others wait", is_idle(&server)?)?;
    // The tag of the first is the lowest.
    server.answer(&Sqe::default(), Ok(0))?;
    let sqe = server.expect(Opcode::Munmap)?;
    expect("the next", sqe.args[3] as usize, MOST * PAGE_SIZE)?;
    expect("close", sys::close(fd), Ok(0))?;
    hold("still open", is_idle(&server)?)?;
    for tag in 1..MOST as u32 {
        let cqe = Sqe {
            tag,
            ..Sqe::default()
        };
        server.answer(&cqe, Ok(0))?;
    }
    for _ in 0..3 {
        server.expect(Opcode::Munmap)?;
    }
    let sqe = server.expect(Opcode::CloseMsg)?;
    expect("closed", sqe.args[0] as usize, number)?;
    end(server)
}

/// Words of the cell that two readers of a queue share: the queue, the second's error number, and
/// its status handle.
const QUEUE: usize = 0;
const ERRNO: usize = 1;
const STATUS: usize = 2;

/// Reads one event, and then interrupts the other reader.
fn first_reader(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let cell = shared.value;
    if sys::read(word(cell, QUEUE), &mut Event::default()).is_ok() {
        let interrupt = [ContextVerb::Interrupt as usize];
        let _ = contexts::write_words(word(cell, STATUS), &interrupt);
    }
    contexts::end(shared.proc_root, shared.slots)
}

/// Reads events until that fails.
fn second_reader(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let queue = word(shared.value, QUEUE);
    let errno = loop {
        if let Err(errno) = sys::read(queue, &mut Event::default()) {
            break errno;
        }
    };
    put_word(shared.value, ERRNO, errno as usize);
    contexts::end(shared.proc_root, shared.slots)
}

fn interrupt_after_wake(suite: &Suite) -> Verdict {
    let pipe = must("pipe", suite.open(PIPE, "", O_RDONLY))?;
    let write = must("write end", suite.dup(pipe, b"write"))?;
    let queue = must("queue", suite.open(EVENT, "", O_RDWR))?;
    must(
        "watch",
        ipc::subscribe(queue, pipe, EventFlags::EVENT_READ, 1),
    )?;
    let cell = must("cell", sys::fmap_anonymous(PAGE_SIZE, PRIVATE))?;
    put_word(cell, QUEUE, queue);
    let start = |function| {
        let record = contexts::share(suite, cell)?;
        let child = Child::start(suite, Space::Same, function, record)?;
        for _ in 0..1000 {
            if child.status()?.0 == ContextStatus::Blocked as usize {
                return Ok(child);
            }
            must("it does not wait yet", sys::nanosleep(1_000_000))?;
        }
        Err(String::from("a reader that never waits"))
    };
    let (first, second) = (start(first_reader)?, start(second_reader)?);
    put_word(cell, STATUS, second.status);
    // Both are woken. The first takes the event, and interrupts the second before that has run.
    expect("write", sys::write(write, b"x"), Ok(1))?;
    first.join()?;
    let errno = wait_for(cell, ERRNO).unwrap_or_default();
    if errno == 0 {
        let interrupt = [ContextVerb::Interrupt as usize];
        must("again", contexts::write_words(second.status, &interrupt))?;
    }
    second.join()?;
    expect("the second's error", errno as i32, EINTR)?;
    for fd in [queue, pipe, write] {
        must("close", sys::close(fd))?;
    }
    expect("unmap", sys::funmap(cell, PAGE_SIZE), Ok(0))
}

fn console_in_parts(suite: &Suite) -> Verdict {
    let console = must("console", suite.open(DEBUG, "", O_WRONLY))?;
    let line = [b'-'; 300];
    let count = must("write", sys::write(console, &line))?;
    must("end of the line", sys::write(console, b"\n"))?;
    expect("close", sys::close(console), Ok(0))?;
    hold(&format!("a part, {count}"), (1..=256).contains(&count))
}

/// Waits for a word of a page to change from 0.
pub fn wait_for(page: usize, index: usize) -> Result<usize, String> {
    for _ in 0..1000 {
        match word(page, index) {
            0 => must("wait", sys::nanosleep(1_000_000))?,
            word => return Ok(word),
        };
    }
    Err(String::from("a daemon that does nothing"))
}
