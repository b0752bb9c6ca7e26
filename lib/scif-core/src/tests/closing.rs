//! What a close waits for.

use super::std::prelude::v1::*;

use scif_abi::limits::ANSWER_TIMEOUT_NS;

use super::fixture::{BOTH, End, FIXED, Fixture, PAGE, USER};
use super::lifetimes::{Pair, lose, pair, reset, write};

/// Runs node by node until nothing of a closed endpoint is under way.
fn depart(fixture: &mut Fixture, end: End) {
    let mut turns = 0..1000;
    while fixture.nodes[end.node].engine.is_departing(end.id) {
        assert!(turns.next().is_some(), "the close does not end");
        for node in 0..fixture.nodes.len() {
            fixture.iterate(node);
        }
    }
}

#[test]
fn a_close_has_ended_when_no_copy_of_either_end_is_under_way() {
    for nodes in [1, 2] {
        for (closer, is_mapped) in [(0, false), (1, false), (1, true)] {
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
            if is_mapped {
                engine.map(a.id, 0, PAGE, BOTH).unwrap();
            }
            engine.rma(a.id, write()).unwrap();
            let closer = [a, b][closer];
            fixture.close(closer);
            fixture.run();
            assert!(fixture.nodes[closer.node].engine.is_departing(closer.id));
            fixture.nodes[0].is_pumped = true;
            depart(&mut fixture, closer);
            // Every byte is as it was when the close began, whatever is stored afterwards.
            assert!(fixture.content(b.node, &at_b) == data);
            fixture.fill(a.node, &at_a, 5);
            fixture.run();
            assert!(fixture.content(b.node, &at_b) == data);
        }
    }
}

#[test]
fn a_close_tells_when_it_has_ended() {
    let Pair {
        mut fixture, a, b, ..
    } = pair(2);
    fixture.close(a);
    let [node, peer] = &mut fixture.nodes[..] else {
        unreachable!();
    };
    let mut known_epoch = 0;
    for _ in 0..2 {
        while let Some(event) = node.engine.next_event(&mut node.memory) {
            known_epoch += usize::from(event == crate::Event::Departed(a.id));
        }
        assert_eq!(known_epoch > 0, !node.engine.is_departing(a.id));
        peer.engine.doorbell(&mut peer.memory, a.node as u16);
        while peer.engine.next_event(&mut peer.memory).is_some() {}
        node.engine.doorbell(&mut node.memory, b.node as u16);
    }
    assert_eq!(known_epoch, 1);
    // A connection closed without windows and copies, or an unknown one, leaves nothing.
    let listener = node.engine.open(USER).unwrap();
    assert!(!node.engine.is_departing(listener));
    node.engine.close(&mut node.memory, listener);
    assert!(!node.engine.is_departing(listener));
}

#[test]
fn a_close_ends_though_the_peer_is_silent_or_lost() {
    // The peer is silent.
    let Pair { mut fixture, a, .. } = pair(2);
    fixture.close(a);
    let node = &mut fixture.nodes[a.node];
    let due = node.engine.now() + ANSWER_TIMEOUT_NS;
    node.engine.tick(&mut node.memory, due - 1);
    assert!(node.engine.is_departing(a.id));
    node.engine.tick(&mut node.memory, due + 1);
    assert!(!node.engine.is_departing(a.id));
    // The peer goes, before or after the close, with a copy queued.
    for is_lost_first in [true, false] {
        let Pair { mut fixture, a, .. } = pair(2);
        fixture.nodes[0].is_pumped = false;
        let engine = fixture.engine(a);
        engine.rma(a.id, write()).unwrap();
        if is_lost_first {
            lose(&mut fixture);
        }
        fixture.close(a);
        if !is_lost_first {
            lose(&mut fixture);
        }
        // The copy was cancelled.
        fixture.nodes[0].is_pumped = true;
        fixture.iterate(0);
        assert!(!fixture.nodes[0].engine.is_departing(a.id));
    }
}

/// A lost node answers nothing, and its link may be down much later. The pages are kept until
/// then, because the node may still write to them.
#[test]
fn a_close_does_not_wait_for_a_node_that_is_lost() {
    for is_lost_first in [true, false] {
        let Pair {
            mut fixture,
            a,
            at_a,
            ..
        } = pair(2);
        let pages = fixture.pin(0, &[1]);
        let ticket = fixture.start_register(a, &pages, 0x10000, BOTH, FIXED);
        ticket.unwrap();
        if is_lost_first {
            lose(&mut fixture);
            fixture.close(a);
        } else {
            fixture.close(a);
            assert!(fixture.nodes[0].engine.is_departing(a.id));
            lose(&mut fixture);
        }
        assert!(!fixture.nodes[0].engine.is_departing(a.id));
        let node = &mut fixture.nodes[0];
        let mut departed = 0;
        while let Some(event) = node.engine.next_event(&mut node.memory) {
            departed += usize::from(event == crate::Event::Departed(a.id));
            assert!(!matches!(event, crate::Event::Unpin(_)));
        }
        assert_eq!(departed, usize::from(!is_lost_first));
        // No time-out frees them either.
        let due = node.engine.now() + ANSWER_TIMEOUT_NS + 1;
        node.engine.tick(&mut node.memory, due);
        reset(&mut fixture);
        assert_eq!(fixture.nodes[0].released, []);
        let (engine, memory) = fixture.parts(a);
        engine.link_down(memory, 1);
        reset(&mut fixture);
        let mut released = fixture.nodes[0].released.clone();
        released.sort();
        assert_eq!(released, [at_a.pin, pages.pin]);
    }
}
