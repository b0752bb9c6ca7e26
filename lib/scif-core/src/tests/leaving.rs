//! Leaving: what EXIT waits for.

use scif_abi::bypass::{FIRST_HANDLE, STATE_DISCONNECTED, STATE_OFFSET, rma_busy_offset};
use scif_abi::limits::CLIENT_RETRY_NS;

use super::bypass::{close, open, word};
use super::engine::LateEngine;
use super::fixture::Fixture;
use super::lifetimes::{Pair, pair, write};
use super::std::prelude::v1::*;
use crate::{LinkState, Memory};

/// EXIT promises that the peer's memory is not accessed any more. So it waits for clients that
/// have it mapped or copy there, and only for them.
#[test]
fn leaving_waits_for_clients_that_reach_the_peer() {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let (idle, _) = open(&mut fixture, a);
    let (id, page) = open(&mut fixture, a);
    let (engine, _) = fixture.parts(a);
    engine.map_bypass(id, 3);
    let (engine, memory) = fixture.parts(a);
    engine.leave(memory);
    fixture.run();
    let has_heard =
        |fixture: &Fixture| fixture.nodes[1].engine.link_state(0) != Some(LinkState::Online);
    assert!(!has_heard(&fixture));
    // The peers are told, and stop using one part, then the other; a copy is still under way.
    assert_eq!(word(&fixture, a, page + STATE_OFFSET), STATE_DISCONNECTED);
    let busy = page + rma_busy_offset(FIRST_HANDLE + 1);
    fixture.nodes[0].memory.store_index(busy, 1);
    let (engine, _) = fixture.parts(a);
    engine.unmap_bypass(id, 1);
    fixture.run();
    let (engine, _) = fixture.parts(a);
    engine.unmap_bypass(id, 2);
    fixture.run();
    assert!(!has_heard(&fixture));
    let due = fixture.nodes[0].engine.next_deadline();
    assert!(due.is_some_and(|due| due <= fixture.now + CLIENT_RETRY_NS));
    fixture.nodes[0].memory.store_index(busy, 0);
    fixture.run();
    assert!(has_heard(&fixture));
    assert!(!fixture.nodes[0].engine.is_leaving());
    for id in [idle, id] {
        close(&mut fixture, a, id);
    }
}

/// Whichever node leaves: the node that copies acknowledges EXIT only when its engine is
/// done, and the other one keeps its pages until then.
#[test]
fn leaving_waits_for_descriptors_under_way() {
    for leaver in [0, 1] {
        let Pair {
            mut fixture,
            a,
            at_b,
            ..
        } = pair(2);
        let (engine, order) = LateEngine::new(4);
        fixture.nodes[0].copier = Box::new(engine);
        let engine = fixture.engine(a);
        engine.rma(a.id, write()).unwrap();
        fixture.iterate(0);
        assert!(!order.borrow().is_idle());
        let node = &mut fixture.nodes[leaver];
        node.engine.leave(&mut node.memory);
        fixture.run();
        // Node 0 has not sent EXIT, or has not answered it.
        assert_eq!(fixture.nodes[1].released, []);
        let left = Some(LinkState::Left);
        assert_ne!(
            fixture.nodes[leaver].engine.link_state(1 - leaver as u16),
            left
        );
        order
            .borrow_mut()
            .complete_one(&mut fixture.nodes[0].memory);
        fixture.run();
        assert_eq!(
            fixture.nodes[leaver].engine.link_state(1 - leaver as u16),
            left
        );
        for number in [0, 1] {
            let node = &mut fixture.nodes[number];
            node.engine.link_down(&mut node.memory, 1 - number as u16);
        }
        fixture.run();
        assert_eq!(fixture.nodes[1].released, [at_b.pin]);
    }
}
