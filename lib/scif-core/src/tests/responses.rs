//! Peers that are alive and do not answer, and users who ask for everything.

use super::std::prelude::v1::*;

use scif_abi::bypass::{FIRST_HANDLE, rma_busy_offset};
use scif_abi::limits::{ANSWER_TIMEOUT_NS, CLIENT_RETRY_NS};
use scif_abi::{Error, PortId};

use super::bypass;
use super::fixture::{BOTH, End, FIXED, Fixture, PAGE, USER};
use crate::{ConnectMode, LinkState, Memory, Resource, Scope, Ticket};

/// Runs node 0; node 1 receives no messages: it is silent.
fn alone(fixture: &mut Fixture, until: u64) {
    while fixture.nodes[0]
        .engine
        .next_deadline()
        .is_some_and(|at| at <= until)
    {
        let at = fixture.nodes[0].engine.next_deadline().unwrap();
        fixture.now = fixture.now.max(at);
        turn_alone(fixture);
    }
    fixture.now = fixture.now.max(until);
    turn_alone(fixture);
}

fn turn_alone(fixture: &mut Fixture) {
    let node = &mut fixture.nodes[0];
    node.engine.tick(&mut node.memory, fixture.now);
    while node.engine.next_event(&mut node.memory).is_some() {}
    node.engine.check_invariants().unwrap();
}

fn finish(fixture: &mut Fixture, end: End, ticket: Ticket) -> Option<Result<u64, Error>> {
    let engine = fixture.engine(end);
    engine.finish(ticket)
}

fn state(fixture: &Fixture) -> Option<LinkState> {
    fixture.nodes[0].engine.link_state(1)
}

/// A call of node 0 that its peer never answers ends with the link.
fn ends_with_the_link(ask: impl Fn(&mut Fixture, End) -> Ticket) {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let pages = fixture.pin(b.node, &[1]);
    fixture.register(b, &pages, 0, BOTH);
    let begun = fixture.now;
    let ticket = ask(&mut fixture, a);
    alone(&mut fixture, begun + ANSWER_TIMEOUT_NS / 2);
    assert_eq!(finish(&mut fixture, a, ticket), None);
    assert_eq!(state(&fixture), Some(LinkState::Online));
    alone(&mut fixture, begun + 2 * ANSWER_TIMEOUT_NS);
    assert_eq!(
        finish(&mut fixture, a, ticket),
        Some(Err(Error::ConnectionReset))
    );
    assert_eq!(state(&fixture), Some(LinkState::Failed));
    assert_eq!(fixture.nodes[0].engine.stats().missing_answers, 1);
}

#[test]
fn a_window_that_the_peer_does_not_take_costs_the_link() {
    ends_with_the_link(|fixture, a| {
        let pages = fixture.pin(a.node, &[1]);
        fixture.start_register(a, &pages, 0, BOTH, FIXED).unwrap()
    });
}

#[test]
fn a_mark_that_does_not_come_costs_the_link() {
    ends_with_the_link(|fixture, a| {
        let engine = fixture.engine(a);
        engine.fence_mark(a.id, 2).unwrap()
    });
}

#[test]
fn a_request_taken_back_in_vain_costs_the_link() {
    let mut fixture = Fixture::new(2);
    let node = &mut fixture.nodes[0];
    let id = node.engine.open(USER).unwrap();
    let to = PortId::new(1, 2000);
    let mode = ConnectMode::Blocking;
    node.engine.connect(&mut node.memory, id, to, mode).unwrap();
    node.engine.connect_cancel(id);
    let begun = fixture.now;
    alone(&mut fixture, begun + ANSWER_TIMEOUT_NS / 2);
    assert_eq!(state(&fixture), Some(LinkState::Online));
    alone(&mut fixture, begun + 2 * ANSWER_TIMEOUT_NS);
    assert_eq!(state(&fixture), Some(LinkState::Failed));
}

#[test]
fn an_unregister_does_not_wait_for_ever_and_costs_nothing() {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let pages = fixture.pin(a.node, &[1]);
    fixture.register(a, &pages, 0, BOTH);
    let begun = fixture.now;
    let (engine, memory) = fixture.parts(a);
    let ticket = engine.unregister(memory, a.id, 0, PAGE).unwrap();
    alone(&mut fixture, begun + ANSWER_TIMEOUT_NS / 2);
    assert_eq!(finish(&mut fixture, a, ticket), None);
    alone(&mut fixture, begun + 2 * ANSWER_TIMEOUT_NS);
    assert_eq!(finish(&mut fixture, a, ticket), Some(Ok(0)));
    assert_eq!(state(&fixture), Some(LinkState::Online));
    // The window is still the peer's, until it reports otherwise.
    assert_eq!(fixture.nodes[0].released, []);
    assert_eq!(fixture.nodes[0].engine.stats().windows, 1);
    let node = &mut fixture.nodes[1];
    node.engine.doorbell(&mut node.memory, 0);
    fixture.run();
    fixture.assert_clean();
    // Nothing is expected any more.
    assert_eq!(fixture.nodes[0].engine.next_deadline(), None);
}

#[test]
fn an_unregister_asks_the_peer_however_long_clients_copied() {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let pages = fixture.pin(a.node, &[1]);
    fixture.register(a, &pages, 0, BOTH);
    let (_, page) = bypass::open(&mut fixture, a);
    let busy = page + rma_busy_offset(FIRST_HANDLE);
    fixture.nodes[0].memory.store_index(busy, 1);
    let (engine, memory) = fixture.parts(a);
    let ticket = engine.unregister(memory, a.id, 0, PAGE).unwrap();
    fixture.run();
    // The machine stands still, and the client with it. The peer was not asked yet, so it owes
    // nothing.
    fixture.now += 2 * ANSWER_TIMEOUT_NS;
    fixture.run();
    assert_eq!(finish(&mut fixture, a, ticket), None);
    assert_eq!(fixture.nodes[0].engine.stats().missing_answers, 0);
    fixture.nodes[0].memory.store_index(busy, 0);
    fixture.now += CLIENT_RETRY_NS;
    fixture.run();
    assert_eq!(finish(&mut fixture, a, ticket), Some(Ok(0)));
    assert_eq!(fixture.nodes[0].released, [pages.pin]);
    assert_eq!(fixture.nodes[1].engine.stats().remote_windows, 0);
}

#[test]
fn who_was_away_looks_before_it_blames_the_peer() {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let engine = fixture.engine(a);
    let ticket = engine.fence_mark(a.id, 2).unwrap();
    let node = &mut fixture.nodes[0];
    while node.engine.next_event(&mut node.memory).is_some() {}
    // The peer answers, but this node stands still for a long time.
    let node = &mut fixture.nodes[1];
    node.engine.doorbell(&mut node.memory, 0);
    while node.engine.next_event(&mut node.memory).is_some() {}
    fixture.now += 10 * ANSWER_TIMEOUT_NS;
    turn_alone(&mut fixture);
    assert!(matches!(finish(&mut fixture, a, ticket), Some(Ok(_))));
    assert_eq!(state(&fixture), Some(LinkState::Online));
}

#[test]
fn one_user_cannot_take_all_windows() {
    let mut fixture = Fixture::new(1);
    let (a, _) = fixture.connect(0, 0);
    fixture.nodes[0]
        .engine
        .set_limit(Resource::Windows, Scope::User, 2);
    let pages = fixture.pin(0, &[1]);
    let page = |number: u64| (number * PAGE).cast_signed();
    for number in 0..2 {
        fixture.register(a, &pages, page(number), BOTH);
    }
    let refused = fixture.start_register(a, &pages, page(2), BOTH, FIXED);
    assert_eq!(refused, Err(Error::NoMemory));
    let user = USER.user;
    let windows = |fixture: &Fixture| {
        let engine = &fixture.nodes[0].engine;
        engine.used(Resource::Windows, Scope::User, user)
    };
    assert_eq!(windows(&fixture), 2);
    fixture.unregister(a, 0, PAGE).unwrap();
    fixture.register(a, &pages, page(2), BOTH);
    fixture.close(a);
    fixture.run();
    assert_eq!(windows(&fixture), 0);
}
