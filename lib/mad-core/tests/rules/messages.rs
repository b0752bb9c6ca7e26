//! Reads and writes, and time.

use mad_core::attributes::attribute;
use mad_core::demo::{MS, Program, World, directed, mad, sender, server, to};
use mad_core::mad::{OPENIB_OUI, PERMISSIVE_LID, method};
use verbs_abi::mad::{RegisterAgent, UserMad, request};
use zerocopy::{FromBytes, IntoBytes};

use crate::{Row, row, said};

fn client(world: &mut World) -> Program {
    world.program(1, sender(1, 0, 0, 0))
}

/// A request that nobody answers.
fn unanswered(tid: u32) -> mad_core::mad::Mad {
    mad(4, 1, method::SEND, 0, tid)
}

/// A write of that many bytes behind the header.
fn short(world: &mut World, class: u8, bytes: usize) -> String {
    let at = client(world);
    let message = mad(class, 1, method::SEND, 0, 1);
    let message = [message.bytes(), &[0; 256][..]].concat();
    said(world.write(at, to(3, 1), &message[..bytes]))
}

/// A directed route with another byte of its header.
fn route(world: &mut World, hops: [u8; 2], path: &[u8]) -> String {
    let at = world.program(1, sender(0, 0x81, 1, 0));
    let mut asked = directed(attribute::NODE_INFO, 0, path);
    asked.header.hops = hops;
    said(world.write(at, to(PERMISSIVE_LID, 0), asked.bytes()))
}

/// The bytes read of a table of the subnet (six segments) with the room that `room` says, given
/// the room that all of it needs.
fn table(world: &mut World, room: fn(usize) -> usize) -> String {
    let at = world.program(1, sender(1, 3, 2, 1));
    read_table(world, at, room)
}

/// As [`table`], by an agent with the older header.
fn old_table(world: &mut World, room: fn(usize) -> usize) -> String {
    let at = old_client(world, 3, 2, 1);
    read_table(world, at, room)
}

fn read_table(world: &mut World, at: Program, room: fn(usize) -> usize) -> String {
    let header_bytes = header_bytes(world, at);
    let asked = mad(3, 2, method::GET_TABLE, 0x12, 1);
    let written = [&to(1, 1).as_bytes()[..header_bytes], asked.bytes()].concat();
    assert!(world.write_bytes(at, &written).is_ok());
    let all = header_bytes + 56 + 72 * (3 + 9);
    let mut buffer = vec![0x5a; all];
    let room = room(all);
    let said = said(world.nodes[1].read(at.1, &mut buffer[..room]));
    let told = u32::read_from_prefix(&buffer[16..]).map_or(0, |(length, _)| length as usize);
    let is_told = if told == all { "length" } else { "no length" };
    let stored = buffer
        .iter()
        .rposition(|byte| *byte != 0x5a)
        .map_or(0, |at| at + 1);
    // The rest is read by the next read that has room.
    let again = world.nodes[1].read(at.1, &mut vec![0; all]);
    let stays = if again == Ok(all) { "stays" } else { "gone" };
    let edge = header_bytes + 256;
    let first = if stored > edge - 20 && stored <= edge {
        "first datagram"
    } else {
        "another length"
    };
    match said.as_str() {
        "ENOSPC" => format!("{said}, {is_told}, {first}, {stays}"),
        _ => format!("{said}, {stays}"),
    }
}

fn header_bytes(world: &World, at: Program) -> usize {
    let of = world.nodes[at.0].descriptor(at.1);
    of.map_or(0, |of| of.header_bytes())
}

/// A program on node 1 with the older header and an agent.
fn old_client(world: &mut World, class: u8, version: u8, rmpp_version: u8) -> Program {
    let at = world.open(1);
    let asked = RegisterAgent {
        qpn: 1,
        mgmt_class: class,
        mgmt_class_version: version,
        rmpp_version,
        ..RegisterAgent::default()
    };
    let mut payload = asked.as_bytes().to_vec();
    let done = world.control(at, request::REGISTER_AGENT, &mut payload);
    assert_eq!((done, header_bytes(world, at)), (Ok(()), 56));
    at
}

/// A write of that many bytes behind the older header.
fn old_write(world: &mut World, bytes: usize) -> String {
    let at = old_client(world, 4, 1, 0);
    let message = unanswered(1);
    let header = to(3, 1);
    let written = [&header.as_bytes()[..56], &message.bytes()[..bytes]].concat();
    said(world.write_bytes(at, &written))
}

/// A server on node 2 and a program on node 1 that sends it datagrams.
fn ends(world: &mut World) -> (Program, Program) {
    (world.program(2, server(0x32)), client(world))
}

/// Datagrams from node 1 to the server on node 2, for which no answer is expected.
fn send_many(world: &mut World, from: Program, count: u32) {
    let header = UserMad {
        timeout_ms: 0,
        ..to(3, 1)
    };
    for tid in 0..count {
        let mut asked = mad(0x32, 1, method::SEND, 0, tid);
        asked.rest[13..16].copy_from_slice(&OPENIB_OUI);
        assert!(world.write(from, header, asked.bytes()).is_ok());
    }
}

/// The transactions of all that waits for a program.
fn read_all(world: &mut World, at: Program) -> Vec<u32> {
    let mut buffer = [0; 320];
    let mut tids = Vec::new();
    while world.nodes[at.0].read(at.1, &mut buffer).is_ok() {
        let low: [u8; 4] = buffer[64 + 12..64 + 16].try_into().expect("four bytes");
        tids.push(u32::from_be_bytes(low));
    }
    tids
}

pub const ROWS: &[Row] = &[
    row("a write of header and 35 bytes", "EINVAL", |world| {
        short(world, 4, 35)
    }),
    row("of header and 36 bytes", "ok", |world| short(world, 4, 36)),
    row("of header and 256 bytes", "ok", |world| {
        short(world, 4, 256)
    }),
    row(
        "of header and 320 bytes, no RMPP: the header was counted twice; what arrives",
        "ok, 256 bytes",
        |world| {
            let at = world.program(2, server(0x32));
            let mut asked = mad(0x32, 1, method::GET, 0, 1);
            asked.rest[13..16].copy_from_slice(&OPENIB_OUI);
            let message = [asked.bytes(), &[0x5a; 64][..]].concat();
            let from = client(world);
            let written = said(world.write(from, to(3, 1), &message));
            let arrived = world.read(at).map_or(0, |(_, message)| message.len());
            format!("{written}, {arrived} bytes")
        },
    ),
    row("of header and 321 bytes, no RMPP", "EINVAL", |world| {
        short(world, 4, 321)
    }),
    row(
        "of class 3 with 55 bytes, shorter than its headers",
        "EINVAL",
        |world| short(world, 3, 55),
    ),
    row("of class 6 with 63 bytes", "EINVAL", |world| {
        short(world, 6, 63)
    }),
    row("of class 0x30 with 40 bytes", "ok", |world| {
        short(world, 0x30, 40)
    }),
    row(
        "of the older header, 56 bytes, and 35 bytes; and 36 bytes",
        "EINVAL ok",
        |world| {
            let less = old_write(world, 35);
            format!("{less} {}", old_write(world, 36))
        },
    ),
    row("agent number 32", "EINVAL", |world| {
        let at = client(world);
        let header = UserMad { id: 32, ..to(3, 1) };
        said(world.write(at, header, unanswered(1).bytes()))
    }),
    row("agent number 1, without an agent", "EIO", |world| {
        let at = client(world);
        let header = UserMad { id: 1, ..to(3, 1) };
        said(world.write(at, header, unanswered(1).bytes()))
    }),
    row("P_Key index 1", "EINVAL", |world| {
        let at = client(world);
        let header = UserMad {
            pkey_index: 1,
            ..to(3, 1)
        };
        said(world.write(at, header, unanswered(1).bytes()))
    }),
    row("a global route with GID index 1", "EINVAL", |world| {
        let at = client(world);
        let header = UserMad {
            grh_present: 1,
            gid_index: 1,
            ..to(3, 1)
        };
        said(world.write(at, header, unanswered(1).bytes()))
    }),
    row(
        "a request of a transaction that is not over",
        "EINVAL",
        |world| {
            let at = client(world);
            assert!(world.write(at, to(3, 1), unanswered(1).bytes()).is_ok());
            said(world.write(at, to(2, 1), unanswered(1).bytes()))
        },
    ),
    row(
        "the same transaction of another class, or of another agent",
        "ok ok",
        |world| {
            let at = client(world);
            assert!(world.write(at, to(3, 1), unanswered(1).bytes()).is_ok());
            let class = said(world.write(at, to(3, 1), mad(9, 1, method::SEND, 0, 1).bytes()));
            assert_eq!(world.register(at, sender(1, 0, 0, 0)), Ok(1));
            let header = UserMad { id: 1, ..to(3, 1) };
            format!(
                "{class} {}",
                said(world.write(at, header, unanswered(1).bytes()))
            )
        },
    ),
    row(
        "the same transaction when the first is over",
        "ok",
        |world| {
            let at = client(world);
            assert!(world.write(at, to(3, 1), unanswered(1).bytes()).is_ok());
            world.pass(100 * MS);
            said(world.write(at, to(3, 1), unanswered(1).bytes()))
        },
    ),
    row(
        "the same transaction, when no answer is expected",
        "ok",
        |world| {
            let at = client(world);
            let header = UserMad {
                timeout_ms: 0,
                ..to(3, 1)
            };
            assert!(world.write(at, header, unanswered(1).bytes()).is_ok());
            said(world.write(at, header, unanswered(1).bytes()))
        },
    ),
    row("a directed route of 64 hops", "EINVAL", |world| {
        route(world, [0, 64], &[1])
    }),
    row("one whose hop pointer is 1", "EINVAL", |world| {
        route(world, [1, 1], &[1])
    }),
    row("one by port 2", "EINVAL", |world| {
        route(world, [0, 1], &[2])
    }),
    row("one of no hops", "ok", |world| route(world, [0, 0], &[])),
    row(
        "the upper half of a request's transaction, as the server sees it",
        "the agent's",
        |world| {
            let at = world.program(2, server(0x32));
            let from = client(world);
            let mut asked = mad(0x32, 1, method::GET, 0, 7);
            asked.header.tid = 0xdead_beef_0000_0007.into();
            asked.rest[13..16].copy_from_slice(&OPENIB_OUI);
            assert!(world.write(from, to(3, 1), asked.bytes()).is_ok());
            let (_, message) = world.read(at).expect("it arrives");
            let tid = u64::from_be_bytes(message[8..16].try_into().expect("eight bytes"));
            let agents = world.nodes[1].port().agents();
            let is_agents = agents.iter().any(|(id, _)| u64::from(id.0) == tid >> 32);
            let low = tid & 0xffff_ffff == 7;
            String::from(if is_agents && low {
                "the agent's"
            } else {
                "another"
            })
        },
    ),
    row(
        "no answer in 100 ms, 2 retries: sent, and read",
        "3 times; status 110, 24 bytes, length 88",
        |world| {
            let at = client(world);
            let header = UserMad {
                retries: 2,
                ..to(3, 1)
            };
            assert!(world.write(at, header, unanswered(1).bytes()).is_ok());
            for _ in 0..2 {
                world.pass(100 * MS);
                assert_eq!(said(world.read(at)), "EAGAIN");
            }
            world.pass(100 * MS);
            let (header, message) = world.read(at).expect("it is told");
            let sent = world.nodes[1].port().counters.sent;
            let (status, length) = (header.status, header.length);
            format!(
                "{sent} times; status {status}, {} bytes, length {length}",
                message.len()
            )
        },
    ),
    row("no answer expected, and none comes", "EAGAIN", |world| {
        let at = client(world);
        let header = UserMad {
            timeout_ms: 0,
            ..to(3, 1)
        };
        assert!(world.write(at, header, unanswered(1).bytes()).is_ok());
        world.pass(100_000 * MS);
        said(world.read(at))
    }),
    row("a read of nothing", "EAGAIN", |world| {
        let at = client(world);
        said(world.read(at))
    }),
    row(
        "a read of 63 bytes, less than the header",
        "EINVAL, stays",
        |world| table(world, |_| 63),
    ),
    row(
        "a read of 319 bytes, less than header and first datagram",
        "EINVAL, stays",
        |world| table(world, |_| 319),
    ),
    row(
        "a read of 320 bytes of a long message",
        "ENOSPC, length, first datagram, stays",
        |world| table(world, |_| 320),
    ),
    row(
        "a read of a byte less than all",
        "ENOSPC, length, first datagram, stays",
        |world| table(world, |all| all - 1),
    ),
    row("a read of all", "ok, gone", |world| table(world, |all| all)),
    row(
        "with the older header, of a long message: a read of 55, of 311 bytes",
        "EINVAL, stays; EINVAL, stays",
        |world| {
            let header = old_table(world, |_| 55);
            format!("{header}; {}", old_table(world, |_| 311))
        },
    ),
    row(
        "of 312 bytes, of a byte less than all, of all",
        "ENOSPC, length, first datagram, stays; ENOSPC, length, first datagram, stays; ok, gone",
        |world| {
            let first = old_table(world, |_| 312);
            let less = old_table(world, |all| all - 1);
            format!("{first}; {less}; {}", old_table(world, |all| all))
        },
    ),
    row(
        "of a short one: a read of 311 bytes, of 312",
        "EINVAL ok",
        |world| {
            let at = old_client(world, 4, 1, 0);
            let asked = mad(4, 1, method::GET, 1, 1);
            let written = [&to(3, 1).as_bytes()[..56], asked.bytes()].concat();
            assert!(world.write_bytes(at, &written).is_ok());
            let mut buffer = [0; 312];
            let node = &mut world.nodes[1];
            let less = said(node.read(at.1, &mut buffer[..311]));
            format!("{less} {}", said(node.read(at.1, &mut buffer)))
        },
    ),
    row(
        "what a read that waits, or a poll, is told of: a datagram, a send that was not answered, \
         time alone",
        "read; read; nothing",
        |world| {
            let (at, from) = ends(world);
            world.nodes[2].take_woken();
            send_many(world, from, 1);
            let told = |world: &mut World, at: Program| {
                let woken = world.nodes[at.0].take_woken();
                let waits = world.nodes[at.0].descriptor(at.1).map(|of| of.waiting());
                match (woken.contains(&at.1), waits) {
                    (true, Some(1)) => "read",
                    (false, Some(0)) => "nothing",
                    _ => "one of both",
                }
            };
            let datagram = told(world, at);
            assert!(world.write(from, to(3, 1), unanswered(1).bytes()).is_ok());
            world.pass(50 * MS);
            let time = told(world, from);
            world.pass(50 * MS);
            format!("{datagram}; {}; {time}", told(world, from))
        },
    ),
    row(
        "200001 datagrams that nobody reads: which are read then",
        "the first 200000",
        |world| {
            let (at, from) = ends(world);
            send_many(world, from, 200_001);
            let tids = read_all(world, at);
            String::from(match tids.iter().copied().eq(0..200_000) {
                true => "the first 200000",
                false => "others",
            })
        },
    ),
    row(
        "200001 datagrams that nobody reads, then 1000 for another file of the node: which are \
         read of each",
        "the first 199000, all",
        |world| {
            let (at, from) = ends(world);
            send_many(world, from, 200_001);
            let other = world.program(2, sender(1, 0, 0, 0));
            for tid in 0..1000 {
                let asked = mad(4, 1, method::GET, 1, tid);
                assert!(world.write(other, to(3, 1), asked.bytes()).is_ok());
            }
            let all = read_all(world, other).iter().copied().eq(0..1000);
            let first = read_all(world, at).iter().copied().eq(0..199_000);
            match (first, all) {
                (true, true) => "the first 199000, all".into(),
                sets => format!("{sets:?}"),
            }
        },
    ),
    row(
        "a read, a write and a request of a file that was closed",
        "EIO EIO EIO",
        |world| {
            let at = client(world);
            world.nodes[1].close(at.1);
            let read = said(world.read(at));
            let written = said(world.write(at, to(3, 1), unanswered(1).bytes()));
            let request = said(world.control(at, request::ENABLE_PKEY, &mut []));
            format!("{read} {written} {request}")
        },
    ),
    row(
        "a read of 87 and of 88 bytes of a send that was not answered",
        "EINVAL ok",
        |world| {
            let at = client(world);
            assert!(world.write(at, to(3, 1), unanswered(1).bytes()).is_ok());
            world.pass(100 * MS);
            let mut buffer = [0; 88];
            let node = &mut world.nodes[1];
            let less = said(node.read(at.1, &mut buffer[..87]));
            format!("{less} {}", said(node.read(at.1, &mut buffer)))
        },
    ),
    row(
        "sends of an agent that was unregistered",
        "nothing is read",
        |world| {
            let at = client(world);
            assert!(world.write(at, to(3, 1), unanswered(1).bytes()).is_ok());
            let mut id = 0_u32.to_ne_bytes();
            let number = request::UNREGISTER_AGENT;
            assert_eq!(world.control(at, number, &mut id), Ok(()));
            world.pass(1000 * MS);
            assert_eq!(world.nodes[1].port().sends(), 0);
            String::from(if said(world.read(at)) == "EAGAIN" {
                "nothing is read"
            } else {
                "something"
            })
        },
    ),
    row(
        "4096 sends that are not over; one more",
        "ok; ENOMEM",
        |world| {
            let at = client(world);
            for tid in 0..4096 {
                assert!(world.write(at, to(3, 1), unanswered(tid).bytes()).is_ok());
            }
            let more = said(world.write(at, to(3, 1), unanswered(5000).bytes()));
            format!("ok; {more}")
        },
    ),
    row(
        "4096 sends of one file that are not over: a send of another file; 4096 more when they are \
         over, and another one",
        "ok; ok, then ENOMEM",
        |world| {
            let at = client(world);
            for tid in 0..4096 {
                assert!(world.write(at, to(3, 1), unanswered(tid).bytes()).is_ok());
            }
            let other = client(world);
            let others = said(world.write(other, to(3, 1), unanswered(1).bytes()));
            // This one is over in less time than the others.
            world.pass(100 * MS);
            assert_eq!(world.nodes[1].port().sends(), 0);
            for tid in 0..4095 {
                assert!(world.write(at, to(3, 1), unanswered(tid).bytes()).is_ok());
            }
            let next = said(world.write(at, to(3, 1), unanswered(5000).bytes()));
            let more = said(world.write(at, to(3, 1), unanswered(5001).bytes()));
            format!("{others}; {next}, then {more}")
        },
    ),
    row(
        "64 MiB of long messages that are not over: eight of 8 MiB, and one of a datagram",
        "ok; ENOMEM",
        |world| {
            let at = world.program(1, server(0x32));
            let mut message = mad(0x32, 1, method::GET, 0, 0).bytes()[..40].to_vec();
            (message[24], message[26]) = (1, 1);
            message[37..40].copy_from_slice(&OPENIB_OUI);
            message.resize(8 << 20, 0);
            for tid in 0..8 {
                message[15] = tid;
                // No port has this identifier.
                assert!(world.write(at, to(0x99, 1), &message).is_ok());
            }
            format!(
                "ok; {}",
                said(world.write(at, to(3, 1), unanswered(9).bytes()))
            )
        },
    ),
    row(
        "the header of a message: agent, status, source, queue pair",
        "0, 0, LID 2, 1",
        |world| {
            let at = world.program(2, server(0x32));
            let from = client(world);
            let mut asked = mad(0x32, 1, method::GET, 0, 7);
            asked.rest[13..16].copy_from_slice(&OPENIB_OUI);
            assert!(world.write(from, to(3, 1), asked.bytes()).is_ok());
            let (header, _) = world.read(at).expect("it arrives");
            let lid = u16::from_be_bytes(header.lid);
            let qpn = u32::from_be_bytes(header.qpn);
            assert_eq!(header.as_bytes().len(), 64);
            format!("{}, {}, LID {lid}, {qpn}", header.id, header.status)
        },
    ),
];
