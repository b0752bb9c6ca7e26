//! Bypass clients: their notifications, what waits for them, and what they leave behind.

use super::std::prelude::v1::*;

use scif_abi::Error;
use scif_abi::bypass::{
    BYPASS_GATHERED, EPOCH_OFFSET, FIRST_HANDLE, LOCK_DAEMON, Part, RECEIVE_LOCK_OFFSET,
    RMA_BUSY_SLOTS, SEND_LOCK_OFFSET, SENT_OFFSET, STATE_CONNECTED, STATE_DISCONNECTED,
    STATE_ENDED, STATE_FINISHED, STATE_OFFSET, rma_busy_offset,
};
use scif_abi::flags::{Kicks, Readiness};
use scif_abi::limits::{CLIENT_COPY_NS, CLIENT_RETRY_NS};

use super::fixture::{BOTH, End, Fixture, PAGE, USER};
use crate::{BypassId, Event, Memory, Owner, Place, Resource, Scope, Side, Ticket};

/// A handle, and the local address of its control page.
pub(super) fn open(fixture: &mut Fixture, end: End) -> (BypassId, u64) {
    let (engine, memory) = fixture.parts(end);
    let (id, record) = engine.open_bypass(memory, end.id, USER).unwrap();
    assert!(record.handle.get() >= FIRST_HANDLE);
    let ring = engine.config().endpoint_ring_bytes;
    assert_eq!(record.own_ring_bytes.get(), ring);
    assert_eq!(record.peer_ring_bytes.get(), ring);
    let place = engine.bypass_place(id, Part::Control).unwrap();
    let (Place::Own(page), 4096) = place else {
        unreachable!("{place:?}");
    };
    (id, page)
}

pub(super) fn close(fixture: &mut Fixture, end: End, id: BypassId) {
    let (engine, memory) = fixture.parts(end);
    engine.close_bypass(memory, id);
    engine.check_invariants().unwrap();
}

pub(super) fn word(fixture: &Fixture, end: End, address: u64) -> u32 {
    fixture.nodes[end.node].memory.load_index(address)
}

fn send(fixture: &mut Fixture, end: End, bytes: &[u8]) -> Result<usize, Error> {
    let (engine, memory) = fixture.parts(end);
    engine.send(memory, end.id, bytes)
}

fn receive(fixture: &mut Fixture, end: End) -> Result<Vec<u8>, Error> {
    let (engine, memory) = fixture.parts(end);
    let mut buffer = [0; 64];
    let count = engine.recv(memory, end.id, &mut buffer)?;
    Ok(buffer[..count].to_vec())
}

#[test]
fn a_client_that_comes_behind_the_peers_last_byte_learns_of_that() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (engine, _) = fixture.parts(a);
    assert_eq!(engine.end_sending(a.id), Ok(()));
    fixture.run();
    let (id, page) = open(&mut fixture, b);
    assert_eq!(word(&fixture, b, page + STATE_OFFSET), STATE_FINISHED);
    close(&mut fixture, b, id);
}

#[test]
fn positions_move_into_the_page_and_back() {
    for nodes in [1, 2] {
        let mut fixture = Fixture::new(nodes);
        let (a, b) = fixture.connect(0, nodes - 1);
        assert_eq!(send(&mut fixture, a, b"one"), Ok(3));
        let (id, page) = open(&mut fixture, a);
        assert_eq!(fixture.nodes[0].memory.load_position(page + SENT_OFFSET), 3);
        assert_eq!(word(&fixture, a, page + STATE_OFFSET), STATE_CONNECTED);
        assert_eq!(send(&mut fixture, a, b"two"), Ok(3));
        assert_eq!(fixture.nodes[0].memory.load_position(page + SENT_OFFSET), 6);
        close(&mut fixture, a, id);
        assert_eq!(send(&mut fixture, a, b"three"), Ok(5));
        fixture.run();
        assert_eq!(receive(&mut fixture, b).unwrap(), b"onetwothree");
        let (engine, memory) = fixture.parts(a);
        engine.close_bypass(memory, id);
        assert_eq!(
            engine.bypass_place(id, Part::Own),
            Err(Error::BadDescriptor)
        );
    }
}

#[test]
fn only_connected_endpoints_have_handles() {
    let mut fixture = Fixture::new(1);
    let (a, b) = fixture.connect(0, 0);
    let (engine, memory) = fixture.parts(a);
    let fresh = engine.open(USER).unwrap();
    let refused = engine.open_bypass(memory, fresh, USER);
    assert_eq!(refused, Err(Error::NotConnected));
    engine.close(memory, fresh);
    let gone = engine.open_bypass(memory, fresh, USER);
    assert_eq!(gone, Err(Error::BadDescriptor));
    fixture.close(b);
    fixture.run();
    let (engine, memory) = fixture.parts(a);
    let over = engine.open_bypass(memory, a.id, USER);
    assert_eq!(over, Err(Error::NotConnected));
}

#[test]
fn handles_count_for_who_opens_them_also_when_the_endpoint_is_gone() {
    let mut fixture = Fixture::new(2);
    let pairs = [(); 3].map(|()| fixture.connect(0, 1));
    let engine = &mut fixture.nodes[0].engine;
    engine.set_limit(Resource::Bypass, Scope::Process, 2);
    let handles = [0, 1].map(|at| open(&mut fixture, pairs[at].0).0);
    for (a, b) in &pairs[..2] {
        fixture.close(*a);
        fixture.close(*b);
    }
    fixture.run();
    let third = pairs[2].0;
    let (engine, memory) = fixture.parts(third);
    let refused = engine.open_bypass(memory, third.id, USER);
    assert_eq!(refused, Err(Error::NoMemory));
    let other = Owner {
        process: USER.process + 1,
        user: USER.user,
    };
    let (allowed, _) = engine.open_bypass(memory, third.id, other).unwrap();
    assert_eq!(engine.used(Resource::Bypass, Scope::User, USER.user), 3);
    engine.close_bypass(memory, allowed);
    // The peer owes nothing while our own clients delay the end.
    assert_eq!(engine.connections.half_closed(), 0);
    close(&mut fixture, third, handles[0]);
    open(&mut fixture, third);
    fixture.run();
    let (engine, _) = fixture.parts(third);
    engine.check_invariants().unwrap();
}

#[test]
fn the_last_words_wait_for_clients() {
    for nodes in [1, 2] {
        let mut fixture = Fixture::new(nodes);
        let (a, b) = fixture.connect(0, nodes - 1);
        let (at_a, page_a) = open(&mut fixture, a);
        let (at_b, page_b) = open(&mut fixture, b);
        fixture.close(a);
        fixture.run();
        // The connection is over for a's programs; b is told when these have unmapped it.
        assert_eq!(word(&fixture, a, page_a + STATE_OFFSET), STATE_ENDED);
        assert_eq!(word(&fixture, b, page_b + STATE_OFFSET), STATE_CONNECTED);
        close(&mut fixture, a, at_a);
        fixture.run();
        let epoch = word(&fixture, b, page_b + EPOCH_OFFSET);
        assert_eq!(word(&fixture, b, page_b + STATE_OFFSET), STATE_DISCONNECTED);
        // a's pages stay until b's programs have unmapped them, too.
        let engine = &fixture.nodes[a.node].engine;
        assert_eq!(engine.stats().connections_closing, 1);
        fixture.close(b);
        fixture.run();
        assert_eq!(word(&fixture, b, page_b + STATE_OFFSET), STATE_ENDED);
        assert_ne!(word(&fixture, b, page_b + EPOCH_OFFSET), epoch);
        close(&mut fixture, b, at_b);
        fixture.run();
        for node in &fixture.nodes {
            assert_eq!(node.engine.stats().connections, 0);
        }
    }
}

#[test]
fn a_dead_clients_lock_is_free_again() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (id, page) = open(&mut fixture, a);
    let (_other, same) = open(&mut fixture, a);
    assert_eq!(same, page);
    let memory = &mut fixture.nodes[0].memory;
    memory.store_index(page + SEND_LOCK_OFFSET, FIRST_HANDLE);
    // The client dies between its position and the index.
    memory.store_position(page + SENT_OFFSET, 2);
    assert_eq!(send(&mut fixture, a, b"x"), Ok(0));
    let (engine, _) = fixture.parts(a);
    // No event reports that a client unlocks: the clock has to.
    assert!(engine.next_deadline().is_some());
    close(&mut fixture, a, id);
    assert_eq!(word(&fixture, a, page + SEND_LOCK_OFFSET), 0);
    fixture.run();
    assert_eq!(receive(&mut fixture, b).unwrap(), [0, 0]);
    assert_eq!(send(&mut fixture, a, b"x"), Ok(1));
}

#[test]
fn a_locked_ring_is_not_an_empty_one() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (_id, page) = open(&mut fixture, b);
    let lock = page + RECEIVE_LOCK_OFFSET;
    fixture.nodes[1].memory.store_index(lock, FIRST_HANDLE);
    send(&mut fixture, a, b"last").unwrap();
    fixture.close(a);
    fixture.run();
    // The holder of the lock may be about to take the bytes, or not: this is not the end yet.
    receive_nothing(&mut fixture, b);
    fixture.nodes[1].memory.store_index(lock, 0);
    assert_eq!(receive(&mut fixture, b).unwrap(), b"last");
    assert_eq!(receive(&mut fixture, b), Err(Error::ConnectionReset));
}

#[test]
fn a_ring_that_stays_locked_is_looked_at_ever_less_often() {
    let mut fixture = Fixture::new(1);
    let (a, _) = fixture.connect(0, 0);
    let (_id, page) = open(&mut fixture, a);
    let lock = page + SEND_LOCK_OFFSET;
    fixture.run();
    let look = |fixture: &mut Fixture| {
        assert_eq!(send(fixture, a, b"x"), Ok(0));
        let (engine, memory) = fixture.parts(a);
        let (now, next) = (engine.now(), engine.next_deadline().unwrap());
        engine.tick(memory, next);
        let event = engine.next_event(memory);
        assert_eq!(event, Some(Event::Changed(a.id)));
        assert_eq!(engine.next_deadline(), None);
        next - now
    };
    // Twice: each time that we have had the ring, it begins anew.
    for _ in 0..2 {
        fixture.nodes[0].memory.store_index(lock, FIRST_HANDLE);
        let waits = [(); 10].map(|()| look(&mut fixture));
        assert_eq!(waits[..3], [1, 2, 4].map(|times| times * CLIENT_RETRY_NS));
        assert_eq!(waits[9], 64 * CLIENT_RETRY_NS);
        fixture.nodes[0].memory.store_index(lock, 0);
        assert_eq!(send(&mut fixture, a, b"x"), Ok(1));
    }
}

#[test]
fn a_position_turned_back_costs_the_connection() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (c, d) = fixture.connect(0, 1);
    assert_eq!(send(&mut fixture, a, b"bytes"), Ok(5));
    let (id, page) = open(&mut fixture, a);
    fixture.nodes[0]
        .memory
        .store_position(page + SENT_OFFSET, 4);
    assert_eq!(send(&mut fixture, a, b"x"), Err(Error::ConnectionReset));
    fixture.run();
    assert_eq!(word(&fixture, a, page + STATE_OFFSET), STATE_ENDED);
    close(&mut fixture, a, id);
    fixture.run();
    assert_eq!(receive(&mut fixture, b).unwrap(), b"bytes");
    assert_eq!(receive(&mut fixture, b), Err(Error::ConnectionReset));
    assert_eq!(send(&mut fixture, c, b"well"), Ok(4));
    assert_eq!(receive(&mut fixture, d).unwrap(), b"well");
}

#[test]
fn a_transfer_in_parts_keeps_its_turn() {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let (_id, page) = open(&mut fixture, a);
    let (engine, memory) = fixture.parts(a);
    engine.hold_ring(memory, a.id, Side::Send, true);
    assert_eq!(word(&fixture, a, page + SEND_LOCK_OFFSET), 0);
    assert_eq!(send(&mut fixture, a, b"first"), Ok(5));
    assert_eq!(word(&fixture, a, page + SEND_LOCK_OFFSET), LOCK_DAEMON);
    assert_eq!(send(&mut fixture, a, b"second"), Ok(6));
    let (engine, memory) = fixture.parts(a);
    engine.hold_ring(memory, a.id, Side::Send, false);
    assert_eq!(word(&fixture, a, page + SEND_LOCK_OFFSET), 0);
}

#[test]
fn windows_wait_for_copies_of_clients_but_not_for_ever() {
    for nodes in [1, 2] {
        let mut fixture = Fixture::new(nodes);
        let (a, b) = fixture.connect(0, nodes - 1);
        let pages = fixture.pin(b.node, &[1]);
        fixture.register(b, &pages, 0, BOTH);
        // A client at either end copies; it is stuck.
        for user in [a, b] {
            fixture.register(b, &pages, PAGE.cast_signed(), BOTH);
            let (id, page) = open(&mut fixture, user);
            let epoch = word(&fixture, user, page + EPOCH_OFFSET);
            set_busy(&mut fixture, user, page, FIRST_HANDLE, 1);
            let (engine, memory) = fixture.parts(b);
            let ticket = engine.unregister(memory, b.id, PAGE.cast_signed(), PAGE);
            let ticket = ticket.unwrap();
            fixture.run();
            assert_ne!(word(&fixture, user, page + EPOCH_OFFSET), epoch);
            let engine = fixture.engine(b);
            assert_eq!(engine.finish(ticket), None);
            if user == a {
                // The stuck copy ends.
                set_busy(&mut fixture, user, page, FIRST_HANDLE, 0);
                fixture.now += 2_000_000;
            } else {
                watch(&mut fixture, 1_100_000_000);
            }
            fixture.run();
            let engine = fixture.engine(b);
            assert_eq!(engine.finish(ticket), Some(Ok(0)));
            close(&mut fixture, user, id);
            let stuck: u64 = fixture
                .nodes
                .iter()
                .map(|node| node.engine.stats().stuck_copies)
                .sum();
            assert_eq!(stuck, u64::from(user == b));
        }
    }
}

#[test]
fn only_the_end_of_a_mapped_window_wakes_who_sleeps() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let _client = open(&mut fixture, a);
    let pages = fixture.pin(b.node, &[1]);
    for is_mapped in [false, true] {
        fixture.register(b, &pages, 0, BOTH);
        let engine = fixture.engine(a);
        if is_mapped {
            engine.map(a.id, 0, PAGE, BOTH).unwrap();
        }
        poll_for_nothing(&mut fixture, a);
        let (engine, memory) = fixture.parts(b);
        engine.unregister(memory, b.id, 0, PAGE).unwrap();
        while fixture.iterate(b.node) {}
        let (engine, memory) = fixture.parts(a);
        let mut is_told = false;
        while let Some(event) = engine.next_event(memory) {
            is_told |= event == Event::Changed(a.id);
        }
        assert_eq!(is_told, is_mapped);
        fixture.run();
    }
}

/// Begins to unregister a fresh window of `end`. Returns whether that is done at once.
fn unregister(fixture: &mut Fixture, end: End) -> (Ticket, bool) {
    let pages = fixture.pin(end.node, &[1]);
    fixture.register(end, &pages, 0, BOTH);
    let (engine, memory) = fixture.parts(end);
    let ticket = engine.unregister(memory, end.id, 0, PAGE).unwrap();
    fixture.run();
    (ticket, is_done(fixture, end, ticket))
}

/// Whether a window is unregistered by now.
fn is_done(fixture: &mut Fixture, end: End, ticket: Ticket) -> bool {
    let engine = fixture.engine(end);
    match engine.finish(ticket) {
        Some(result) => {
            assert_eq!(result, Ok(0));
            true
        }
        None => false,
    }
}

/// Sets how many copies handle `number` of `end` has under way.
fn set_busy(fixture: &mut Fixture, end: End, page: u64, number: u32, busy: u32) {
    let memory = &mut fixture.nodes[end.node].memory;
    memory.store_index(page + rma_busy_offset(number), busy);
}

#[test]
fn no_look_at_clients_overtakes_the_epoch() {
    for nodes in [1, 2] {
        let mut fixture = Fixture::new(nodes);
        let (a, b) = fixture.connect(0, nodes - 1);
        for end in [a, b] {
            let (_, page) = open(&mut fixture, end);
            let word = page + EPOCH_OFFSET;
            fixture.nodes[end.node].memory.fenced_word.set(Some(word));
            let before = fixture.nodes[end.node].memory.load_index(word);
            // The memory checks that a fence lies between the epoch's store and the next load.
            unregister(&mut fixture, b);
            assert!(fixture.nodes[end.node].memory.load_index(word) != before);
        }
    }
}

#[test]
fn clients_are_told_whose_stores_are_gathered() {
    for gathers in [false, true] {
        for (nodes, is_far) in [(1, false), (2, true)] {
            let mut fixture = Fixture::new(nodes);
            let (a, _) = fixture.connect(0, nodes - 1);
            let (engine, memory) = fixture.parts(a);
            engine.set_gathers(gathers);
            let (_, record) = engine.open_bypass(memory, a.id, USER).unwrap();
            let is_told = record.flags.get() & BYPASS_GATHERED != 0;
            assert_eq!(is_told, gathers && is_far);
        }
    }
}

#[test]
fn a_close_waits_for_copies_of_clients() {
    for is_over in [true, false] {
        let mut fixture = Fixture::new(2);
        let (a, b) = fixture.connect(0, 1);
        for end in [a, b] {
            let (id, page) = open(&mut fixture, end);
            set_busy(&mut fixture, end, page, FIRST_HANDLE, 1);
            fixture.close(end);
            fixture.run();
            assert!(fixture.nodes[end.node].engine.is_departing(end.id));
            if is_over {
                set_busy(&mut fixture, end, page, FIRST_HANDLE, 0);
            } else {
                // Time in which the clients are not checked does not count for the copy.
                fixture.now += 2 * CLIENT_COPY_NS;
                fixture.run();
                assert!(fixture.nodes[end.node].engine.is_departing(end.id));
            }
            // A copy that never ends gets as much time as any copy.
            watch(
                &mut fixture,
                match is_over {
                    true => 2 * CLIENT_RETRY_NS,
                    false => CLIENT_COPY_NS,
                },
            );
            assert!(!fixture.nodes[end.node].engine.is_departing(end.id));
            close(&mut fixture, end, id);
        }
        fixture.run();
        fixture.assert_clean();
    }
}

#[test]
fn nobody_waits_for_a_client_that_died_while_it_copied() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (dies, page) = open(&mut fixture, b);
    let (dies_too, _) = open(&mut fixture, b);
    let (_stays, _) = open(&mut fixture, b);
    // Before the window ends, and while it waits.
    set_busy(&mut fixture, b, page, FIRST_HANDLE, 1);
    close(&mut fixture, b, dies);
    assert!(unregister(&mut fixture, a).1);
    set_busy(&mut fixture, b, page, FIRST_HANDLE + 1, 1);
    let (ticket, at_once) = unregister(&mut fixture, a);
    assert!(!at_once);
    close(&mut fixture, b, dies_too);
    fixture.now += 2 * CLIENT_RETRY_NS;
    fixture.run();
    assert!(is_done(&mut fixture, a, ticket));
}

/// The driver checks for so long, as often as it asks to.
fn watch(fixture: &mut Fixture, nanoseconds: u64) {
    let end = fixture.now + nanoseconds;
    while fixture.now < end {
        fixture.now += CLIENT_RETRY_NS;
        fixture.run();
    }
}

#[test]
fn who_copies_all_the_time_is_waited_for_each_time() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (_stays, page) = open(&mut fixture, b);
    let (other, _) = open(&mut fixture, b);
    // The client is in the middle of some copy at each check.
    set_busy(&mut fixture, b, page, FIRST_HANDLE, 1);
    for _ in 0..2 {
        let (ticket, at_once) = unregister(&mut fixture, a);
        assert!(!at_once);
        watch(&mut fixture, CLIENT_COPY_NS / 2);
        assert!(!is_done(&mut fixture, a, ticket));
        // The whole machine stood still, and the client with it: such time does not count.
        fixture.now += 10 * CLIENT_COPY_NS;
        fixture.run();
        assert!(!is_done(&mut fixture, a, ticket));
        watch(&mut fixture, CLIENT_COPY_NS / 2);
        assert!(is_done(&mut fixture, a, ticket));
    }
    // Its counts stay its own.
    set_busy(&mut fixture, b, page, FIRST_HANDLE, 0);
    assert!(unregister(&mut fixture, a).1);
    close(&mut fixture, b, other);
    assert!(unregister(&mut fixture, a).1);
}

#[test]
fn who_comes_after_a_dead_client_does_not_copy_for_it() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (dies, page) = open(&mut fixture, b);
    set_busy(&mut fixture, b, page, FIRST_HANDLE, 1);
    let _stays = open(&mut fixture, b);
    close(&mut fixture, b, dies);
    // The last of these counts in the word of the dead client.
    for _ in 1..RMA_BUSY_SLOTS {
        open(&mut fixture, b);
    }
    assert!(unregister(&mut fixture, a).1);
}

#[test]
fn handles_that_share_a_word_are_not_forgotten() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (first, page) = open(&mut fixture, b);
    let others: Vec<BypassId> = (0..RMA_BUSY_SLOTS)
        .map(|_| open(&mut fixture, b).0)
        .collect();
    // The last of them has the word of the first.
    set_busy(
        &mut fixture,
        b,
        page,
        FIRST_HANDLE + RMA_BUSY_SLOTS as u32,
        1,
    );
    close(&mut fixture, b, first);
    let (ticket, at_once) = unregister(&mut fixture, a);
    assert!(!at_once);
    for id in others {
        close(&mut fixture, b, id);
    }
    fixture.run();
    assert!(is_done(&mut fixture, a, ticket));
}

fn receive_nothing(fixture: &mut Fixture, end: End) {
    assert_eq!(receive(fixture, end).unwrap(), b"");
}

fn poll_for_nothing(fixture: &mut Fixture, end: End) {
    let (engine, memory) = fixture.parts(end);
    assert_eq!(engine.poll(memory, end.id), Readiness::OUT);
}

#[test]
fn only_who_asked_is_told() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    fixture.run();
    let sent = |fixture: &Fixture| {
        let mut nodes = fixture.nodes[0].engine.nodes();
        nodes.find(|n| n.node == 1).unwrap().messages_sent
    };
    // With and without a client.
    let mut client = None;
    for _ in 0..2 {
        // No caller waits at b.
        let before = sent(&fixture);
        for _ in 0..2 {
            send(&mut fixture, a, b"x").unwrap();
            fixture.run();
            assert_eq!(sent(&fixture), before);
        }
        assert_eq!(receive(&mut fixture, b).unwrap(), b"xx");
        // After a receive or a poll that finds nothing there is one notification.
        for asks in [receive_nothing, poll_for_nothing] {
            asks(&mut fixture, b);
            for known_epoch in [1, 0] {
                let before = sent(&fixture);
                send(&mut fixture, a, b"x").unwrap();
                fixture.run();
                assert_eq!(sent(&fixture), before + known_epoch);
            }
            assert_eq!(receive(&mut fixture, b).unwrap(), b"xx");
        }
        client.get_or_insert_with(|| open(&mut fixture, b));
    }
    // A subscriber is notified each time, and a kick always notifies.
    let (engine, memory) = fixture.parts(b);
    engine.set_waiting(memory, b.id, Readiness::IN);
    for _ in 0..2 {
        let before = sent(&fixture);
        send(&mut fixture, a, b"x").unwrap();
        fixture.run();
        assert_eq!(sent(&fixture), before + 1);
    }
    let before = sent(&fixture);
    let (engine, _) = fixture.parts(a);
    engine.kick(a.id, Kicks::BYTES | Kicks::ROOM).unwrap();
    fixture.run();
    assert_eq!(sent(&fixture), before + 2);
}
