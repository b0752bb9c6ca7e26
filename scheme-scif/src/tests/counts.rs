//! Tests of costs: messages and doorbells of the control path are fixed numbers, whatever else
//! exists; the data path allocates nothing in the daemon.

use hal::testing::counting::allocations;
use scif_abi::call::Call;
use scif_core::CpuEngine;
use syscall::error::EWOULDBLOCK;

use super::fixture::{Fixture, PAGE};
use super::memory::shared;
use super::programs::*;

/// Messages and doorbells of both nodes, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    messages: [u64; 2],
    doorbells: [u64; 2],
}

fn total(fixture: &mut Fixture) -> Cost {
    Cost {
        messages: [0, 1].map(|node| fixture.counter(node, "messages_sent")),
        doorbells: [0, 1].map(|node| fixture.counter(node, "doorbells_rung")),
    }
}

/// The cost of `step`: (messages, doorbells) of node 0, then of node 1.
fn cost<T>(fixture: &mut Fixture, step: impl FnOnce(&mut Fixture) -> T) -> (T, [(u64, u64); 2]) {
    let before = total(fixture);
    let result = step(fixture);
    let after = total(fixture);
    let each = [0, 1].map(|node| {
        let messages = after.messages[node] - before.messages[node];
        (messages, after.doorbells[node] - before.doorbells[node])
    });
    (result, each)
}

/// All steps of a connection's life, with their costs.
fn life(fixture: &mut Fixture, pages: usize) -> Vec<(&'static str, [(u64, u64); 2])> {
    let mut costs = Vec::new();
    let ((near, far), each) = cost(fixture, |fixture| ends(fixture, 1));
    costs.push(("connect", each));
    let theirs = memory(fixture, 1, pages);
    let (offset, each) = cost(fixture, |fixture| {
        register(fixture, 1, far, record(theirs, pages * PAGE, 3)).unwrap()
    });
    costs.push(("register", each));
    let length = (3 * PAGE).min(pages * PAGE);
    let (address, each) = cost(fixture, |fixture| {
        fixture.map(0, near, offset as u64, length, shared(READ_WRITE))
    });
    assert!(address.is_ok());
    costs.push(("map", each));
    let (_, each) = cost(fixture, |fixture| {
        fixture.unmap(0, near, offset as u64, length)
    });
    costs.push(("unmap", each));
    let (_, each) = cost(fixture, |fixture| {
        let rma = rma(0, 64, offset as u64, SYNC);
        // Without an own window: it fails before a message is sent to the peer.
        call(fixture, 0, near, Call::ReadFrom { record: rma })
    });
    costs.push(("failed transfer", each));
    let (_, each) = cost(fixture, |fixture| {
        let (offset, length) = (offset as i64, (pages * PAGE) as u64);
        call(fixture, 1, far, Call::Unregister { offset, length }).unwrap()
    });
    costs.push(("unregister", each));
    let (_, each) = cost(fixture, |fixture| fixture.close(0, near));
    costs.push(("close", each));
    let (_, each) = cost(fixture, |fixture| fixture.close(1, far));
    costs.push(("close of the other end", each));
    forget(fixture, 1, theirs, pages);
    costs
}

#[test]
fn connect_register_map_and_close_cost_fixed_numbers_of_messages() {
    const COSTS: [(&str, [(u64, u64); 2]); 8] = [
        ("connect", [(2, 2), (1, 1)]),
        ("register", [(2, 2), (2, 2)]),
        ("map", [(0, 0), (0, 0)]),
        ("unmap", [(0, 0), (0, 0)]),
        ("failed transfer", [(0, 0), (0, 0)]),
        ("unregister", [(1, 1), (1, 1)]),
        ("close", [(1, 1), (1, 1)]),
        ("close of the other end", [(0, 0), (0, 0)]),
    ];
    let mut fixture = Fixture::new(2);
    assert_eq!(life(&mut fixture, 1), COSTS);
    assert_eq!(life(&mut fixture, 1000), COSTS);
    // Nor does it matter what else exists.
    for port in 3000..3200 {
        let (near, _) = fixture.pair(0, 1, port);
        let own = memory(&mut fixture, 0, 2);
        register(&mut fixture, 0, near, record(own, 2 * PAGE, 3)).unwrap();
    }
    assert_eq!(life(&mut fixture, 1000), COSTS);
}

/// The driver's work after each batch of requests; `true` when `handle` has an event.
fn finish_batch(fixture: &mut Fixture, node: usize, handle: usize) -> bool {
    let changes = fixture.nodes[node].scif.take_changes(&mut CpuEngine);
    let changed = changes.handles.contains(&handle);
    changes.handles.clear();
    changes.requests.clear();
    fixture.forget_rings();
    changed
}

fn doorbell(fixture: &mut Fixture, node: usize) {
    let (engine, memory) = fixture.nodes[node].scif.engine();
    engine.doorbell(memory, 1 - node as u16);
}

#[test]
fn a_message_allocates_nothing() {
    let mut fixture = Fixture::new(2);
    let (near, far) = fixture.pair(0, 1, 2050);
    let (message, mut buffer) = ([7; 64], [0; 64]);
    let mut round = |fixture: &mut Fixture| {
        let read = fixture.nodes[1].scif.read(far, &mut buffer, u64::MAX, 0, 5);
        assert_eq!(read, error(EWOULDBLOCK));
        assert!(!finish_batch(fixture, 1, far));
        assert_eq!(fixture.nodes[0].scif.write(near, &message, 0, 9), Ok(64));
        finish_batch(fixture, 0, near);
        doorbell(fixture, 1);
        assert!(finish_batch(fixture, 1, far));
        let read = fixture.nodes[1].scif.read(far, &mut buffer, u64::MAX, 0, 5);
        assert_eq!(read, Ok(64));
        finish_batch(fixture, 1, far);
        doorbell(fixture, 0);
        finish_batch(fixture, 0, near);
    };
    // Tables and lists grow to the size that is needed, once.
    for _ in 0..4 {
        round(&mut fixture);
    }
    let before = allocations();
    for _ in 0..1000 {
        round(&mut fixture);
    }
    assert_eq!(allocations() - before, 0);
}
