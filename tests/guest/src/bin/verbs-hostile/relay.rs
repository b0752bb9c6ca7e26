//! The relay of datagrams for groups, by hand.

use alloc::vec::Vec;

use guest_tests::text;
use scif::{Endpoint, NodeId, Options, PortId, RecvFlags, SendFlags};
use verbs::relay;
use verbs_core::address::{GlobalRoute, MULTICAST_QPN, lid};
use verbs_core::record::{DatagramPiece, HEADER_BYTES, Marks, Record};

use super::Checked;
use super::attacker::{TIME_LIMIT, wait_until};

/// Datagrams that are sent without taking one.
const MANY: usize = 2000;
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
        Ok(Record::Datagram(piece)) if piece.slid == lid(node) => Ok(()),
        found => Err(alloc::format!("of a program on node {node}: {found:?}")),
    }
}
