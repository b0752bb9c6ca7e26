//! Notifications: when a peer gets one, and when its doorbell is rung.

use super::std::vec;

use scif_abi::Error;
use scif_abi::flags::Readiness;

use super::fixture::{End, Fixture, USER};
use crate::{DownReason, Event};

/// Nanoseconds after which a writer is notified of any room, however little.
const SOON: u64 = 1_000_000;
/// Nanoseconds after which a doorbell is no longer trusted.
const LONG: u64 = 10_000_000;

fn send(fixture: &mut Fixture, end: End, bytes: usize) -> usize {
    let (engine, memory) = fixture.parts(end);
    engine.send(memory, end.id, &vec![7; bytes]).unwrap()
}

fn receive(fixture: &mut Fixture, end: End, bytes: usize) {
    let (engine, memory) = fixture.parts(end);
    let mut buffer = vec![0; bytes];
    assert_eq!(engine.recv(memory, end.id, &mut buffer), Ok(bytes));
}

fn messages(fixture: &Fixture, node: usize) -> u64 {
    fixture.nodes[node].engine.stats().messages_sent
}

/// How many `Event::Ring` the engine of a node reports.
fn rings(fixture: &mut Fixture, node: usize) -> usize {
    let node = &mut fixture.nodes[node];
    let next = || node.engine.next_event(&mut node.memory);
    let events = core::iter::from_fn(next);
    events
        .filter(|event| matches!(event, Event::Ring(_)))
        .count()
}

#[test]
fn a_writer_that_waits_hears_of_half_a_ring_at_once() {
    for nodes in [1, 2] {
        let mut fixture = Fixture::new(nodes);
        let (a, b) = fixture.connect(0, nodes - 1);
        let ring = fixture.nodes[0].engine.config().endpoint_ring_bytes as usize;
        assert_eq!(send(&mut fixture, a, 2 * ring), ring - 1);
        let before = messages(&fixture, b.node);
        // No sender waits for room yet.
        receive(&mut fixture, b, 1);
        fixture.run();
        assert_eq!(messages(&fixture, b.node), before);
        assert_eq!(send(&mut fixture, a, 1), 1);
        // Now a waits. It is not notified of less than half of the ring,
        assert_eq!(send(&mut fixture, a, 1), 0);
        receive(&mut fixture, b, ring / 2 - 2);
        fixture.run();
        assert_eq!(messages(&fixture, b.node), before);
        // and once of half of it.
        for _ in 0..2 {
            receive(&mut fixture, b, 1);
            fixture.run();
        }
        assert_eq!(messages(&fixture, b.node), before + u64::from(nodes == 2));
    }
}

#[test]
fn a_writer_that_waits_hears_of_any_room_soon() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    while send(&mut fixture, a, 4096) > 0 {}
    receive(&mut fixture, b, 1);
    fixture.run();
    let before = messages(&fixture, 1);
    let due = fixture.nodes[1].engine.next_deadline().unwrap();
    assert!(due <= fixture.now + SOON);
    fixture.now = due;
    fixture.run();
    assert_eq!(messages(&fixture, 1), before + 1);
    assert_eq!(fixture.nodes[1].engine.next_deadline(), None);
    // The notification is sent once, not each millisecond.
    receive(&mut fixture, b, 1);
    fixture.run();
    assert_eq!(fixture.nodes[1].engine.next_deadline(), None);
    assert_eq!(messages(&fixture, 1), before + 1);
    // A connection that ends meanwhile is forgotten.
    while send(&mut fixture, a, 4096) > 0 {}
    receive(&mut fixture, b, 1);
    fixture.iterate(1);
    fixture.close(a);
    fixture.run();
    fixture.now += SOON;
    fixture.run();
    assert_eq!(fixture.nodes[1].engine.next_deadline(), None);
}

#[test]
fn one_doorbell_announces_all_until_the_peer_found_its_ring_empty() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (engine, memory) = fixture.parts(b);
    engine.set_waiting(memory, b.id, Readiness::IN);
    fixture.run();
    let tell = |fixture: &mut Fixture| {
        let before = messages(fixture, 0);
        let (engine, _) = fixture.parts(a);
        engine.kick(a.id, scif_abi::flags::Kicks::BYTES).unwrap();
        let rung = rings(fixture, 0);
        assert_eq!(messages(fixture, 0), before + 1);
        rung
    };
    let saved = fixture.nodes[0].engine.stats().doorbells_saved;
    assert_eq!(
        (tell(&mut fixture), tell(&mut fixture), tell(&mut fixture)),
        (1, 0, 0)
    );
    assert_eq!(fixture.nodes[0].engine.stats().doorbells_saved, saved + 2);
    // The peer reads, and asks for a doorbell again because it finds nothing more.
    let heard = fixture.nodes[1].engine.stats().messages_received;
    let node = &mut fixture.nodes[1];
    node.engine.doorbell(&mut node.memory, 0);
    assert_eq!(node.engine.stats().messages_received, heard + 3);
    assert_eq!((tell(&mut fixture), tell(&mut fixture)), (1, 0));
    // A doorbell that is old may have been lost.
    fixture.now += LONG;
    let node = &mut fixture.nodes[0];
    node.engine.tick(&mut node.memory, fixture.now);
    assert_eq!((tell(&mut fixture), tell(&mut fixture)), (1, 0));
}

#[test]
fn a_new_link_begins_with_doorbells() {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let (engine, _) = fixture.parts(a);
    engine.kick(a.id, scif_abi::flags::Kicks::BYTES).unwrap();
    assert_eq!(rings(&mut fixture, 0), 1);
    // The peer never reads: it restarts.
    for (node, peer) in [(0, 1), (1, 0)] {
        let node = &mut fixture.nodes[node];
        node.engine.link_down(&mut node.memory, peer);
        assert!(node.engine.next_event(&mut node.memory).is_some());
    }
    fixture.link(0, 1);
    fixture.run();
    let online = |node: usize| fixture.nodes[node].engine.online_nodes().count();
    assert_eq!((online(0), online(1)), (2, 2));
    let (c, d) = fixture.connect(0, 1);
    assert_eq!(send(&mut fixture, c, 5), 5);
    receive(&mut fixture, d, 5);
}

#[test]
fn who_watches_is_not_rung_until_it_rests() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (engine, memory) = fixture.parts(b);
    engine.set_waiting(memory, b.id, Readiness::IN);
    fixture.run();
    let tell = |fixture: &mut Fixture| {
        let (engine, _) = fixture.parts(a);
        engine.kick(a.id, scif_abi::flags::Kicks::BYTES).unwrap();
        rings(fixture, 0)
    };
    let received = |fixture: &Fixture| fixture.nodes[1].engine.stats().messages_received;
    let sees = |fixture: &mut Fixture| {
        let node = &mut fixture.nodes[1];
        node.engine.has_unpolled_messages(&mut node.memory)
    };
    let look = |fixture: &mut Fixture| {
        let node = &mut fixture.nodes[1];
        node.engine.poll_rings(&mut node.memory);
    };
    fixture.nodes[1].engine.start_polling();
    // It was asleep until now, so the doorbell is needed.
    assert_eq!(tell(&mut fixture), 1);
    assert!(!sees(&mut fixture));
    let before = received(&fixture);
    let node = &mut fixture.nodes[1];
    node.engine.doorbell(&mut node.memory, 0);
    assert_eq!(received(&fixture), before + 1);
    // Polls find messages, too, and do not count as doorbells.
    let doorbells = fixture.nodes[1].engine.stats().doorbells_received;
    let node = &mut fixture.nodes[1];
    node.engine.poll_node(&mut node.memory, 0);
    assert_eq!(node.engine.stats().doorbells_received, doorbells);
    node.engine.doorbell(&mut node.memory, 0);
    assert_eq!(node.engine.stats().doorbells_received, doorbells + 1);
    // Now it polls, and no doorbell is rung.
    for round in 2..5 {
        assert!(!sees(&mut fixture));
        assert_eq!(tell(&mut fixture), 0);
        assert!(sees(&mut fixture));
        look(&mut fixture);
        assert_eq!(received(&fixture), before + round);
    }
    // A message that comes just before it sleeps is left to the next iteration.
    assert_eq!(tell(&mut fixture), 0);
    let node = &mut fixture.nodes[1];
    node.engine.stop_polling(&mut node.memory);
    assert_eq!(node.engine.next_deadline(), Some(fixture.now));
    node.engine.tick(&mut node.memory, fixture.now);
    assert_eq!(received(&fixture), before + 5);
    // And it was asked to ring.
    assert_eq!((tell(&mut fixture), tell(&mut fixture)), (1, 0));
    // A link that has ended is not polled.
    let node = &mut fixture.nodes[1];
    node.engine.start_polling();
    node.engine.doorbell(&mut node.memory, 0);
    node.engine.link_failed(0, DownReason::Silent);
    assert_eq!(tell(&mut fixture), 0);
    assert!(!sees(&mut fixture));
    look(&mut fixture);
}

#[test]
fn a_driver_that_polls_sees_the_bytes_that_programs_wait_for() {
    let mut fixture = Fixture::new(2);
    let ends = [(); 2].map(|()| fixture.connect(0, 1));
    // A subscriber has one end, and a call waits at the other.
    let (subscriber, waiter) = (ends[0].1, ends[1].1);
    fixture.nodes[1].engine.start_polling();
    let (engine, memory) = fixture.parts(subscriber);
    engine.set_waiting(memory, subscriber.id, Readiness::IN);
    let waits = |fixture: &mut Fixture| {
        let (engine, memory) = fixture.parts(waiter);
        engine.arm(memory, waiter.id, Readiness::IN)
    };
    // The events that an iteration finds, and those that it reports to the driver.
    let look = |fixture: &mut Fixture| {
        let node = &mut fixture.nodes[1];
        let sees = node.engine.has_unpolled_messages(&mut node.memory);
        node.engine.tick(&mut node.memory, fixture.now);
        node.engine.poll_rings(&mut node.memory);
        let next = || node.engine.next_event(&mut node.memory);
        let changed: vec::Vec<_> = core::iter::from_fn(next).collect();
        node.engine.check_invariants().unwrap();
        (sees, changed)
    };
    let told = |end: End| (true, vec![Event::Changed(end.id)]);
    let nothing = (false, vec![]);
    fixture.run();
    let messages_before = messages(&fixture, 0);
    for _ in 0..3 {
        assert_eq!(waits(&mut fixture), Readiness::empty());
        assert_eq!(look(&mut fixture), nothing);
        assert_eq!(send(&mut fixture, ends[1].0, 5), 5);
        assert_eq!(look(&mut fixture), told(waiter));
        assert_eq!(look(&mut fixture), nothing);
        assert_eq!(waits(&mut fixture), Readiness::IN);
        receive(&mut fixture, waiter, 5);
        // A subscriber is notified of all that comes, whether the last bytes were taken or not.
        assert_eq!(send(&mut fixture, ends[0].0, 5), 5);
        assert_eq!(look(&mut fixture), told(subscriber));
        assert_eq!(look(&mut fixture), nothing);
    }
    fixture.nodes[1].engine.start_polling();
    // No peer was asked for notifications.
    assert_eq!(rings(&mut fixture, 0), 0);
    assert_eq!(messages(&fixture, 0), messages_before);
    // What comes just before the driver sleeps is left to the next iteration,
    assert_eq!(waits(&mut fixture), Readiness::empty());
    assert_eq!(send(&mut fixture, ends[1].0, 5), 5);
    let node = &mut fixture.nodes[1];
    node.engine.stop_polling(&mut node.memory);
    assert_eq!(node.engine.next_deadline(), Some(fixture.now));
    assert_eq!(look(&mut fixture), (false, vec![Event::Changed(waiter.id)]));
    receive(&mut fixture, waiter, 5);
    // and peers notify it from then on.
    assert_eq!(send(&mut fixture, ends[0].0, 5), 5);
    assert!(rings(&mut fixture, 0) > 0);
    assert!(messages(&fixture, 0) > messages_before);
    assert_eq!(waits(&mut fixture), Readiness::empty());
}

#[test]
fn a_side_that_receives_no_more_can_still_send() {
    for nodes in [1, 2] {
        let mut fixture = Fixture::new(nodes);
        let (a, b) = fixture.connect(0, nodes - 1);
        let (engine, memory) = fixture.parts(b);
        assert_eq!(engine.send(memory, b.id, b"before"), Ok(6));
        fixture.run();
        let (engine, memory) = fixture.parts(a);
        assert_eq!(engine.end_receiving(a.id), Ok(()));
        assert_eq!(engine.end_receiving(a.id), Ok(()));
        let all = Readiness::IN | Readiness::OUT | Readiness::READ_HUP;
        assert_eq!(engine.poll(memory, a.id), all);
        let mut buffer = [0; 16];
        assert_eq!(engine.recv(memory, a.id, &mut buffer), Ok(6));
        let end = engine.recv(memory, a.id, &mut buffer);
        assert_eq!(end, Err(Error::ConnectionReset));
        assert_eq!(engine.send(memory, a.id, b"answer"), Ok(6));
        fixture.run();
        // The peer notices nothing.
        let (engine, memory) = fixture.parts(b);
        assert_eq!(engine.poll(memory, b.id), Readiness::IN | Readiness::OUT);
        assert_eq!(engine.recv(memory, b.id, &mut buffer), Ok(6));
        assert_eq!(engine.recv(memory, b.id, &mut buffer), Ok(0));
        assert_eq!(engine.send(memory, b.id, b"more"), Ok(4));
        let (engine, _) = fixture.parts(a);
        let fresh = engine.open(USER).unwrap();
        assert_eq!(engine.end_receiving(fresh), Err(Error::NotConnected));
        fixture.close(b);
        fixture.run();
        let (engine, _) = fixture.parts(a);
        assert_eq!(engine.end_receiving(a.id), Err(Error::ConnectionReset));
    }
}

#[test]
fn a_side_that_finishes_can_still_receive() {
    for nodes in [1, 2] {
        let mut fixture = Fixture::new(nodes);
        let (a, b) = fixture.connect(0, nodes - 1);
        let (engine, memory) = fixture.parts(a);
        assert_eq!(engine.send(memory, a.id, b"question"), Ok(8));
        // Once or more often.
        assert_eq!(engine.end_sending(a.id), Ok(()));
        assert_eq!(engine.end_sending(a.id), Ok(()));
        fixture.run();
        let (engine, memory) = fixture.parts(b);
        let all = Readiness::IN | Readiness::OUT | Readiness::READ_HUP;
        assert_eq!(engine.poll(memory, b.id), all);
        let mut buffer = [0; 16];
        assert_eq!(engine.recv(memory, b.id, &mut buffer), Ok(8));
        let end = engine.recv(memory, b.id, &mut buffer);
        assert_eq!(end, Err(Error::ConnectionReset));
        assert_eq!(engine.poll(memory, b.id), all);
        assert_eq!(engine.send(memory, b.id, b"answer"), Ok(6));
        assert_eq!(engine.end_sending(b.id), Ok(()));
        fixture.run();
        let (engine, memory) = fixture.parts(a);
        assert_eq!(engine.recv(memory, a.id, &mut buffer), Ok(6));
        let end = engine.recv(memory, a.id, &mut buffer);
        assert_eq!(end, Err(Error::ConnectionReset));
        let fresh = engine.open(USER).unwrap();
        assert_eq!(engine.end_sending(fresh), Err(Error::NotConnected));
        fixture.close(b);
        fixture.run();
        let (engine, memory) = fixture.parts(a);
        assert_eq!(engine.end_sending(a.id), Err(Error::ConnectionReset));
        assert!(engine.poll(memory, a.id).contains(Readiness::HUP));
    }
}
