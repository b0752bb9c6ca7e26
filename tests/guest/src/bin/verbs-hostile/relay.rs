//! The relay of datagrams for groups, by hand.

use alloc::vec::Vec;

use guest_tests::text;
use libredox::Fd;
use runtime::process::Command;
use runtime::time::{Duration, sleep};
use runtime::{fd, path, println};
use scif::{Endpoint, NodeId, Options, PortId, RecvFlags, SendFlags};
use syscall::O_RDWR;
use verbs::relay;
use verbs_core::address::{GlobalRoute, MULTICAST_QPN, lid};
use verbs_core::record::{DatagramPiece, HEADER_BYTES, Marks, Record};

use super::Checked;
use super::attacker::{TIME_LIMIT, wait_until};

/// Datagrams that are sent without taking one.
const MANY: usize = 2000;
/// Connections that one program takes, more than the relay has.
const CROWD: usize = 600;
/// Its user.
const USER: u32 = 1000;
/// The line by which it says that it has them.
const READY: &str = "ready";
/// Bytes of a datagram.
const BYTES: u32 = 200;

fn connect(node: NodeId) -> Checked<Endpoint> {
    let patient = Options::new().retry_for(TIME_LIMIT);
    let endpoint = patient.connect(PortId::new(node, relay::PORT));
    endpoint.map_err(text("connect with the relay"))
}

fn join(node: NodeId) -> Checked<Endpoint> {
    let endpoint = connect(node)?;
    send(&endpoint, &relay::greeting())?;
    Ok(endpoint)
}

fn send(endpoint: &Endpoint, bytes: &[u8]) -> Checked {
    let sent = endpoint.send(bytes, SendFlags::BLOCK);
    sent.map(drop).map_err(text("send to the relay"))
}

fn ends(what: &str, endpoint: &Endpoint) -> Checked {
    let mut bytes = [0; 256];
    wait_until(what, || {
        endpoint.recv(&mut bytes, RecvFlags::empty()).is_err()
    })
}

/// A piece that claims another port.
fn piece(destination: u32, marks: Marks, total: u32, payload: u32) -> Vec<u8> {
    let piece = DatagramPiece {
        destination,
        source: 7,
        qkey: 1,
        slid: 99,
        service_level: 0,
        global: Some(GlobalRoute {
            gid: [0xff; 16],
            ..GlobalRoute::default()
        }),
        marks,
        total,
        immediate: 0,
        payload,
    };
    let mut bytes = Record::Datagram(piece).encode().to_vec();
    bytes.resize(HEADER_BYTES + payload as usize, 0x77);
    bytes
}

/// Takes more connections with the relay than it has for all, and keeps them until it is killed.
pub fn crowd(node: NodeId) -> i32 {
    // Those that the relay ends may end in the middle of this.
    let _lanes: Vec<Endpoint> = (0..CROWD).filter_map(|_| join(node).ok()).collect();
    println!("{READY}");
    sleep(Duration::from_secs(3600));
    0
}

/// A user who wants all connections keeps out no other one, neither before nor behind.
fn others_stay(node: NodeId) -> Checked {
    let before = join(node)?;
    let read = Fd::new(path::open("/scheme/pipe", O_RDWR).map_err(text("a pipe"))?);
    let write = Fd::new(fd::dup(read.raw(), b"write").map_err(text("its end"))?);
    let mut command = Command::new("verbs-hostile");
    command.args(["crowd", &alloc::format!("{node}")]);
    command.uid(USER).gid(USER).stdout(&write);
    let mut crowd = command.spawn().map_err(text("the crowd"))?;
    drop(write);
    let came = fd::read(read.raw(), &mut [0]).map_err(text("from the crowd"))?;
    let behind = join(node)?;
    let datagram = piece(MULTICAST_QPN, Marks::FIRST | Marks::LAST, BYTES, BYTES);
    let heard = send(&behind, &datagram).and_then(|()| {
        let mut bytes = alloc::vec![0; datagram.len()];
        [&before, &behind].into_iter().try_for_each(|endpoint| {
            wait_until("nothing comes from the relay beside a crowd", || {
                let got = endpoint.recv(&mut bytes, RecvFlags::empty());
                got.is_ok_and(|count| count > 0)
            })
        })
    });
    let killed = crowd.kill().and_then(|()| crowd.wait().map(drop));
    killed.map_err(text("end the crowd"))?;
    match came {
        0 => Err("the crowd has ended".into()),
        _ => heard,
    }
}

/// The relay of a node keeps to its rules, and to those who keep to them.
pub fn attack(node: NodeId) -> Checked {
    if scif::nodes().is_ok_and(|nodes| nodes.own != node) {
        // Only the daemon of another node is heard.
        let endpoint = connect(node)?;
        // It may have ended by now.
        let _ = endpoint.send(&relay::greeting(), SendFlags::empty());
        return ends("a program of another node is heard", &endpoint);
    }
    let whole = Marks::FIRST | Marks::LAST;
    let stranger = connect(node)?;
    send(&stranger, &[0xee; 16])?;
    ends("a wrong greeting is taken", &stranger)?;
    let endless: Vec<u8> = (0..200)
        .flat_map(|number| match number {
            0 => piece(MULTICAST_QPN, Marks::FIRST, 4096, 1),
            _ => piece(MULTICAST_QPN, Marks::empty(), 4096, 1),
        })
        .collect();
    for (what, bytes) in [
        ("nonsense is taken", alloc::vec![0xee; HEADER_BYTES]),
        (
            "another record is taken",
            Record::Expose(3).encode().to_vec(),
        ),
        ("a datagram without end is taken", endless),
    ] {
        let endpoint = join(node)?;
        send(&endpoint, &bytes)?;
        ends(what, &endpoint)?;
    }
    let half = join(node)?;
    send(
        &half,
        &piece(MULTICAST_QPN, whole, BYTES, BYTES)[..HEADER_BYTES + 3],
    )?;
    drop(half);
    // Who takes nothing does not keep the relay from taking, nor others from being told.
    let deaf = join(node)?;
    let datagram = piece(MULTICAST_QPN, whole, BYTES, BYTES);
    for _ in 0..MANY {
        send(&deaf, &datagram)?;
    }
    let (one, other) = (join(node)?, join(node)?);
    // A datagram for no group reaches nobody, and its sender goes on.
    send(&one, &piece(5, whole, 1, 1))?;
    send(&one, &datagram)?;
    let mut bytes = alloc::vec![0; datagram.len()];
    let got = one.recv(&mut bytes, RecvFlags::BLOCK);
    got.map_err(text("what it has sent, from the relay"))?;
    // The last ones of the deaf one may come before it.
    let got = other.recv(&mut bytes, RecvFlags::BLOCK);
    got.map_err(text("from the relay"))?;
    let header = bytes.first_chunk().ok_or("no header")?;
    match Record::decode(header) {
        Ok(Record::Datagram(piece)) if piece.slid == lid(node) => others_stay(node),
        found => Err(alloc::format!("of a program on node {node}: {found:?}")),
    }
}
