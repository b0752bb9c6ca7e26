//! Programs that die while they hold a ring's lock, or in the middle of a transfer: others go on,
//! the peer gets its error, and nothing is left.

use alloc::string::String;
use alloc::vec;

use guest_tests::peer::{self, ECHO, Peer, Request};
use guest_tests::windows::Remote;
use guest_tests::{Suite, at_rest, counter, pair, settled, text};
use libredox::Fd;
use runtime::process::{Child, Command};
use scif::{Endpoint, Listener, PortId, RecvFlags, RmaFlags, SendFlags};
use zerocopy::IntoBytes;

/// Bytes of the echo's messages, and more than any ring holds.
const MESSAGE: usize = 1 << 17;
const MUCH: usize = 32 << 20;
/// Where a victim says that it is in the middle of it.
const READY_PORT: u16 = 4021;
/// Number of the descriptor in the other program.
const FD: usize = 9;

pub fn checks(suite: &mut Suite, peer: &Peer) {
    for what in ["receiver", "sender"] {
        let name = alloc::format!("a {what} killed with its part of a message");
        suite.check(&name, holder(peer, what));
    }
    suite.check("a program killed in a transfer", in_transfer(peer));
    suite.check("a lock that dies with its holder", shared_lock());
}

fn end(mut child: Child) -> Result<(), String> {
    child.kill().map_err(text("killing"))?;
    let status = child.wait().map_err(text("waiting"))?;
    match status.signal() {
        Some(_) => Ok(()),
        None => Err(alloc::format!("it ended by itself: {status:?}")),
    }
}

fn start(what: &str, peer: &Peer) -> Result<Child, String> {
    let node = alloc::format!("{}", peer.at.node());
    let child = Command::new("scif-bypass")
        .args(["hold", what, &node])
        .spawn();
    child.map_err(text("starting"))
}

/// Waits until this number of requests waits in the daemon.
fn waiting(wanted: u64) -> Result<(), String> {
    match settled(|| counter("waiting"), &Ok(wanted))? {
        found if found == wanted => Ok(()),
        found => Err(alloc::format!("{found} requests wait, not {wanted}")),
    }
}

/// A program that sleeps in a call of which a part is done.
fn holder(peer: &Peer, what: &str) -> Result<(), String> {
    peer.last_report()?;
    // Within the node the peer's request waits as well: in its accept, or in a transfer.
    let is_local = scif::nodes().map_err(text("nodes"))?.own == peer.at.node();
    let idle = u64::from(is_local);
    waiting(idle)?;
    let child = start(what, peer)?;
    waiting(idle + 1)?;
    end(child)?;
    // The peer got its error, as it serves the next connection.
    peer.last_report()?;
    waiting(idle)
}

fn in_transfer(peer: &Peer) -> Result<(), String> {
    let listener = Listener::bind(READY_PORT).map_err(text("listening"))?;
    let child = start("transfer", peer)?;
    let (endpoint, _) = listener.accept().map_err(text("accept"))?;
    end(child)?;
    drop(endpoint);
    peer.last_report().map(|_| ())
}

/// Another program has taken a part of a message and dies: the lock is free again.
fn shared_lock() -> Result<(), String> {
    let (left, right) = pair().map_err(text("pair"))?;
    left.prepare().map_err(text("prepare"))?;
    right.prepare().map_err(text("prepare"))?;
    // Within the node the peer's accept waits as well, perhaps only soon.
    let before = at_rest(|| counter("waiting"), |_| true)?;
    let number = alloc::format!("{FD}");
    let child = Command::new("scif-bypass")
        .args(["take", &number])
        .fd(FD, left.fd())
        .spawn()
        .map_err(text("starting"))?;
    right
        .send(b"lost", SendFlags::BLOCK)
        .map_err(text("send"))?;
    waiting(before + 1)?;
    end(child)?;
    right
        .send(b"kept", SendFlags::BLOCK)
        .map_err(text("send"))?;
    let mut buffer = [0; 4];
    let received = left
        .recv(&mut buffer, RecvFlags::BLOCK)
        .map_err(text("recv"))?;
    if (received, &buffer) != (4, b"kept") {
        return Err(alloc::format!("received {received} bytes, {buffer:?}"));
    }
    Ok(())
}

/// The program that takes a part of a message.
pub fn taker(fd: &str) -> i32 {
    let Ok(fd) = fd.parse() else {
        return 2;
    };
    let endpoint = Endpoint::from_file(Fd::new(fd));
    if endpoint.prepare().is_err() {
        return 3;
    }
    let _ = endpoint.recv(&mut [0; 100], RecvFlags::BLOCK);
    4
}

/// The programs that are killed.
pub fn victim(what: &str, node: &str) -> i32 {
    let Ok(node) = node.parse() else {
        return 2;
    };
    let at = PortId::new(node, peer::PORT);
    match what {
        "transfer" => transfer(at),
        _ => part(at, what == "sender").unwrap_or(3),
    }
}

/// Sleeps in the middle of a message.
fn part(at: PortId, sends: bool) -> scif::Result<i32> {
    let endpoint = scif::connect(at)?;
    let request = Request {
        verb: ECHO.into(),
        message: (MESSAGE as u32).into(),
        ..Request::default()
    };
    endpoint.send(request.as_bytes(), SendFlags::BLOCK)?;
    endpoint.prepare()?;
    if sends {
        // The echoes are not read, so the peer stops reading as well.
        endpoint.send(&vec![1; MUCH], SendFlags::BLOCK)?;
    } else {
        endpoint.send(&vec![1; MESSAGE], SendFlags::BLOCK)?;
        endpoint.recv(&mut vec![0; MUCH], RecvFlags::BLOCK)?;
    }
    Ok(4)
}

/// Copies until it is killed, and reports when it does so without the daemon.
fn transfer(at: PortId) -> i32 {
    const BYTES: usize = 2 << 20;
    let peer = Peer::known(at);
    let Ok(remote) = Remote::new(&peer, BYTES) else {
        return 3;
    };
    let Ok(offset) = remote.register(0, BYTES, 0, 3, 0) else {
        return 4;
    };
    let data = vec![7; BYTES];
    let mut told = None;
    for round in 0_u64.. {
        if remote
            .endpoint
            .vwrite_to(&data, offset, RmaFlags::SYNC)
            .is_err()
        {
            return 5;
        }
        if round == 5 {
            let own = scif::nodes().map_or(0, |nodes| nodes.own);
            told = Some(scif::connect(PortId::new(own, READY_PORT)));
        }
    }
    drop(told);
    6
}
