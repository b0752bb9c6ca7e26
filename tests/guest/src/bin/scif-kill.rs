//! A program that is killed in the middle of a stream: its peer reads what was sent and then gets
//! ECONNRESET; a killed reader resets its writer. One that is killed while it waits for a
//! connection, or before it has claimed one, leaves nothing behind.
//!
//! `scif-kill [NODE]`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use guest_tests::peer::{self, Peer, Request, SINK, SOURCE};
use guest_tests::{Suite, at_rest, counter, settled, text};
use libredox::Fd;
use libredox::flag::O_RDWR;
use runtime::fd;
use runtime::process::{Child, Command};
use runtime::time::{Duration, sleep};
use scif::{Errno, Error, Listener, Readiness, RecvFlags};
use scif_abi::call::{AcceptRecord, Call};
use scif_abi::flags::AcceptFlags;

runtime::main!(main);

/// More bytes than can be sent while the test runs.
const ENDLESS: u64 = 1 << 40;

fn main() -> i32 {
    let arguments = peer::arguments();
    if let [role, node] = &arguments[..] {
        return victim(role, node);
    }
    let mut suite = Suite::new("scif-kill");
    let peer = match Peer::from_arguments() {
        Ok(peer) => peer,
        Err(error) => {
            suite.check("peer", Err(error));
            return suite.finish();
        }
    };
    for bytes in [1, 100_000, 3_000_000] {
        let name = alloc::format!("writer killed after {bytes} bytes");
        suite.check(&name, kill(&peer, "write", "out", bytes));
        let name = alloc::format!("reader killed after {bytes} bytes");
        suite.check(&name, kill(&peer, "read", "in", bytes));
    }
    suite.check("a killed accept frees its port", killed_accept());
    suite.check("a killed connect withdraws", killed_connect());
    suite.check("a killed taker resets its connection", killed_taker());
    // Within the node the peer accepts, in a request or, on Redox's kernel, in an event queue.
    let accepts = arguments.is_empty() && hal::kernel::ends_abandoned_requests();
    let wanted = Ok(u64::from(accepts));
    let waiting = settled(|| counter("waiting"), &wanted);
    suite.equal("waiting requests", waiting, wanted);
    peer.dismiss();
    suite.finish()
}

/// The program that is killed: streams for ever, waits in an open, or takes a connection.
fn victim(role: &str, node: &str) -> i32 {
    if role == "take" {
        return take();
    }
    if role == "open" {
        let path = alloc::format!("/scheme/scif/{node}");
        return Fd::open(&path, O_RDWR, 0).map_or(6, |_| 7);
    }
    let Ok(node) = node.parse() else {
        return 2;
    };
    let at = scif::PortId::new(node, peer::PORT);
    let (order, own) = match role {
        "write" => (SINK, SOURCE),
        _ => (SOURCE, SINK),
    };
    let request = |verb: u32| Request {
        verb: verb.into(),
        bytes: ENDLESS.into(),
        seed: 9.into(),
        ..Request::default()
    };
    let Ok(endpoint) = scif::connect(at) else {
        return 3;
    };
    let order = request(order);
    if endpoint
        .send(
            zerocopy::IntoBytes::as_bytes(&order),
            scif::SendFlags::BLOCK,
        )
        .is_err()
    {
        return 4;
    }
    match own {
        SOURCE => peer::source(&endpoint, &request(own)),
        _ => peer::sink(&endpoint, &request(own)),
    };
    5
}

/// The port of the waits that are killed.
const WAIT_PORT: u16 = 4020;

/// The program that waits in an open of `path` until it is killed.
/// Returns it, and how many requests waited before, once its own waits too.
fn wait_in_open(path: &str) -> Result<(Child, u64), String> {
    // Within the node the peer's accept waits as well, perhaps only soon.
    let before = at_rest(|| counter("waiting"), |_| true)?;
    let child = Command::new("scif-kill")
        .args(["open", path])
        .spawn()
        .map_err(text("starting"))?;
    match settled(|| counter("waiting"), &Ok(before + 1))? {
        waiting if waiting == before + 1 => Ok((child, before)),
        waiting => Err(alloc::format!(
            "{waiting} requests wait, {before} before it"
        )),
    }
}

/// Kills it and waits until its request is gone from the scheme.
fn end((mut child, before): (Child, u64)) -> Result<(), String> {
    child.kill().map_err(text("killing"))?;
    let status = child.wait().map_err(text("waiting"))?;
    if settled(|| counter("waiting"), &Ok(before))? != before {
        return Err("its request still waits after it was killed".into());
    }
    match status.signal() {
        Some(_) => Ok(()),
        None => Err(alloc::format!("it ended by itself: {status:?}")),
    }
}

fn killed_accept() -> Result<(), String> {
    let child = wait_in_open(&alloc::format!("accept/{WAIT_PORT}"))?;
    let taken = Listener::bind(WAIT_PORT).map(|_| ());
    end(child)?;
    if taken != Err(Error::Scif(Errno::InvalidArgument)) {
        return Err(alloc::format!("while it waited, listening gave {taken:?}"));
    }
    Listener::bind(WAIT_PORT)
        .map(|_| ())
        .map_err(text("listening afterwards"))
}

fn killed_connect() -> Result<(), String> {
    let own = scif::nodes().map_err(text("nodes"))?.own;
    let listener = Listener::bind(WAIT_PORT).map_err(text("listening"))?;
    let child = wait_in_open(&alloc::format!("{own}/{WAIT_PORT}"))?;
    let waits = listener.as_endpoint().readiness(Readiness::IN);
    end(child)?;
    if waits != Ok(Readiness::IN) {
        return Err(alloc::format!("its request was not seen: {waits:?}"));
    }
    match listener.try_accept() {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err("a request was accepted whose program is dead".into()),
        Err(error) => Err(alloc::format!("accept: {error}")),
    }
}

/// Takes a connection of the listener that is the standard input, and does not claim it.
fn take() -> i32 {
    const INPUT: usize = 0;
    let words = [Call::ACCEPT_REQUEST, AcceptFlags::SYNC.bits().into(), 0];
    match fd::call_rw(INPUT, &mut [0; size_of::<AcceptRecord>()], &words) {
        Ok(_) => sleep(Duration::from_secs(600)),
        Err(_) => return 8,
    }
    9
}

/// A program takes a connection in two steps and is killed between them. This one has the listener,
/// too, so that stays.
fn killed_taker() -> Result<(), String> {
    let own = scif::nodes().map_err(text("nodes"))?.own;
    let path = alloc::format!("/scheme/scif/listen/{WAIT_PORT}");
    let listener = Fd::open(&path, O_RDWR, 0).map_err(text("listening"))?;
    let mut command = Command::new("scif-kill");
    let child = command.args(["take", "-"]).stdin(&listener).spawn();
    let mut child = child.map_err(text("starting"))?;
    let at = scif::PortId::new(own, WAIT_PORT);
    let connection = scif::connect(at).map_err(text("connecting"))?;
    child.kill().map_err(text("killing"))?;
    let status = child.wait().map_err(text("waiting"))?;
    if status.signal().is_none() {
        return Err(alloc::format!("it ended by itself: {status:?}"));
    }
    match connection.recv(&mut [0], RecvFlags::BLOCK) {
        Err(Error::Scif(Errno::ConnectionReset)) => Ok(()),
        other => Err(alloc::format!("received: {other:?}")),
    }
}

/// The bytes that the connections of this node have moved, of the column `direction`.
fn moved(direction: &str) -> Result<u64, String> {
    let list = runtime::fs::read_to_string("/scheme/scif/connections");
    let list = list.map_err(text("connections"))?;
    let mut lines = list.lines();
    let names = lines.next().unwrap_or_default().split_whitespace();
    let column = names.into_iter().position(|name| name == direction);
    let column = column.ok_or("no such column")?;
    let value = |line: &str| line.split_whitespace().nth(column)?.parse::<u64>().ok();
    Ok(lines.filter_map(value).sum())
}

/// Kills a program that streams once it has moved `bytes` bytes, and looks what its peer saw.
fn kill(peer: &Peer, role: &str, direction: &str, bytes: u64) -> Result<(), String> {
    // The peer must be there before the victim runs into it.
    peer.last_report()?;
    // Messages between the two about the test count as well.
    let enough = moved(direction)? + 2 * size_of::<Request>() as u64 + bytes;
    let node = alloc::format!("{}", peer.at.node());
    let mut child = Command::new("scif-kill")
        .args([role, &node])
        .spawn()
        .map_err(text("starting"))?;
    let has_moved = || moved(direction).is_ok_and(|moved| moved >= enough);
    if !settled(has_moved, &true) {
        return Err(alloc::format!("it has not moved {bytes} bytes"));
    }
    child.kill().map_err(text("killing"))?;
    let status = child.wait().map_err(text("waiting"))?;
    if status.signal().is_none() {
        return Err(alloc::format!("it ended by itself: {status:?}"));
    }
    let report = peer.last_report()?;
    let reset = Errno::ConnectionReset.errno() as u32;
    if report.errno.get() != reset || report.mismatch.get() != u64::MAX || report.bytes.get() == 0 {
        return Err(alloc::format!("the peer saw {report:?}"));
    }
    Ok(())
}
