//! Groups and subscriptions, by the requests of ports.

use alloc::vec::Vec;
use verbs_core::address::gid;

use super::{Administration, records::member, refusal};
use crate::attributes::{Field, get, put};
use crate::fabric::{Fabric, Place};
use crate::mad::{Mad, method, status};
use crate::packet::{Destination, Packet};

/// Bits of a membership: the group, the port, the state.
const JOIN: u64 = 1 | 1 << 1 | 1 << 16;
/// The bits of [`JOIN`], and those that creating a group needs.
const CREATE: u64 = JOIN | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
const IPOIB: [u64; 2] = [0xff12_401b_ffff_0000, 0xffff_ffff];
const OTHER: [u64; 2] = [0xff12_401b_ffff_0000, 5];

fn fabric() -> Fabric {
    let mut fabric = Fabric::new(0);
    fabric.set_up(true);
    fabric.set_online(1, true);
    fabric.set_online(2, true);
    fabric.set_online(127, true);
    fabric.set_online(128, true);
    fabric
}

fn ask(sa: &mut Administration, node: u16, method: u8, number: u16, asked: Asked) -> Answered {
    let mut mad = Mad::padded(&[1, 3, 2, method]);
    mad.header.attribute = number.into();
    // An answer has a status of its own.
    mad.header.status = 0x1234.into();
    mad.bytes_mut()[48..56].copy_from_slice(&asked.mask.to_be_bytes());
    for (field, value) in asked.fields {
        put(&mut mad.bytes_mut()[56..], field, value);
    }
    let packet = Packet {
        source: node + 1,
        source_qpn: 1,
        to: Destination::default(),
        mad,
    };
    let message = sa.answer(&fabric(), 0, &packet, mad.bytes());
    let message = message.expect("each request has an answer");
    let size = usize::from(message[45]) * 8;
    let records = message[56..].chunks(size.max(1));
    Answered {
        method: message[3],
        status: u16::from_be_bytes([message[4], message[5]]),
        records: records.map(Vec::from).collect(),
    }
}

struct Asked {
    mask: u64,
    fields: Vec<(Field, u64)>,
}

struct Answered {
    method: u8,
    status: u16,
    records: Vec<Vec<u8>>,
}

fn membership(mask: u64, group: [u64; 2], node: u16, state: u64) -> Asked {
    let port = u128::from_be_bytes(gid(node + 1));
    let fields = [
        (member::MGID[0], group[0]),
        (member::MGID[1], group[1]),
        (member::PORT_GID[0], (port >> 64) as u64),
        (member::PORT_GID[1], port as u64),
        (member::QKEY, 0x1234),
        (member::PKEY, 0xffff),
        (member::JOIN_STATE, state),
    ];
    Asked {
        mask,
        fields: Vec::from(fields),
    }
}

#[test]
fn the_group_of_broadcasts_is_always_there() {
    let mut sa = Administration::default();
    let joined = ask(&mut sa, 1, method::SET, 0x38, membership(JOIN, IPOIB, 1, 1));
    assert_eq!((joined.method, joined.status), (0x81, 0));
    assert_eq!(get(&joined.records[0], member::MLID), 0xc000);
    assert_eq!(get(&joined.records[0], member::QKEY), 0x0b1b);
    assert_eq!(sa.groups.ports(0xc000, 0), 1 << 2);
    let left = ask(
        &mut sa,
        1,
        method::DELETE,
        0x38,
        membership(JOIN, IPOIB, 1, 1),
    );
    assert_eq!((left.method, left.status), (0x95, 0));
    assert_eq!(sa.groups.ports(0xc000, 0), 0);
    let table = Asked {
        mask: 0,
        fields: Vec::new(),
    };
    let all = ask(&mut sa, 1, method::GET_TABLE, 0x38, table);
    assert_eq!((all.status, all.records.len()), (0, 1));
}

#[test]
fn a_group_lives_from_its_first_member_to_its_last() {
    let mut sa = Administration::default();
    let join = |sa: &mut Administration, node, mask, state| {
        ask(
            sa,
            node,
            method::SET,
            0x38,
            membership(mask, OTHER, node, state),
        )
    };
    assert_eq!(
        join(&mut sa, 1, JOIN, 1).status,
        refusal::TOO_FEW_COMPONENTS
    );
    assert_eq!(join(&mut sa, 1, CREATE, 4).status, refusal::INVALID);
    let made = join(&mut sa, 1, CREATE, 1);
    assert_eq!(
        (made.status, get(&made.records[0], member::MLID)),
        (0, 0xc001)
    );
    let second = join(&mut sa, 2, JOIN, 4);
    assert_eq!(get(&second.records[0], member::JOIN_STATE), 4);
    assert_eq!(sa.groups.ports(0xc001, 0), 1 << 2 | 1 << 3);
    // Another key than the group's.
    let mut wrong = membership(CREATE, OTHER, 2, 1);
    wrong.fields.push((member::QKEY, 1));
    assert_eq!(
        ask(&mut sa, 2, method::SET, 0x38, wrong).status,
        refusal::INVALID
    );
    let leave = |sa: &mut Administration, node, state| {
        ask(
            sa,
            node,
            method::DELETE,
            0x38,
            membership(JOIN, OTHER, node, state),
        )
        .status
    };
    assert_eq!(leave(&mut sa, 1, 2), refusal::INVALID);
    assert_eq!(leave(&mut sa, 1, 1), 0);
    assert_eq!(leave(&mut sa, 1, 1), refusal::INVALID);
    sa.node_changed(2, false);
    assert_eq!(sa.groups.ports(0xc001, 0), 0);
    assert_eq!(
        join(&mut sa, 2, JOIN, 1).status,
        refusal::TOO_FEW_COMPONENTS
    );
}

#[test]
fn a_port_may_join_for_another_one_that_has_not_joined_itself() {
    let mut sa = Administration::default();
    let change = |sa: &mut Administration, from, method, node| {
        ask(sa, from, method, 0x38, membership(JOIN, IPOIB, node, 1))
    };
    let joined = change(&mut sa, 1, method::SET, 2);
    assert_eq!(joined.status, 0);
    assert_eq!(get(&joined.records[0], member::PROXY_JOIN), 1);
    assert_eq!(sa.groups.ports(0xc000, 0), 1 << 3);
    assert_eq!(change(&mut sa, 0, method::DELETE, 2).status, 0);
    assert_eq!(sa.groups.ports(0xc000, 0), 0);
    // Other ports cannot change a membership that a port has made itself.
    let joined = change(&mut sa, 2, method::SET, 2);
    assert_eq!(get(&joined.records[0], member::PROXY_JOIN), 0);
    for method in [method::SET, method::DELETE] {
        assert_eq!(change(&mut sa, 1, method, 2).status, refusal::DENIED);
    }
    assert_eq!(sa.groups.ports(0xc000, 0), 1 << 3);
}

#[test]
fn members_are_ports_that_are_there_and_groups_are_named_as_such() {
    let mut sa = Administration::default();
    let nobody = ask(&mut sa, 1, method::SET, 0x38, membership(JOIN, IPOIB, 9, 1));
    assert_eq!(nobody.status, refusal::BAD_GID);
    let no_group = membership(JOIN, [0xfe80 << 48, 1], 1, 1);
    let no_group = ask(&mut sa, 1, method::SET, 0x38, no_group);
    assert_eq!(no_group.status, refusal::BAD_GID);
    let no_state = ask(&mut sa, 1, method::SET, 0x38, membership(3, IPOIB, 1, 1));
    assert_eq!(no_state.status, refusal::TOO_FEW_COMPONENTS);
}

#[test]
fn no_port_takes_all_groups() {
    let mut sa = Administration::default();
    let join = |sa: &mut Administration, node, group| {
        let asked = membership(CREATE, [OTHER[0], group], node, 1);
        ask(sa, node, method::SET, 0x38, asked).status
    };
    for group in 1..=16 {
        assert_eq!(join(&mut sa, 1, group), 0);
    }
    assert_eq!(join(&mut sa, 1, 17), refusal::NO_RESOURCES);
    assert_eq!(join(&mut sa, 2, 17), 0);
    // One that exists takes nothing more.
    assert_eq!((join(&mut sa, 1, 17), join(&mut sa, 1, 16)), (0, 0));
    // A group of a port counts for it as long as it exists, whoever is in it.
    assert_eq!(join(&mut sa, 2, 16), 0);
    sa.node_changed(1, false);
    for group in 101..=115 {
        assert_eq!(join(&mut sa, 1, group), 0);
    }
    assert_eq!(join(&mut sa, 1, 116), refusal::NO_RESOURCES);
    sa.node_changed(2, false);
    assert_eq!(join(&mut sa, 1, 116), 0);
}

#[test]
fn tables_of_groups_are_full_at_some_time() {
    let mut sa = Administration::default();
    let join = |sa: &mut Administration, node, group| {
        // The port of node 1 is in all groups, whoever creates them.
        let asked = membership(CREATE, [OTHER[0], group], 1, 1);
        ask(sa, node, method::SET, 0x38, asked).status
    };
    for group in 1..64 {
        assert_eq!(join(&mut sa, 2 + (group / 16) as u16, group), 0);
    }
    assert_eq!(join(&mut sa, 1, 64), refusal::NO_RESOURCES);
    assert_eq!(join(&mut sa, 1, 63), 0);
    // One that the manager names.
    sa.node_changed(1, false);
    let named = ask(
        &mut sa,
        1,
        method::SET,
        0x38,
        membership(CREATE, [0, 0], 1, 1),
    );
    assert_eq!(
        get(&named.records[0], member::MGID[0]),
        0xff12_a01b_0000_0000
    );
}

fn inform(subscribe: u64) -> Asked {
    inform_of(subscribe, 64)
}

fn inform_of(subscribe: u64, trap: u64) -> Asked {
    let fields = [
        ((176, 8), 1),
        ((184, 8), subscribe),
        ((192, 16), 0xffff),
        ((208, 16), trap),
    ];
    Asked {
        mask: 0,
        fields: Vec::from(fields),
    }
}

#[test]
fn subscriptions_begin_and_end() {
    let mut sa = Administration::default();
    let set = |sa: &mut Administration, node, subscribe| {
        ask(sa, node, method::SET, 3, inform(subscribe)).status
    };
    assert_eq!(set(&mut sa, 1, 0), refusal::INVALID);
    assert_eq!(
        (set(&mut sa, 1, 1), set(&mut sa, 1, 1), set(&mut sa, 2, 1)),
        (0, 0, 0)
    );
    assert_eq!(set(&mut sa, 1, 2), refusal::INVALID);
    let [come] = &sa.node_changed(7, true)[..] else {
        panic!("one notice");
    };
    assert_eq!(sa.subscribers.of(come).len(), 2);
    let [gone] = &sa.node_changed(7, false)[..] else {
        panic!("one notice");
    };
    assert!(sa.subscribers.of(gone).is_empty(), "they asked for trap 64");
    assert_eq!(set(&mut sa, 1, 0), 0);
    sa.node_changed(2, false);
    assert!(sa.subscribers.records().is_empty());
}

#[test]
fn no_port_takes_all_subscriptions() {
    let mut sa = Administration::default();
    let set = |sa: &mut Administration, node, trap| {
        ask(sa, node, method::SET, 3, inform_of(1, trap)).status
    };
    for trap in 0..64 {
        assert_eq!(set(&mut sa, 1, trap), 0);
    }
    assert_eq!(set(&mut sa, 1, 64), refusal::NO_RESOURCES);
    // One that exists takes nothing more.
    assert_eq!((set(&mut sa, 1, 63), set(&mut sa, 2, 64)), (0, 0));
    sa.node_changed(1, false);
    assert_eq!(set(&mut sa, 1, 64), 0);
    // All ports together.
    for node in 3..=17 {
        for trap in 0..64 {
            assert_eq!(set(&mut sa, node, trap), 0);
        }
    }
    for trap in 65..=126 {
        assert_eq!(set(&mut sa, 1, trap), 0);
    }
    assert_eq!(set(&mut sa, 1, 127), refusal::NO_RESOURCES);
}

#[test]
fn versions_and_methods_that_are_unknown_are_refused() {
    let mut sa = Administration::default();
    let none = || Asked {
        mask: 0,
        fields: Vec::new(),
    };
    assert_eq!(
        ask(&mut sa, 1, 0x14, 0x11, none()).status,
        status::METHOD_UNKNOWN
    );
    assert_eq!(
        ask(&mut sa, 1, method::SET, 0x11, none()).status,
        status::ATTRIBUTE_UNKNOWN
    );
    let before = get(&sa.sm_info(), (128, 32));
    assert_eq!(ask(&mut sa, 1, method::GET, 0x18, none()).records.len(), 1);
    assert_eq!(get(&sa.sm_info(), (128, 32)), before + 1);
    assert_eq!(Place::Node(0).lid(), 1);
}

#[test]
fn the_last_nodes_are_members_as_well() {
    let mut sa = Administration::default();
    for node in [126, 127, 128] {
        let asked = membership(JOIN, IPOIB, node, 1);
        let joined = ask(&mut sa, node, method::SET, 0x38, asked);
        // Node 126 is not there.
        assert_eq!(joined.status == 0, node != 126);
    }
    let blocks: Vec<u16> = (0..16)
        .map(|block| sa.groups.ports(0xc000, block))
        .collect();
    let mut expected = [0; 16];
    // Ports 128 and 129.
    expected[8] = 0b11;
    assert_eq!(blocks, expected);
}

#[test]
fn a_membership_of_the_switch_ends_with_the_port_that_has_made_it() {
    let mut sa = Administration::default();
    const SWITCH: u16 = 0xff;
    let join = |sa: &mut Administration, from| {
        let asked = membership(CREATE, OTHER, SWITCH, 1);
        ask(sa, from, method::SET, 0x38, asked).status
    };
    assert_eq!(join(&mut sa, 1), 0);
    assert_eq!(sa.groups.ports(0xc001, 0), 1);
    sa.node_changed(2, false);
    assert_eq!(sa.groups.ports(0xc001, 0), 1);
    // The last one that has joined keeps it.
    assert_eq!(join(&mut sa, 2), 0);
    sa.node_changed(1, false);
    assert_eq!(sa.groups.ports(0xc001, 0), 1);
    sa.node_changed(2, false);
    assert_eq!(sa.groups.ports(0xc001, 0), 0);
    let table = Asked {
        mask: 0,
        fields: Vec::new(),
    };
    // The group has ended.
    let all = ask(&mut sa, 1, method::GET_TABLE, 0x38, table);
    assert_eq!(all.records.len(), 1);
}
