//! SCIF's own calls on an endpoint descriptor.

use scif_abi::PortId;
use scif_abi::call::{AcceptRecord, Call};
use scif_abi::codec::Operation;
use scif_abi::flags::Readiness;
use syscall::error::*;
use syscall::flag::{F_SETFL, O_NONBLOCK, O_RDWR};
use zerocopy::FromBytes;

use super::fixture::{ADMIN, EMPTY, Fixture, Op, USER, state};
use crate::listener::Listeners;
use crate::{Caller, HandleId};

fn error<T>(errno: i32) -> Result<T> {
    Err(Error::new(errno))
}

fn words(call: Call) -> [u64; 3] {
    let [first, second] = call.words();
    [call.number(), first, second]
}

#[track_caller]
fn call(fixture: &mut Fixture, node: usize, id: HandleId, operation: Call) -> Result<usize> {
    fixture.call(node, id, &[], words(operation)).0
}

const fn listen(backlog: i32) -> Call {
    Call::Listen { backlog, flags: 0 }
}

const CONNECT: Call = Call::Connect {
    node: 1,
    port: 2050,
};
fn accept(fixture: &mut Fixture, node: usize, id: HandleId) -> Result<AcceptRecord> {
    let (result, payload) = fixture.call(node, id, &[0; 16], [Call::ACCEPT_REQUEST, 0, 0]);
    result.map(|_| AcceptRecord::read_from_bytes(&payload).unwrap())
}

#[test]
fn a_connection_by_calls() {
    let mut fixture = Fixture::new(2);
    let server = fixture.open(1, "endpoint").unwrap();
    assert_eq!(call(&mut fixture, 1, server, Call::LocalPort), Ok(1 << 16));
    assert_eq!(call(&mut fixture, 1, server, listen(4)), error(EINVAL));
    assert_eq!(
        call(&mut fixture, 1, server, Call::Bind { port: 2050 }),
        Ok(2050)
    );
    assert_eq!(
        call(&mut fixture, 1, server, Call::Bind { port: 2051 }),
        error(EINVAL)
    );
    assert_eq!(call(&mut fixture, 1, server, listen(0)), error(EINVAL));
    assert_eq!(call(&mut fixture, 1, server, listen(4)), Ok(0));
    assert_eq!(call(&mut fixture, 1, server, listen(4)), error(EISCONN));
    assert_eq!(call(&mut fixture, 1, server, CONNECT), error(EOPNOTSUPP));
    assert_eq!(accept(&mut fixture, 1, server).map(|_| ()), error(EAGAIN));

    let client = fixture.open(0, "endpoint").unwrap();
    let connect = fixture.start_call(0, client, &[], words(CONNECT));
    assert!(fixture.answer(0, connect).is_none());
    let poll = Call::Poll {
        events: Readiness::IN.bits(),
    };
    assert_eq!(call(&mut fixture, 1, server, poll), Ok(1));
    let synchronous = [Call::ACCEPT_REQUEST, 1, 0];
    let request = fixture.start_call(1, server, &[0; 16], synchronous);
    let (result, payload) = fixture.answer(1, request).unwrap();
    let record = AcceptRecord::read_from_bytes(&payload).unwrap();
    assert_eq!((result, record.peer), (Ok(0), PortId::new(0, 1088)));
    assert_eq!(fixture.answer(0, connect).unwrap().0, Ok(1088));
    assert_eq!(call(&mut fixture, 0, client, CONNECT), error(EISCONN));

    let fetched = fixture.open(1, "endpoint").unwrap();
    let register = |handle| Call::AcceptRegister { handle };
    assert_eq!(
        call(&mut fixture, 1, fetched, register(12345)),
        error(ENOENT)
    );
    assert_eq!(
        call(&mut fixture, 1, server, register(record.handle.get())),
        error(EINVAL)
    );
    assert_eq!(
        call(&mut fixture, 1, fetched, register(record.handle.get())),
        Ok(0)
    );
    assert_eq!(call(&mut fixture, 1, fetched, Call::PeerPort), Ok(1088));
    assert_eq!(
        call(&mut fixture, 1, fetched, Call::LocalPort),
        Ok(1 << 16 | 2050)
    );
    assert_eq!(
        call(&mut fixture, 1, server, Call::PeerPort),
        error(ENOTCONN)
    );

    let send = |flags| words(Call::Send { flags });
    let receive = |flags| words(Call::Recv { flags });
    assert_eq!(fixture.call(0, client, b"hello", send(0)).0, Ok(5));
    assert_eq!(fixture.call(0, client, b" world", send(1)).0, Ok(6));
    let (result, payload) = fixture.call(1, fetched, &[0; 11], receive(1));
    assert_eq!((result, payload.as_slice()), (Ok(11), &b"hello world"[..]));
    assert_eq!(fixture.call(1, fetched, &[0; 11], receive(0)).0, Ok(0));
    assert_eq!(
        fixture.call(1, fetched, &[0; 11], receive(2)).0,
        error(EINVAL)
    );
    assert_eq!(fixture.call(1, fetched, &[], receive(2)).0, Ok(0));
    assert_eq!(
        fixture.call(0, client, &[0; 11], send(1 << 20)).0,
        error(EINVAL)
    );
}

#[test]
fn a_blocking_receive_waits_for_the_whole_buffer() {
    let mut fixture = Fixture::new(2);
    let (client, server) = fixture.pair(0, 1, 2050);
    let receive = words(Call::Recv { flags: 1 });
    let request = fixture.start_call(1, server, &[0; 20_000], receive);
    fixture.write(0, client, &[1; 1000]).unwrap();
    assert!(fixture.answer(1, request).is_none());
    let write = fixture.start_write(0, client, &[2; 19_500]);
    assert_eq!(fixture.answer(0, write).unwrap().0, Ok(19_500));
    let (result, payload) = fixture.answer(1, request).unwrap();
    assert_eq!(result, Ok(20_000));
    assert!(payload[..1000].iter().all(|&b| b == 1) && payload[1000..].iter().all(|&b| b == 2));
    // Bytes left when the peer goes away are returned first, then the reset.
    let request = fixture.start_call(1, server, &[0; 20_000], receive);
    fixture.close(0, client);
    assert_eq!(fixture.answer(1, request).unwrap().0, Ok(500));
    assert_eq!(
        fixture.call(1, server, &[0; 5], receive).0,
        error(ECONNRESET)
    );
}

#[test]
fn connecting_without_waiting() {
    let mut fixture = Fixture::new(2);
    let client = fixture.open_with(0, "endpoint", O_RDWR, USER).unwrap();
    fixture.nodes[0]
        .scif
        .control(client, F_SETFL, O_NONBLOCK)
        .unwrap();
    let connect = |fixture: &mut Fixture| call(fixture, 0, client, CONNECT);
    let writable = |fixture: &mut Fixture| {
        let poll = Call::Poll {
            events: Readiness::OUT.bits(),
        };
        call(fixture, 0, client, poll).unwrap() == usize::from(Readiness::OUT.bits())
    };
    assert_eq!(connect(&mut fixture), error(EINPROGRESS));
    assert!(writable(&mut fixture), "refused at once");
    assert_eq!(connect(&mut fixture), error(ECONNREFUSED));
    let listener = fixture.open(1, "listen/2050").unwrap();
    assert_eq!(connect(&mut fixture), error(EINPROGRESS));
    assert_eq!(connect(&mut fixture), error(EINPROGRESS));
    assert!(!writable(&mut fixture));
    let accept = fixture.start_accept(1, listener);
    assert!(fixture.answer(1, accept).unwrap().0.is_ok());
    assert!(writable(&mut fixture));
    assert_eq!(connect(&mut fixture), Ok(1088));
    assert_eq!(connect(&mut fixture), error(EISCONN));
}

#[test]
fn a_cancelled_connect_leaves_the_endpoint_bound() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open(1, "listen/2050").unwrap();
    let client = fixture.open(0, "endpoint").unwrap();
    let connect = fixture.start_call(0, client, &[], words(CONNECT));
    assert_eq!(fixture.cancel(0, connect), error(ECANCELED));
    assert_eq!(call(&mut fixture, 0, client, Call::LocalPort), Ok(1088));
    let accept = fixture.start_accept(1, listener);
    assert!(fixture.answer(1, accept).is_none());
    let connect = fixture.start_call(0, client, &[], words(CONNECT));
    assert_eq!(fixture.answer(0, connect).unwrap().0, Ok(1088));
    assert!(fixture.answer(1, accept).unwrap().0.is_ok());
}

/// A connect that is cancelled after any number of turns has a result or none, and the endpoint is
/// as the answer says.
#[test]
fn a_connect_that_has_ended_is_not_cancelled() {
    let mut answers = Vec::new();
    for (listens, turns) in [false, true]
        .map(|listens| (0..8).map(move |turns| (listens, turns)))
        .into_iter()
        .flatten()
    {
        let mut fixture = Fixture::new(2);
        let accept = listens.then(|| fixture.start_open(1, "accept/2050"));
        let client = fixture.open(0, "endpoint").unwrap();
        let connect = fixture.submit_only(
            0,
            Op::Call {
                id: client,
                payload: Vec::new(),
                metadata: words(CONNECT).to_vec(),
            },
        );
        let mut left = turns;
        while left > 0 && fixture.is_kept(0, connect) {
            fixture.turn();
            left -= 1;
        }
        if !fixture.is_kept(0, connect) {
            continue;
        }
        let answer = fixture.cancel(0, connect);
        answers.push(answer);
        let again = fixture.start_call(0, client, &[], words(CONNECT));
        let again = fixture.answer(0, again).unwrap().0;
        match answer {
            Ok(1088) => assert_eq!(again, error(EISCONN)),
            // Whoever accepted has got a connection that was withdrawn, and listens no more.
            _ => assert_ne!(again, error(EINPROGRESS), "{turns} turns"),
        }
        if let Some(accept) = accept
            && answer == Ok(1088)
        {
            assert!(fixture.answer(1, accept).unwrap().0.is_ok());
        }
    }
    for answer in [Ok(1088), error(ECONNREFUSED), error(ECANCELED)] {
        assert!(answers.contains(&answer), "{answer:?} in {answers:?}");
    }
}

#[test]
fn accepted_connections_that_nobody_fetches_go_with_the_listener() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open(1, "listen/2050").unwrap();
    let connect = fixture.start_open(0, "1/2050");
    let request = fixture.start_call(1, listener, &[0; 16], [Call::ACCEPT_REQUEST, 1, 0]);
    let (_, payload) = fixture.answer(1, request).unwrap();
    let record = AcceptRecord::read_from_bytes(&payload).unwrap();
    let client = fixture.answer(0, connect).unwrap().0.unwrap();
    // Another user cannot take it.
    let stranger = Caller {
        pid: 5,
        uid: 1234,
        gid: 5,
    };
    let thief = fixture.open_with(1, "endpoint", O_RDWR, stranger).unwrap();
    let register = Call::AcceptRegister {
        handle: record.handle.get(),
    };
    assert_eq!(call(&mut fixture, 1, thief, register), error(ENOENT));
    fixture.close(1, listener);
    assert_eq!(fixture.read(0, client, 1), error(ECONNRESET));
    let late = fixture.open_with(1, "endpoint", O_RDWR, ADMIN).unwrap();
    assert_eq!(call(&mut fixture, 1, late, register), error(ENOENT));
}

#[test]
fn accepted_connections_that_nobody_fetches_go_with_the_process_that_took_them() {
    let mut fixture = Fixture::new(2);
    let opener = Caller { pid: 5, ..USER };
    let listener = fixture.open_with(1, "listen/2050", O_RDWR, opener);
    let listener = listener.unwrap();
    let before = state(&mut fixture);
    let connect = fixture.start_open(0, "1/2050");
    let taken = accept(&mut fixture, 1, listener).unwrap();
    let client = fixture.answer(0, connect).unwrap().0.unwrap();
    // Another process has the listener, too, so it stays. The taker may be slow.
    let end = |fixture: &mut Fixture, most, gone: &[usize]| {
        let scif = &mut fixture.nodes[1].scif;
        scif.end_unclaimed(most, |process| gone.contains(&process));
        let waits = scif.holds_unclaimed();
        fixture.run();
        waits
    };
    assert!(end(&mut fixture, 10, &[5, 78]));
    assert!(end(&mut fixture, 0, &[77]));
    assert_eq!(fixture.write(0, client, b"still there"), Ok(11));
    assert!(!end(&mut fixture, 10, &[77]));
    assert_eq!(fixture.read(0, client, 1), error(ECONNRESET));
    fixture.close(0, client);
    assert_eq!(state(&mut fixture), before);
    let register = Call::AcceptRegister {
        handle: taken.handle.get(),
    };
    let late = fixture.open(1, "endpoint").unwrap();
    assert_eq!(call(&mut fixture, 1, late, register), error(ENOENT));

    // What is claimed has a descriptor, which goes with its process.
    let connect = fixture.start_open(0, "1/2050");
    let taken = accept(&mut fixture, 1, listener).unwrap();
    let client = fixture.answer(0, connect).unwrap().0.unwrap();
    let register = Call::AcceptRegister {
        handle: taken.handle.get(),
    };
    assert_eq!(call(&mut fixture, 1, late, register), Ok(0));
    assert!(!end(&mut fixture, 10, &[77]));
    assert_eq!(fixture.write(1, late, b"claimed"), Ok(7));
    assert_eq!(fixture.read(0, client, 7), Ok(b"claimed".to_vec()));
}

#[test]
fn takers_of_connections_are_asked_about_in_turns() {
    let mut fixture = Fixture::new(1);
    let (engine, _) = fixture.nodes[0].scif.engine();
    let endpoint = engine.open(USER.owner()).unwrap();
    let mut listeners = Listeners::<u32>::default();
    for taker in [7, 3, 7, 9, 5] {
        listeners.keep(endpoint, 1, USER, taker);
    }
    let mut ask = |gone: usize| {
        let mut asked = Vec::new();
        let taken = listeners.take_of_the_gone(2, |taker| {
            asked.push(taker);
            taker == gone
        });
        (asked, taken.len())
    };
    assert_eq!(ask(9), (vec![3, 5], 0));
    assert_eq!(ask(7), (vec![7, 9], 2));
    assert_eq!(ask(9), (vec![3, 5], 0));
    assert_eq!(ask(9), (vec![9, 3], 1));
    assert_eq!(ask(5), (vec![5, 3], 1));
    assert_eq!(ask(3), (vec![3], 1));
    assert_eq!(ask(3), (vec![], 0));
}

#[test]
fn malformed_calls() {
    let mut fixture = Fixture::new(1);
    let endpoint = fixture.open(0, "endpoint").unwrap();
    let table: &[(&[u64], usize, i32)] = &[
        (&[], 0, EINVAL),
        (&[0, 0, 0], 0, EINVAL),
        (&[999, 0, 0], 0, EINVAL),
        (&[u64::MAX, 0, 0], 0, EINVAL),
        (&[Call::BIND, 65536, 0], 0, EINVAL),
        (&[Call::BIND, u64::MAX, 0], 0, EINVAL),
        (&[Call::CONNECT, 65536, 1], 0, EINVAL),
        (&[Call::CONNECT, 0, 0], 0, EINVAL),
        (&[Call::CONNECT, 9, 1], 0, ENODEV),
        (&[Call::LISTEN, 1 << 40, 0], 0, EINVAL),
        (&[Call::ACCEPT_REQUEST, 0, 0], 15, EINVAL),
        (&[Call::ACCEPT_REQUEST, 0, 0], 17, EINVAL),
        (&[Call::ACCEPT_REQUEST, 2, 0], 16, EINVAL),
        (&[Call::ACCEPT_REQUEST, 1, 0], 16, EINVAL),
        (&[Call::ACCEPT_REGISTER, 1, 0], 0, ENOENT),
        (&[Call::SEND, 0, 0], 4, ENOTCONN),
        (&[Call::RECV, 1, 0], 4, ENOTCONN),
    ];
    for &(metadata, length, errno) in table {
        let op = Op::Call {
            id: endpoint,
            payload: vec![0; length],
            metadata: metadata.to_vec(),
        };
        assert_eq!(
            fixture.now(0, op).0,
            error(errno),
            "{metadata:?}, {length} bytes"
        );
    }
}

#[test]
fn node_ids_fill_what_there_is_room_for() {
    let mut fixture = Fixture::new(3);
    let nodes = fixture
        .open_with(1, "nodes", syscall::flag::O_RDONLY, USER)
        .unwrap();
    let ids = [Call::GET_NODE_IDS, 0, 0];
    let (count, bytes) = fixture.call(1, nodes, &[0xff; 12], ids);
    assert_eq!(
        (count, bytes.as_slice()),
        (Ok(3), &[1, 0, 0, 0, 1, 0, 2, 0, 255, 255, 255, 255][..])
    );
    let (count, bytes) = fixture.call(1, nodes, &[0xff; 5], ids);
    assert_eq!((count, bytes.as_slice()), (Ok(3), &[1, 0, 0, 0, 255][..]));
    assert_eq!(fixture.call(1, nodes, &[], ids).0, Ok(3));
}

/// The operation collects the result of a connect that `open` started. Transfers must not ask for
/// it once more, and not begin another connect.
#[test]
fn the_operation_collects_the_connect_of_an_open() {
    for to in [0, 1] {
        let mut fixture = Fixture::new(to as u16 + 1);
        let listener = fixture.open(to, "listen/2050").unwrap();
        let flags = O_RDWR | O_NONBLOCK;
        let path = format!("{to}/2050");
        let client = fixture.open_with(0, &path, flags, USER).unwrap();
        let words = |port: u64| [3, to as u64, port];
        let connect = |fixture: &mut Fixture, port| fixture.call(0, client, &[], words(port)).0;
        assert_eq!(connect(&mut fixture, 2050), error(EINPROGRESS));
        let accept = fixture.start_accept(to, listener);
        let server = fixture.answer(to, accept).unwrap().0.unwrap();
        assert!(connect(&mut fixture, 2050).is_ok());
        assert_eq!(fixture.write(0, client, b"x"), Ok(1));
        assert_eq!(fixture.read(to, server, 9), Ok(b"x".to_vec()));
        // A connect that is refused, reported by the operation.
        let client = fixture.open_with(0, &path, flags, USER).unwrap();
        fixture.close(to, listener);
        fixture.run();
        let refused = fixture.call(0, client, &[], words(2050)).0;
        assert_eq!(refused, error(ECONNREFUSED));
        let listener = fixture.open(to, "listen/2050").unwrap();
        let op = Op::Write {
            id: client,
            bytes: b"x".to_vec(),
            flags: O_NONBLOCK,
        };
        assert_eq!(fixture.now(0, op).0, error(ENOTCONN));
        assert_eq!(fixture.ready(to, listener), EMPTY, "nobody connects");
    }
}
