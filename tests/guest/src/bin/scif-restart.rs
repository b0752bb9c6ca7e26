//! micd is killed while programs are in the middle of everything, again and again: each of them
//! gets an error and none waits for ever, the link comes back, what was acknowledged has arrived,
//! and the pages are free again.
//!
//! `scif-restart NODE`, with `scif-peers` on that node.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use guest_tests::memory::{self, Frames};
use guest_tests::peer::{self, ECHO, Peer, REPORT, Request, SINK, SOURCE};
use guest_tests::peers::PORT;
use guest_tests::windows::Remote;
use guest_tests::{Suite, connect_patiently, counter, driver, pattern, settled, text};
use libredox::Fd;
use libredox::flag::{O_CREAT, O_RDWR};
use runtime::process::{self, Child, Command};
use runtime::time::{Duration, sleep};
use runtime::{fd, fs};
use scif::{
    Endpoint, Memory, NodeId, PollEntry, PortId, Protection, Readiness, RecvFlags, RmaFlags,
    SendFlags,
};
use syscall::error::{ECONNREFUSED, ECONNRESET, EINTR, ENODEV, ENOENT, ENOTCONN, ESRCH};
use zerocopy::IntoBytes;

runtime::main!(main);

/// The port on which a victim waits for a connection that never comes.
const LONELY_PORT: u16 = 4101;
/// More bytes than can be sent while the test runs.
const ENDLESS: u64 = 1 << 40;
/// Bytes of windows.
const WINDOW: usize = 256 * 1024;
/// How often micd is killed.
const ROUNDS: u64 = 4;
/// Bytes of the whole streams after each restart.
const WHOLE: u64 = 2_000_000;
/// Where the victim that writes says how much was acknowledged.
const ACKNOWLEDGED: &str = "/tmp/acknowledged";

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [node] => match node.parse() {
            Ok(node) => test(node),
            Err(_) => 2,
        },
        [role, node, round] => match (node.parse(), round.parse()) {
            (Ok(node), Ok(round)) => victim(role, node, round),
            _ => 2,
        },
        _ => 2,
    }
}

/// The acts of the victims until micd is killed.
const ROLES: [&str; 12] = [
    "send", "write", "recv", "read", "echo", "accept", "poll", "silent", "rma", "target", "map",
    "register",
];

/// Those of them that have the peer register a window first.
const WITH_WINDOWS: [&str; 3] = ["rma", "target", "map"];

/// The errors that tell a program that the driver, or the connection, has gone.
fn is_loss(errno: i32) -> bool {
    matches!(errno, ENODEV | ECONNRESET | ENOTCONN | ECONNREFUSED | EINTR)
}

/// A program that is in the middle of something when micd is killed. Ends with 0 when an error
/// tells it.
fn victim(role: &str, node: NodeId, round: u64) -> i32 {
    let at = PortId::new(node, PORT);
    let errno = match role {
        "send" => stream(at, SINK, round).map(|end| peer::source(&end.0, &end.1).errno.get()),
        "recv" => stream(at, SOURCE, round).map(|end| peer::sink(&end.0, &end.1).errno.get()),
        "write" => write(node, round),
        "read" => read(node, round),
        "echo" => ask_for_echoes(at),
        "accept" => {
            let path = alloc::format!("/scheme/scif/accept/{LONELY_PORT}");
            Ok(Fd::open(&path, O_RDWR, 0).map_or_else(|error| error.errno() as u32, |_| 0))
        }
        "poll" => wait_for_events(at),
        "silent" => wait_for_silence(at),
        "rma" => transfer(at),
        "target" => be_a_target(at),
        "map" => map(at),
        "register" => register(at),
        _ => Err("no such role".into()),
    };
    match errno {
        Ok(errno) if is_loss(errno as i32) => 0,
        Ok(errno) => {
            runtime::println!("scif-restart: {role} ended with error {errno}");
            1
        }
        Err(text) => {
            runtime::println!("scif-restart: {role}: {text}");
            1
        }
    }
}

fn request(verb: u32, seed: u64) -> Request {
    Request {
        verb: verb.into(),
        bytes: ENDLESS.into(),
        seed: seed.into(),
        message: 64.into(),
        ..Request::default()
    }
}

fn stream(at: PortId, verb: u32, round: u64) -> Result<(Endpoint, Request), String> {
    let seed = match verb {
        SINK => 1000 + round,
        _ => 2000 + round,
    };
    let request = request(verb, seed);
    let endpoint = Peer::known(at).connect(&request)?;
    Ok((endpoint, request))
}

fn open_file(node: NodeId) -> Result<Fd, String> {
    let path = alloc::format!("/scheme/scif/{node}/{PORT}");
    Fd::open(&path, O_RDWR, 0).map_err(text("opening"))
}

/// The error number of a file that is used by system calls alone: Redox's kernel says `ESRCH` to a
/// request with data while the requests of a dead daemon are ended.
fn of_file(error: libredox::error::Error) -> u32 {
    match error.errno() {
        ESRCH if !hal::kernel::ends_abandoned_requests() => ENODEV as u32,
        number => number as u32,
    }
}

/// Writes through the file, so that every byte that was counted is in the peer's ring.
fn write(node: NodeId, round: u64) -> Result<u32, String> {
    let file = open_file(node)?;
    let said = Fd::open(ACKNOWLEDGED, O_RDWR | O_CREAT, 0).map_err(text("the file"))?;
    let request = request(SINK, 3000 + round);
    file.write(request.as_bytes()).map_err(text("request"))?;
    let (mut done, mut piece) = (0_u64, vec![0; 10_000]);
    loop {
        pattern::fill(3000 + round, done, &mut piece);
        match file.write(&piece) {
            Ok(count) => done += count as u64,
            Err(error) => return Ok(of_file(error)),
        }
        fd::lseek(said.raw(), 0, syscall::flag::SEEK_SET).map_err(text("seek"))?;
        said.write(&done.to_ne_bytes()).map_err(text("saying"))?;
    }
}

/// Reads through the file what must be the pattern.
fn read(node: NodeId, round: u64) -> Result<u32, String> {
    let file = open_file(node)?;
    let request = request(SOURCE, 4000 + round);
    file.write(request.as_bytes()).map_err(text("request"))?;
    let (mut done, mut piece) = (0_u64, vec![0; 10_000]);
    loop {
        match file.read(&mut piece) {
            Ok(count) => {
                if let Some(at) = pattern::mismatch(4000 + round, done, &piece[..count]) {
                    return Err(alloc::format!("byte {at} is wrong"));
                }
                done += count as u64;
            }
            Err(error) => return Ok(of_file(error)),
        }
    }
}

fn ask_for_echoes(at: PortId) -> Result<u32, String> {
    let endpoint = Peer::known(at).connect(&request(ECHO, 0))?;
    let mut buffer = [7; 64];
    loop {
        let sent = endpoint.send(&buffer, SendFlags::BLOCK);
        match sent.and_then(|_| endpoint.recv(&mut buffer, RecvFlags::BLOCK)) {
            Ok(64) => {}
            // The ring's end after a part of it.
            Ok(count) => return Err(alloc::format!("{count} bytes came back")),
            Err(error) => return Ok(error.errno() as u32),
        }
    }
}

fn wait_for_events(at: PortId) -> Result<u32, String> {
    let endpoint = Peer::known(at).connect(&request(ECHO, 0))?;
    let mut entries = [PollEntry::new(&endpoint, Readiness::IN)];
    scif::poll(&mut entries, None).map_err(text("poll"))?;
    match endpoint.recv(&mut [0], RecvFlags::BLOCK) {
        Ok(count) => Err(alloc::format!("{count} bytes came that nobody sent")),
        Err(error) => Ok(error.errno() as u32),
    }
}

fn wait_for_silence(at: PortId) -> Result<u32, String> {
    let endpoint = Peer::known(at).connect(&request(ECHO, 0))?;
    match endpoint.recv(&mut [0], RecvFlags::BLOCK) {
        Ok(count) => Err(alloc::format!("{count} bytes came that nobody sent")),
        Err(error) => Ok(error.errno() as u32),
    }
}

/// A connection whose other end has a window of its own.
fn remote(at: PortId) -> Result<(Remote, i64), String> {
    let remote = Remote::new(&Peer::known(at), WINDOW)?;
    let offset = remote.register(0, WINDOW, 0, Protection::all().bits(), 0);
    let offset = offset.map_err(text("the peer's window"))?;
    Ok((remote, offset))
}

fn transfer(at: PortId) -> Result<u32, String> {
    let (remote, offset) = remote(at)?;
    let data = vec![3; WINDOW];
    let mut back = vec![0; WINDOW];
    loop {
        let moved = remote.endpoint.vwrite_to(&data, offset, RmaFlags::SYNC);
        let read = |()| {
            remote
                .endpoint
                .vread_from(&mut back, offset, RmaFlags::SYNC)
        };
        if let Err(error) = moved.and_then(read) {
            return Ok(error.errno() as u32);
        }
    }
}

/// The peer writes into our window until it has gone.
fn be_a_target(at: PortId) -> Result<u32, String> {
    let (remote, offset) = remote(at)?;
    let memory = Memory::new(WINDOW).map_err(text("memory"))?;
    let window = remote.endpoint.register(&memory);
    let window = window.map_err(text("registering"))?;
    loop {
        let flags = RmaFlags::SYNC.bits();
        if let Err(errno) = remote.transfer(true, offset, WINDOW, window.offset(), flags) {
            return Ok(errno as u32);
        }
    }
}

/// Stores into a mapped window; those of the lost node hit nothing, and no fault comes of them.
fn map(at: PortId) -> Result<u32, String> {
    let (remote, offset) = remote(at)?;
    let mapping = remote.endpoint.map(offset, WINDOW, Protection::all());
    let mapping = mapping.map_err(text("mapping"))?;
    let mut value = 0;
    let errno = loop {
        value += 1;
        for place in (0..WINDOW).step_by(4096) {
            let stored = mapping.store_release_u64(place, value);
            stored.map_err(text("storing"))?;
        }
        match remote.endpoint.readiness(Readiness::IN) {
            Ok(ready) if ready.intersects(Readiness::HUP | Readiness::ERR) => break ECONNRESET,
            Ok(_) => {}
            Err(error) => break error.errno(),
        }
    };
    for place in (0..WINDOW).step_by(4096) {
        let stored = mapping.store_release_u64(place, u64::MAX);
        stored.map_err(text("storing afterwards"))?;
    }
    Ok(errno as u32)
}

fn register(at: PortId) -> Result<u32, String> {
    let endpoint = Peer::known(at).connect(&request(ECHO, 0))?;
    let memory = Memory::new(WINDOW).map_err(text("memory"))?;
    loop {
        let registered = endpoint.register(&memory);
        if let Err(error) = registered.and_then(|window| window.unregister()) {
            return Ok(error.errno() as u32);
        }
    }
}

/// The counters when only services use the driver: `scifrund` listens, and `ibd` twice.
const COUNTERS: [(&str, u64); 7] = [
    ("waiting", 0),
    ("endpoints", 3),
    ("connections", 0),
    ("windows", 0),
    ("remote_windows", 0),
    ("pinned_pages", 0),
    ("mapped_pages", 0),
];

struct Victim {
    role: &'static str,
    child: Child,
}

fn start_victims(node: NodeId, round: u64) -> Result<Vec<Victim>, String> {
    let mut victims = Vec::new();
    let words = [alloc::format!("{node}"), alloc::format!("{round}")];
    for role in ROLES {
        let child = Command::new("scif-restart")
            .arg(role)
            .args(&words)
            .spawn()
            .map_err(text("starting a victim"))?;
        victims.push(Victim { role, child });
    }
    Ok(victims)
}

/// Waits until every victim has ended by itself, for all of them together as long as for one. Those
/// that do not are killed.
fn end_of(mut victims: Vec<Victim>) -> Result<(), String> {
    let is_over = |victim: &mut Victim| matches!(victim.child.try_wait(), Ok(Some(_)));
    settled(|| victims.iter_mut().all(is_over), &true);
    let mut wrong = Vec::new();
    for mut victim in victims {
        if is_over(&mut victim) {
            let status = victim.child.wait().map_err(text("waiting"))?;
            if !status.success() {
                wrong.push(alloc::format!("{} ended with {status}", victim.role));
            }
        } else {
            wrong.push(alloc::format!("{} hangs", victim.role));
            victim.child.kill().map_err(text("killing"))?;
            victim.child.wait().map_err(text("waiting"))?;
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join(", ")),
    }
}

/// One death of micd.
fn round(suite: &mut Suite, node: NodeId, round: u64) -> Result<(), String> {
    let at = PortId::new(node, PORT);
    // The number acknowledged in this round.
    match fs::remove_file(ACKNOWLEDGED) {
        Err(error) if error.errno != ENOENT => return Err(text("removing the file")(error)),
        _ => {}
    }
    let victims = start_victims(node, round)?;
    // All but the one that waits in an open.
    let connected = ROLES.len() as u64 - 1;
    let windows = WITH_WINDOWS.len() as u64;
    let enough = || {
        counter("connections").is_ok_and(|count| count >= connected)
            && counter("remote_windows").is_ok_and(|count| count >= windows)
            && acknowledged().is_ok()
    };
    let begun = settled(enough, &true);
    suite.holds(
        &alloc::format!("round {round} victims are connected"),
        begun,
    );
    // Different moments in each round.
    sleep(Duration::from_millis(100 + 37 * round));
    let before = driver()?;
    process::kill(before, 9).map_err(text("killing micd"))?;
    suite.check(
        &alloc::format!("round {round} every call has ended"),
        end_of(victims),
    );
    let again = settled(|| driver().is_ok_and(|pid| pid != before), &true);
    suite.holds(&alloc::format!("round {round} micd runs again"), again);

    let name = alloc::format!("round {round} acknowledged bytes arrived");
    suite.check(&name, arrived(at, round));
    let name = alloc::format!("round {round} a whole stream each way");
    suite.check(&name, whole_streams(at, round));
    let name = alloc::format!("round {round} windows work");
    suite.check(&name, windows_work(at, round));
    for (name, usual) in COUNTERS {
        let check = alloc::format!("round {round} {name}");
        let found = settled(|| counter(name), &Ok(usual));
        suite.equal(&check, found, Ok(usual));
    }
    Ok(())
}

/// Bytes of this round's `write` that were acknowledged.
fn acknowledged() -> Result<u64, String> {
    let said = fs::read(ACKNOWLEDGED).map_err(text("the file"))?;
    let said = said.first_chunk().ok_or("the file is short")?;
    Ok(u64::from_ne_bytes(*said))
}

/// Looks what the receivers at the peer saw of the streams that were cut.
fn arrived(at: PortId, round: u64) -> Result<(), String> {
    for (seed, least) in [(1000 + round, 1), (3000 + round, acknowledged()?)] {
        let endpoint = connect_patiently(at).map_err(text("connecting"))?;
        let request = request(REPORT, seed);
        let sent = endpoint.send(request.as_bytes(), SendFlags::BLOCK);
        sent.map_err(text("asking for a report"))?;
        let report = Peer::report(&endpoint)?;
        let reset = report.errno.get() as i32 == ECONNRESET;
        if !reset || report.mismatch.get() != u64::MAX || report.bytes.get() < least {
            return Err(alloc::format!("of {least} bytes the peer saw {report:?}"));
        }
    }
    Ok(())
}

fn whole_streams(at: PortId, round: u64) -> Result<(), String> {
    let request = |verb| Request {
        bytes: WHOLE.into(),
        ..request(verb, 5000 + round)
    };
    let order = request(SINK);
    let endpoint = Peer::known(at).connect(&order)?;
    peer::source(&endpoint, &order);
    let report = Peer::report(&endpoint)?;
    if !report.is_whole(WHOLE) {
        return Err(alloc::format!("the peer received {report:?}"));
    }
    let order = request(SOURCE);
    let endpoint = Peer::known(at).connect(&order)?;
    let report = peer::sink(&endpoint, &order);
    match report.is_whole(WHOLE) {
        true => Ok(()),
        false => Err(alloc::format!("received {report:?}")),
    }
}

/// A transfer to the peer, one from it, and one that it makes itself, all with guards.
fn windows_work(at: PortId, round: u64) -> Result<(), String> {
    let length = WINDOW - 2 * 4096;
    let (remote, offset) = remote(at)?;
    remote.frame(4096, length)?;
    let mut data = vec![0; length];
    pattern::fill(round, 0, &mut data);
    let there = offset + 4096;
    let written = remote.endpoint.vwrite_to(&data, there, RmaFlags::SYNC);
    written.map_err(text("writing"))?;
    remote.compare(4096, length, round, true)?;
    remote.fill(4096, length, round + 9)?;
    let read = remote.endpoint.vread_from(&mut data, there, RmaFlags::SYNC);
    read.map_err(text("reading"))?;
    if let Some(at) = pattern::mismatch(round + 9, 0, &data) {
        return Err(alloc::format!("byte {at} is wrong"));
    }
    let memory = Memory::new(WINDOW).map_err(text("memory"))?;
    guest_tests::windows::frame(&memory, 4096, length).map_err(text("guards"))?;
    let window = remote.endpoint.register(&memory);
    let window = window.map_err(text("registering"))?;
    let flags = RmaFlags::SYNC.bits();
    let moved = remote.transfer(true, there, length, window.offset() + 4096, flags);
    moved.map_err(text("the peer's transfer"))?;
    let wrong = guest_tests::windows::compare(&memory, 4096, length, round + 9, true);
    match wrong.map_err(text("comparing"))? {
        None => Ok(()),
        Some(position) => Err(guest_tests::windows::difference(position, length)),
    }
}

/// Frames that each half of the rounds may cost, see [`test`].
const MOST: [i64; 2] = [128, 4];

fn test(node: NodeId) -> i32 {
    let mut suite = Suite::new("scif-restart");
    // The link comes up before the other node's programs do, and opening a file tries once.
    let there = connect_patiently(PortId::new(node, PORT));
    suite.check("the peer", there.map(drop).map_err(text("connecting")));
    // Everything is used once, in all programs, before frames are counted.
    let result = round(&mut suite, node, 0);
    suite.check("round 0", result);
    let mut frames = Frames::at_rest();
    for (half, most) in (0..).zip(MOST) {
        for number in 1..=ROUNDS / 2 {
            let number = half * ROUNDS / 2 + number;
            let result = round(&mut suite, node, number);
            suite.check(&alloc::format!("round {number}"), result);
        }
        let name = alloc::format!("frames after half {}", half + 1);
        memory::check(&mut suite, &name, &mut frames, most);
    }
    suite.finish()
}
