//! The sessions: what one connection is used for, and what must come of it.

use alloc::vec;

use guest_tests::pattern::{self, Random};
use guest_tests::peer::{self, ECHO, Report, Request, SINK, SOURCE, WINDOWS};
use guest_tests::windows::{self, Remote, difference};
use runtime::time::{Duration, sleep};
use scif::{
    Endpoint, Error, Initiator, Memory, PortId, Protection, Readiness, RecvFlags, RmaFlags,
    SendFlags,
};
use syscall::error::{ECONNREFUSED, ECONNRESET, ENODEV, ENOTCONN, ENXIO, EPIPE};
use zerocopy::{FromBytes, IntoBytes};

use crate::tally::{Kind, Trouble, wrong};

/// Longest stream, in bytes.
const STREAM: u64 = 1 << 20;
/// Longest message, in bytes.
const MESSAGE: u64 = 20_000;
/// Messages there and back at most.
const MESSAGES: u64 = 40;
/// Most pages of a window.
const PAGES: u64 = 64;
const PAGE: usize = hal::mem::PAGE;
/// Transfers or mappings in one session at most.
const ROUNDS: u64 = 8;

/// Looks whether the other side has gone, before bytes that differ are a mistake, and the time
/// between two of them: longer than a node's end takes to be noticed.
const LOOKS: u32 = 60;
const LOOK: Duration = Duration::from_millis(50);

/// The error of a call when the other program, or its node, is gone.
const GONE: [i32; 6] = [ECONNRESET, ECONNREFUSED, ENODEV, ENOTCONN, ENXIO, EPIPE];

/// Carries one session out; the bytes that were moved and found right.
pub fn run(kind: Kind, at: PortId, random: &mut Random) -> Result<u64, Trouble> {
    match kind {
        Kind::Send => send(at, random),
        Kind::Receive => receive(at, random),
        Kind::Echo => echo(at, random),
        Kind::Rma => rma(at, random),
        Kind::Map => map(at, random),
    }
}

/// An error of a call: a program was killed, or it must not be.
fn ended(what: &'static str) -> impl Fn(i32) -> Trouble {
    move |errno| match GONE.contains(&errno) {
        true => Trouble::Cut,
        false => Trouble::Wrong(alloc::format!("{what}: error {errno}")),
    }
}

fn failed(what: &'static str) -> impl Fn(Error) -> Trouble {
    move |error| ended(what)(error.errno())
}

/// A connection whose server knows what it is for.
fn open(at: PortId, request: &Request) -> Result<Endpoint, Trouble> {
    let endpoint = scif::connect(at).map_err(failed("connecting"))?;
    let sent = endpoint.send(request.as_bytes(), SendFlags::BLOCK);
    sent.map_err(failed("saying what for"))?;
    Ok(endpoint)
}

/// Receives all of `buffer`; what comes before the end is right or the end is a mistake.
fn receive_all(endpoint: &Endpoint, buffer: &mut [u8]) -> Result<(), Trouble> {
    match endpoint.recv(buffer, RecvFlags::BLOCK) {
        Ok(count) if count == buffer.len() => Ok(()),
        // A connection that ends in the middle gives the rest first.
        Ok(_) => Err(Trouble::Cut),
        Err(error) => Err(failed("receiving")(error)),
    }
}

fn stream(random: &mut Random) -> Request {
    Request {
        bytes: random.up_to(STREAM).into(),
        seed: random.up_to(u64::from(u32::MAX)).into(),
        piece: (random.up_to(60_000) as u32).into(),
        ..Request::default()
    }
}

/// A side's report of its stream.
fn judge(what: &'static str, report: &Report, bytes: u64) -> Result<(), Trouble> {
    if report.mismatch.get() != u64::MAX {
        return wrong(alloc::format!("{what}: {report:?}"));
    }
    match report.errno.get() as i32 {
        0 if report.bytes.get() == bytes => Ok(()),
        0 => wrong(alloc::format!("{what} {bytes} bytes: {report:?}")),
        errno => Err(ended(what)(errno)),
    }
}

fn send(at: PortId, random: &mut Random) -> Result<u64, Trouble> {
    let own = stream(random);
    let bytes = own.bytes.get();
    let order = Request {
        verb: SINK.into(),
        piece: (random.up_to(60_000) as u32).into(),
        ..own
    };
    let endpoint = open(at, &order)?;
    judge("sending", &peer::source(&endpoint, &own), bytes)?;
    let mut report = [0; size_of::<Report>()];
    receive_all(&endpoint, &mut report)?;
    let report = Report::read_from_bytes(&report).map_err(|_| Trouble::Cut)?;
    judge("the receiver of", &report, bytes)?;
    Ok(bytes)
}

fn receive(at: PortId, random: &mut Random) -> Result<u64, Trouble> {
    let own = stream(random);
    let order = Request {
        verb: SOURCE.into(),
        piece: (random.up_to(60_000) as u32).into(),
        ..own
    };
    let endpoint = open(at, &order)?;
    let bytes = own.bytes.get();
    judge("receiving", &peer::sink(&endpoint, &own), bytes)?;
    Ok(bytes)
}

fn echo(at: PortId, random: &mut Random) -> Result<u64, Trouble> {
    let size = random.up_to(MESSAGE) as usize;
    let count = random.up_to(MESSAGES);
    let order = Request {
        verb: ECHO.into(),
        message: (size as u32).into(),
        ..Request::default()
    };
    let endpoint = open(at, &order)?;
    let mut message = vec![0; size];
    for seed in 0..count {
        pattern::fill(seed, 0, &mut message);
        let sent = endpoint.send(&message, SendFlags::BLOCK);
        sent.map_err(failed("sending a message"))?;
        message.fill(0);
        receive_all(&endpoint, &mut message)?;
        if let Some(place) = pattern::mismatch(seed, 0, &message) {
            return wrong(alloc::format!(
                "message {seed} of {size} bytes came back with byte {place} wrong"
            ));
        }
    }
    Ok(2 * count * size as u64)
}

/// A range of a piece of memory.
struct Range {
    place: usize,
    length: usize,
    seed: u64,
}

impl Range {
    fn of(bytes: usize, random: &mut Random) -> Self {
        let length = random.up_to(bytes as u64) as usize;
        Self {
            place: random.up_to((bytes - length) as u64 + 1) as usize - 1,
            length,
            seed: random.up_to(1 << 40),
        }
    }
}

/// The server's memory, `bytes` bytes in a window.
fn window(at: PortId, bytes: usize) -> Result<(Remote, i64), Trouble> {
    let request = Request {
        verb: WINDOWS.into(),
        ..Request::default()
    };
    let remote = Remote {
        endpoint: open(at, &request)?,
    };
    let there = ended("the server's memory");
    remote.set_up(bytes, false).map_err(&there)?;
    let rights = (Protection::READ | Protection::WRITE).bits();
    let offset = remote.register(0, bytes, 0, rights, 0).map_err(&there)?;
    Ok((remote, offset))
}

/// A finding: as it must be, or not. "Not" counts only while the server is there, as
/// memory of a node that is gone reads as anything.
fn confirm(remote: &Remote, range: &Range, found: Option<u64>, what: &str) -> Result<(), Trouble> {
    let Some(position) = found else {
        return Ok(());
    };
    for _ in 0..LOOKS {
        if remote.endpoint.readiness(Readiness::HUP) != Ok(Readiness::empty()) {
            return Err(Trouble::Cut);
        }
        sleep(LOOK);
    }
    let Range { place, length, .. } = range;
    let what = alloc::format!("{what} {length} bytes at {place}");
    wrong(alloc::format!("{what}: {}", difference(position, *length)))
}

fn rma(at: PortId, random: &mut Random) -> Result<u64, Trouble> {
    let bytes = random.up_to(PAGES) as usize * PAGE;
    let (remote, offset) = window(at, bytes)?;
    let memory = Memory::new(bytes).map_err(|error| ended("own memory")(error.errno))?;
    let own = remote.endpoint.register(&memory);
    let own = own.map_err(failed("registering"))?;
    let mut moved = 0;
    for _ in 0..random.up_to(ROUNDS) {
        let range = Range::of(bytes, random);
        let Range {
            place,
            length,
            seed,
        } = range;
        let part = own.part(place..place + length);
        let part = part.map_err(failed("a part of a window"))?;
        let there = offset + place as i64;
        let (flags, must_wait) = match random.up_to(2) {
            1 => (RmaFlags::SYNC, false),
            _ => (RmaFlags::empty(), true),
        };
        let writes = random.up_to(2) == 1;
        if writes {
            windows::fill(&memory, place, length, seed).map_err(ended("filling"))?;
            let written = remote.endpoint.write_to(part, there, flags);
            written.map_err(failed("scif_writeto"))?;
        } else {
            let filled = remote.put(place, length, seed);
            filled.map_err(ended("the server's filling"))?;
            let read = remote.endpoint.read_from(part, there, flags);
            read.map_err(failed("scif_readfrom"))?;
        }
        if must_wait {
            let mark = remote.endpoint.fence_mark(Initiator::Own);
            let mark = mark.map_err(failed("scif_fence_mark"))?;
            let waited = remote.endpoint.fence_wait(mark);
            waited.map_err(failed("scif_fence_wait"))?;
        }
        let (found, what) = if writes {
            let found = remote.first_difference(place, length, seed);
            (
                found.map_err(ended("the server's look"))?,
                "scif_writeto of",
            )
        } else {
            let found = windows::compare(&memory, place, length, seed, false);
            (found.map_err(ended("a look"))?, "scif_readfrom of")
        };
        confirm(&remote, &range, found, what)?;
        moved += length as u64;
    }
    if random.up_to(2) == 1 {
        let ended_there = remote.unregister(offset, bytes);
        ended_there.map_err(ended("the server's unregistering"))?;
        own.unregister().map_err(failed("unregistering"))?;
    }
    Ok(moved)
}

fn map(at: PortId, random: &mut Random) -> Result<u64, Trouble> {
    let pages = random.up_to(PAGES) as usize;
    let (remote, offset) = window(at, pages * PAGE)?;
    let rights = Protection::READ | Protection::WRITE;
    let mapping = remote.endpoint.map(offset, pages * PAGE, rights);
    let mapping = mapping.map_err(failed("scif_mmap"))?;
    let mut moved = 0;
    for _ in 0..random.up_to(ROUNDS) {
        let range = Range::of(pages * PAGE, random);
        let Range {
            place,
            length,
            seed,
        } = range;
        let (found, what) = if random.up_to(2) == 1 {
            windows::fill(&mapping, place, length, seed).map_err(ended("storing"))?;
            let found = remote.first_difference(place, length, seed);
            (found.map_err(ended("the server's look"))?, "stores to")
        } else {
            let filled = remote.put(place, length, seed);
            filled.map_err(ended("the server's filling"))?;
            let found = windows::compare(&mapping, place, length, seed, false);
            (found.map_err(ended("loading"))?, "loads of")
        };
        confirm(&remote, &range, found, what)?;
        moved += length as u64;
    }
    // Now and then the window goes before its mapping.
    if random.up_to(3) == 1 {
        let ended_there = remote.unregister(offset, pages * PAGE);
        ended_there.map_err(ended("the server's unregistering"))?;
        let range = Range::of(pages * PAGE, random);
        windows::fill(&mapping, range.place, range.length, range.seed)
            .map_err(ended("storing once more"))?;
    }
    Ok(moved)
}
