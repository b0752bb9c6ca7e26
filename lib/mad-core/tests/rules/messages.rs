//! Reads and writes, and time.

use mad_core::attributes::attribute;
use mad_core::demo::{MS, Program, World, directed, mad, sender, server, to};
use mad_core::mad::{OPENIB_OUI, PERMISSIVE_LID, method};
use verbs_abi::mad::UserMad;
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

/// The bytes read of a table of the subnet (six segments), with this much less room than needed.
fn table(world: &mut World, room: fn(usize) -> usize) -> String {
    let at = world.program(1, sender(1, 3, 2, 1));
    let asked = mad(3, 2, method::GET_TABLE, 0x12, 1);
    assert!(world.write(at, to(1, 1), asked.bytes()).is_ok());
    let all = 64 + 56 + 72 * (3 + 9);
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
    let first = if stored > 300 && stored <= 320 {
        "first datagram"
    } else {
        "not so much"
    };
    match said.as_str() {
        "ENOSPC" => format!("{said}, {is_told}, {first}, {stays}"),
        _ => format!("{said}, {stays}"),
    }
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
            let number = verbs_abi::mad::request::UNREGISTER_AGENT;
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
