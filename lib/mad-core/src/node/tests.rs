//! Nodes with programs: what they write and read, and what the built-in agents answer.

use verbs_abi::mad::{RegisterAgent, RegisterAgent2, UserMad, request};
use zerocopy::{FromBytes, IntoBytes};

use crate::attributes::{attribute, get, node_info, port_info};
use crate::demo::{MS, Program, World, directed, mad, sender, server, to};
use crate::error::Error;
use crate::mad::{Mad, OPENIB_OUI, PERMISSIVE_LID, method};

#[test]
fn directed_routes_reach_every_node_and_the_switch() {
    let mut world = World::new(3);
    let at = world.program(2, sender(0, 0x81, 1, 0));
    for (path, kind, local) in [
        (&[][..], 1, 1),
        (&[1], 2, 3),
        (&[1, 1], 1, 1),
        (&[1, 2], 1, 1),
        (&[1, 3], 1, 1),
    ] {
        let asked = directed(attribute::NODE_INFO, 0, path);
        let header = to(PERMISSIVE_LID, 0);
        assert_eq!(world.write(at, header, asked.bytes()), Ok(320));
        let (header, message) = world.read(at).unwrap();
        assert_eq!((header.status, header.lid), (0, [0xff, 0xff]), "{path:?}");
        let smp = Mad::padded(&message).smp();
        assert_eq!((smp.header.method, smp.header.status.get()), (0x81, 0x8000));
        assert_eq!((smp.hop_pointer(), smp.hop_count()), (0, path.len() as u8));
        assert_eq!(get(&smp.data, node_info::NODE_TYPE), kind, "{path:?}");
        assert_eq!(get(&smp.data, node_info::LOCAL_PORT), local, "{path:?}");
    }
    // The first port is the own one; what leads nowhere is lost.
    let header = to(PERMISSIVE_LID, 0);
    let wrong = directed(attribute::NODE_INFO, 0, &[2]);
    assert_eq!(world.write(at, header, wrong.bytes()), Err(Error::Invalid));
    let lost = directed(attribute::NODE_INFO, 0, &[1, 7]);
    assert_eq!(world.write(at, header, lost.bytes()), Ok(320));
    assert_eq!(world.read(at), Err(Error::WouldBlock));
    world.pass(100 * MS);
    let (header, message) = world.read(at).unwrap();
    assert_eq!((header.status, message.len()), (110, 24));
}

#[test]
fn local_identifiers_lead_to_agents_that_are_built_in() {
    let mut world = World::new(2);
    let at = world.program(1, sender(0, 1, 1, 0));
    for (lid, number, status) in [
        (1, attribute::NODE_INFO, 0),
        (2, attribute::NODE_INFO, 0),
        (0x100, attribute::SWITCH_INFO, 0),
        (1, attribute::SM_INFO, 0),
        (2, attribute::SM_INFO, 0xc),
        (0x100, 0xff12, 0xc),
    ] {
        let asked = mad(1, 1, method::GET, number, 1);
        assert!(world.write(at, to(lid, 0), asked.bytes()).is_ok());
        let (header, message) = world.read(at).unwrap();
        assert_eq!(u16::from_be_bytes(header.lid), lid);
        let answer = Mad::padded(&message);
        assert_eq!(answer.header.status.get(), status, "{lid} {number:#x}");
    }
    let counters = world.program(0, sender(1, 4, 1, 0));
    let mut asked = mad(4, 1, method::GET, attribute::PORT_COUNTERS, 1);
    asked.rest[64 - 24 + 1] = 1;
    assert!(world.write(counters, to(2, 1), asked.bytes()).is_ok());
    let (_, message) = world.read(counters).unwrap();
    assert!(get(&message[64..], (256, 32)) > 0, "it has sent packets");
}

#[test]
fn programs_answer_each_other() {
    let mut world = World::new(2);
    let at = world.program(1, server(0x32));
    let client = world.program(0, sender(1, 0, 0, 0));
    let mut ping = mad(0x32, 1, method::GET, 0, 0x55);
    ping.rest[13..16].copy_from_slice(&OPENIB_OUI);
    assert!(world.write(client, to(2, 1), ping.bytes()).is_ok());
    let (from, asked) = world.read(at).unwrap();
    assert_eq!((from.status, from.lid, from.qpn), (0, [0, 1], [0, 0, 0, 1]));
    let mut answer = Mad::padded(&asked);
    assert_eq!(answer.header.tid.get() as u32, 0x55);
    assert!(answer.header.tid.get() >> 32 > 0);
    answer.header.method = method::GET_RESPONSE;
    let header = UserMad {
        timeout_ms: 0,
        ..to(1, 1)
    };
    assert!(world.write(at, header, answer.bytes()).is_ok());
    let (header, message) = world.read(client).unwrap();
    assert_eq!((header.status, header.lid), (0, [0, 2]));
    assert_eq!(message, answer.bytes());
    // No request waits for a second answer, nor for one that a third node makes up.
    assert!(
        world
            .write(
                at,
                UserMad {
                    timeout_ms: 0,
                    ..header
                },
                answer.bytes()
            )
            .is_ok()
    );
    assert_eq!(world.read(client), Err(Error::WouldBlock));
}

#[test]
fn long_messages_go_both_ways() {
    let mut world = World::new(2);
    let at = world.program(1, server(0x33));
    let client = world.program(0, server(0x34));
    for data in [0, 1, 215, 216, 217, 432, 433, 5000, 1 << 20] {
        let mut message = mad(0x33, 1, method::GET, 7, data as u32 + 1)
            .bytes()
            .to_vec();
        message[26] = 1;
        message[37..40].copy_from_slice(&OPENIB_OUI);
        message.truncate(40);
        message.extend((0..data).map(|at| (at % 251) as u8));
        assert!(world.write(client, to(2, 1), &message).is_ok());
        let (_, asked) = world.read(at).unwrap();
        assert_eq!(asked[40..], message[40..], "{data}");
        let mut answer = asked.clone();
        answer[3] = method::GET_RESPONSE;
        let back = UserMad {
            timeout_ms: 0,
            ..to(1, 1)
        };
        assert!(world.write(at, back, &answer).is_ok());
        let (header, answered) = world.read(client).unwrap();
        assert_eq!(header.status, 0);
        assert_eq!(answered[40..], message[40..], "{data}");
        assert_eq!(
            world.nodes[0].port().sends() + world.nodes[1].port().sends(),
            0
        );
    }
}

#[test]
fn a_send_that_nobody_answers_is_read_as_such() {
    let mut world = World::new(2);
    let client = world.program(0, sender(1, 0, 0, 0));
    let asked = mad(4, 1, method::SEND, 0, 3);
    let header = UserMad {
        retries: 2,
        ..to(2, 1)
    };
    assert!(world.write(client, header, asked.bytes()).is_ok());
    // The same transaction again while it waits.
    let again = world.write(client, header, asked.bytes());
    assert_eq!(again, Err(Error::Invalid));
    for _ in 0..2 {
        world.pass(100 * MS);
        assert_eq!(world.read(client), Err(Error::WouldBlock));
    }
    assert_eq!(world.nodes[0].port().counters.sent_again, 2);
    world.pass(100 * MS);
    let (header, message) = world.read(client).unwrap();
    assert_eq!((header.status, header.length), (110, 64 + 24));
    assert_eq!(
        (header.timeout_ms, header.retries, header.lid),
        (100, 2, [0, 2])
    );
    assert_eq!(message[..8], asked.bytes()[..8]);
    assert_eq!(message[12..24], asked.bytes()[12..24]);
    assert_eq!(world.nodes[0].deadline(), None);
}

#[test]
fn agents_end_with_their_descriptor() {
    let mut world = World::new(1);
    let (_, first) = world.program(0, server(0x32));
    let second = world.nodes[0].open();
    assert_eq!(
        world.register((0, second), server(0x32)),
        Err(Error::Invalid)
    );
    let asked = mad(4, 1, method::SEND, 0, 3);
    assert!(world.write((0, first), to(5, 1), asked.bytes()).is_ok());
    assert_eq!(world.nodes[0].port().sends(), 1);
    world.nodes[0].close(first);
    assert_eq!(world.nodes[0].port().sends(), 0);
    assert_eq!(world.register((0, second), server(0x32)), Ok(0));
    for number in 1..32 {
        assert_eq!(world.register((0, second), sender(1, 0, 0, 0)), Ok(number));
    }
    let more = world.register((0, second), sender(1, 0, 0, 0));
    assert_eq!(more, Err(Error::NoMemory));
}

#[test]
fn the_old_header_has_no_key_index() {
    let mut world = World::new(1);
    let node = &mut world.nodes[0];
    let at = node.open();
    let asked = RegisterAgent {
        qpn: 0,
        mgmt_class: 1,
        mgmt_class_version: 1,
        ..RegisterAgent::default()
    };
    let mut payload = asked.as_bytes().to_vec();
    assert_eq!(
        node.control(at, request::REGISTER_AGENT, &mut payload),
        Ok(())
    );
    let enable = node.control(at, request::ENABLE_PKEY, &mut []);
    assert_eq!(enable, Err(Error::Invalid));
    let asked = mad(1, 1, method::GET, attribute::PORT_INFO, 1);
    let bytes = [&to(1, 0).as_bytes()[..56], asked.bytes()].concat();
    assert_eq!(node.write(at, &bytes, 0), Ok(312));
    let mut buffer = [0; 400];
    assert_eq!(node.read(at, &mut buffer[..55]), Err(Error::Invalid));
    assert_eq!(node.read(at, &mut buffer[..311]), Err(Error::Invalid));
    assert_eq!(node.read(at, &mut buffer), Ok(312));
    assert_eq!(get(&buffer[56 + 64..], port_info::LID), 1);
    // Before its first agent a descriptor can ask for the index.
    let other = node.open();
    assert_eq!(node.control(other, request::ENABLE_PKEY, &mut []), Ok(()));
    assert_eq!(node.control(other, request::ENABLE_PKEY, &mut []), Ok(()));
    assert_eq!(
        node.control(other, request::REGISTER_AGENT, &mut payload[..27]),
        Err(Error::Invalid)
    );
    assert_eq!(
        node.control(other, 0x1b05, &mut payload),
        Err(Error::Unknown)
    );
    let header = node.descriptor(other).map(|of| of.header_bytes());
    assert_eq!(header, Some(64));
}

#[test]
fn subnet_administration_answers_tables_in_segments() {
    let mut world = World::new(4);
    let at = world.program(3, sender(1, 3, 2, 1));
    for (number, size, count) in [
        (0x11, 112, 5),
        (0x12, 72, 4 + 9),
        (0x18, 32, 1),
        (0x20, 8, 8),
        (0x30, 72, 5),
        (0x33, 72, 5),
        (0x35, 64, 25),
        (0x38, 56, 1),
    ] {
        let asked = mad(3, 2, method::GET_TABLE, number, number.into());
        assert!(world.write(at, to(1, 1), asked.bytes()).is_ok());
        let (header, message) = world.read(at).unwrap();
        assert_eq!((header.status, message[3]), (0, 0x92));
        assert_eq!(message[4..6], [0, 0], "{number:#x}");
        assert_eq!(usize::from(message[45]) * 8, size, "{number:#x}");
        assert_eq!(message.len(), 56 + size * count, "{number:#x}");
    }
    // One path, by its ends.
    let mut asked = mad(3, 2, method::GET, 0x35, 1);
    asked.bytes_mut()[48..56].copy_from_slice(&0x30_u64.to_be_bytes());
    asked.bytes_mut()[56 + 40..56 + 44].copy_from_slice(&[0, 2, 0, 4]);
    assert!(world.write(at, to(1, 1), asked.bytes()).is_ok());
    let (_, message) = world.read(at).unwrap();
    assert_eq!((message[3], &message[4..6]), (0x81, &[0, 0][..]));
    assert_eq!(message[56 + 23], 1, "the destination's identifier");
    for (mask, status) in [(0x20, 0x400), (1 << 40, 0x200), (0, 0x400)] {
        asked.bytes_mut()[48..56].copy_from_slice(&u64::to_be_bytes(mask));
        assert!(world.write(at, to(1, 1), asked.bytes()).is_ok());
        let (_, message) = world.read(at).unwrap();
        assert_eq!(message[4..6], u16::to_be_bytes(status), "{mask:#x}");
    }
    asked.header.attribute = 0x77.into();
    assert!(world.write(at, to(1, 1), asked.bytes()).is_ok());
    assert_eq!(world.read(at).unwrap().1[4..6], [0, 0xc]);
}

#[test]
fn a_short_buffer_gets_the_first_segment_and_the_length() {
    let mut world = World::new(2);
    let at = world.program(1, sender(1, 3, 2, 1));
    let asked = mad(3, 2, method::GET_TABLE, 0x11, 1);
    assert!(world.write(at, to(1, 1), asked.bytes()).is_ok());
    let node = &mut world.nodes[1];
    let mut buffer = [0xee; 1000];
    let length = 64 + 56 + 3 * 112;
    assert_eq!(node.read(at.1, &mut buffer[..319]), Err(Error::Invalid));
    for short in [320, length - 1] {
        buffer.fill(0xee);
        let read = node.read(at.1, &mut buffer[..short]);
        assert_eq!(read, Err(Error::NoSpace));
        let (header, _) = UserMad::read_from_prefix(&buffer).unwrap();
        assert_eq!(header.length as usize, length);
        assert_eq!((buffer[64], buffer[320]), (1, 0xee));
    }
    assert_eq!(node.read(at.1, &mut buffer[..length]), Ok(length));
    assert_eq!(node.read(at.1, &mut buffer), Err(Error::WouldBlock));
}

/// A program of node 1 that has asked the administrator for reports of all traps. Its answer is not
/// read yet.
fn subscriber(world: &mut World) -> Program {
    let hear = RegisterAgent2 {
        method_mask: [1 << method::REPORT, 0],
        ..sender(1, 3, 2, 1)
    };
    let at = world.program(1, hear);
    let mut asked = mad(3, 2, method::SET, attribute::INFORM_INFO, 1);
    let data = &mut asked.bytes_mut()[56..];
    data[16..18].copy_from_slice(&[0xff, 0xff]);
    (data[22], data[23]) = (1, 1);
    data[24..28].copy_from_slice(&[0xff; 4]);
    assert!(world.write(at, to(1, 1), asked.bytes()).is_ok());
    at
}

#[test]
fn subscribers_hear_of_nodes_that_come_and_go() {
    let mut world = World::new(2);
    let at = subscriber(&mut world);
    assert_eq!(world.read(at).unwrap().1[3..6], [0x81, 0, 0]);
    for (is_online, trap) in [(true, 64), (false, 65)] {
        world.nodes[0].set_online(5, is_online, world.now);
        world.run_until_idle();
        let (header, message) = world.read(at).unwrap();
        assert_eq!((header.status, message[3]), (0, method::REPORT));
        assert_eq!(message[56 + 5], trap);
        assert_eq!(message[56 + 31], 5, "the port's identifier");
        // It is sent again until it is answered.
        world.pass(1000 * MS);
        assert!(world.read(at).is_ok());
        let mut answer = Mad::padded(&message);
        answer.header.method = method::REPORT_RESPONSE;
        let header = UserMad {
            timeout_ms: 0,
            ..to(1, 1)
        };
        assert!(world.write(at, header, answer.bytes()).is_ok());
        world.pass(60_000 * MS);
        assert_eq!(world.read(at), Err(Error::WouldBlock));
    }
}

#[test]
fn datagrams_that_fit_nothing_are_dropped() {
    let mut world = World::new(2);
    let at = world.program(0, sender(1, 0, 0, 0));
    let drop = |world: &mut World, header: UserMad, mad: &Mad| {
        let header = UserMad {
            timeout_ms: 10,
            ..header
        };
        assert!(world.write(at, header, mad.bytes()).is_ok());
        assert_eq!(world.read(at), Err(Error::WouldBlock));
        world.pass(10 * MS);
        assert_eq!(world.read(at).unwrap().0.status, 110);
    };
    let good = mad(4, 1, method::GET, attribute::PORT_COUNTERS, 1);
    let wrong_key = UserMad {
        qkey: [0; 4],
        ..to(2, 1)
    };
    drop(&mut world, wrong_key, &good);
    drop(&mut world, to(2, 0), &good);
    drop(&mut world, to(2, 2), &good);
    drop(&mut world, to(9, 1), &good);
    drop(&mut world, to(0, 1), &good);
    drop(&mut world, to(0xc000, 1), &good);
    drop(
        &mut world,
        to(2, 1),
        &mad(1, 1, method::GET, attribute::NODE_INFO, 1),
    );
    let mut other_version = good;
    other_version.header.base_version = 2;
    drop(&mut world, to(2, 1), &other_version);
    // Get and Set that no agent claims are answered.
    assert!(
        world
            .write(at, to(2, 1), mad(9, 1, method::SET, 1, 1).bytes())
            .is_ok()
    );
    let (_, message) = world.read(at).unwrap();
    assert_eq!(message[3..6], [0x81, 0, 0xc]);
}

#[test]
fn traps_of_a_node_keep_no_subscriber_from_its_answers() {
    let mut world = World::new(3);
    let at = subscriber(&mut world);
    assert!(world.read(at).is_ok());
    // Nobody answers the reports.
    let other = world.program(2, sender(0, 1, 1, 0));
    let header = UserMad {
        timeout_ms: 0,
        ..to(1, 0)
    };
    for number in 0..crate::port::MAX_SENDS as u32 + 1 {
        let mut trap = mad(1, 1, method::TRAP, attribute::NOTICE, number + 1);
        trap.bytes_mut()[64] = 0x84;
        assert!(world.write(other, header, trap.bytes()).is_ok());
    }
    assert_eq!(world.nodes[0].port().sends(), crate::port::MAX_SENDS);
    while world.read(at).is_ok() {}
    let asked = mad(3, 2, method::GET_TABLE, 0x11, 2);
    assert!(world.write(at, to(1, 1), asked.bytes()).is_ok());
    let (header, message) = world.read(at).unwrap();
    assert_eq!((header.status, message[3]), (0, 0x92));
}
