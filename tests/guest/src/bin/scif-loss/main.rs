//! The loss of a node, as the others see it: its power is cut in the middle of everything, it
//! freezes, its link is cut, and it comes back; and nothing of it stays, and nothing of ours
//! reaches it.
//!
//! `scif-loss`: the suite; node 1 is the one that is lost.
//! `scif-loss kills COUNT`: kills node 1 COUNT times in mid-transfer and counts what is left.
//!
//! Node 1 runs `scif-loss serve` each time it boots. The launcher does what is asked for by lines
//! on the console. Times here are only limits for what must happen some time.
#![no_std]
#![no_main]

extern crate alloc;

mod kills;
mod load;
mod nodes;
mod store;

use alloc::string::String;

use guest_tests::peer::{self, ECHO, Peer, Request};
use guest_tests::windows::Remote;
use guest_tests::{Suite, at_rest, counter, settled, text};
use nodes::{is_online, launcher, wait_for};
use runtime::process::{Child, Command};
use runtime::time::{Duration, Instant, sleep};
use scif::{Errno, Error, PortId, RecvFlags, SendFlags};

runtime::main!(main);

/// The node that is lost.
const LOST: u16 = 1;
/// Bytes of the new node's memory that must stay as they are: half of what it has.
const WATCHED: usize = 96 << 20;
/// Silence that is allowed in these tests, in milliseconds.
const SILENCE_MS: u64 = 800;
/// The longest time until the loss is reported, in milliseconds: a limit, not a
/// measurement.
const NOTICE_LIMIT_MS: u64 = 15_000;

/// The values that must be in the end as they were: counters of the file `stats`, and `ports`, the
/// lines of the file of that name.
pub const COUNTERS: [&str; 12] = [
    "ports",
    "handles",
    "waiting",
    "endpoints",
    "connections",
    "connections_closing",
    "pages",
    "windows",
    "remote_windows",
    "pinned_pages",
    "mapped_pages",
    "memory_pages",
];

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: alloc::vec::Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => suite(),
        ["serve"] => load::serve(),
        ["store"] => store::main(LOST),
        ["load", kind, seed] => load::main(LOST, kind, seed),
        ["kills", count] => kills::main(LOST, count),
        _ => {
            runtime::eprintln!("usage: scif-loss [kills COUNT | serve]");
            2
        }
    }
}

fn suite() -> i32 {
    let mut suite = Suite::new("scif-loss");
    suite.check("limits", be_impatient());
    suite.check("node comes", wait_for(LOST, true));
    // Everything is warm before it is counted.
    suite.check("talks", talk());
    let before = settled_counters();
    suite.check("power cut", power_cut());
    suite.check("frozen", frozen());
    suite.check("cut and healed", cut());
    suite.check("frozen while cut", frozen_while_cut());
    let after = settled(counters, &before);
    for ((name, after), before) in COUNTERS.iter().zip(after).zip(before) {
        suite.equal(&alloc::format!("{name} in the end"), after, before);
    }
    suite.finish()
}

/// Has this node's heart beat as often as the other one expects, and expects as much of it.
pub fn be_impatient() -> Result<(), String> {
    let timing = alloc::format!("heartbeat_ms 100\nsilence_ms {SILENCE_MS}\n");
    let set = runtime::fs::write("/scheme/scif/limits", timing.as_bytes());
    set.map_err(text("write limits"))
}

/// Their values.
pub fn counters() -> [Result<u64, String>; COUNTERS.len()] {
    COUNTERS.map(|name| match name {
        "ports" => {
            let ports = runtime::fs::read_to_string("/scheme/scif/ports").map_err(text("ports"))?;
            Ok(ports.lines().count() as u64)
        }
        name => counter(name),
    })
}

/// The counters, once nothing of what was before is on its way any more.
fn settled_counters() -> [Result<u64, String>; COUNTERS.len()] {
    let closing = COUNTERS
        .iter()
        .position(|name| *name == "connections_closing");
    at_rest(counters, |now| {
        closing.is_some_and(|closing| now[closing] == Ok(0))
    })
}

/// An echo of one message, over a new connection.
fn talk() -> Result<(), String> {
    let endpoint = echo()?;
    for round in 0..50_u32 {
        let message = round.to_le_bytes();
        let mut back = [0; 4];
        endpoint
            .send(&message, SendFlags::BLOCK)
            .map_err(text("send"))?;
        endpoint
            .recv(&mut back, RecvFlags::BLOCK)
            .map_err(text("receive"))?;
        if back != message {
            return Err(alloc::format!("{back:?} came back for {message:?}"));
        }
    }
    Ok(())
}

fn echo() -> Result<scif::Endpoint, String> {
    let request = Request {
        verb: ECHO.into(),
        message: 4.into(),
        ..Request::default()
    };
    Peer::known(PortId::new(LOST, peer::PORT)).connect(&request)
}

/// Waits in a receive for what never comes while something happens to the node; the receive must
/// end as that of a lost peer does.
fn wait_through(what: impl FnOnce()) -> Result<(), String> {
    let endpoint = echo()?;
    endpoint
        .send(&[1, 2, 3, 4], SendFlags::BLOCK)
        .map_err(text("send"))?;
    let mut bytes = [0; 4];
    endpoint
        .recv(&mut bytes, RecvFlags::BLOCK)
        .map_err(text("receive"))?;
    let begin = Instant::now();
    what();
    match endpoint.recv(&mut bytes, RecvFlags::BLOCK) {
        Err(Error::Scif(Errno::ConnectionReset)) => {}
        other => return Err(alloc::format!("the receive ended with {other:?}")),
    }
    let elapsed = begin.elapsed().as_millis() as u64;
    runtime::println!("scif-loss: noticed after {elapsed} ms");
    match scif::connect(PortId::new(LOST, peer::PORT)) {
        Err(Error::Scif(Errno::NoDevice)) => {}
        other => return Err(alloc::format!("a connect ended with {:?}", other.err())),
    }
    if is_online(LOST)? {
        return Err("it is still online".into());
    }
    match elapsed {
        0..=NOTICE_LIMIT_MS => Ok(()),
        _ => Err(alloc::format!("that took {elapsed} ms")),
    }
}

/// The node's power is cut while a program of ours stores into its memory for ever. It boots again,
/// fills its memory, and nothing of that changes.
fn power_cut() -> Result<(), String> {
    let storing = Storing::start()?;
    wait_through(|| launcher("kill 1"))?;
    launcher("start 1");
    wait_for(LOST, true)?;
    talk()?;
    let peer = Peer::known(PortId::new(LOST, peer::PORT));
    let remote = Remote::new(&peer, WATCHED)?;
    remote.fill(0, WATCHED, 77)?;
    sleep(Duration::from_millis(500));
    remote.compare(0, WATCHED, 77, false)?;
    drop(remote);
    storing.end()
}

/// A program that stores through a mapping.
struct Storing(Child);

impl Storing {
    fn start() -> Result<Self, String> {
        store::clear();
        let child = Command::new("scif-loss").args(["store"]).spawn();
        let child = child.map_err(text("starting"))?;
        match settled(store::has_begun, &true) {
            true => Ok(Self(child)),
            false => Err("the program that stores does not begin".into()),
        }
    }

    /// Ends it; it must have found its mapping empty since the loss.
    fn end(mut self) -> Result<(), String> {
        store::stop();
        let status = self.0.wait().map_err(text("waiting"))?;
        match status.code() {
            Some(0) => Ok(()),
            _ => Err(alloc::format!("the program that stores ended: {status}")),
        }
    }
}

/// The node's machine stops for longer than it may be silent, and goes on.
fn frozen() -> Result<(), String> {
    let storing = Storing::start()?;
    wait_through(|| launcher("freeze 1"))?;
    sleep(Duration::from_millis(SILENCE_MS));
    if is_online(LOST)? {
        return Err("it is online while it is frozen".into());
    }
    launcher("thaw 1");
    wait_for(LOST, true)?;
    talk()?;
    storing.end()
}

fn cut() -> Result<(), String> {
    let storing = Storing::start()?;
    wait_through(|| launcher("cut 0 1"))?;
    sleep(Duration::from_millis(2 * SILENCE_MS));
    if is_online(LOST)? {
        return Err("it is online while the link is cut".into());
    }
    launcher("heal 0 1");
    wait_for(LOST, true)?;
    talk()?;
    storing.end()
}

/// Both at once, and mended in the other order.
fn frozen_while_cut() -> Result<(), String> {
    wait_through(|| {
        launcher("cut 0 1");
        launcher("freeze 1");
    })?;
    launcher("heal 0 1");
    sleep(Duration::from_millis(SILENCE_MS));
    launcher("thaw 1");
    wait_for(LOST, true)?;
    talk()
}
