//! The receiver of a datagram.

use mad_core::attributes::attribute;
use mad_core::demo::{MS, Program, World, directed, mad, sender, server, to};
use mad_core::mad::{Mad, OPENIB_OUI, PERMISSIVE_LID, method};
use verbs_abi::mad::{RegisterAgent2, UserMad};

use crate::{Row, row, said};

/// The datagram that a program on node 1 reads after it has sent one to a port.
fn told(world: &mut World, qpn: u32, header: UserMad, asked: &Mad) -> String {
    let from = world.program(1, sender(qpn, 0, 0, 0));
    assert!(world.write(from, header, asked.bytes()).is_ok());
    if said(world.read(from)) == "EAGAIN" {
        world.pass(100 * MS);
        return "nothing".into();
    }
    "something".into()
}

/// The status of the answer to a request from node 1.
fn status(world: &mut World, qpn: u32, lid: u16, asked: &Mad) -> String {
    let from = world.program(1, sender(qpn, 0, 0, 0));
    assert!(world.write(from, to(lid, qpn), asked.bytes()).is_ok());
    match world.read(from) {
        Ok((_, message)) => {
            let answer = Mad::padded(&message).header;
            format!("{:#04x}, status {:#x}", answer.method, answer.status)
        }
        Err(_) => "nothing".into(),
    }
}

fn subnet(number: u16) -> Mad {
    mad(1, 1, method::GET, number, 1)
}

fn vendor(method: u8) -> Mad {
    let mut mad = mad(0x32, 1, method, 0, 1);
    mad.rest[13..16].copy_from_slice(&OPENIB_OUI);
    mad
}

/// A request of node 1 to a program of node 2, which has it.
fn asked(world: &mut World) -> (Program, Program, Mad) {
    let at = world.program(2, server(0x32));
    let from = world.program(1, sender(1, 0, 0, 0));
    let ping = vendor(method::GET);
    assert!(world.write(from, to(3, 1), ping.bytes()).is_ok());
    let (_, message) = world.read(at).expect("it arrives");
    let mut answer = Mad::padded(&message);
    answer.header.method = method::GET_RESPONSE;
    (at, from, answer)
}

fn answer(world: &mut World, by: Program, answer: &Mad) {
    let header = UserMad {
        timeout_ms: 0,
        ..to(2, 1)
    };
    assert!(world.write(by, header, answer.bytes()).is_ok());
}

fn reads(world: &mut World, at: Program) -> &'static str {
    if world.read(at).is_ok() {
        "read"
    } else {
        "dropped"
    }
}

/// A route of a directed datagram from node 1, and what answers at its end.
fn end(world: &mut World, path: &[u8]) -> String {
    let from = world.program(1, sender(0, 0x81, 1, 0));
    let asked = directed(attribute::NODE_DESCRIPTION, 0, path);
    assert!(
        world
            .write(from, to(PERMISSIVE_LID, 0), asked.bytes())
            .is_ok()
    );
    match world.read(from) {
        Ok((_, message)) => {
            let smp = Mad::padded(&message).smp();
            let name = smp.data.iter().take_while(|byte| **byte != 0);
            let name: Vec<u8> = name.copied().collect();
            let (pointer, status) = (smp.hop_pointer(), smp.header.status);
            format!(
                "{}, hop pointer {pointer}, status {status:#x}",
                String::from_utf8_lossy(&name)
            )
        }
        Err(_) => "nothing".into(),
    }
}

pub const ROWS: &[Row] = &[
    row("an answer to a request that waits", "read", |world| {
        let (at, from, message) = asked(world);
        answer(world, at, &message);
        reads(world, from).into()
    }),
    row("a second answer", "dropped", |world| {
        let (at, from, message) = asked(world);
        answer(world, at, &message);
        assert_eq!(reads(world, from), "read");
        answer(world, at, &message);
        reads(world, from).into()
    }),
    row(
        "an answer from a port that was not asked",
        "dropped",
        |world| {
            let (_, from, message) = asked(world);
            let thief = world.program(0, sender(1, 0, 0, 0));
            answer(world, thief, &message);
            reads(world, from).into()
        },
    ),
    row(
        "an answer with another transaction, or another class",
        "dropped dropped",
        |world| {
            let (at, from, message) = asked(world);
            let mut other = message;
            other.header.tid = (message.header.tid.get() + 1).into();
            answer(world, at, &other);
            let tid = reads(world, from);
            let mut other = message;
            other.header.class = 0x33;
            answer(world, at, &other);
            format!("{tid} {}", reads(world, from))
        },
    ),
    row(
        "an answer when the agent has gone, and another one has come",
        "dropped",
        |world| {
            let (at, from, message) = asked(world);
            world.nodes[1].close(from.1);
            let next = world.program(1, sender(1, 0, 0, 0));
            answer(world, at, &message);
            reads(world, next).into()
        },
    ),
    row("an answer when the time is over", "dropped", |world| {
        let (at, from, message) = asked(world);
        world.pass(100 * MS);
        assert_eq!(reads(world, from), "read");
        answer(world, at, &message);
        reads(world, from).into()
    }),
    row(
        "Get for an agent that has registered for it",
        "read",
        |world| {
            let at = world.program(2, server(0x32));
            let from = world.program(1, sender(1, 0, 0, 0));
            let ping = vendor(method::GET);
            assert!(world.write(from, to(3, 1), ping.bytes()).is_ok());
            assert_eq!(reads(world, from), "dropped", "nobody else answers it");
            reads(world, at).into()
        },
    ),
    row(
        "Get, Set and Send of a class that nobody has registered for",
        "0x81, status 0xc; 0x81, status 0xc; nothing",
        |world| {
            [method::GET, method::SET, method::SEND]
                .map(|method| status(world, 1, 3, &vendor(method)))
                .join("; ")
        },
    ),
    row(
        "a request of another version, or organisation, than was registered",
        "0x81, status 0xc; 0x81, status 0xc",
        |world| {
            world.program(2, server(0x32));
            let mut version = vendor(method::GET);
            version.header.class_version = 2;
            let mut name = vendor(method::GET);
            name.rest[13] = 9;
            [version, name]
                .map(|mad| status(world, 1, 3, &mad))
                .join("; ")
        },
    ),
    row(
        "Get of NodeInfo where a program has registered for class 1",
        "0x81, status 0x0",
        |world| {
            let all = RegisterAgent2 {
                method_mask: [6, 0],
                ..sender(0, 1, 1, 0)
            };
            let at = world.program(2, all);
            let said = status(world, 0, 3, &subnet(attribute::NODE_INFO));
            assert_eq!(reads(world, at), "dropped");
            said
        },
    ),
    row(
        "Get of an attribute there that the agent built in does not know",
        "the program's",
        |world| {
            let all = RegisterAgent2 {
                method_mask: [6, 0],
                ..sender(0, 1, 1, 0)
            };
            let at = world.program(2, all);
            status(world, 0, 3, &subnet(0xff00));
            String::from(if reads(world, at) == "read" {
                "the program's"
            } else {
                "nobody's"
            })
        },
    ),
    row(
        "Get of class 3 on node 0 where a program has registered for it",
        "the program's",
        |world| {
            let all = RegisterAgent2 {
                method_mask: [2, 0],
                ..sender(1, 3, 2, 1)
            };
            let at = world.program(0, all);
            status(world, 1, 1, &mad(3, 2, method::GET, 1, 1));
            String::from(if reads(world, at) == "read" {
                "the program's"
            } else {
                "built in"
            })
        },
    ),
    row(
        "Get of class 3 on node 0, and on node 2",
        "0x81, status 0x0; 0x81, status 0xc",
        |world| {
            [1, 3]
                .map(|lid| status(world, 1, lid, &mad(3, 2, method::GET, 1, 1)))
                .join("; ")
        },
    ),
    row(
        "of class 3 on node 0: Get and Set of Notice, Set and Get of InformInfo, Get of an unknown \
         attribute",
        "0x0 0x0, 0x200 0xc, 0xc",
        |world| {
            let mut ask = |method, attribute| {
                let said = status(world, 1, 1, &mad(3, 2, method, attribute, 1));
                said.rsplit(' ').next().unwrap_or_default().to_string()
            };
            let notice = [method::GET, method::SET].map(|method| ask(method, attribute::NOTICE));
            // One that names nothing.
            let inform =
                [method::SET, method::GET].map(|method| ask(method, attribute::INFORM_INFO));
            let unknown = ask(method::GET, 0x77);
            format!("{}, {}, {unknown}", notice.join(" "), inform.join(" "))
        },
    ),
    row("base version 2", "nothing", |world| {
        let mut asked = vendor(method::GET);
        asked.header.base_version = 2;
        told(world, 1, to(3, 1), &asked)
    }),
    row(
        "class 1 to queue pair 1, class 4 to queue pair 0",
        "nothing nothing",
        |world| {
            let one = told(world, 1, to(3, 1), &subnet(attribute::NODE_INFO));
            let other = told(world, 0, to(3, 0), &mad(4, 1, method::GET, 1, 1));
            format!("{one} {other}")
        },
    ),
    row(
        "class 7 with Get: of ClassPortInfo, of another attribute",
        "something nothing",
        |world| {
            let info = told(world, 1, to(3, 1), &mad(7, 2, method::GET, 1, 1));
            format!(
                "{info} {}",
                told(world, 1, to(3, 1), &mad(7, 2, method::GET, 0x10, 2))
            )
        },
    ),
    row(
        "queue pair 1 with another key than 0x80010000",
        "nothing",
        |world| {
            let header = UserMad {
                qkey: [0, 0, 0, 1],
                ..to(3, 1)
            };
            told(world, 1, header, &vendor(method::GET))
        },
    ),
    row(
        "queue pair 2, LID 0, a LID without a port, a group",
        "nothing nothing nothing nothing",
        |world| {
            [to(3, 2), to(0, 1), to(99, 1), to(0xc000, 1)]
                .map(|header| told(world, 1, header, &vendor(method::GET)))
                .join(" ")
        },
    ),
    row(
        "a directed route without hops",
        "skiff node 1, hop pointer 0, status 0x8000",
        |world| end(world, &[]),
    ),
    row(
        "by port 1",
        "skiff switch, hop pointer 0, status 0x8000",
        |world| end(world, &[1]),
    ),
    row(
        "by ports 1, 1; 1, 2; 1, 3",
        "skiff node 0; skiff node 1; skiff node 2",
        |world| {
            let name = |world: &mut World, port| {
                let said = end(world, &[1, port]);
                said.split(',').next().unwrap_or_default().to_string()
            };
            [1, 2, 3].map(|port| name(world, port)).join("; ")
        },
    ),
    row(
        "by ports 1, 4 (nobody); 1, 0; 1, 200; 1, 1, 1",
        "nothing nothing nothing nothing",
        |world| {
            [&[1, 4][..], &[1, 0], &[1, 200], &[1, 1, 1]]
                .map(|path| end(world, path))
                .join(" ")
        },
    ),
    row(
        "a node that has gone: a route to it, its port of the switch",
        "nothing, DOWN",
        |world| {
            for node in &mut world.nodes {
                node.set_online(2, false, 0);
            }
            let said = end(world, &[1, 3]);
            let from = world.program(1, sender(0, 0x81, 1, 0));
            let asked = directed(attribute::PORT_INFO, 3, &[1]);
            assert!(
                world
                    .write(from, to(PERMISSIVE_LID, 0), asked.bytes())
                    .is_ok()
            );
            let state = world.read(from).map(|(_, message)| message[64 + 32] & 15);
            format!("{said}, {}", if state == Ok(1) { "DOWN" } else { "up" })
        },
    ),
    row(
        "TrapRepress, and a Send of class 5 with bit 0 of the modifier, where a program has \
         registered for both",
        "dropped dropped",
        |world| {
            let answers = |class, method, bit: u32, world: &mut World| {
                let asked = RegisterAgent2 {
                    method_mask: [1_u64 << method, 0],
                    ..sender(u32::from(class != 1), class, 1, 0)
                };
                let at = world.program(2, asked);
                let mut message = mad(class, 1, method, 0, 1);
                message.header.modifier = bit.into();
                told(
                    world,
                    u32::from(class != 1),
                    to(3, u32::from(class != 1)),
                    &message,
                );
                reads(world, at)
            };
            assert_eq!(answers(5, method::SEND, 2, world), "read");
            let repress = answers(1, method::TRAP_REPRESS, 0, world);
            let bit = answers(5, method::SEND, 1, &mut World::new(3));
            format!("{repress} {bit}")
        },
    ),
    row(
        "4096 answers of the manager that node 2 does not acknowledge: a table for node 1, one \
         more for node 2",
        "read dropped",
        |world| {
            let by_hand = RegisterAgent2 {
                flags: 1,
                ..sender(1, 3, 2, 0)
            };
            let silent = world.program(2, by_hand);
            let asked = |tid| mad(3, 2, method::GET_TABLE, 0x12, tid);
            let header = UserMad {
                timeout_ms: 0,
                ..to(1, 1)
            };
            for tid in 0..4096 {
                assert!(world.write(silent, header, asked(tid).bytes()).is_ok());
                assert_eq!(reads(world, silent), "read");
            }
            let from = world.program(1, sender(1, 3, 2, 1));
            assert!(world.write(from, to(1, 1), asked(1).bytes()).is_ok());
            let other = reads(world, from);
            assert!(world.write(silent, header, asked(5000).bytes()).is_ok());
            format!("{other} {}", reads(world, silent))
        },
    ),
    row(
        "Get of NodeInfo with an M_Key, as ours is 0",
        "0x81, status 0x0",
        |world| {
            let mut asked = subnet(attribute::NODE_INFO).smp();
            asked.m_key = 0x1234.into();
            status(world, 0, 3, &Mad::from_smp(asked))
        },
    ),
    row(
        "a Trap to node 0: its sender gets",
        "0x07, status 0x0",
        |world| status(world, 0, 1, &mad(1, 1, method::TRAP, attribute::NOTICE, 1)),
    ),
    row(
        "Set of PortInfo with ClientReregister",
        "an event",
        |world| {
            let mut asked = mad(1, 1, method::SET, attribute::PORT_INFO, 1).smp();
            asked.data[51] = 0x80;
            status(world, 0, 3, &Mad::from_smp(asked));
            String::from(if world.nodes[2].next_event().is_some() {
                "an event"
            } else {
                "none"
            })
        },
    ),
];
