//! A mainline node over time: it gives up connects, does not read, or disappears without EXIT. It
//! frees its memory without a message, so no message or store may reach that memory late.

use std::task::Poll;

use scif_abi::flags::Readiness;
use scif_abi::limits::{BASE_REQUEST_NS, NODE_RING_STALL_NS};
use scif_abi::{Error, PortId};
use scif_core::{ConnectMode, DownReason, EndpointId, EndpointState, LinkState, Owner};
use sim::mainline::{CONNECT_NS, Mainline, Stage, THEM};
use sim::talk::Talk;

const PORT: u16 = 130;
const OWNER: Owner = Owner {
    process: 1,
    user: 0,
};
const SECOND_NS: u64 = 1_000_000_000;

fn listen(mainline: &mut Mainline, backlog: i32) -> EndpointId {
    let engine = &mut mainline.talk.engine;
    let listener = engine.open(OWNER).unwrap();
    engine.bind(listener, PORT).unwrap();
    engine.listen(listener, backlog).unwrap();
    listener
}

fn is_readable(mainline: &mut Mainline, id: EndpointId) -> bool {
    let Talk { engine, memory, .. } = &mut mainline.talk;
    engine.poll(memory, id).contains(Readiness::IN)
}

fn accept(mainline: &mut Mainline, listener: EndpointId) -> Result<EndpointId, Error> {
    let Talk { engine, memory, .. } = &mut mainline.talk;
    engine.accept_start(memory, listener, OWNER)
}

/// Makes a connection from the mainline node.
fn connected(mainline: &mut Mainline) -> (EndpointId, u64) {
    let listener = listen(mainline, 1);
    let theirs = mainline.connect(PORT);
    mainline.turn();
    let ours = accept(mainline, listener).unwrap();
    mainline.turn();
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert!(engine.accept_finish(ours).is_ready());
    engine.close(memory, listener);
    (ours, theirs)
}

#[test]
fn a_request_is_void_long_before_its_connector_gives_up() {
    const { assert!(BASE_REQUEST_NS <= CONNECT_NS / 2) };
    let mut mainline = Mainline::new();
    let listener = listen(&mut mainline, 1);
    let first = mainline.connect(PORT);
    mainline.turn();
    assert!(is_readable(&mut mainline, listener));
    mainline.pass(BASE_REQUEST_NS - 1);
    mainline.turn();
    assert!(is_readable(&mut mainline, listener));
    let deadline = mainline.talk.engine.next_deadline();
    assert_eq!(deadline, Some(BASE_REQUEST_NS));
    mainline.pass(1);
    mainline.turn();
    assert!(!is_readable(&mut mainline, listener));
    assert_eq!(mainline.talk.engine.next_deadline(), None);
    assert_eq!(accept(&mut mainline, listener), Err(Error::WouldBlock));
    // Its place in the backlog is free: the next request is received and accepted.
    let second = mainline.connect(PORT);
    mainline.turn();
    let accepted = accept(&mut mainline, listener).unwrap();
    mainline.turn();
    assert_eq!(mainline.stage(second), Some(Stage::Connected));
    assert!(mainline.talk.engine.accept_finish(accepted).is_ready());
    // The first request's connector has received nothing, and frees its endpoint.
    assert!(matches!(mainline.stage(first), Some(Stage::Connecting(_))));
    mainline.pass(CONNECT_NS);
    mainline.turn();
    assert_eq!(mainline.stage(first), None);
    let Talk { engine, memory, .. } = &mut mainline.talk;
    engine.close(memory, listener);
    mainline.turn();
    let stats = mainline.talk.engine.stats();
    assert_eq!((stats.void_requests, stats.refused), (1, 0));
}

/// The ring was not polled for a while, so the request may be that old.
#[test]
fn a_request_that_is_seen_late_is_answered_by_nobody() {
    for listens in [true, false] {
        let mut mainline = Mainline::new();
        mainline.turn();
        if listens {
            listen(&mut mainline, 1);
        }
        mainline.connect(PORT);
        mainline.pass(BASE_REQUEST_NS);
        mainline.turn();
        assert_eq!(mainline.talk.engine.stats().void_requests, 1);
        mainline.pass(CONNECT_NS);
        mainline.turn();
    }
    // A node that has polled meanwhile knows that the request is younger.
    let mut mainline = Mainline::new();
    mainline.pass(BASE_REQUEST_NS);
    mainline.turn();
    let id = mainline.connect(PORT);
    mainline.pass(BASE_REQUEST_NS - 1);
    mainline.turn();
    assert_eq!(mainline.stage(id), None, "refused");
    assert_eq!(mainline.talk.engine.stats().refused, 1);
}

/// A listener that closes refuses the requests that can still be refused.
#[test]
fn a_listener_that_closes_is_silent_about_what_is_void() {
    for (age, stage) in [
        (BASE_REQUEST_NS - 1, None),
        (BASE_REQUEST_NS, Some(Stage::Connecting(CONNECT_NS))),
    ] {
        let mut mainline = Mainline::new();
        let listener = listen(&mut mainline, 4);
        let id = mainline.connect(PORT);
        mainline.turn();
        mainline.pass(age);
        mainline.turn();
        let Talk { engine, memory, .. } = &mut mainline.talk;
        engine.close(memory, listener);
        mainline.turn();
        assert_eq!(mainline.stage(id), stage);
    }
}

/// Requests at several listeners, some accepted in time.
#[test]
fn requests_end_each_at_its_own_time() {
    let mut mainline = Mainline::new();
    let listener = listen(&mut mainline, 8);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(mainline.connect(PORT));
        mainline.turn();
        mainline.pass(SECOND_NS);
    }
    let accepted = accept(&mut mainline, listener).unwrap();
    mainline.turn();
    assert!(mainline.talk.engine.accept_finish(accepted).is_ready());
    // Each counts from the poll before the one that found it.
    mainline.pass(BASE_REQUEST_NS - 3 * SECOND_NS - 1);
    mainline.turn();
    assert_eq!(mainline.talk.engine.stats().void_requests, 1);
    assert!(accept(&mut mainline, listener).is_ok());
    mainline.turn();
    assert_eq!(mainline.stage(ids[2]), Some(Stage::Connected));
    mainline.pass(CONNECT_NS);
    mainline.turn();
    assert_eq!(accept(&mut mainline, listener), Err(Error::WouldBlock));
    let stages = ids.iter().map(|id| mainline.stage(*id));
    let connected = Some(Stage::Connected);
    assert_eq!(
        stages.collect::<Vec<_>>(),
        [connected, None, connected, None]
    );
}

/// The mainline driver does not run for a while: our messages wait in order, and arrive.
#[test]
fn a_full_ring_loses_nothing_and_stuck_for_long_costs_the_link() {
    let mut mainline = Mainline::new();
    let listener = listen(&mut mainline, 8);
    mainline.turn();
    mainline.runs = false;
    let connects = 4 * 4096 / 44;
    let Talk { engine, memory, .. } = &mut mainline.talk;
    let owner = Owner {
        process: 2,
        user: 0,
    };
    let ids: Vec<EndpointId> = (0..connects)
        .map(|_| {
            let id = engine.open(owner).unwrap();
            let to = PortId::new(THEM, 201);
            engine
                .connect(memory, id, to, ConnectMode::Blocking)
                .unwrap();
            id
        })
        .collect();
    mainline.turn();
    mainline.pass(NODE_RING_STALL_NS / 2);
    mainline.turn();
    // It reads all messages of a full ring, and we continue.
    let heard = mainline.talk.peer.receive();
    assert_eq!(heard.len(), 4095 / 44);
    mainline.turn();
    mainline.pass(NODE_RING_STALL_NS / 2 + 1);
    mainline.turn();
    assert_eq!(
        mainline.talk.engine.link_state(THEM),
        Some(LinkState::Online)
    );
    let rest = mainline.talk.peer.receive();
    let sources = heard.iter().chain(&rest).map(|message| message.source);
    let ports = ids.iter().zip(1088..).map(|(_, port)| PortId::new(1, port));
    assert!(sources.eq(ports.take(heard.len() + rest.len())));
    // From now on it never reads again.
    mainline.turn();
    mainline.pass(NODE_RING_STALL_NS + 1);
    mainline.turn();
    assert_eq!(
        mainline.talk.engine.link_state(THEM),
        Some(LinkState::Failed)
    );
    let engine = &mut mainline.talk.engine;
    for id in ids {
        let lost = Poll::Ready(Err(Error::NoDevice));
        assert_eq!(engine.connect_result(id), lost);
    }
    assert_eq!(engine.state(listener), Some(EndpointState::Listening));
}

/// The mainline driver takes a message now and then, so the ring stays full but moves. No message
/// names what the driver has freed by then, and the link stays.
#[test]
fn an_answer_that_waits_for_room_too_long_is_not_said() {
    // How long the request waits, and the messages that its acceptor gets.
    let cases = [
        (0, Some(Error::NoDevice)),
        (10 * SECOND_NS, Some(Error::WouldBlock)),
        (0, None),
    ];
    for (waits, heard) in cases {
        let mut mainline = Mainline::new();
        let listener = listen(&mut mainline, 8);
        mainline.turn();
        mainline.runs = false;
        let theirs = mainline.connect(PORT);
        mainline.turn();
        mainline.pass(waits);
        mainline.turn();
        // A full ring, and so many waiting messages that the answer would be sent after 30
        // seconds.
        let Talk { engine, memory, .. } = &mut mainline.talk;
        for _ in 0..4095 / 44 + 15 {
            let id = engine.open(OWNER).unwrap();
            let to = PortId::new(THEM, 201);
            engine
                .connect(memory, id, to, ConnectMode::Blocking)
                .unwrap();
        }
        let accepted = match heard {
            Some(_) => Some(accept(&mut mainline, listener).unwrap()),
            None => {
                let Talk { engine, memory, .. } = &mut mainline.talk;
                engine.close(memory, listener);
                None
            }
        };
        for _ in 0..18 {
            mainline.pass(2 * SECOND_NS);
            mainline.turn();
            mainline.hear_some(1);
        }
        assert_eq!(mainline.stage(theirs), None, "it has given up");
        mainline.runs = true;
        mainline.turn();
        mainline.hear();
        mainline.turn();
        let engine = &mut mainline.talk.engine;
        assert_eq!(engine.link_state(THEM), Some(LinkState::Online));
        assert_eq!(engine.stats().void_requests, 1);
        if let Some((accepted, error)) = accepted.zip(heard) {
            assert_eq!(engine.accept_finish(accepted), Poll::Ready(Err(error)));
        }
        assert_eq!(engine.stats().connections, 0);
    }
}

/// The mainline machine is gone without EXIT or DISCNCT: nothing is stored there any more, and
/// everything that waits for it ends.
#[test]
fn a_node_that_leaves_without_a_word_leaves_nothing_behind() {
    let mut mainline = Mainline::new();
    let (ours, theirs) = connected(&mut mainline);
    assert_eq!(mainline.write(theirs, b"last words"), 10);
    mainline.turn();
    let listener = listen(&mut mainline, 1);
    mainline.connect(PORT);
    mainline.turn();
    assert!(is_readable(&mut mainline, listener));
    let Talk { engine, memory, .. } = &mut mainline.talk;
    let waiting = engine.open(OWNER).unwrap();
    let to = PortId::new(THEM, 201);
    engine
        .connect(memory, waiting, to, ConnectMode::Blocking)
        .unwrap();
    // From now on its memory may belong to another node.
    mainline.vanish();
    let Talk { engine, memory, .. } = &mut mainline.talk;
    engine.link_failed(THEM, DownReason::Silent);
    assert_eq!(
        engine.connect_result(waiting),
        Poll::Ready(Err(Error::NoDevice))
    );
    let empty = engine.accept_start(memory, listener, OWNER);
    assert_eq!(empty, Err(Error::WouldBlock));
    let mut buffer = [0; 20];
    assert_eq!(engine.recv(memory, ours, &mut buffer), Ok(10));
    assert_eq!(
        engine.recv(memory, ours, &mut buffer),
        Err(Error::ConnectionReset)
    );
    assert_eq!(engine.send(memory, ours, b"x"), Err(Error::ConnectionReset));
    engine.link_down(memory, THEM);
    for id in [ours, listener, waiting] {
        engine.close(memory, id);
    }
    mainline.pass(2 * CONNECT_NS);
    let Talk { engine, memory, .. } = &mut mainline.talk;
    engine.tick(memory, 3 * CONNECT_NS);
    mainline.talk.events();
    let stats = mainline.talk.engine.stats();
    assert_eq!((stats.connections, stats.endpoints, stats.pages), (0, 0, 0));
    assert_eq!(mainline.talk.fabric.borrow().fault, None);
}

/// Every message before DISCNT_ACK is safe: the node closes while we still have many to send.
#[test]
fn a_node_that_closes_hears_nothing_of_the_connection_afterwards() {
    let mut mainline = Mainline::new();
    let (ours, theirs) = connected(&mut mainline);
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert_eq!(engine.send(memory, ours, &[7; 5000]), Ok(4095));
    mainline.close(theirs);
    mainline.turn();
    assert_eq!(mainline.stage(theirs), None);
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert_eq!(
        engine.send(memory, ours, &[7; 5000]),
        Err(Error::ConnectionReset)
    );
    engine.close(memory, ours);
    mainline.pass(2 * CONNECT_NS);
    mainline.turn();
    assert_eq!(mainline.talk.engine.stats().connections, 0);
}
