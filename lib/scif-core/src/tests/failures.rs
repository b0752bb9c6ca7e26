//! Links that fail in the middle of a call: whatever the call is, the link ends once, at its end.

use super::std::prelude::v1::*;

use scif_abi::PortId;
use scif_abi::flags::Kicks;
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET};

use super::fixture::{BOTH, End, FIXED, Fixture, PAGE, USER};
use crate::{ConnectMode, DownReason, Event, LinkState, Memory, Signal};

/// The queue pair for node 1: the first block that node 0 has allocated.
const QUEUE_PAIR: u64 = PAGE;

/// The objects of node 0 when its link fails.
struct Setting {
    fixture: Fixture,
    /// One end of a connection; both ends have a window at offset 0.
    a: End,
    /// A listener with a request of node 1.
    listener: End,
    /// An endpoint that is connecting.
    connecting: End,
}

fn setting() -> Setting {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    for end in [a, b] {
        let pages = fixture.pin(end.node, &[1]);
        fixture.register(end, &pages, 0, BOTH);
    }
    // Each node connects to the other one, and is not accepted.
    let mut ends = [0, 1].map(|node| {
        let engine = &mut fixture.nodes[node].engine;
        let listener = engine.open(USER).unwrap();
        engine.bind(listener, 1777).unwrap();
        engine.listen(listener, 2).unwrap();
        let id = engine.open(USER).unwrap();
        (End { node, id: listener }, End { node, id })
    });
    for (node, (_, connecting)) in ends.iter_mut().enumerate() {
        let to = PortId::new(1 - node as u16, 1777);
        let (engine, memory) = fixture.parts(*connecting);
        let mode = ConnectMode::NonBlocking;
        engine.connect(memory, connecting.id, to, mode).unwrap();
    }
    fixture.run();
    let [(listener, connecting), _] = ends;
    Setting {
        fixture,
        a,
        listener,
        connecting,
    }
}

/// Lets `call` find, in node 0, that node 1 has stored a bad index at `offset`.
fn fails_once(name: &str, offset: u64, call: impl Fn(&mut Setting)) {
    let mut setting = setting();
    let memory = &mut setting.fixture.nodes[0].memory;
    memory.store_index(QUEUE_PAIR + offset, u32::MAX);
    call(&mut setting);
    let node = &mut setting.fixture.nodes[0];
    node.engine.check_invariants().expect(name);
    let events: Vec<Event> =
        core::iter::from_fn(|| node.engine.next_event(&mut node.memory)).collect();
    node.engine.check_invariants().expect(name);
    let count = |event| events.iter().filter(|other| **other == event).count();
    assert_eq!(count(Event::NodeDown(1)), 1, "{name}: {events:?}");
    assert_eq!(count(Event::LinkFailed(1)), 1, "{name}: {events:?}");
    assert_eq!(node.engine.link_state(1), Some(LinkState::Failed), "{name}");
    assert_eq!(node.engine.stats().links_failed, 1, "{name}");
    let reason = node.engine.lost_nodes().next().unwrap().reason;
    assert!(matches!(reason, DownReason::BadIndex { .. }), "{name}");
    // Nothing is left once the peer cannot write any more.
    node.engine.link_down(&mut node.memory, 1);
    node.engine.check_invariants().expect(name);
    let ids = [setting.a.id, setting.listener.id, setting.connecting.id];
    for id in ids {
        node.engine.close(&mut node.memory, id);
        node.engine.check_invariants().expect(name);
    }
    while node.engine.next_event(&mut node.memory).is_some() {}
    let stats = node.engine.stats();
    assert_eq!((stats.connections, stats.windows), (0, 0), "{name}");
    assert_eq!((stats.pages, node.memory.allocated), (0, 0), "{name}");
}

/// A call of the engine, and its name.
type NamedCall = (&'static str, fn(&mut Setting));

#[test]
fn a_link_that_fails_in_any_call_ends_once_and_nothing_is_left() {
    let sends: &[NamedCall] = &[
        ("connect", |s| {
            let (engine, memory) = s.fixture.parts(s.a);
            let id = engine.open(USER).unwrap();
            let mode = ConnectMode::Blocking;
            engine
                .connect(memory, id, PortId::new(1, 1777), mode)
                .unwrap();
        }),
        ("connect_cancel", |s| {
            let engine = s.fixture.engine(s.connecting);
            engine.connect_cancel(s.connecting.id);
        }),
        ("accept", |s| {
            let (engine, memory) = s.fixture.parts(s.listener);
            engine.accept_start(memory, s.listener.id, USER).unwrap();
        }),
        ("close", |s| s.fixture.close(s.a)),
        ("close of a listener", |s| s.fixture.close(s.listener)),
        ("kick", |s| {
            let (engine, _) = s.fixture.parts(s.a);
            engine.kick(s.a.id, Kicks::BYTES | Kicks::ROOM).unwrap();
        }),
        ("register", |s| {
            let pages = s.fixture.pin(0, &[1]);
            s.fixture
                .start_register(s.a, &pages, PAGE as i64, BOTH, FIXED)
                .unwrap();
        }),
        ("unregister", |s| {
            let (engine, memory) = s.fixture.parts(s.a);
            engine.unregister(memory, s.a.id, 0, PAGE).unwrap();
        }),
        ("fence_mark", |s| {
            let engine = s.fixture.engine(s.a);
            engine.fence_mark(s.a.id, 2).unwrap();
        }),
        ("fence_signal", |s| {
            let engine = s.fixture.engine(s.a);
            let signal = Signal {
                // Stored by the peer, into its own window.
                flags: 0x2 | 0x20,
                ..Signal::default()
            };
            engine.fence_signal(s.a.id, signal).unwrap();
        }),
        ("probe_peer", |s| {
            let node = &mut s.fixture.nodes[0];
            node.engine.probe_peer(&mut node.memory, 1);
        }),
    ];
    for (name, call) in sends {
        fails_once(name, LOCAL_READ_OFFSET, call);
    }
    let receives: &[NamedCall] = &[
        ("doorbell", |s| {
            let node = &mut s.fixture.nodes[0];
            node.engine.doorbell(&mut node.memory, 1);
        }),
        ("poll_node", |s| {
            let node = &mut s.fixture.nodes[0];
            node.engine.poll_node(&mut node.memory, 1);
        }),
        ("register where a window ends", |s| {
            let (engine, memory) = s.fixture.parts(s.a);
            engine.unregister(memory, s.a.id, 0, PAGE).unwrap();
            let pages = s.fixture.pin(0, &[1]);
            let result = s.fixture.start_register(s.a, &pages, 0, BOTH, FIXED);
            assert_eq!(result, Err(scif_abi::Error::ConnectionReset));
        }),
        ("stop_polling", |s| {
            let node = &mut s.fixture.nodes[0];
            node.engine.start_polling();
            node.engine.poll_rings(&mut node.memory);
            node.engine.stop_polling(&mut node.memory);
            node.engine.doorbell(&mut node.memory, 1);
        }),
    ];
    for (name, call) in receives {
        fails_once(name, LOCAL_WRITE_OFFSET, call);
    }
}

#[test]
fn a_link_that_fails_as_it_is_left_counts_as_failed() {
    let mut setting = setting();
    let node = &mut setting.fixture.nodes[0];
    node.memory
        .store_index(QUEUE_PAIR + LOCAL_READ_OFFSET, u32::MAX);
    node.engine.leave(&mut node.memory);
    assert!(node.engine.is_leaving());
    while node.engine.next_event(&mut node.memory).is_some() {}
    node.engine.check_invariants().unwrap();
    assert!(!node.engine.is_leaving());
    assert_eq!(node.engine.link_state(1), Some(LinkState::Failed));
}
