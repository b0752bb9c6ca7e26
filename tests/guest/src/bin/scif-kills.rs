//! Clients that are killed at random moments in the middle of any call leave nothing behind, here
//! and at the other end.
//!
//! `scif-kills KILLS SEED NODE`, with `scif-peers` on this node and on that one; one kill more when
//! the number is odd. `scif-kills idle`: whether nothing is left on a node that only its services
//! use any more.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use guest_tests::memory::{self, Frames};
use guest_tests::pattern::Random;
use guest_tests::peer::{self, ECHO, Peer, Request, SINK, SOURCE};
use guest_tests::windows::Remote;
use guest_tests::{Suite, at_rest, counter, pair, peers, settled, text};
use libredox::Fd;
use libredox::flag::{O_NONBLOCK, O_RDONLY, O_RDWR};
use runtime::fs;
use runtime::process::{Child, Command};
use runtime::time::{Duration, sleep};
use scif::{
    Endpoint, Initiator, Listener, Memory, NodeId, PollEntry, PortId, Protection, Readiness,
    RecvFlags, RmaFlags, SendFlags,
};
use zerocopy::IntoBytes;

runtime::main!(main);

/// Bytes of windows.
const WINDOW: usize = 128 * 1024;
/// Bytes of a stream.
const STREAM: u64 = 1 << 20;
/// Kills between two looks at what is left.
const BETWEEN_LOOKS: u64 = 20;
/// Longest life of a program, in milliseconds; its start takes a good part of the shortest ones.
const LONGEST_LIFE_MS: u64 = 80;
/// Programs that live at once in the warm-up, and how often.
const CLIENTS: u64 = 12;
const WARM_UPS: u64 = 4;
/// Frames that each half of the kills may cost: now and then a heap has to grow by one or two. A
/// kill that always costs something shows in the second.
const MOST: [i64; 2] = [16, 4];

/// The counters that must be as before once the dead are gone.
const COUNTERS: [&str; 13] = [
    "handles",
    "waiting",
    "memory_objects",
    "memory_pages",
    "endpoints",
    "connections",
    "connections_closing",
    "pages",
    "windows",
    "remote_windows",
    "pinned_pages",
    "mapped_pages",
    "jobs",
];
/// The handles of services: `scifrund` listens, `ibd` twice, and it reads the file `peers`.
const SERVICES: [(&str, u64); 2] = [("handles", 4), ("endpoints", 3)];

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let numbers = || -> Option<Vec<u64>> { words.iter().map(|word| word.parse().ok()).collect() };
    match (&words[..], numbers()) {
        (["idle"], _) => idle(),
        (["victim", seed, node], _) => match (seed.parse(), node.parse()) {
            (Ok(seed), Ok(node)) => victim(seed, node),
            _ => 2,
        },
        (_, Some(numbers)) => match numbers[..] {
            [kills, seed, node] => test(kills, seed, node as NodeId),
            _ => 2,
        },
        _ => 2,
    }
}

/// Everything of a node that programs have a part of.
#[derive(Debug, Eq, PartialEq)]
struct Holdings {
    counters: Vec<u64>,
    ports: usize,
    pins: usize,
}

impl Holdings {
    fn now() -> Result<Self, String> {
        let lines = |path: &str| -> Result<usize, String> {
            Ok(fs::read_to_string(path)
                .map_err(text(path))?
                .lines()
                .count())
        };
        Ok(Self {
            counters: COUNTERS
                .iter()
                .map(|name| counter(name))
                .collect::<Result<_, _>>()?,
            ports: lines("/scheme/scif/ports")?,
            pins: lines("/scheme/scif/pins")?,
        })
    }

    /// Whether no connection is on its way out.
    fn are_closed(now: &Result<Self, String>) -> bool {
        let closing = COUNTERS
            .iter()
            .position(|name| *name == "connections_closing");
        now.as_ref()
            .is_ok_and(|now| closing.is_some_and(|closing| now.counters[closing] == 0))
    }

    fn difference(&self, before: &Self) -> String {
        let counters = COUNTERS
            .iter()
            .zip(self.counters.iter().zip(&before.counters));
        let changed = counters.filter(|(_, (now, before))| now != before);
        let mut words: Vec<String> = changed
            .map(|(name, (now, before))| alloc::format!("{name} {now}, not {before}"))
            .collect();
        for (name, now, before) in [
            ("ports", self.ports, before.ports),
            ("pinned ranges", self.pins, before.pins),
        ] {
            if now != before {
                words.push(alloc::format!("{name} {now}, not {before}"));
            }
        }
        words.join("; ")
    }
}

fn idle() -> i32 {
    let mut suite = Suite::new("scif-kills");
    // Some pages are the rings of the links.
    for name in COUNTERS.into_iter().filter(|name| *name != "pages") {
        let service = SERVICES.into_iter().find(|(counter, _)| *counter == name);
        let expected = Ok(service.map_or(0, |(_, count)| count));
        let found = settled(|| counter(name), &expected);
        suite.equal(&alloc::format!("idle {name}"), found, expected);
    }
    suite.finish()
}

fn test(kills: u64, seed: u64, node: NodeId) -> i32 {
    let mut suite = Suite::new("scif-kills");
    let own = scif::nodes().map(|nodes| nodes.own);
    for at in own.into_iter().chain([node]) {
        let there = guest_tests::connect_patiently(PortId::new(at, peers::PORT));
        suite.check(
            &alloc::format!("peers on node {at}"),
            there.map(drop).map_err(text("connecting")),
        );
    }
    // Once those are closed.
    let before = match at_rest(Holdings::now, Holdings::are_closed) {
        Ok(before) => before,
        Err(error) => {
            suite.check("before", Err(error));
            return suite.finish();
        }
    };
    let mut random = Random::new(seed);
    let at_first = Frames::now();
    // Many at once need more than one after the other ever will: stacks, heaps and places for what
    // is lent to daemons have grown as far as they must before frames are counted.
    for warm_up in 1..=WARM_UPS {
        let result = kill_many(&mut random, node);
        suite.check(&alloc::format!("warm-up {warm_up}"), result);
    }
    nothing_left(&mut suite, "the warm-up", &before);
    let mut frames = Frames::at_rest();
    if let (Ok(at_first), Ok(now)) = (&at_first, &frames) {
        runtime::println!("frames of the warm-up: {}", now.changes_since(at_first));
    }
    for (half, most) in (1_u64..).zip(MOST) {
        let in_half = kills.div_ceil(2);
        for kill in 1..=in_half {
            let result = kill_one(random.up_to(1 << 40), random.up_to(LONGEST_LIFE_MS), node);
            let number = (half - 1) * in_half + kill;
            if let Err(error) = result {
                suite.check(&alloc::format!("kill {number}"), Err(error));
            }
            if kill % BETWEEN_LOOKS == 0 || kill == in_half {
                nothing_left(&mut suite, &alloc::format!("{number} kills"), &before);
            }
        }
        let name = alloc::format!("frames after half {half}");
        memory::check(&mut suite, &name, &mut frames, most);
    }
    suite.finish()
}

/// Whether both nodes hold what they held.
fn nothing_left(suite: &mut Suite, what: &str, before: &Holdings) {
    let as_before = settled(|| Holdings::now().is_ok_and(|now| now == *before), &true);
    let left = match (as_before, Holdings::now()) {
        (true, _) => Ok(()),
        (_, Ok(now)) => Err(now.difference(before)),
        (_, Err(error)) => Err(error),
    };
    suite.check(&alloc::format!("nothing left after {what}"), left);
}

/// Starts many programs, and kills them all.
fn kill_many(random: &mut Random, node: NodeId) -> Result<(), String> {
    let started: Vec<_> = (0..CLIENTS)
        .map(|_| start(random.up_to(1 << 40), node))
        .collect();
    sleep(Duration::from_millis(4 * LONGEST_LIFE_MS));
    // All of them, whatever becomes of one: a survivor disturbs the checks that follow.
    let ended: Vec<_> = started
        .into_iter()
        .map(|child| child.and_then(end))
        .collect();
    ended.into_iter().collect()
}

fn start(seed: u64, node: NodeId) -> Result<Child, String> {
    let (seed, node) = (alloc::format!("{seed}"), alloc::format!("{node}"));
    let mut command = Command::new("scif-kills");
    command.args(["victim", &seed, &node]);
    command.spawn().map_err(text("starting"))
}

fn end(mut child: Child) -> Result<(), String> {
    child.kill().map_err(text("killing"))?;
    let status = child.wait().map_err(text("waiting"))?;
    match status.signal() {
        Some(9) => Ok(()),
        _ => Err(alloc::format!("it ended by itself, {status}")),
    }
}

/// Starts a program that does anything, and kills it after a while.
fn kill_one(seed: u64, life_ms: u64, node: NodeId) -> Result<(), String> {
    let child = start(seed, node)?;
    sleep(Duration::from_millis(life_ms));
    end(child).map_err(|error| alloc::format!("seed {seed}: {error}"))
}

/// Does one thing after the other until it is killed. Errors are none of its concern.
fn victim(seed: u64, node: NodeId) -> i32 {
    let mut random = Random::new(seed);
    let Ok(nodes) = scif::nodes() else { return 3 };
    loop {
        let there = if random.up_to(2) == 1 {
            nodes.own
        } else {
            node
        };
        let at = PortId::new(there, peers::PORT);
        // The result does not matter: the kill is the test.
        let _ = match random.up_to(12) {
            1 => scif::connect(at).map(drop).map_err(text("connect")),
            2 => files(at),
            3 => stream(at, SINK, &mut random),
            4 => stream(at, SOURCE, &mut random),
            5 => echoes(at),
            6 => accepts(&mut random),
            7 => waits(&mut random),
            8 => windows(at, &mut random),
            9 => transfers(at),
            10 => mappings(at),
            11 => pins(at),
            _ => texts(),
        };
    }
}

fn request(verb: u32, random: &mut Random) -> Request {
    Request {
        verb: verb.into(),
        bytes: STREAM.into(),
        seed: random.up_to(1 << 30).into(),
        message: 64.into(),
        ..Request::default()
    }
}

fn connect(at: PortId, request: &Request) -> Result<Endpoint, String> {
    let endpoint = scif::connect(at).map_err(text("connect"))?;
    let sent = endpoint.send(request.as_bytes(), SendFlags::BLOCK);
    sent.map(|_| endpoint).map_err(text("request"))
}

/// Opens, writes and reads files.
fn files(at: PortId) -> Result<(), String> {
    let path = alloc::format!("/scheme/scif/{}/{}", at.node(), at.port());
    let file = Fd::open(&path, O_RDWR, 0).map_err(text("open"))?;
    let request = Request {
        verb: ECHO.into(),
        message: 4000.into(),
        ..Request::default()
    };
    file.write(request.as_bytes()).map_err(text("write"))?;
    let mut bytes = vec![1; 4000];
    for _ in 0..4 {
        file.write(&bytes).map_err(text("write"))?;
        file.read(&mut bytes).map_err(text("read"))?;
    }
    // Nothing comes any more.
    file.read(&mut bytes).map(drop).map_err(text("read"))
}

fn stream(at: PortId, verb: u32, random: &mut Random) -> Result<(), String> {
    let request = request(verb, random);
    let endpoint = connect(at, &request)?;
    match verb {
        SINK => peer::source(&endpoint, &request),
        _ => peer::sink(&endpoint, &request),
    };
    Ok(())
}

fn echoes(at: PortId) -> Result<(), String> {
    let request = Request {
        verb: ECHO.into(),
        message: 64.into(),
        ..Request::default()
    };
    let endpoint = connect(at, &request)?;
    let mut bytes = [5; 64];
    for _ in 0..50 {
        let sent = endpoint.send(&bytes, SendFlags::BLOCK);
        let back = sent.and_then(|_| endpoint.recv(&mut bytes, RecvFlags::BLOCK));
        back.map_err(text("echo"))?;
    }
    let mut entries = [PollEntry::new(&endpoint, Readiness::IN)];
    let limit = Some(Duration::from_millis(3));
    scif::poll(&mut entries, limit)
        .map(drop)
        .map_err(text("poll"))
}

/// Both ends of a connection, a listener without accepts, and connects in the background.
fn accepts(random: &mut Random) -> Result<(), String> {
    let (client, server) = pair().map_err(text("pair"))?;
    client
        .send(b"hello", SendFlags::BLOCK)
        .map_err(text("send"))?;
    server
        .recv(&mut [0; 5], RecvFlags::BLOCK)
        .map_err(text("recv"))?;
    let listener = Listener::bind(0).map_err(text("listen"))?;
    let to = PortId::new(
        scif::nodes().map_err(text("nodes"))?.own,
        listener.port().map_err(text("port"))?,
    );
    let mut pending = Vec::new();
    for _ in 0..random.up_to(8) {
        let endpoint = Endpoint::open().map_err(text("open"))?;
        endpoint.set_nonblocking(true).map_err(text("flags"))?;
        // EINPROGRESS.
        let _ = endpoint.connect(to);
        pending.push(endpoint);
    }
    listener.try_accept().map(drop).map_err(text("accept"))
}

/// Waits for what never comes.
fn waits(random: &mut Random) -> Result<(), String> {
    let listener = Listener::bind(0).map_err(text("listen"))?;
    let port = listener.port().map_err(text("port"))?;
    let own = scif::nodes().map_err(text("nodes"))?.own;
    match random.up_to(3) {
        1 => listener.accept().map(drop).map_err(text("accept")),
        2 => scif::connect(PortId::new(own, port))
            .map(drop)
            .map_err(text("connect")),
        _ => {
            drop(listener);
            let path = alloc::format!("/scheme/scif/accept/{port}");
            Fd::open(&path, O_RDWR, 0).map(drop).map_err(text("open"))
        }
    }
}

fn windows(at: PortId, random: &mut Random) -> Result<(), String> {
    let remote = Remote::new(&Peer::known(at), WINDOW)?;
    let memory = Memory::new(WINDOW).map_err(text("memory"))?;
    for _ in 0..random.up_to(6) {
        let window = remote
            .endpoint
            .register(&memory)
            .map_err(text("register"))?;
        if random.up_to(2) == 1 {
            window.unregister().map_err(text("unregister"))?;
        }
    }
    Ok(())
}

/// The other end's window.
fn remote_window(at: PortId) -> Result<(Remote, i64), String> {
    let remote = Remote::new(&Peer::known(at), WINDOW)?;
    let offset = remote.register(0, WINDOW, 0, Protection::all().bits(), 0);
    let offset = offset.map_err(text("the other window"))?;
    Ok((remote, offset))
}

fn transfers(at: PortId) -> Result<(), String> {
    let (remote, offset) = remote_window(at)?;
    let endpoint = &remote.endpoint;
    let memory = Memory::new(WINDOW).map_err(text("memory"))?;
    let window = endpoint.register(&memory).map_err(text("register"))?;
    let mut bytes = vec![1; WINDOW];
    for flags in [RmaFlags::SYNC, RmaFlags::empty(), RmaFlags::ORDERED] {
        let all = || window.all();
        endpoint
            .write_to(all(), offset, flags)
            .map_err(text("writeto"))?;
        endpoint
            .read_from(all(), offset, flags)
            .map_err(text("readfrom"))?;
        let mark = endpoint.fence_mark(Initiator::Own).map_err(text("mark"))?;
        endpoint.fence_wait(mark).map_err(text("wait"))?;
        endpoint
            .vwrite_to(&bytes, offset, flags)
            .map_err(text("vwriteto"))?;
        endpoint
            .vread_from(&mut bytes, offset, flags)
            .map_err(text("vreadfrom"))?;
    }
    let moved = remote.transfer(true, offset, WINDOW, window.offset(), RmaFlags::SYNC.bits());
    moved.map_err(text("the other's transfer"))
}

fn mappings(at: PortId) -> Result<(), String> {
    let (remote, offset) = remote_window(at)?;
    for _ in 0..3 {
        let mapping = remote.endpoint.map(offset, WINDOW, Protection::all());
        let mapping = mapping.map_err(text("map"))?;
        mapping.fill(0, WINDOW, 3).map_err(text("fill"))?;
    }
    remote
        .unregister(offset, WINDOW)
        .map_err(text("unregister"))
}

/// Windows of pages that stay where they are.
fn pins(at: PortId) -> Result<(), String> {
    let remote = Remote::new(&Peer::known(at), WINDOW)?;
    let memory = Memory::ordinary(WINDOW).map_err(text("memory"))?;
    let window = remote.endpoint.register(&memory);
    let window = window.map_err(text("register"))?;
    let flags = RmaFlags::SYNC.bits();
    let there = remote.register(0, WINDOW, 0, Protection::all().bits(), 0);
    let there = there.map_err(text("the other window"))?;
    let moved = remote.transfer(true, there, WINDOW, window.offset(), flags);
    moved.map_err(text("the other's transfer"))
}

fn texts() -> Result<(), String> {
    for name in [
        "nodes",
        "ports",
        "connections",
        "windows",
        "mappings",
        "limits",
        "stats",
    ] {
        let path = alloc::format!("/scheme/scif/{name}");
        fs::read_to_string(&path).map_err(text("text"))?;
    }
    let peers = Fd::open("/scheme/scif/peers", O_RDONLY | O_NONBLOCK, 0);
    let peers = peers.map_err(text("peers"))?;
    peers.read(&mut [0; 100]).map(drop).map_err(text("read"))
}
