//! Tests of costs: messages and doorbells of the control path are fixed numbers, whatever else
//! exists; the data path allocates nothing in the daemon.

use hal::testing::counting::allocations;
use scif_abi::call::Call;
use scif_core::CpuEngine;
use syscall::error::EWOULDBLOCK;

use super::bed::{Bed, PAGE};
use super::memory::shared;
use super::programs::*;

/// Messages and doorbells of both nodes, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    messages: [u64; 2],
    doorbells: [u64; 2],
}

fn total(bed: &mut Bed) -> Cost {
    Cost {
        messages: [0, 1].map(|node| bed.counter(node, "messages_sent")),
        doorbells: [0, 1].map(|node| bed.counter(node, "doorbells_rung")),
    }
}

/// What `step` costs: (messages, doorbells) of node 0, then of node 1.
fn cost<T>(bed: &mut Bed, step: impl FnOnce(&mut Bed) -> T) -> (T, [(u64, u64); 2]) {
    let before = total(bed);
    let result = step(bed);
    let after = total(bed);
    let each = [0, 1].map(|node| {
        let messages = after.messages[node] - before.messages[node];
        (messages, after.doorbells[node] - before.doorbells[node])
    });
    (result, each)
}

/// All steps of a connection's life, with their costs.
fn life(bed: &mut Bed, pages: usize) -> Vec<(&'static str, [(u64, u64); 2])> {
    let mut costs = Vec::new();
    let ((near, far), each) = cost(bed, |bed| ends(bed, 1));
    costs.push(("connect", each));
    let theirs = memory(bed, 1, pages);
    let (offset, each) = cost(bed, |bed| {
        register(bed, 1, far, record(theirs, pages * PAGE, 3)).unwrap()
    });
    costs.push(("register", each));
    let length = (3 * PAGE).min(pages * PAGE);
    let (address, each) = cost(bed, |bed| {
        bed.map(0, near, offset as u64, length, shared(READ_WRITE))
    });
    assert!(address.is_ok());
    costs.push(("map", each));
    let (_, each) = cost(bed, |bed| bed.unmap(0, near, offset as u64, length));
    costs.push(("unmap", each));
    let (_, each) = cost(bed, |bed| {
        let rma = rma(0, 64, offset as u64, SYNC);
        // Without an own window: fails before anything is asked of the peer.
        call(bed, 0, near, Call::ReadFrom { record: rma })
    });
    costs.push(("failed transfer", each));
    let (_, each) = cost(bed, |bed| {
        let (offset, length) = (offset as i64, (pages * PAGE) as u64);
        call(bed, 1, far, Call::Unregister { offset, length }).unwrap()
    });
    costs.push(("unregister", each));
    let (_, each) = cost(bed, |bed| bed.close(0, near));
    costs.push(("close", each));
    let (_, each) = cost(bed, |bed| bed.close(1, far));
    costs.push(("close of the other end", each));
    forget(bed, 1, theirs, pages);
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
    let mut bed = Bed::new(2);
    assert_eq!(life(&mut bed, 1), COSTS);
    assert_eq!(life(&mut bed, 1000), COSTS);
    // Nor does it matter what there is besides.
    for port in 3000..3200 {
        let (near, _) = bed.pair(0, 1, port);
        let own = memory(&mut bed, 0, 2);
        register(&mut bed, 0, near, record(own, 2 * PAGE, 3)).unwrap();
    }
    assert_eq!(life(&mut bed, 1000), COSTS);
}

/// What the driver does after each batch of requests; `true` when `handle` is to be looked at.
fn settle(bed: &mut Bed, node: usize, handle: usize) -> bool {
    let changes = bed.nodes[node].scif.take_changes(&mut CpuEngine);
    let changed = changes.handles.contains(&handle);
    changes.handles.clear();
    changes.requests.clear();
    bed.forget_rings();
    changed
}

fn doorbell(bed: &mut Bed, node: usize) {
    let (engine, memory) = bed.nodes[node].scif.engine();
    engine.doorbell(memory, 1 - node as u16);
}

#[test]
fn a_message_allocates_nothing() {
    let mut bed = Bed::new(2);
    let (near, far) = bed.pair(0, 1, 2050);
    let (message, mut buffer) = ([7; 64], [0; 64]);
    let mut round = |bed: &mut Bed| {
        let read = bed.nodes[1].scif.read(far, &mut buffer, u64::MAX, 0, 5);
        assert_eq!(read, error(EWOULDBLOCK));
        assert!(!settle(bed, 1, far));
        assert_eq!(bed.nodes[0].scif.write(near, &message, 0, 9), Ok(64));
        settle(bed, 0, near);
        doorbell(bed, 1);
        assert!(settle(bed, 1, far));
        let read = bed.nodes[1].scif.read(far, &mut buffer, u64::MAX, 0, 5);
        assert_eq!(read, Ok(64));
        settle(bed, 1, far);
        doorbell(bed, 0);
        settle(bed, 0, near);
    };
    // Tables and lists grow to the size that is needed, once.
    for _ in 0..4 {
        round(&mut bed);
    }
    let before = allocations();
    for _ in 0..1000 {
        round(&mut bed);
    }
    assert_eq!(allocations() - before, 0);
}
