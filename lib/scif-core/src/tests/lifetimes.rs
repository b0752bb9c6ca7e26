//! Lifetimes of windows, mappings and copies beyond unregister, close and the loss of nodes.

use super::std::prelude::v1::*;

use scif_abi::flags::{FenceFlags, RmaFlags};
use scif_abi::message::{Message, NodeMessage};
use scif_abi::{Error, PortId};

use super::engine::LateEngine;
use super::fixture::{BOTH, End, FIXED, Fixture, PAGE, READ};
use crate::{Direction, DownReason, LinkState, Local, Memory, Pages, Rma, WindowState};

const SYNC: u32 = RmaFlags::SYNC.bits();

pub struct Pair {
    pub fixture: Fixture,
    pub a: End,
    pub b: End,
    pub at_a: Pages,
    pub at_b: Pages,
}

/// Two ends with a page registered at offset 0 each.
pub fn pair(nodes: usize) -> Pair {
    let mut fixture = Fixture::new(nodes);
    let (a, b) = fixture.connect(0, nodes - 1);
    let at_a = fixture.pin(a.node, &[1]);
    let at_b = fixture.pin(b.node, &[1]);
    fixture.register(a, &at_a, 0, BOTH);
    fixture.register(b, &at_b, 0, BOTH);
    Pair {
        fixture,
        a,
        b,
        at_a,
        at_b,
    }
}

pub fn write() -> Rma {
    Rma {
        direction: Direction::Write,
        local: Local::Window(0),
        remote: 0,
        length: PAGE,
        flags: SYNC,
    }
}

#[test]
fn an_unregistered_window_stays_as_long_as_it_is_mapped() {
    for nodes in [1, 2] {
        let Pair {
            mut fixture,
            a,
            b,
            at_b,
            ..
        } = pair(nodes);
        let engine = fixture.engine(a);
        let mapped = engine.map(a.id, 0, PAGE, BOTH).unwrap();
        engine.map(a.id, 0, PAGE, READ).unwrap();
        assert_eq!(fixture.unregister(b, 0, PAGE), Ok(0));
        // Nothing new may use it, but existing uses work.
        let (engine, memory) = fixture.parts(a);
        let none = Err(Error::NoSuchAddress);
        assert_eq!(engine.map(a.id, 0, PAGE, READ), Err(Error::NoSuchAddress));
        assert_eq!(engine.rma(a.id, write()), none);
        memory.store_u64(mapped.place, 99).unwrap();
        assert_eq!(fixture.content(b.node, &at_b)[0], 99);
        assert_eq!(fixture.unregister(b, 0, PAGE), Err(Error::NoSuchAddress));
        let used = fixture.start_register(b, &at_b, 0, BOTH, FIXED);
        assert_eq!(used, Err(Error::AddressInUse));
        let engine = fixture.engine(a);
        engine.unmap(mapped.window, 1);
        fixture.run();
        assert_eq!(fixture.nodes[b.node].released, []);
        let engine = fixture.engine(a);
        engine.unmap(mapped.window, 1);
        fixture.run();
        assert_eq!(fixture.nodes[b.node].released, [at_b.pin]);
        fixture.register(b, &at_b, 0, BOTH);
    }
}

#[test]
fn a_peer_that_closes_releases_the_windows_of_both_ends() {
    for nodes in [1, 2] {
        let Pair {
            mut fixture,
            a,
            b,
            at_a,
            at_b,
        } = pair(nodes);
        fixture.close(b);
        fixture.run();
        for (end, pages) in [(a, at_a), (b, at_b)] {
            assert!(fixture.nodes[end.node].released.contains(&pages.pin));
        }
        let stats = fixture.nodes[a.node].engine.stats();
        assert_eq!((stats.windows, stats.pinned_pages), (0, 0));
        let none = fixture.unregister(a, 0, PAGE);
        assert_eq!(none, Err(Error::ConnectionReset));
        fixture.close(a);
        assert!(!fixture.nodes[a.node].engine.is_departing(a.id));
        fixture.run();
        fixture.assert_clean();
    }
}

#[test]
fn an_unregister_that_waits_ends_though_the_peer_closes() {
    for nodes in [1, 2] {
        let Pair {
            mut fixture, a, b, ..
        } = pair(nodes);
        fixture.nodes[0].is_pumped = false;
        let (engine, memory) = fixture.parts(a);
        engine.rma(a.id, write()).unwrap();
        let ticket = engine.unregister(memory, a.id, 0, PAGE).unwrap();
        fixture.close(b);
        fixture.run();
        fixture.nodes[0].is_pumped = true;
        assert_eq!(fixture.finish(a, Ok(ticket)), Ok(0));
    }
}

#[test]
fn what_only_a_library_has_mapped_keeps_pages_and_no_offsets() {
    for nodes in [1, 2] {
        let Pair {
            mut fixture,
            a,
            b,
            at_b,
            ..
        } = pair(nodes);
        let (engine, memory) = fixture.parts(a);
        let cached = engine.map(a.id, 0, PAGE, BOTH).unwrap();
        engine.note_cached(cached.window, 1);
        let mapped = engine.map(a.id, 0, PAGE, BOTH).unwrap();
        engine.unmap(mapped.window, 1);
        memory.store_u64(cached.place, 99).unwrap();
        assert_eq!(fixture.unregister(b, 0, PAGE), Ok(0));
        // Another window may be there, while the old pages are kept.
        let other = fixture.pin(b.node, &[1]);
        fixture.register(b, &other, 0, BOTH);
        let (engine, memory) = fixture.parts(a);
        let of_other = engine.map(a.id, 0, PAGE, BOTH).unwrap();
        memory.store_u64(of_other.place, 55).unwrap();
        assert_eq!(fixture.content(b.node, &other)[0], 55);
        assert_eq!(fixture.content(b.node, &at_b)[0], 99);
        assert_eq!(fixture.nodes[b.node].released, []);
        let engine = fixture.engine(a);
        engine.unmap_cached(cached.window, 1);
        fixture.run();
        assert_eq!(fixture.nodes[b.node].released, [at_b.pin]);
        // The end of the old window was not that of the new one.
        let used = fixture.start_register(b, &at_b, 0, BOTH, FIXED);
        assert_eq!(used, Err(Error::AddressInUse));
        let engine = fixture.engine(a);
        engine.unmap(of_other.window, 1);
        assert_eq!(fixture.unregister(b, 0, PAGE), Ok(0));
        assert_eq!(fixture.nodes[b.node].released, [at_b.pin, other.pin]);
    }
}

#[test]
fn mappings_outlive_both_ends() {
    for nodes in [1, 2] {
        for order in [[0, 1], [1, 0]] {
            let Pair {
                mut fixture,
                a,
                b,
                at_a,
                at_b,
            } = pair(nodes);
            let engine = fixture.engine(a);
            let mapped = engine.map(a.id, 0, PAGE, BOTH).unwrap();
            for end in order {
                fixture.close([a, b][end]);
                fixture.run();
            }
            assert!(fixture.nodes[0].released.contains(&at_a.pin));
            assert_eq!(fixture.nodes[b.node].engine.stats().windows, 1);
            let window = fixture.nodes[b.node].engine.windows().next().unwrap();
            assert_eq!((window.state, window.endpoint), (WindowState::Used, None));
            let (engine, memory) = fixture.parts(a);
            memory.store_u64(mapped.place, 7).unwrap();
            engine.unmap(mapped.window, 1);
            fixture.run();
            assert_eq!(fixture.content(b.node, &at_b)[0], 7);
            fixture.assert_clean();
        }
    }
}

#[test]
fn copies_run_on_when_everybody_closes() {
    for nodes in [1, 2] {
        let Pair {
            mut fixture,
            a,
            b,
            at_a,
            at_b,
        } = pair(nodes);
        let data = fixture.fill(a.node, &at_a, 4);
        fixture.nodes[0].is_pumped = false;
        let engine = fixture.engine(a);
        let ticket = engine.rma(a.id, write()).unwrap();
        fixture.close(b);
        fixture.run();
        fixture.close(a);
        fixture.run();
        let engine = fixture.engine(a);
        let ended = Some(Err(Error::NotConnected));
        assert_eq!(engine.finish(ticket), ended);
        for node in &fixture.nodes {
            assert_eq!(node.released, [], "both ends' pages are still in use");
        }
        fixture.nodes[0].is_pumped = true;
        fixture.run();
        assert!(fixture.content(b.node, &at_b) == data);
        fixture.assert_clean();
    }
}

#[test]
fn unregistering_waits_for_copies_though_a_page_is_mapped() {
    for nodes in [1, 2] {
        let Pair {
            mut fixture,
            a,
            b,
            at_a,
            at_b,
        } = pair(nodes);
        let data = fixture.fill(a.node, &at_a, 6);
        fixture.nodes[0].is_pumped = false;
        let engine = fixture.engine(a);
        let mapped = engine.map(a.id, 0, PAGE, BOTH).unwrap();
        engine.rma(a.id, write()).unwrap();
        let (engine, memory) = fixture.parts(b);
        let ticket = engine.unregister(memory, b.id, 0, PAGE).unwrap();
        fixture.run();
        let engine = fixture.engine(b);
        assert_eq!(engine.finish(ticket), None);
        fixture.nodes[0].is_pumped = true;
        assert_eq!(fixture.finish(b, Ok(ticket)), Ok(0));
        assert!(fixture.content(b.node, &at_b) == data);
        assert_eq!(fixture.nodes[b.node].released, []);
        let engine = fixture.engine(a);
        engine.unmap(mapped.window, 1);
        fixture.run();
        assert_eq!(fixture.nodes[b.node].released, [at_b.pin]);
    }
}

#[test]
fn unregistering_waits_for_copies_at_either_end() {
    for nodes in [1, 2] {
        for owner in [0, 1] {
            let Pair {
                mut fixture, a, b, ..
            } = pair(nodes);
            let owner = [a, b][owner];
            fixture.nodes[0].is_pumped = false;
            let engine = fixture.engine(a);
            let copy = engine.rma(a.id, write()).unwrap();
            let (engine, memory) = fixture.parts(owner);
            let ticket = engine.unregister(memory, owner.id, 0, PAGE).unwrap();
            fixture.run();
            let engine = fixture.engine(owner);
            assert_eq!(engine.finish(ticket), None);
            assert_eq!(fixture.nodes[owner.node].released, []);
            fixture.nodes[0].is_pumped = true;
            assert_eq!(fixture.finish(owner, Ok(ticket)), Ok(0));
            assert_eq!(fixture.finish(a, Ok(copy)), Ok(0));
            assert_eq!(fixture.nodes[owner.node].released.len(), 1);
        }
    }
}

/// Node 1 vanishes: it is never run again.
pub fn lose(fixture: &mut Fixture) {
    let node = &mut fixture.nodes[0];
    node.engine.link_failed(1, DownReason::Silent);
    node.engine.check_invariants().unwrap();
}

pub fn reset(fixture: &mut Fixture) {
    let node = &mut fixture.nodes[0];
    while let Some(event) = node.engine.next_event(&mut node.memory) {
        if let crate::Event::Unpin(pin) = event {
            node.released.push(pin);
        }
    }
    node.engine.check_invariants().unwrap();
}

#[test]
fn a_lost_node_ends_calls_and_frees_windows_when_it_is_down() {
    let Pair {
        mut fixture,
        a,
        at_a,
        ..
    } = pair(2);
    fixture.nodes[0].is_pumped = false;
    let engine = fixture.engine(a);
    let mapped = engine.map(a.id, 0, PAGE, BOTH).unwrap();
    let copy = engine.rma(a.id, write()).unwrap();
    let mark = engine
        .fence_mark(a.id, FenceFlags::INIT_SELF.bits())
        .unwrap();
    let mark = engine.finish(mark).unwrap().unwrap() as i32;
    let peer = FenceFlags::INIT_PEER.bits();
    let direction = Direction::Read;
    let pages = fixture.pin(0, &[1]);
    let register = fixture
        .start_register(a, &pages, 0x10000, BOTH, FIXED)
        .unwrap();
    let (engine, memory) = fixture.parts(a);
    let tickets = [
        copy,
        engine.fence_wait(a.id, mark).unwrap(),
        engine.fence_mark(a.id, peer).unwrap(),
        engine.virtual_start(a.id, direction, 0, 10, 0).unwrap(),
        engine.unregister(memory, a.id, 0, PAGE).unwrap(),
        register,
    ];
    lose(&mut fixture);
    let engine = fixture.engine(a);
    for ticket in tickets {
        assert_eq!(engine.finish(ticket), Some(Err(Error::ConnectionReset)));
    }
    let stats = engine.stats();
    assert_eq!((stats.jobs, stats.remote_windows, stats.windows), (0, 0, 2));
    // The peer may still write to our pages until the link is down.
    reset(&mut fixture);
    assert_eq!(fixture.nodes[0].released, []);
    let (engine, memory) = fixture.parts(a);
    engine.link_down(memory, 1);
    reset(&mut fixture);
    let mut released = core::mem::take(&mut fixture.nodes[0].released);
    released.sort();
    assert_eq!(released, [at_a.pin, pages.pin]);
    let engine = fixture.engine(a);
    engine.unmap(mapped.window, 1);
    engine.check_invariants().unwrap();
    fixture.close(a);
    reset(&mut fixture);
    let stats = fixture.nodes[0].engine.stats();
    assert_eq!(
        (stats.windows, stats.pinned_pages, stats.mapped_pages),
        (0, 0, 0)
    );
    assert_eq!(fixture.nodes[0].memory.allocated, 0);
}

#[test]
fn descriptors_under_way_keep_pages_when_a_node_is_lost() {
    let Pair {
        mut fixture,
        a,
        at_a,
        ..
    } = pair(2);
    let (engine, order) = LateEngine::new(4);
    fixture.nodes[0].copier = Box::new(engine);
    let engine = fixture.engine(a);
    let ticket = engine.rma(a.id, write()).unwrap();
    fixture.iterate(0);
    lose(&mut fixture);
    let (engine, memory) = fixture.parts(a);
    engine.link_down(memory, 1);
    let ended = Some(Err(Error::ConnectionReset));
    assert_eq!(engine.finish(ticket), ended);
    reset(&mut fixture);
    assert_eq!(fixture.nodes[0].released, []);
    order
        .borrow_mut()
        .complete_one(&mut fixture.nodes[0].memory);
    fixture.iterate(0);
    assert_eq!(fixture.nodes[0].released, [at_a.pin]);
    fixture.close(a);
    fixture.iterate(0);
    fixture.iterate(0);
    assert_eq!(fixture.nodes[0].engine.stats().jobs, 0);
    assert_eq!(order.borrow().forgotten.len(), 1);
}

#[test]
fn a_node_that_leaves_in_order_lets_go_of_everything() {
    let Pair {
        mut fixture, a, b, ..
    } = pair(2);
    let engine = fixture.engine(a);
    engine.map(a.id, 0, PAGE, BOTH).unwrap();
    let node = &mut fixture.nodes[1];
    node.engine.leave(&mut node.memory);
    fixture.run();
    for end in [a, b] {
        assert_eq!(fixture.nodes[end.node].engine.stats().remote_windows, 0);
        let (engine, memory) = fixture.parts(end);
        engine.link_down(memory, 1 - end.node as u16);
        fixture.close(end);
        fixture.run();
        assert_eq!(fixture.nodes[end.node].released.len(), 1);
    }
    fixture.assert_clean();
    // The same nodes meet again.
    fixture.link(0, 1);
    fixture.run();
    let (a, _) = fixture.connect(0, 1);
    let pages = fixture.pin(0, &[1]);
    fixture.register(a, &pages, 0, BOTH);
}

#[test]
fn the_peer_closing_while_a_window_is_registered_ends_the_call() {
    for nodes in [1, 2] {
        for steps in 0..5 {
            let Pair {
                mut fixture, a, b, ..
            } = pair(nodes);
            let pages = fixture.pin(a.node, &[1]);
            let ticket = fixture
                .start_register(a, &pages, 0x10000, BOTH, FIXED)
                .unwrap();
            for _ in 0..steps {
                for node in 0..nodes {
                    fixture.iterate(node);
                }
            }
            fixture.close(b);
            fixture.run();
            let engine = fixture.engine(a);
            let result = engine.finish(ticket).expect("it has ended");
            assert!(
                [Ok(0x10000), Err(Error::ConnectionReset)].contains(&result),
                "{result:?}"
            );
            fixture.close(a);
            fixture.run();
            fixture.assert_clean();
        }
    }
}

/// The host tells its cards which node it has lost. That does not affect a link between two cards.
#[test]
fn what_the_host_has_lost_leaves_a_living_link_alone() {
    let mut fixture = Fixture::new(3);
    let (a, b) = fixture.connect(2, 1);
    let pages = fixture.pin(1, &[1]);
    fixture.register(b, &pages, 0, BOTH);
    let host = &mut fixture.nodes[0];
    let body = NodeMessage::NodeRemove { node: 1 };
    let message = Message::new(PortId::new(0, 0), PortId::new(2, 0), body);
    host.engine.cx.post_message(2, message);
    let unexpected = |fixture: &Fixture| fixture.nodes[0].engine.stats().unexpected_messages;
    let before = unexpected(&fixture);
    fixture.run();
    assert_eq!(unexpected(&fixture), before + 1, "the acknowledgement");
    assert_eq!(
        fixture.nodes[2].engine.link_state(1),
        Some(LinkState::Online)
    );
    let (engine, memory) = fixture.parts(a);
    assert_eq!(engine.send(memory, a.id, b"still here"), Ok(10));
}
