//! A peer that sends messages twice, late, for other connections or without end, message by
//! message.

mod pair;

use std::task::Poll;

use pair::{PAGE, PEER, Pair, THEIRS, US};
use scif_abi::limits::{
    ANSWER_TIMEOUT_NS, HANDSHAKE_TIMEOUT_NS, MAX_JOBS, MAX_PEER_FENCES, MAX_QUEUED_MESSAGES,
};
use scif_abi::message::{Message, NodeMessage as Say};
use scif_abi::{Error, PortId};
use scif_core::{
    Direction, EndpointId, EndpointState, LinkState, Local, Owner, Pages, PinId, Resource, Rma,
    Run, Scope,
};
use sim::talk::Talk;

const BYTES: usize = 8 << 20;

#[test]
fn a_window_that_is_given_up_is_not_announced() {
    // The caller or its endpoint is gone before the peer has made the structure.
    for is_closed in [false, true] {
        let mut pair = Pair::new(BYTES);
        let page = pair.pin(US, 1)[0];
        let given = Pages {
            pin: PinId(1),
            runs: vec![Run {
                address: page,
                pages: 1,
            }],
            is_charged: true,
        };
        let Talk { engine, memory, .. } = &mut pair.talk;
        let ticket = engine.register(memory, pair.endpoint, given, 0, 3, 0x10);
        let ticket = ticket.unwrap();
        let heard = pair.heard();
        let [Say::AllocRequest { waiter, .. }] = heard[..] else {
            panic!("heard {heard:?}");
        };
        let (_, address) = pair.lend(1);
        let Talk { engine, memory, .. } = &mut pair.talk;
        engine.abandon(memory, ticket);
        if is_closed {
            engine.close(memory, pair.endpoint);
            let closed = Say::Disconnect {
                closer: pair.ours,
                peer: THEIRS,
                stored: 0,
            };
            assert_eq!(pair.heard(), [closed]);
        }
        let user_window = 0x7000;
        pair.tell(Say::AllocGrant {
            user_window,
            address,
            waiter,
        });
        let returned = Say::FreeVirtual {
            peer: THEIRS,
            user_window,
            owner_window: waiter,
            kind: 19,
        };
        assert_eq!(pair.heard(), [returned]);
        assert_eq!(pair.talk.engine.stats().windows, 0);
    }
}

#[test]
fn an_unregister_is_answered_once() {
    let mut pair = Pair::new(BYTES);
    let pages = pair.pin(PEER, 1);
    let owner_window = 0x8000;
    let user_window = pair.register_theirs(&pages, 0, owner_window);
    let engine = &mut pair.talk.engine;
    let mapped = engine.map(pair.endpoint, 0, PAGE, 1).unwrap();
    for answers in [1, 0, 0] {
        pair.tell(Say::Unregister {
            user_window,
            owner_window,
        });
        let used = Say::UnregisterNack {
            owner: THEIRS,
            owner_window,
            is_offset_free: 0,
        };
        assert_eq!(pair.heard(), vec![used; answers]);
    }
    assert_eq!(pair.talk.engine.stats().unexpected_messages, 2);
    let engine = &mut pair.talk.engine;
    engine.unmap(mapped.window, 1);
    assert_eq!(pair.heard(), [Say::Munmap { owner_window }]);
}

#[test]
fn only_the_other_end_closes_a_connection() {
    let mut pair = Pair::new(BYTES);
    let peer = pair.ours;
    for (closer, state) in [
        (THEIRS + 1, EndpointState::Connected),
        (peer, EndpointState::Connected),
        (THEIRS, EndpointState::Disconnected),
    ] {
        pair.tell(Say::Disconnect {
            closer,
            peer,
            stored: 0,
        });
        // The closer waits for the acknowledgement in any case.
        assert_eq!(
            pair.heard(),
            [Say::DisconnectAck {
                closer,
                peer,
                stored: 0
            }]
        );
        assert_eq!(pair.talk.engine.state(pair.endpoint), Some(state));
    }
}

/// Grants a request of the peer. Returns the endpoint, its listener and the acceptor's id.
fn granted(pair: &mut Pair) -> (EndpointId, EndpointId, u64) {
    let Talk {
        engine,
        memory,
        peer,
        ..
    } = &mut pair.talk;
    let (_, queue_pair) = peer.make_queue_pair(|_| {}).unwrap();
    let listener = engine.open(Owner::default()).unwrap();
    engine.bind(listener, 300).unwrap();
    engine.listen(listener, 1).unwrap();
    let request = Say::ConnectRequest {
        connector: 0x9000,
        queue_pair,
    };
    peer.say(201, 300, request);
    engine.doorbell(memory, PEER);
    let accepted = engine.accept_start(memory, listener, Owner::default());
    let heard = pair.heard();
    let [Say::ConnectGrant { acceptor, .. }] = heard[..] else {
        panic!("heard {heard:?}");
    };
    (accepted.unwrap(), listener, acceptor)
}

#[test]
fn a_grant_that_is_refused_leaves_nothing() {
    let mut pair = Pair::new(BYTES);
    let before = pair.talk.engine.stats();
    let (accepted, listener, acceptor) = granted(&mut pair);
    pair.tell(Say::ConnectGrantNack { acceptor });
    let Talk { engine, memory, .. } = &mut pair.talk;
    let ended = Poll::Ready(Err(Error::WouldBlock));
    assert_eq!(engine.accept_finish(accepted), ended);
    engine.close(memory, listener);
    let after = engine.stats();
    assert_eq!(after.connections, before.connections);
    assert_eq!(
        (after.endpoints, after.pages),
        (before.endpoints, before.pages)
    );
}

/// The peer may store into its half of the connection as long as it has not answered, so the pages
/// cannot be free before the end of the link.
#[test]
fn a_grant_that_is_never_answered_costs_the_link() {
    let mut pair = Pair::new(BYTES);
    let (accepted, ..) = granted(&mut pair);
    let Talk { engine, memory, .. } = &mut pair.talk;
    engine.tick(memory, HANDSHAKE_TIMEOUT_NS);
    let ended = Poll::Ready(Err(Error::NoDevice));
    assert_eq!(engine.accept_finish(accepted), ended);
    let due = HANDSHAKE_TIMEOUT_NS + ANSWER_TIMEOUT_NS;
    engine.tick(memory, due - 1);
    assert_eq!(engine.link_state(PEER), Some(LinkState::Online));
    engine.tick(memory, due);
    assert_eq!(engine.link_state(PEER), Some(LinkState::Failed));
    engine.link_down(memory, PEER);
    assert_eq!(engine.stats().connections, 1, "that of our own endpoint");
}

/// A copy of a page, which is not made until the next `Pair::heard`.
fn copy() -> Rma {
    Rma {
        direction: Direction::Write,
        local: Local::Window(0),
        remote: 0,
        length: PAGE,
        flags: 0,
    }
}

fn with_windows() -> Pair {
    let mut pair = Pair::new(BYTES);
    let (own, theirs) = (pair.pin(US, 1), pair.pin(PEER, 1));
    pair.register_ours(&own, 1, 0);
    pair.register_theirs(&theirs, 0, 0x8000);
    pair
}

#[test]
fn what_a_peer_waits_for_is_limited() {
    let mut pair = with_windows();
    let peer = pair.ours;
    let engine = &mut pair.talk.engine;
    engine.rma(pair.endpoint, copy()).unwrap();
    pair.tell(Say::Mark { peer, waiter: 1 });
    let heard = pair.talk.heard();
    let [Say::MarkAck { mark, .. }] = heard[..] else {
        panic!("heard {heard:?}");
    };
    // A connection leaves as many to the others of its peer as it has itself.
    let most = MAX_PEER_FENCES / 2;
    for waiter in 0..most as u64 {
        pair.tell(Say::Wait { peer, waiter, mark });
    }
    assert_eq!(pair.talk.heard(), []);
    // Waits and signals count together.
    let (requester, waiter) = (THEIRS, 7);
    pair.tell(Say::Wait { peer, waiter, mark });
    assert_eq!(pair.talk.heard(), [Say::WaitNack { requester, waiter }]);
    for body in [
        Say::SignalLocal {
            peer,
            offset: 0,
            value: 1,
            waiter,
        },
        Say::SignalRemote {
            peer,
            offset: 0,
            value: 1,
            waiter,
        },
    ] {
        pair.tell(body);
        assert_eq!(pair.talk.heard(), [Say::SignalNack { requester, waiter }]);
    }
    // The accepted ones are answered after the copy, as the ring has room.
    let mut answers = 0;
    loop {
        let heard = pair.heard();
        if heard.is_empty() {
            break;
        }
        assert!(heard.iter().all(|body| matches!(body, Say::WaitAck { .. })));
        answers += heard.len();
        let Talk { engine, memory, .. } = &mut pair.talk;
        engine.doorbell(memory, PEER);
    }
    assert_eq!(answers, most);
    pair.tell(Say::Wait { peer, waiter, mark });
    assert_eq!(pair.heard(), [Say::WaitAck { requester, waiter }]);
}

#[test]
fn what_an_endpoint_has_queued_is_limited() {
    let mut pair = with_windows();
    let engine = &mut pair.talk.engine;
    for scope in Scope::ALL {
        engine.set_limit(Resource::Transfers, scope, u64::MAX);
    }
    for _ in 0..MAX_JOBS {
        engine.rma(pair.endpoint, copy()).unwrap();
    }
    let more = engine.rma(pair.endpoint, copy());
    assert_eq!(more, Err(Error::NoMemory));
    assert_eq!(engine.stats().jobs, MAX_JOBS);
    // The peer's signals are not accepted either.
    let (requester, waiter) = (THEIRS, 7);
    pair.tell(Say::SignalLocal {
        peer: pair.ours,
        offset: 0,
        value: 1,
        waiter,
    });
    assert_eq!(pair.talk.heard(), [Say::SignalNack { requester, waiter }]);
}

/// A peer of the base protocol rings once for each message. What stays in the ring because the
/// peer does not read its own is nevertheless taken later.
#[test]
fn who_floods_and_does_not_read_is_not_heard_until_it_reads() {
    const AT_ONCE: usize = 80;
    let mut pair = Pair::new(BYTES);
    let request = Say::ConnectRequest {
        connector: 0x9000,
        queue_pair: 0x4000_0000,
    };
    // No program listens there, so each request is refused.
    let (from, to) = (PortId::new(PEER, 201), PortId::new(US, 301));
    let request = Message::new(from, to, request);
    let before = pair.talk.engine.stats().messages_received;
    let mut said = 0;
    loop {
        for _ in 0..AT_ONCE {
            pair.talk.peer.send(&request);
        }
        said += AT_ONCE;
        let Talk { engine, memory, .. } = &mut pair.talk;
        engine.doorbell(memory, PEER);
        let taken = engine.stats().messages_received - before;
        assert!(
            taken as usize <= MAX_QUEUED_MESSAGES / 2 + 2 * AT_ONCE,
            "{taken}"
        );
        if taken < said as u64 {
            break;
        }
    }
    // The peer reads, and each request has an answer.
    let mut heard = 0;
    for now in 1.. {
        let Talk { engine, memory, .. } = &mut pair.talk;
        engine.tick(memory, now * 1_000_000);
        let answers = pair.talk.heard();
        if answers.is_empty() {
            break;
        }
        heard += answers.len();
    }
    assert_eq!(heard, said);
    let state = pair.talk.engine.link_state(PEER);
    assert_eq!(state, Some(LinkState::Online));
}

#[test]
fn what_waits_for_a_peer_that_does_not_read_is_limited() {
    let mut pair = Pair::new(BYTES);
    let Talk { engine, memory, .. } = &mut pair.talk;
    // The ring has little room besides.
    for count in 0..=MAX_QUEUED_MESSAGES + 100 {
        let Ok(ticket) = engine.fence_mark(pair.endpoint, 2) else {
            assert!(count >= MAX_QUEUED_MESSAGES);
            assert_eq!(engine.link_state(PEER), Some(LinkState::Failed));
            return;
        };
        engine.abandon(memory, ticket);
        // One iteration of a driver: here messages are sent, or wait for room.
        while engine.next_event(memory).is_some() {}
    }
    panic!("it may wait for ever");
}
