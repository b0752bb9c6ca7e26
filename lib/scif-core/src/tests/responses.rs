//! Peers that are alive and do not answer, and users who want all there is.

use super::std::prelude::v1::*;

use scif_abi::bypass::{FIRST_HANDLE, rma_busy_offset};
use scif_abi::limits::{ANSWER_TIMEOUT_NS, CLIENT_RETRY_NS};
use scif_abi::{Error, PortId};

use super::bypass;
use super::fixture::{BOTH, Bed, End, FIXED, PAGE, USER};
use crate::{ConnectMode, LinkState, Memory, Resource, Scope, Ticket};

/// Node 0 runs, node 1 takes no messages: it is silent.
fn alone(bed: &mut Bed, until: u64) {
    while bed.nodes[0]
        .engine
        .next_deadline()
        .is_some_and(|at| at <= until)
    {
        let at = bed.nodes[0].engine.next_deadline().unwrap();
        bed.now = bed.now.max(at);
        turn_alone(bed);
    }
    bed.now = bed.now.max(until);
    turn_alone(bed);
}

fn turn_alone(bed: &mut Bed) {
    let node = &mut bed.nodes[0];
    node.engine.tick(&mut node.memory, bed.now);
    while node.engine.next_event(&mut node.memory).is_some() {}
    node.engine.check_invariants().unwrap();
}

fn finish(bed: &mut Bed, end: End, ticket: Ticket) -> Option<Result<u64, Error>> {
    let engine = bed.engine(end);
    engine.finish(ticket)
}

fn state(bed: &Bed) -> Option<LinkState> {
    bed.nodes[0].engine.link_state(1)
}

/// A call of node 0 that its peer never answers ends with the link.
fn ends_with_the_link(ask: impl Fn(&mut Bed, End) -> Ticket) {
    let mut bed = Bed::new(2);
    let (a, b) = bed.connect(0, 1);
    let pages = bed.pin(b.node, &[1]);
    bed.register(b, &pages, 0, BOTH);
    let begun = bed.now;
    let ticket = ask(&mut bed, a);
    alone(&mut bed, begun + ANSWER_TIMEOUT_NS / 2);
    assert_eq!(finish(&mut bed, a, ticket), None);
    assert_eq!(state(&bed), Some(LinkState::Online));
    alone(&mut bed, begun + 2 * ANSWER_TIMEOUT_NS);
    assert_eq!(
        finish(&mut bed, a, ticket),
        Some(Err(Error::ConnectionReset))
    );
    assert_eq!(state(&bed), Some(LinkState::Failed));
    assert_eq!(bed.nodes[0].engine.stats().missing_answers, 1);
}

#[test]
fn a_window_that_the_peer_does_not_take_costs_the_link() {
    ends_with_the_link(|bed, a| {
        let pages = bed.pin(a.node, &[1]);
        bed.start_register(a, &pages, 0, BOTH, FIXED).unwrap()
    });
}

#[test]
fn a_mark_that_does_not_come_costs_the_link() {
    ends_with_the_link(|bed, a| {
        let engine = bed.engine(a);
        engine.fence_mark(a.id, 2).unwrap()
    });
}

#[test]
fn a_request_taken_back_in_vain_costs_the_link() {
    let mut bed = Bed::new(2);
    let node = &mut bed.nodes[0];
    let id = node.engine.open(USER).unwrap();
    let to = PortId::new(1, 2000);
    let mode = ConnectMode::Blocking;
    node.engine.connect(&mut node.memory, id, to, mode).unwrap();
    node.engine.connect_cancel(id);
    let begun = bed.now;
    alone(&mut bed, begun + ANSWER_TIMEOUT_NS / 2);
    assert_eq!(state(&bed), Some(LinkState::Online));
    alone(&mut bed, begun + 2 * ANSWER_TIMEOUT_NS);
    assert_eq!(state(&bed), Some(LinkState::Failed));
}

#[test]
fn an_unregister_does_not_wait_for_ever_and_costs_nothing() {
    let mut bed = Bed::new(2);
    let (a, _) = bed.connect(0, 1);
    let pages = bed.pin(a.node, &[1]);
    bed.register(a, &pages, 0, BOTH);
    let begun = bed.now;
    let (engine, memory) = bed.parts(a);
    let ticket = engine.unregister(memory, a.id, 0, PAGE).unwrap();
    alone(&mut bed, begun + ANSWER_TIMEOUT_NS / 2);
    assert_eq!(finish(&mut bed, a, ticket), None);
    alone(&mut bed, begun + 2 * ANSWER_TIMEOUT_NS);
    assert_eq!(finish(&mut bed, a, ticket), Some(Ok(0)));
    assert_eq!(state(&bed), Some(LinkState::Online));
    // The window is still the peer's, until it says otherwise.
    assert_eq!(bed.nodes[0].released, []);
    assert_eq!(bed.nodes[0].engine.stats().windows, 1);
    let node = &mut bed.nodes[1];
    node.engine.doorbell(&mut node.memory, 0);
    bed.run();
    bed.assert_clean();
    // Nothing is expected any more.
    assert_eq!(bed.nodes[0].engine.next_deadline(), None);
}

#[test]
fn an_unregister_asks_the_peer_however_long_clients_copied() {
    let mut bed = Bed::new(2);
    let (a, _) = bed.connect(0, 1);
    let pages = bed.pin(a.node, &[1]);
    bed.register(a, &pages, 0, BOTH);
    let (_, page) = bypass::open(&mut bed, a);
    let busy = page + rma_busy_offset(FIRST_HANDLE);
    bed.nodes[0].memory.store_index(busy, 1);
    let (engine, memory) = bed.parts(a);
    let ticket = engine.unregister(memory, a.id, 0, PAGE).unwrap();
    bed.run();
    // The machine stands still, and the client with it. The peer has not been asked yet, so it
    // owes nothing.
    bed.now += 2 * ANSWER_TIMEOUT_NS;
    bed.run();
    assert_eq!(finish(&mut bed, a, ticket), None);
    assert_eq!(bed.nodes[0].engine.stats().missing_answers, 0);
    bed.nodes[0].memory.store_index(busy, 0);
    bed.now += CLIENT_RETRY_NS;
    bed.run();
    assert_eq!(finish(&mut bed, a, ticket), Some(Ok(0)));
    assert_eq!(bed.nodes[0].released, [pages.pin]);
    assert_eq!(bed.nodes[1].engine.stats().remote_windows, 0);
}

#[test]
fn who_was_away_looks_before_it_blames_the_peer() {
    let mut bed = Bed::new(2);
    let (a, _) = bed.connect(0, 1);
    let engine = bed.engine(a);
    let ticket = engine.fence_mark(a.id, 2).unwrap();
    let node = &mut bed.nodes[0];
    while node.engine.next_event(&mut node.memory).is_some() {}
    // The peer answers, but this node stands still for a long time.
    let node = &mut bed.nodes[1];
    node.engine.doorbell(&mut node.memory, 0);
    while node.engine.next_event(&mut node.memory).is_some() {}
    bed.now += 10 * ANSWER_TIMEOUT_NS;
    turn_alone(&mut bed);
    assert!(matches!(finish(&mut bed, a, ticket), Some(Ok(_))));
    assert_eq!(state(&bed), Some(LinkState::Online));
}

#[test]
fn one_user_cannot_take_all_windows() {
    let mut bed = Bed::new(1);
    let (a, _) = bed.connect(0, 0);
    bed.nodes[0]
        .engine
        .set_limit(Resource::Windows, Scope::User, 2);
    let pages = bed.pin(0, &[1]);
    let page = |number: u64| (number * PAGE).cast_signed();
    for number in 0..2 {
        bed.register(a, &pages, page(number), BOTH);
    }
    let refused = bed.start_register(a, &pages, page(2), BOTH, FIXED);
    assert_eq!(refused, Err(Error::NoMemory));
    let user = USER.user;
    let windows = |bed: &Bed| {
        let engine = &bed.nodes[0].engine;
        engine.used(Resource::Windows, Scope::User, user)
    };
    assert_eq!(windows(&bed), 2);
    bed.unregister(a, 0, PAGE).unwrap();
    bed.register(a, &pages, page(2), BOTH);
    bed.close(a);
    bed.run();
    assert_eq!(windows(&bed), 0);
}
