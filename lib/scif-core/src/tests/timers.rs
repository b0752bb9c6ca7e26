//! Tests the deadline of each timer: it is the next deadline, nothing happens before it, and the
//! timer's work is done then. (`RingRetry` and `Quiesce` are in `bypass.rs`.)

use super::std::mem::offset_of;
use super::std::prelude::v1::*;

use core::task::Poll;

use scif_abi::limits::{
    ANSWER_TIMEOUT_NS, BASE_REQUEST_NS, CONNECT_TIMEOUT_NS, EXIT_TIMEOUT_NS, NODE_RING_RETRY_NS,
};
use scif_abi::qp::QueuePair;
use scif_abi::{Error, PortId};

use super::fixture::{BOTH, End, FIXED, Fixture, PAGE, USER};
use crate::{ConnectMode, Event, LinkState, Memory};

/// Nanoseconds for which senders wait for more room.
const CREDIT_NS: u64 = 1_000_000;

/// Runs one iteration of node 0 alone, at `now`. Returns its events.
fn iterate(fixture: &mut Fixture, now: u64) -> Vec<Event> {
    let node = &mut fixture.nodes[0];
    node.engine.tick(&mut node.memory, now);
    let next = || node.engine.next_event(&mut node.memory);
    let events = core::iter::from_fn(next).collect();
    node.engine.check_invariants().unwrap();
    events
}

fn deadline(fixture: &Fixture) -> Option<u64> {
    fixture.nodes[0].engine.next_deadline()
}

fn connect(fixture: &mut Fixture, node: usize, to: PortId) -> End {
    let id = fixture.nodes[node].engine.open(USER).unwrap();
    let end = End { node, id };
    let (engine, memory) = fixture.parts(end);
    engine
        .connect(memory, id, to, ConnectMode::Blocking)
        .unwrap();
    end
}

fn listen(fixture: &mut Fixture, node: usize) -> End {
    let engine = &mut fixture.nodes[node].engine;
    let id = engine.open(USER).unwrap();
    engine.bind(id, 1777).unwrap();
    engine.listen(id, 4).unwrap();
    End { node, id }
}

/// Nodes 0 and 1, which speak the base protocol only.
fn base_peer() -> Fixture {
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
    for (node, at) in [(0, at_0), (1, at_1)] {
        let word = at - super::fixture::BUS + offset_of!(QueuePair, extensions) as u64;
        fixture.nodes[node].memory.write(word, &[0; 4]);
    }
    for (node, other, at) in [(0, 1, at_1), (1, 0, at_0)] {
        let node = &mut fixture.nodes[node];
        node.engine.link_up(&mut node.memory, other, at).unwrap();
    }
    fixture.run();
    fixture
}

#[test]
fn a_handshake_has_its_time() {
    let mut fixture = Fixture::new(2);
    let begun = fixture.nodes[0].engine.now();
    let end = connect(&mut fixture, 0, PortId::new(1, 1777));
    iterate(&mut fixture, begun);
    let due = begun + CONNECT_TIMEOUT_NS;
    assert_eq!(deadline(&fixture), Some(due));
    iterate(&mut fixture, due - 1);
    assert_eq!(
        fixture.nodes[0].engine.connect_result(end.id),
        Poll::Pending
    );
    let events = iterate(&mut fixture, due);
    assert!(events.contains(&Event::Changed(end.id)));
    let result = fixture.nodes[0].engine.connect_result(end.id);
    assert_eq!(result, Poll::Ready(Err(Error::NoDevice)));
}

#[test]
fn a_request_that_cannot_be_withdrawn_expires() {
    let mut fixture = base_peer();
    let listener = listen(&mut fixture, 0);
    connect(&mut fixture, 1, PortId::new(0, 1777));
    let looked = fixture.now;
    fixture.run();
    let due = deadline(&fixture).unwrap();
    assert!((looked + BASE_REQUEST_NS - 10..=fixture.now + BASE_REQUEST_NS).contains(&due));
    iterate(&mut fixture, due - 1);
    assert_eq!(fixture.nodes[0].engine.stats().void_requests, 0);
    iterate(&mut fixture, due);
    assert_eq!(fixture.nodes[0].engine.stats().void_requests, 1);
    let (engine, memory) = fixture.parts(listener);
    let accepted = engine.accept_start(memory, listener.id, USER);
    assert_eq!(accepted, Err(Error::WouldBlock));
    assert_eq!(deadline(&fixture), None);
}

#[test]
fn a_response_has_its_time() {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let pages = fixture.pin(0, &[1]);
    let begun = fixture.nodes[0].engine.now();
    let ticket = fixture.start_register(a, &pages, 0, BOTH, FIXED).unwrap();
    let due = begun + ANSWER_TIMEOUT_NS;
    iterate(&mut fixture, begun);
    assert_eq!(deadline(&fixture), Some(due));
    iterate(&mut fixture, due - 1);
    let engine = fixture.engine(a);
    assert_eq!(engine.finish(ticket), None);
    let events = iterate(&mut fixture, due);
    assert!(events.contains(&Event::LinkFailed(1)));
    assert_eq!(deadline(&fixture), None);
}

#[test]
fn a_link_retries_a_full_ring_and_ends_an_exit_without_answer() {
    let mut fixture = Fixture::new(2);
    let begun = fixture.nodes[0].engine.now();
    // The peer receives nothing until the ring is full.
    while deadline(&fixture).is_none() {
        let node = &mut fixture.nodes[0];
        node.engine.probe_peer(&mut node.memory, 1).unwrap();
        iterate(&mut fixture, begun);
    }
    let due = begun + NODE_RING_RETRY_NS;
    assert_eq!(deadline(&fixture), Some(due));
    let sent = |fixture: &Fixture| fixture.nodes[0].engine.stats().messages_sent;
    let before = sent(&fixture);
    let node = &mut fixture.nodes[1];
    node.engine.doorbell(&mut node.memory, 0);
    assert_eq!(sent(&fixture), before);
    iterate(&mut fixture, due);
    assert_eq!(sent(&fixture), before + 1);
    assert_eq!(deadline(&fixture), None);
    let node = &mut fixture.nodes[0];
    node.engine.leave(&mut node.memory);
    iterate(&mut fixture, due);
    assert_eq!(deadline(&fixture), Some(due + EXIT_TIMEOUT_NS));
    iterate(&mut fixture, due + EXIT_TIMEOUT_NS - 1);
    assert!(fixture.nodes[0].engine.is_leaving());
    iterate(&mut fixture, due + EXIT_TIMEOUT_NS);
    assert_eq!(fixture.nodes[0].engine.link_state(1), Some(LinkState::Left));
    assert_eq!(deadline(&fixture), None);
}

#[test]
fn room_that_is_told_of_grows_for_a_while() {
    for is_base in [false, true] {
        let mut fixture = if is_base {
            base_peer()
        } else {
            Fixture::new(2)
        };
        let listener = listen(&mut fixture, 1);
        let a = connect(&mut fixture, 0, PortId::new(1, 1777));
        fixture.run();
        let (engine, memory) = fixture.parts(listener);
        let id = engine.accept_start(memory, listener.id, USER).unwrap();
        let b = End { node: 1, id };
        fixture.run();
        let (sender, receiver) = if is_base { (a, b) } else { (b, a) };
        let (engine, memory) = fixture.parts(sender);
        while engine.send(memory, sender.id, &[7; PAGE as usize]).unwrap() > 0 {}
        fixture.run();
        // CreditGrowth at a sender whose peer has the base protocol only, else CreditUpdate at the
        // receiver.
        let (engine, memory) = fixture.parts(receiver);
        assert_eq!(engine.recv(memory, receiver.id, &mut [0; 1]), Ok(1));
        let begun = fixture.now;
        fixture.run();
        let due = deadline(&fixture).unwrap();
        assert!((begun..=fixture.now + CREDIT_NS).contains(&due));
        let sent = |fixture: &Fixture| fixture.nodes[0].engine.stats().messages_sent;
        let before = sent(&fixture);
        let early = iterate(&mut fixture, due - 1);
        assert!(!early.contains(&Event::Changed(a.id)));
        let events = iterate(&mut fixture, due);
        assert_eq!(events.contains(&Event::Changed(a.id)), is_base);
        assert_eq!(sent(&fixture) > before, !is_base);
    }
}

#[test]
fn a_base_peer_is_not_told_that_no_more_bytes_come() {
    let mut fixture = base_peer();
    let (a, _) = fixture.connect(0, 1);
    assert_eq!(
        fixture.nodes[0].engine.end_sending(a.id),
        Err(Error::NotSupported)
    );
    fixture.run();
    let stats = fixture.nodes[1].engine.stats();
    assert_eq!([stats.unknown_messages, stats.unexpected_messages], [0; 2]);
}
