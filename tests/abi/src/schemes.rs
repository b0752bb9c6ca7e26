//! A user scheme: a daemon context and this one as its client (Redox's
//! `src/scheme/user.rs`).

use crate::contexts::{self, Child, Space};
use crate::suite::{Check, Suite, Verdict, expect, hold, must, scheme_id::*};
use crate::sys;
use alloc::{format, string::String, vec::Vec};
use core::mem::size_of;
use runtime::probe::{peek, poke};
use syscall::data::NewFdParams;
use syscall::error::*;
use syscall::schemev2::{Cqe, CqeOpcode, Opcode, Sqe};
use syscall::{CallFlags, Map, MapFlags, O_RDONLY, O_RDWR, PAGE_SIZE};

/// Descriptor numbers both sides use (they share one file table).
const ROOT: usize = 40_000;
const READY_READ: usize = 40_001;
const READY_WRITE: usize = 40_002;
const LOG_READ: usize = 40_003;
const LOG_WRITE: usize = 40_004;
const SOCKET: usize = 40_005;
const CHILD_SLOTS: usize = 41_000;

/// Object numbers of the daemon.
const PLAIN: usize = 1;
const POSITIONED: usize = 2;
const DUPLICATE: usize = 3;
/// First metadata word of the call after which the daemon ends.
const FAREWELL: usize = 0xbeef;

fn reply(tag: u32, result: Result<usize, i32>, extra: u8) {
    let value = match result {
        Ok(value) => value as u64,
        Err(errno) => (-(errno as i64)) as u64,
    };
    let flags = CqeOpcode::RespondRegular as u8;
    let _ = sys::write(
        SOCKET,
        &Cqe {
            flags,
            extra_raw: [extra, 0, 0],
            tag,
            result: value,
        },
    );
}

fn words(sqe: &Sqe) -> [usize; 6] {
    sqe.args.map(|word| word as usize)
}

fn bytes_at(address: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| peek(address + i)).collect()
}

/// The daemon: answers each request by fixed rules and logs the opcode it saw.
fn daemon(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let _ = sys::dup(shared.value, b"create-scheme", SOCKET);
    let root = NewFdParams {
        offset: 0,
        number: 0,
        flags: 0,
        internal_flags: 0,
    };
    let mut params = [0u8; 32];
    params[..8].copy_from_slice(&root.offset.to_le_bytes());
    params[8..16].copy_from_slice(&root.number.to_le_bytes());
    let _ = sys::dup(SOCKET, &params, ROOT);
    let memory = sys::fmap_anonymous(
        2 * PAGE_SIZE,
        MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE,
    )
    .unwrap_or(0);
    poke(memory, b'm');
    poke(memory + PAGE_SIZE, b'n');
    let _ = sys::write(READY_WRITE, b"r");
    loop {
        let mut sqe = Sqe::default();
        if sys::read(SOCKET, &mut sqe) != Ok(size_of::<Sqe>()) {
            contexts::end(shared.proc_root, CHILD_SLOTS + 500);
        }
        let _ = sys::write(LOG_WRITE, &[sqe.opcode]);
        answer(&sqe, memory);
        if sqe.opcode == Opcode::Call as u8 && words(&sqe)[3] == FAREWELL {
            contexts::end(shared.proc_root, CHILD_SLOTS + 500);
        }
    }
}

fn answer(sqe: &Sqe, memory: usize) {
    let [_, b, c, d, _, _] = words(sqe);
    match sqe.opcode {
        op if op == Opcode::OpenAt as u8 => match bytes_at(b, c).as_slice() {
            b"plain" => reply(sqe.tag, Ok(PLAIN), 0),
            b"positioned" => reply(sqe.tag, Ok(POSITIONED), 1),
            _ => reply(sqe.tag, Err(ENOENT), 0),
        },
        op if op == Opcode::Dup as u8 => reply(sqe.tag, Ok(DUPLICATE), 0),
        op if op == Opcode::Read as u8 => {
            for i in 0..c {
                poke(b + i, (i as u8).wrapping_add(d as u8));
            }
            reply(sqe.tag, Ok(c), 0);
        }
        op if op == Opcode::Write as u8 => {
            let sum: usize = bytes_at(b, c).into_iter().map(usize::from).sum();
            let _ = sys::write(LOG_WRITE, &(sum as u32).to_le_bytes());
            reply(sqe.tag, Ok(c), 0);
        }
        op if op == Opcode::Fsize as u8 => reply(sqe.tag, Ok(5000), 0),
        op if op == Opcode::Fcntl as u8 => reply(sqe.tag, Ok(0), 0),
        op if op == Opcode::Fevent as u8 => reply(sqe.tag, Ok(b & 1), 0),
        op if op == Opcode::Call as u8 => {
            if c > 0 {
                poke(b, peek(b).wrapping_add(1));
            }
            reply(sqe.tag, Ok(sqe.args[3] as usize + sqe.args[4] as usize), 0);
        }
        op if op == Opcode::Fpath as u8 => {
            for (i, byte) in b"abi:path".iter().take(c).enumerate() {
                poke(b + i, *byte);
            }
            reply(sqe.tag, Ok(c.min(8)), 0);
        }
        op if op == Opcode::MmapPrep as u8 => reply(sqe.tag, Ok(memory + d), 0),
        op if op == Opcode::CloseMsg as u8 => (),
        op if op == Opcode::Cancel as u8 => (),
        op if op == Opcode::Detach as u8 => (),
        op if op == Opcode::Munmap as u8 => reply(sqe.tag, Ok(0), 0),
        _ => reply(sqe.tag, Err(EOPNOTSUPP), 0),
    }
}

/// The requests that the daemon has seen since the last look.
fn log() -> Vec<u8> {
    let mut seen = alloc::vec![0; 4096];
    let n = sys::read(LOG_READ, &mut seen).unwrap_or(0);
    seen.truncate(n);
    seen
}

/// Waits until the daemon has seen as many messages as wanted, a minute at most, and a moment more
/// for what must not come; then compares.
fn told(what: &str, wanted: &[Opcode]) -> Verdict {
    let mut seen = log();
    for _ in 0..6000 {
        if seen.len() >= wanted.len() {
            break;
        }
        must("wait", sys::nanosleep(10_000_000))?;
        seen.extend(log());
    }
    must("a moment", sys::nanosleep(10_000_000))?;
    seen.extend(log());
    let wanted = wanted.iter().map(|opcode| *opcode as u8);
    expect(what, seen, wanted.collect())
}

fn start_daemon(suite: &Suite) -> Result<Child, String> {
    let ready = must(
        "pipe",
        sys::openat(suite.root(PIPE), "", O_RDONLY, READY_READ),
    )?;
    must("write end", sys::dup(ready, b"write", READY_WRITE))?;
    let nonblock = O_RDONLY | syscall::O_NONBLOCK;
    must("log", sys::openat(suite.root(PIPE), "", nonblock, LOG_READ))?;
    must("log end", sys::dup(LOG_READ, b"write", LOG_WRITE))?;
    let child = Child::start(
        suite,
        Space::Clone,
        daemon,
        contexts::share(suite, suite.capability)?,
    )?;
    let mut byte = [0];
    must("ready", sys::read(READY_READ, &mut byte))?;
    Ok(child)
}

const CHECKS: &[Check] = &[
    ("open: the daemon's error and its object", open_and_close),
    (
        "dup without a name is not told to the daemon, close only once",
        unnamed_dup,
    ),
    (
        "read and write carry bytes at any alignment and length",
        read_and_write,
    ),
    (
        "a positioned object: the kernel keeps the offset, lseek knows the end",
        kernel_offset,
    ),
    ("call: metadata and payload, in place", call_in_place),
    ("fcntl, fevent, fpath reach the daemon", other_calls),
    (
        "fmap: the daemon's page, shared both ways, close after the last mapping",
        fmap,
    ),
    (
        "bad buffers give EFAULT and the daemon lives on",
        bad_buffers,
    ),
];

pub fn run(suite: &Suite) {
    let mut daemon = None;
    suite.check("a scheme socket is created and serves", |suite| {
        daemon = Some(start_daemon(suite)?);
        Ok(())
    });
    let Some(daemon) = daemon else { return };
    suite.check_all(CHECKS);
    suite.check("when the daemon dies its scheme answers ENODEV", |suite| {
        let fd = must("open", sys::openat(ROOT, "plain", O_RDWR, suite.slot()))?;
        // it ends by itself: a context killed inside a call keeps the socket open upstream
        let outcome = sys::call(fd, &mut [0], CallFlags::empty(), &[FAREWELL as u64, 1]);
        expect("farewell", outcome, Ok(FAREWELL + 1))?;
        daemon.join()?;
        // the file table is shared, so the socket is still open here
        must("close socket", sys::close(SOCKET))?;
        let mut byte = [0; 3];
        expect("read", sys::read(fd, &mut byte), Err(ENODEV))?;
        let opened = sys::openat(ROOT, "plain", O_RDWR, suite.slot());
        expect("open", opened, Err(ENODEV))?;
        let _ = sys::close(fd);
        Ok(())
    });
}

fn open_and_close(suite: &Suite) -> Verdict {
    expect(
        "absent",
        sys::openat(ROOT, "absent", O_RDONLY, suite.slot()),
        Err(ENOENT),
    )?;
    let fd = must("plain", sys::openat(ROOT, "plain", O_RDWR, suite.slot()))?;
    log();
    expect("close", sys::close(fd), Ok(0))?;
    told("messages", &[Opcode::CloseMsg])
}

fn unnamed_dup(suite: &Suite) -> Verdict {
    let fd = must("plain", sys::openat(ROOT, "plain", O_RDWR, suite.slot()))?;
    let twin = must("dup", suite.dup(fd, b""))?;
    log();
    must("close", sys::close(fd))?;
    told("nothing yet", &[])?;
    let named = must("named dup", suite.dup(twin, b"other"))?;
    must("close", sys::close(twin))?;
    must("close", sys::close(named))?;
    let wanted = [Opcode::Dup, Opcode::CloseMsg, Opcode::CloseMsg];
    told("messages", &wanted)
}

fn read_and_write(suite: &Suite) -> Verdict {
    let fd = must("plain", sys::openat(ROOT, "plain", O_RDWR, suite.slot()))?;
    let mut area = alloc::vec![0xeeu8; 5 * PAGE_SIZE];
    for (start, length) in [
        (0, 0),
        (1, 1),
        (7, 100),
        (4090, 20),
        (0, 4096),
        (13, 12_345),
    ] {
        area.fill(0xee);
        let outcome = sys::read(fd, &mut area[start..start + length]);
        expect(&format!("read {length}"), outcome, Ok(length))?;
        // a stream passes offset -1, so the pattern starts at 255
        let right = |i: usize| area[start + i] == (i as u8).wrapping_add(255);
        hold(&format!("bytes of {length}"), (0..length).all(right))?;
        hold(
            "guard",
            area[..start]
                .iter()
                .chain(&area[start + length..])
                .all(|b| *b == 0xee),
        )?;
        log();
        let sum: usize = area[start..start + length]
            .iter()
            .map(|b| usize::from(*b))
            .sum();
        let outcome = sys::write(fd, &area[start..start + length]);
        expect(&format!("write {length}"), outcome, Ok(length))?;
        let seen = log();
        expect(
            "sum seen by the daemon",
            &seen[1..],
            (sum as u32).to_le_bytes().as_slice(),
        )?;
    }
    expect("close", sys::close(fd), Ok(0))
}

fn kernel_offset(suite: &Suite) -> Verdict {
    let fd = must(
        "open",
        sys::openat(ROOT, "positioned", O_RDWR, suite.slot()),
    )?;
    let mut bytes = [0; 10];
    expect("read", sys::read(fd, &mut bytes), Ok(10))?;
    expect("from 0", bytes[0], 0)?;
    expect("read", sys::read(fd, &mut bytes), Ok(10))?;
    expect("from 10", bytes[0], 10)?;
    expect("seek", sys::lseek(fd, 100, 0), Ok(100))?;
    expect("end", sys::lseek(fd, -1, 2), Ok(4999))?;
    expect("before the start", sys::lseek(fd, -10_000, 1), Err(EINVAL))?;
    expect("close", sys::close(fd), Ok(0))
}

fn call_in_place(suite: &Suite) -> Verdict {
    let fd = must("open", sys::openat(ROOT, "plain", O_RDWR, suite.slot()))?;
    let mut payload = [5u8; 24];
    let outcome = sys::call(fd, &mut payload, CallFlags::empty(), &[30, 12]);
    expect("result", outcome, Ok(42))?;
    expect("payload", payload[0], 6)?;
    let unknown = CallFlags::from_bits_retain(1 << 40);
    expect(
        "unknown flag",
        sys::call(fd, &mut payload, unknown, &[1, 2]),
        Err(EINVAL),
    )?;
    expect("close", sys::close(fd), Ok(0))
}

fn other_calls(suite: &Suite) -> Verdict {
    let fd = must("open", sys::openat(ROOT, "plain", O_RDWR, suite.slot()))?;
    expect("getfl", sys::fcntl(fd, syscall::F_GETFL, 0), Ok(O_RDWR))?;
    expect("other command", sys::fcntl(fd, 0x5c1f, 0), Err(EINVAL))?;
    expect("fevent", sys::fevent(fd, 3), Ok(1))?;
    let mut path = [0; 32];
    expect("fpath", sys::fpath(fd, &mut path), Ok(8))?;
    expect("text", &path[..8], b"abi:path".as_slice())?;
    expect("close", sys::close(fd), Ok(0))
}

fn fmap(suite: &Suite) -> Verdict {
    let fd = must("open", sys::openat(ROOT, "plain", O_RDWR, suite.slot()))?;
    let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
    let map = Map {
        offset: 0,
        size: 2 * PAGE_SIZE,
        flags,
        address: 0,
    };
    let at = must("map", sys::fmap(fd, &map))?;
    expect("pages", (peek(at), peek(at + PAGE_SIZE)), (b'm', b'n'))?;
    let second = Map {
        offset: PAGE_SIZE,
        size: PAGE_SIZE,
        flags,
        address: 0,
    };
    let other = must("map again", sys::fmap(fd, &second))?;
    poke(other, b'X');
    expect("shared", peek(at + PAGE_SIZE), b'X')?;
    let unaligned = Map {
        offset: 5,
        size: PAGE_SIZE,
        flags,
        address: 0,
    };
    expect("unaligned", sys::fmap(fd, &unaligned), Err(EINVAL))?;
    must("close", sys::close(fd))?;
    log();
    must("unmap", sys::funmap(other, PAGE_SIZE))?;
    told("unmap message", &[Opcode::Munmap])?;
    must("unmap", sys::funmap(at, 2 * PAGE_SIZE))?;
    told("last", &[Opcode::Munmap, Opcode::CloseMsg])
}

fn bad_buffers(suite: &Suite) -> Verdict {
    let fd = must("open", sys::openat(ROOT, "plain", O_RDWR, suite.slot()))?;
    let nowhere = 0x5000_0000_0000;
    let outcome = sys::raw(syscall::number::SYS_READ, [fd, nowhere, 100, 0, 0, 0]);
    expect("read", outcome, Err(EFAULT))?;
    let outcome = sys::raw(syscall::number::SYS_WRITE, [fd, 1 << 47, 100, 0, 0, 0]);
    expect("write", outcome, Err(EFAULT))?;
    let mut byte = [0; 3];
    expect("still there", sys::read(fd, &mut byte), Ok(3))?;
    expect("close", sys::close(fd), Ok(0))
}
