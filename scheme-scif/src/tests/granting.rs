//! Listeners that grant requests when they come.

use scif_abi::call::Call;
use scif_abi::codec::Operation;
use scif_abi::flags::ListenFlags;
use scif_core::{Resource, Scope};
use syscall::error::{EAGAIN, ECONNREFUSED, ECONNRESET, EINVAL, Error};
use syscall::flag::{EventFlags, O_RDWR};

use super::connections::{error, take};
use super::fixture::{ADMIN, Fixture, Op, state};
use crate::{HandleId, ROOT};

const PORT: u16 = 2050;

fn call(fixture: &mut Fixture, at: usize, id: HandleId, call: Call) -> Result<usize, Error> {
    let [first, second] = call.words();
    fixture.call(at, id, &[], [call.number(), first, second]).0
}

/// Makes a listener on node 0 that grants requests when they come.
fn listener(fixture: &mut Fixture, backlog: i32) -> HandleId {
    listener_at(fixture, 0, backlog)
}

fn listener_at(fixture: &mut Fixture, at: usize, backlog: i32) -> HandleId {
    let id = fixture.open(at, "endpoint").unwrap();
    assert!(call(fixture, at, id, Call::Bind { port: PORT }).is_ok());
    let flags = ListenFlags::GRANT_AT_ONCE.bits();
    let listen = Call::Listen { backlog, flags };
    assert_eq!(call(fixture, at, id, listen), Ok(0));
    id
}

fn connect(fixture: &mut Fixture, from: usize) -> Result<HandleId, Error> {
    let connect = fixture.start_open(from, "0/2050");
    fixture.answer(from, connect).expect("an answer").0
}

fn accept(fixture: &mut Fixture, listener: HandleId) -> Result<HandleId, Error> {
    fixture.now(0, take(listener, b"accept-now")).0
}

#[test]
fn a_connector_does_not_wait_for_the_accept() {
    for nodes in [1, 2] {
        let (mut fixture, from) = (Fixture::new(nodes), usize::from(nodes) - 1);
        let listener = listener(&mut fixture, 4);
        let before = state(&mut fixture);
        assert_eq!(fixture.ready(0, listener), EventFlags::empty());
        let clients = [(); 2].map(|()| connect(&mut fixture, from).unwrap());
        assert_eq!(fixture.ready(0, listener), EventFlags::EVENT_READ);
        assert!(fixture.nodes[0].events.contains(&listener));
        for (client, word) in clients.into_iter().zip([b"one", b"two"]) {
            assert_eq!(fixture.write(from, client, word), Ok(3));
        }
        // A client that has gone leaves what it sent.
        fixture.close(from, clients[1]);
        let servers = [(); 2].map(|()| accept(&mut fixture, listener).unwrap());
        assert_eq!(fixture.read(0, servers[0], 9), Ok(b"one".to_vec()));
        assert_eq!(fixture.read(0, servers[1], 9), Ok(b"two".to_vec()));
        assert_eq!(fixture.read(0, servers[1], 9), error(ECONNRESET));
        assert_eq!(fixture.write(0, servers[0], b"answer"), Ok(6));
        assert_eq!(
            fixture.read(from, clients[0], 9),
            Ok(b"answer".to_vec()),
            "in the order of the requests"
        );
        assert_eq!(fixture.ready(0, listener), EventFlags::empty());
        assert_eq!(accept(&mut fixture, listener), error(EAGAIN));
        fixture.close(from, clients[0]);
        for server in servers {
            fixture.close(0, server);
        }
        assert_eq!(state(&mut fixture), before);
    }
}

#[test]
fn an_accept_that_waits_gets_the_next_connection() {
    let mut fixture = Fixture::new(2);
    let listener = listener(&mut fixture, 1);
    let waiting = fixture.start_accept(0, listener);
    assert!(fixture.answer(0, waiting).is_none());
    let client = connect(&mut fixture, 1).unwrap();
    let server = fixture.answer(0, waiting).unwrap().0.unwrap();
    assert_eq!(fixture.write(1, client, b"x"), Ok(1));
    assert_eq!(fixture.read(0, server, 9), Ok(b"x".to_vec()));
    assert_eq!(fixture.nodes[0].scif.requests().len(), 0);
}

#[test]
fn no_more_are_granted_than_the_backlog() {
    let mut fixture = Fixture::new(2);
    let listener = listener(&mut fixture, 2);
    let clients = [(); 2].map(|()| connect(&mut fixture, 1).unwrap());
    assert_eq!(connect(&mut fixture, 1), error(ECONNREFUSED));
    let ports = fixture.text(0, "ports");
    let line = ports.lines().find(|line| line.starts_with("2050")).unwrap();
    assert_eq!(line.split_whitespace().nth(2), Some("2"), "{line}");
    let server = accept(&mut fixture, listener).unwrap();
    let third = connect(&mut fixture, 1).unwrap();
    assert_eq!(connect(&mut fixture, 1), error(ECONNREFUSED));
    // One that has gone holds its place until it is accepted.
    fixture.close(1, clients[1]);
    assert_eq!(connect(&mut fixture, 1), error(ECONNREFUSED));
    let gone = accept(&mut fixture, listener).unwrap();
    assert_eq!(fixture.read(0, gone, 9), error(ECONNRESET));
    for id in [server, gone] {
        fixture.close(0, id);
    }
    assert_eq!(fixture.write(1, third, b"x"), Ok(1));
    let last = accept(&mut fixture, listener).unwrap();
    assert_eq!(fixture.read(0, last, 9), Ok(b"x".to_vec()));
}

#[test]
fn an_accept_does_not_wait_for_a_silent_connector() {
    let mut fixture = Fixture::new(2);
    // The connector's node has its turn first.
    let listener = listener_at(&mut fixture, 1, 4);
    let open = Op::Open {
        directory: ROOT,
        path: format!("1/{PORT}"),
        flags: O_RDWR,
        caller: ADMIN,
    };
    let connect = fixture.submit_only(0, open);
    fixture.run_until(|fixture| fixture.nodes[1].scif.engine().0.stats().connections == 1);
    // It is granted, and the connector has not handled the grant.
    assert_eq!(fixture.ready(1, listener), EventFlags::empty());
    let accept = fixture.submit_only(1, take(listener, b"accept-now"));
    let answer = fixture.answer(1, accept).expect("it does not wait");
    assert_eq!(answer.0, error(EAGAIN));
    fixture.nodes[1].events.clear();
    fixture.run();
    assert!(fixture.answer(0, connect).unwrap().0.is_ok());
    assert!(fixture.nodes[1].events.contains(&listener));
    assert_eq!(fixture.ready(1, listener), EventFlags::EVENT_READ);
    assert!(fixture.now(1, take(listener, b"accept-now")).0.is_ok());
}

#[test]
fn connections_that_nobody_takes_end_with_the_listener() {
    for nodes in [1, 2] {
        let (mut fixture, from) = (Fixture::new(nodes), usize::from(nodes) - 1);
        let before = state(&mut fixture);
        let listener = listener(&mut fixture, 4);
        let client = connect(&mut fixture, from).unwrap();
        fixture.close(0, listener);
        assert_eq!(fixture.read(from, client, 1), error(ECONNRESET));
        fixture.close(from, client);
        assert_eq!(state(&mut fixture), before);
    }
}

#[test]
fn a_listener_whose_owner_has_too_many_endpoints_refuses() {
    let mut fixture = Fixture::new(2);
    let listener = listener(&mut fixture, 4);
    let taken = fixture.counter(0, "endpoints");
    let engine = fixture.nodes[0].scif.engine().0;
    engine.set_limit(Resource::Endpoints, Scope::Process, taken + 1);
    let client = connect(&mut fixture, 1).unwrap();
    assert_eq!(connect(&mut fixture, 1), error(ECONNREFUSED));
    let server = accept(&mut fixture, listener).unwrap();
    fixture.close(0, server);
    fixture.close(1, client);
    assert!(connect(&mut fixture, 1).is_ok());
}

#[test]
fn a_node_that_is_lost_takes_its_connections_along() {
    let mut fixture = Fixture::new(2);
    let listener = listener(&mut fixture, 4);
    connect(&mut fixture, 1).unwrap();
    fixture.lose(1);
    let server = accept(&mut fixture, listener).unwrap();
    assert_eq!(fixture.read(0, server, 1), error(ECONNRESET));
    assert_eq!(accept(&mut fixture, listener), error(EAGAIN));
}

#[test]
fn unknown_flags_are_refused() {
    let mut fixture = Fixture::new(1);
    let id = fixture.open(0, "endpoint").unwrap();
    assert!(call(&mut fixture, 0, id, Call::Bind { port: PORT }).is_ok());
    let (backlog, flags) = (1, 2);
    let listen = Call::Listen { backlog, flags };
    assert_eq!(call(&mut fixture, 0, id, listen), error(EINVAL));
    let flags = 0;
    let listen = Call::Listen { backlog, flags };
    assert_eq!(
        call(&mut fixture, 0, id, listen),
        Ok(0),
        "nothing has happened"
    );
}
