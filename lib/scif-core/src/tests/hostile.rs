//! Hostile peers: messages and page lists that are invalid.

use super::std::prelude::v1::*;

use scif_abi::limits::{MAX_GRANTED_PAGES, MAX_PEER_FENCES, MAX_WINDOW_PAGES, NODE_RING_BYTES};
use scif_abi::message::{MESSAGE_BYTES, Message, NodeMessage};
use scif_abi::qp::LOCAL_WRITE_OFFSET;
use scif_abi::window::WindowRecord;
use scif_abi::{Error, PortId};
use zerocopy::{FromZeros, IntoBytes};

use super::fixture::{BOTH, BUS, End, FIXED, Fixture, Flood, PAGE, RAM_BYTES};
use crate::base::table::Key;
use crate::engine::Engine;
use crate::{Direction, DownReason, Local, Memory, Rma, Signal, WindowState};

/// The end of memory: one byte behind the last one.
const END: u64 = BUS + RAM_BYTES as u64;

/// Address and pages of each chunk.
type Chunks<'a> = &'a [(u64, u64)];

/// Node 0 is under test; node 1 is played by the test from now on.
struct Victim {
    fixture: Fixture,
    a: End,
    /// The victim's id of its end.
    id: u64,
}

fn victim() -> Victim {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let engine = &fixture.nodes[0].engine;
    let id = engine
        .endpoints
        .get(a.id)
        .unwrap()
        .connection()
        .unwrap()
        .number();
    Victim { fixture, a, id }
}

impl Victim {
    /// The number by which the peer names the victim's end of a connection.
    fn number(&self, end: End) -> u64 {
        let endpoint = self.engine().endpoints.get(end.id).unwrap();
        endpoint.connection().unwrap().number()
    }

    fn engine(&self) -> &Engine {
        &self.fixture.nodes[0].engine
    }

    /// Sends the victim a message.
    fn say(&mut self, body: NodeMessage) {
        let node = &mut self.fixture.nodes[0];
        let port = |node| PortId::new(node, 0);
        let message = Message::new(port(1), port(0), body);
        node.engine.handle(&mut node.memory, 1, &message);
        while node.engine.next_event(&mut node.memory).is_some() {}
        node.engine.check_invariants().unwrap();
    }

    /// Has the victim grant a structure for a number of pages. Returns its id and local address.
    fn grant(&mut self, pages: u64) -> Option<(u64, u64)> {
        let peer = self.id;
        let before: Vec<u64> = self.granted();
        self.say(NodeMessage::AllocRequest {
            peer,
            pages,
            waiter: 5,
        });
        let id = self.granted().into_iter().find(|id| !before.contains(id))?;
        let page_list = self.engine().windows.page_list(Key::from_number(id))?;
        let address = page_list.exported(&self.fixture.nodes[0].memory)?;
        Some((id, address - BUS))
    }

    fn granted(&self) -> Vec<u64> {
        let granted = self.engine().windows.granted();
        granted.map(|id| id.number()).collect()
    }

    /// Fills in a structure: entries of address and count for each chunk.
    fn describe(&mut self, at: u64, chunks: &[(u64, u64)], count: u32, offset: i64, rights: u32) {
        let memory = &mut self.fixture.nodes[0].memory;
        let mut record = WindowRecord::new_zeroed();
        memory.read(at, record.as_mut_bytes());
        let tables = [record.addresses.address.get(), record.counts.address.get()].map(|lookup| {
            let mut table = [0; 8];
            memory.read(lookup - BUS, &mut table);
            u64::from_le_bytes(table) - BUS
        });
        for (index, (address, pages)) in chunks.iter().enumerate() {
            let at = index as u64 * 8;
            memory.write(tables[0] + at, &address.to_le_bytes());
            memory.write(tables[1] + at, &pages.to_le_bytes());
        }
        record.chunks = count.into();
        record.offset = offset.into();
        record.protection = rights.into();
        memory.write(at, record.as_bytes());
    }

    fn register(&mut self, user_window: u64) {
        let peer = self.id;
        self.say(NodeMessage::Register {
            peer,
            user_window,
            owner_window: 9,
        });
    }

    fn remote_windows(&self) -> usize {
        self.engine().stats().remote_windows
    }
}

#[test]
fn page_lists_without_sense_are_refused_and_forgotten() {
    let mut victim = victim();
    let good = [(BUS, 2), (BUS + 4 * PAGE, 1)];
    let bad: [(Chunks<'_>, u32, i64, u32); 16] = [
        (&good, 0, 0, BOTH),
        (&good, 1, 0, BOTH),
        (&good, 4, 0, BOTH),
        (&good, u32::MAX, 0, BOTH),
        (&good, 2, -4096, BOTH),
        (&good, 2, 1, BOTH),
        (&good, 2, i64::MAX - 4095, BOTH),
        (&good, 2, 0, 4),
        (&[(BUS, 3), (BUS, 1)], 2, 0, BOTH),
        (&[(BUS, 0), (BUS, 3)], 2, 0, BOTH),
        (&[(BUS, u64::MAX), (BUS, 4)], 2, 0, BOTH),
        (&[(BUS, 1 << 52), (BUS, 3)], 2, 0, BOTH),
        (&[(BUS + 1, 3)], 1, 0, BOTH),
        (&[(0, 3)], 1, 0, BOTH),
        (&[(!0xfff, 3)], 1, 0, BOTH),
        (&[(END - PAGE, 3)], 1, 0, BOTH),
    ];
    for (chunks, count, offset, rights) in bad {
        let (id, at) = victim.grant(3).unwrap();
        victim.describe(at, chunks, count, offset, rights);
        victim.register(id);
        assert_eq!(
            victim.remote_windows(),
            0,
            "{chunks:?} {count} {offset} {rights}"
        );
        assert!(victim.granted().is_empty());
    }
    let (id, at) = victim.grant(3).unwrap();
    victim.describe(at, &good, 2, 0x1000, BOTH);
    victim.register(id);
    assert_eq!(victim.remote_windows(), 1);
    // Registering twice counts once; and two windows are not in the same place.
    victim.register(id);
    let (second, at) = victim.grant(1).unwrap();
    victim.describe(at, &[(BUS, 1)], 1, 0x3000, BOTH);
    victim.register(second);
    assert_eq!(victim.remote_windows(), 1);
    let (third, at) = victim.grant(1).unwrap();
    victim.describe(at, &[(BUS, 1)], 1, 0x4000, 0);
    victim.register(third);
    assert_eq!(victim.remote_windows(), 2);
    let engine = victim.fixture.engine(victim.a);
    let denied = engine.map(victim.a.id, 0x4000, PAGE, BOTH);
    assert_eq!(denied, Err(Error::AccessDenied));
}

#[test]
fn what_is_lent_is_limited() {
    let mut victim = victim();
    for pages in [0, MAX_WINDOW_PAGES + 1, u64::MAX] {
        assert_eq!(victim.grant(pages), None);
    }
    let mut count = 0;
    while victim.grant(MAX_WINDOW_PAGES).is_some() {
        count += 1;
    }
    // A structure with its lookup arrays, and 512 tables of each kind.
    assert_eq!(count, MAX_GRANTED_PAGES / (3 + 2 * 512));
    for id in victim.granted() {
        let peer = victim.id;
        victim.say(NodeMessage::FreeVirtual {
            peer,
            user_window: id,
            owner_window: 0,
            kind: 19,
        });
    }
    assert!(victim.grant(1).is_some());
}

#[test]
fn grants_without_sense_fail_the_call() {
    let mut victim = victim();
    let addresses = [0, BUS, END - 100, u64::MAX, u64::MAX - 100];
    for address in addresses {
        let pages = victim.fixture.pin(0, &[1]);
        let a = victim.a;
        let ticket = victim
            .fixture
            .start_register(a, &pages, 0, BOTH, FIXED)
            .unwrap();
        let (window, _) = victim.engine().windows.locals().next().unwrap();
        let window = window.number();
        victim.say(NodeMessage::AllocGrant {
            user_window: 1,
            address,
            waiter: window,
        });
        let engine = victim.fixture.engine(a);
        let result = engine.finish(ticket);
        assert_eq!(result, Some(Err(Error::NoMemory)), "{address:#x}");
        assert_eq!(victim.engine().stats().windows, 0);
    }
}

#[test]
fn answers_out_of_turn_change_nothing() {
    let mut victim = victim();
    let (a, requester) = (victim.a, victim.id);
    let pages = victim.fixture.pin(0, &[1]);
    victim.fixture.register(a, &pages, 0, BOTH);
    let (window, _) = victim.engine().windows.locals().next().unwrap();
    let window = window.number();
    let engine = victim.fixture.engine(a);
    let mark = engine.fence_mark(a.id, 2).unwrap();
    let waiter = mark.number();
    let user_window = 3;
    for owner_window in [0, window, window + 1, u64::MAX] {
        let owner = requester;
        let peer = requester;
        for body in [
            NodeMessage::RegisterAck {
                peer,
                user_window,
                owner_window,
            },
            NodeMessage::RegisterNack {
                peer,
                user_window,
                owner_window,
            },
            NodeMessage::UnregisterAck {
                owner,
                owner_window,
            },
            NodeMessage::UnregisterNack {
                owner,
                owner_window,
                is_offset_free: 1,
            },
            NodeMessage::Munmap { owner_window },
            NodeMessage::AllocReject {
                waiter: owner_window,
            },
            NodeMessage::AllocGrant {
                user_window,
                address: BUS,
                waiter: owner_window,
            },
            NodeMessage::WaitAck { requester, waiter },
            NodeMessage::SignalAck { requester, waiter },
            NodeMessage::MarkAck {
                requester,
                waiter: waiter + 1,
                mark: 1,
            },
            NodeMessage::MarkAck {
                requester: requester + 1,
                waiter,
                mark: 1,
            },
        ] {
            victim.say(body);
        }
    }
    let engine = victim.fixture.engine(a);
    assert_eq!(engine.finish(mark), None);
    let state = victim.engine().windows().next().map(|window| window.state);
    assert_eq!(state, Some(WindowState::Live));
}

#[test]
fn a_mark_of_a_peer_may_be_0() {
    let mut victim = victim();
    let (a, requester) = (victim.a, victim.id);
    let engine = victim.fixture.engine(a);
    let asked = engine.fence_mark(a.id, 2).unwrap();
    let waiter = asked.number();
    // Nobody has got that one yet.
    let remote = 1 << 30;
    assert_eq!(engine.fence_wait(a.id, remote), Err(Error::InvalidArgument));
    victim.say(NodeMessage::MarkAck {
        requester,
        waiter,
        mark: 0,
    });
    let engine = victim.fixture.engine(a);
    assert_eq!(engine.finish(asked), Some(Ok(remote as u64)));
    let waits = engine.fence_wait(a.id, remote).unwrap();
    let waiter = waits.number();
    victim.say(NodeMessage::WaitAck { requester, waiter });
    let result = victim.fixture.engine(a).finish(waits);
    assert_eq!(result, Some(Ok(0)));
}

#[test]
fn fences_of_a_peer_are_checked_and_limited() {
    let mut victim = victim();
    let (b, _) = victim.fixture.connect(0, 1);
    let pages = victim.fixture.pin(0, &[1]);
    victim.fixture.register(b, &pages, 0, BOTH);
    let other = victim.number(b);
    let (a, peer) = (victim.a, victim.id);
    let pages = victim.fixture.pin(0, &[1]);
    victim.fixture.register(a, &pages, 0, BOTH);
    let (value, waiter) = (7, 1);
    for offset in [1, 2, PAGE - 4, PAGE, u64::MAX, u64::MAX - 7, 1 << 63] {
        victim.say(NodeMessage::SignalLocal {
            peer,
            offset,
            value,
            waiter,
        });
        victim.say(NodeMessage::SignalRemote {
            peer,
            offset,
            value,
            waiter,
        });
    }
    assert_eq!(victim.engine().stats().jobs, 0);
    let mut fill = |peer| {
        let before = victim.engine().stats().jobs;
        for _ in 0..2 * MAX_PEER_FENCES {
            let node = &mut victim.fixture.nodes[0];
            let body = NodeMessage::SignalLocal {
                peer,
                offset: 0,
                value,
                waiter,
            };
            let message = Message::new(PortId::new(1, 0), PortId::new(0, 0), body);
            node.engine.handle(&mut node.memory, 1, &message);
        }
        victim.engine().stats().jobs - before
    };
    // Each connection leaves as much as it has.
    assert_eq!(fill(peer), MAX_PEER_FENCES / 2);
    assert_eq!(fill(other), MAX_PEER_FENCES / 4);
    assert_eq!(fill(peer), 0);
    // The user's own calls are in order, and nothing is lost.
    let engine = victim.fixture.engine(a);
    let signal = Signal {
        flags: 0x11,
        ..Signal::default()
    };
    let own = engine.fence_signal(a.id, signal);
    assert!(own.is_ok());
    for mark in [0, 1, 77, u64::MAX, 1 << 30] {
        victim.say(NodeMessage::Wait { peer, waiter, mark });
    }
    victim.fixture.run();
    assert_eq!(victim.engine().stats().jobs, 0);
}

#[test]
fn a_window_whose_node_is_lost_is_not_written_any_more() {
    let mut victim = victim();
    let a = victim.a;
    let pages = victim.fixture.pin(0, &[2]);
    victim.fixture.register(a, &pages, 0, BOTH);
    let (id, at) = victim.grant(2).unwrap();
    victim.describe(at, &[(BUS + 0x3f_0000, 2)], 1, 0, BOTH);
    victim.register(id);
    let rma = Rma {
        direction: Direction::Write,
        local: Local::Window(0),
        remote: 0,
        length: 2 * PAGE,
        flags: 0,
    };
    let engine = victim.fixture.engine(a);
    engine.rma(a.id, rma).unwrap();
    engine.link_failed(1, DownReason::Silent);
    let before = engine.stats().copies;
    victim.fixture.iterate(0);
    assert_eq!(victim.engine().stats().copies, before);
    assert_eq!(victim.engine().stats().jobs, 0);
}

/// A node names the connections and windows of another node, whose ids it can guess.
#[test]
fn no_node_speaks_for_another() {
    let mut fixture = Fixture::new(3);
    let (a, b) = fixture.connect(0, 1);
    let pages = fixture.pin(0, &[1]);
    fixture.register(a, &pages, 0, BOTH);
    let id_of = |end: End| {
        let engine = &fixture.nodes[end.node].engine;
        engine
            .endpoints
            .get(end.id)
            .unwrap()
            .connection()
            .unwrap()
            .number()
    };
    let (peer, closer) = (id_of(a), id_of(b));
    let node = &mut fixture.nodes[0];
    for owner_window in (0..4).map(|index| 1 << 32 | index) {
        for body in [
            NodeMessage::Disconnect {
                closer,
                peer,
                stored: 0,
            },
            NodeMessage::DisconnectAck {
                closer: peer,
                peer: closer,
                stored: 0,
            },
            NodeMessage::ConnectReject { connector: peer },
            NodeMessage::ConnectGrantNack { acceptor: peer },
            NodeMessage::RegisterNack {
                peer,
                user_window: 1,
                owner_window,
            },
            NodeMessage::UnregisterAck {
                owner: peer,
                owner_window,
            },
            NodeMessage::Munmap { owner_window },
            NodeMessage::Mark { peer, waiter: 1 },
            NodeMessage::SignalLocal {
                peer,
                offset: 0,
                value: 1,
                waiter: 1,
            },
        ] {
            let port = |node| PortId::new(node, 0);
            let message = Message::new(port(2), port(0), body);
            node.engine.handle(&mut node.memory, 2, &message);
            node.engine.check_invariants().unwrap();
        }
    }
    assert_eq!(node.engine.stats().jobs, 0);
    fixture.run();
    let (engine, memory) = fixture.parts(a);
    assert_eq!(engine.send(memory, a.id, b"still here"), Ok(10));
    assert_eq!(fixture.content(0, &pages)[..8], [0; 8]);
    assert_eq!(fixture.unregister(a, 0, PAGE), Ok(0));
}

/// A peer fills its ring as fast as it is read; one iteration ends nevertheless.
#[test]
fn a_flood_of_messages_does_not_hold_up_the_loop() {
    let mut fixture = Fixture::new(2);
    for (node, other) in [(0, 1), (1, 0)] {
        let node = &mut fixture.nodes[node];
        node.engine.link_down(&mut node.memory, other);
    }
    let mut attach = |node: usize, other| {
        let node = &mut fixture.nodes[node];
        node.engine.attach(&mut node.memory, other).unwrap()
    };
    let (at_0, at_1) = (attach(0, 1), attach(1, 0));
    let batch = NODE_RING_BYTES as usize / MESSAGE_BYTES;
    let node = &mut fixture.nodes[0];
    node.memory.flood = Some(Flood {
        queue_pair: at_0 - BUS,
        bytes: (batch * MESSAGE_BYTES) as u32,
        left: 10_000,
    });
    let full = (batch * MESSAGE_BYTES) as u32;
    let word = at_0 - BUS + LOCAL_WRITE_OFFSET;
    node.memory.store_index(word, full);
    node.engine.link_up(&mut node.memory, 1, at_1).unwrap();
    for _ in 0..3 {
        let before = node.engine.stats().messages_received;
        assert_eq!(node.engine.next_deadline(), Some(node.engine.now()));
        let now = node.engine.now() + 1;
        node.engine.tick(&mut node.memory, now);
        let taken = node.engine.stats().messages_received - before;
        assert_eq!(taken, batch as u64);
        node.engine.check_invariants().unwrap();
    }
}

#[test]
fn a_message_with_stale_ids_counts_once() {
    let mut victim = victim();
    let id = victim.id;
    let (granted, _) = victim.grant(1).unwrap();
    let stale = granted ^ 1 << 40;
    for (peer, user_window) in [(id, stale), (id + 1, granted), (id + 1, stale)] {
        let before = victim.engine().stats().stale_ids;
        victim.say(NodeMessage::Register {
            peer,
            user_window,
            owner_window: 5,
        });
        let counted = victim.engine().stats().stale_ids - before;
        assert_eq!(counted, 1, "{peer} {user_window}");
    }
    let before = victim.engine().stats().stale_ids;
    victim.say(NodeMessage::FreeVirtual {
        kind: 0,
        peer: id,
        user_window: stale,
        owner_window: 5,
    });
    assert_eq!(victim.engine().stats().stale_ids - before, 1);
}
