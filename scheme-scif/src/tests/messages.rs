//! Files below `stp`: messages, their ends, and peers with another protocol.

use st_core::frame::{Frame, MOST_BYTES};
use st_core::record::{Parameters, RECORD_BYTES, Record};
use syscall::error::{
    EAGAIN, ECANCELED, ECONNREFUSED, ECONNRESET, EINVAL, EMSGSIZE, ENODEV, ENOENT, ENOTTY, EPROTO,
    Error,
};
use syscall::flag::{EventFlags, MapFlags, O_NONBLOCK, O_RDONLY, O_RDWR};

use scif_abi::call::Call;

use super::fixture::{ADMIN, Fixture, Op, PAGE, USER, state};
use super::programs::{call, op};
use crate::HandleId;

fn error<T>(errno: i32) -> Result<T, Error> {
    Err(Error::new(errno))
}

/// A connection whose two ends are files below `stp`.
#[track_caller]
fn pair(fixture: &mut Fixture, to: usize) -> (HandleId, HandleId) {
    join(fixture, to, "stp/", "stp/")
}

/// A connection of files below these directories: the connector's handle and the accepted one.
#[track_caller]
fn join(fixture: &mut Fixture, to: usize, client: &str, server: &str) -> (HandleId, HandleId) {
    let accept = fixture.start_open(to, &format!("{server}accept/2050"));
    let connect = fixture.start_open(0, &format!("{client}{to}/2050"));
    let accepted = fixture.answer(to, accept).unwrap().0.unwrap();
    let connected = fixture.answer(0, connect).unwrap().0.unwrap();
    (connected, accepted)
}

fn on_one_and_two_nodes(test: impl Fn(Fixture, usize)) {
    test(Fixture::new(1), 0);
    test(Fixture::new(2), 1);
}

#[test]
fn messages_keep_their_boundaries_and_end_in_order() {
    on_one_and_two_nodes(|mut fixture, to| {
        let before = state(&mut fixture);
        let (client, server) = pair(&mut fixture, to);
        assert_eq!(fixture.write(0, client, b"hello"), Ok(5));
        assert_eq!(fixture.write(0, client, b""), Ok(0));
        assert_eq!(fixture.write(0, client, b"world!"), Ok(6));
        assert_eq!(fixture.write(to, server, b"hi"), Ok(2));
        // A read returns one message; the next read returns the rest of a longer one.
        assert_eq!(fixture.read(to, server, 100), Ok(b"hello".to_vec()));
        assert_eq!(fixture.read(to, server, 4), Ok(b"worl".to_vec()));
        assert_eq!(fixture.read(to, server, 4), Ok(b"d!".to_vec()));
        fixture.close(0, client);
        // The end in order, at every further read.
        assert_eq!(fixture.read(to, server, 100), Ok(Vec::new()));
        assert_eq!(fixture.read(to, server, 100), Ok(Vec::new()));
        assert_eq!(fixture.write(to, server, b"x"), error(ECONNRESET));
        fixture.close(to, server);
        assert_eq!(state(&mut fixture), before);
    });
}

#[test]
fn a_message_longer_than_the_ring_waits_for_its_receiver() {
    on_one_and_two_nodes(|mut fixture, to| {
        let (client, server) = pair(&mut fixture, to);
        let sent: Vec<u8> = (0..100_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        let write = fixture.start_write(0, client, &sent);
        // Another message waits behind it.
        let next = fixture.start_write(0, client, b"next");
        assert!(fixture.is_kept(0, write) && fixture.is_kept(0, next));
        let mut received = Vec::new();
        while received.len() < sent.len() {
            received.extend(fixture.read(to, server, 3000).unwrap());
        }
        assert!(received == sent);
        assert_eq!(fixture.answer(0, write).unwrap().0, Ok(sent.len()));
        assert_eq!(fixture.answer(0, next).unwrap().0, Ok(4));
        assert_eq!(fixture.read(to, server, 3000), Ok(b"next".to_vec()));
    });
}

/// However full the ring is when the writer closes, the end is an orderly one.
#[test]
fn an_end_always_finds_room() {
    on_one_and_two_nodes(|mut fixture, to| {
        for length in [1, 7, 8, 50, 4000] {
            let (client, server) = pair(&mut fixture, to);
            let message = vec![7; length];
            let mut sent = 0;
            let left = loop {
                let write = fixture.start_write(0, client, &message);
                match fixture.answer(0, write) {
                    Some((result, _)) => assert_eq!(result, Ok(length)),
                    None => break write,
                }
                sent += 1;
            };
            // The waiting write has begun its frame, or not; the next read lets it continue.
            assert_eq!(fixture.read(to, server, length), Ok(message.clone()));
            while fixture.is_kept(0, left) {
                assert_eq!(fixture.read(to, server, length), Ok(message.clone()));
                sent -= 1;
            }
            fixture.close(0, client);
            for _ in 0..sent {
                assert_eq!(fixture.read(to, server, length), Ok(message.clone()));
            }
            assert_eq!(fixture.read(to, server, length), Ok(Vec::new()));
            fixture.close(to, server);
        }
    });
}

#[test]
fn a_write_that_is_given_up_in_a_message_cuts_the_stream() {
    on_one_and_two_nodes(|mut fixture, to| {
        let (client, server) = pair(&mut fixture, to);
        let write = fixture.start_write(0, client, &[1; 100_000]);
        assert!(fixture.is_kept(0, write));
        assert_eq!(fixture.cancel(0, write), error(ECANCELED));
        assert_eq!(fixture.write(0, client, b"behind it"), error(ECONNRESET));
        // The other direction is unaffected.
        assert_eq!(fixture.write(to, server, b"hi"), Ok(2));
        assert_eq!(fixture.read(0, client, 9), Ok(b"hi".to_vec()));
        fixture.close(0, client);
        let mut received = 0;
        let end = loop {
            match fixture.read(to, server, 4000) {
                Ok(bytes) => received += bytes.len(),
                Err(error) => break error,
            }
            assert!(received < 100_000);
        };
        assert_eq!(end, Error::new(ECONNRESET));
    });
}

#[test]
fn a_write_that_is_given_up_before_its_message_changes_nothing() {
    let mut fixture = Fixture::new(2);
    let (client, server) = pair(&mut fixture, 1);
    let first = fixture.start_write(0, client, &[1; 100_000]);
    let second = fixture.start_write(0, client, b"never");
    assert_eq!(fixture.cancel(0, second), error(ECANCELED));
    let mut received = 0;
    while received < 100_000 {
        received += fixture.read(1, server, 5000).unwrap().len();
    }
    assert_eq!(fixture.answer(0, first).unwrap().0, Ok(100_000));
    assert_eq!(fixture.write(0, client, b"behind it"), Ok(9));
    assert_eq!(fixture.read(1, server, 5000), Ok(b"behind it".to_vec()));
}

#[test]
fn nothing_goes_before_both_ends_have_spoken() {
    let mut fixture = Fixture::new(2);
    let (client, server) = join(&mut fixture, 1, "", "stp/");
    // A peer that sends nothing.
    let (read, write) = (
        fixture.start_read(1, server, 10),
        fixture.start_write(1, server, b"x"),
    );
    assert!(fixture.is_kept(1, read) && fixture.is_kept(1, write));
    fixture.close(0, client);
    assert_eq!(fixture.answer(1, read).unwrap().0, error(ECONNRESET));
    assert_eq!(fixture.answer(1, write).unwrap().0, error(ECONNRESET));
    fixture.close(1, server);
    // The set-up needs no call of a program.
    let (client, server) = pair(&mut fixture, 1);
    assert_eq!(fixture.write(0, client, b"early"), Ok(5));
    assert_eq!(fixture.read(1, server, 10), Ok(b"early".to_vec()));
}

#[test]
fn peers_that_speak_something_else() {
    let mut fixture = Fixture::new(2);
    // A client that sends something else than a request is refused.
    let (client, server) = join(&mut fixture, 1, "", "stp/");
    assert_eq!(
        fixture.write(0, client, &[7; RECORD_BYTES]),
        Ok(RECORD_BYTES)
    );
    assert_eq!(fixture.read(1, server, 10), error(EPROTO));
    assert_eq!(fixture.write(1, server, b"x"), error(EPROTO));
    let answer = fixture.read(0, client, 100).unwrap();
    assert_eq!(
        Record::decode(answer.as_slice().try_into().unwrap()),
        Ok(Record::Reject)
    );
    fixture.close(0, client);
    fixture.close(1, server);
    // A client with the bypass is refused, too.
    let request = |bypass, channels| {
        Record::Request(Parameters {
            port: 1,
            key: 7,
            bypass,
            channels,
            slots: 64,
            window: 0,
        })
    };
    let (client, server) = join(&mut fixture, 1, "", "stp/");
    let sent = fixture.write(0, client, &request(true, 4).encode());
    assert_eq!(sent, Ok(RECORD_BYTES));
    assert_eq!(fixture.read(1, server, 10), error(EPROTO));
    fixture.close(0, client);
    fixture.close(1, server);
    // Another number of channels is no hindrance without the bypass.
    let (client, server) = join(&mut fixture, 1, "", "stp/");
    let sent = fixture.write(0, client, &request(false, 9).encode());
    assert_eq!(sent, Ok(RECORD_BYTES));
    assert_eq!(fixture.write(1, server, b"x"), Ok(1));
    // Then invalid bytes: the connection cannot be used any more.
    assert_eq!(fixture.write(0, client, &[0xff; 8]), Ok(8));
    assert_eq!(fixture.read(1, server, 10), error(EPROTO));
    assert_eq!(fixture.write(1, server, b"x"), error(EPROTO));
    fixture.close(0, client);
    fixture.close(1, server);
    // A server that sends another answer, one that refuses, and one that goes away: the open
    // fails.
    let answers = [
        (Some([7; RECORD_BYTES]), ECONNREFUSED),
        (Some(Record::Reject.encode()), ECONNREFUSED),
        (None, ECONNRESET),
    ];
    for (answer, expected) in answers {
        let before = state(&mut fixture);
        let accept = fixture.start_open(1, "accept/2050");
        let connect = fixture.start_open(0, "stp/1/2050");
        let server = fixture.answer(1, accept).unwrap().0.unwrap();
        assert!(fixture.is_kept(0, connect));
        if let Some(answer) = answer {
            assert_eq!(fixture.write(1, server, &answer), Ok(RECORD_BYTES));
        }
        fixture.close(1, server);
        assert_eq!(fixture.answer(0, connect).unwrap().0, error(expected));
        assert_eq!(state(&mut fixture), before);
    }
    // A server that sends nothing: the open can be given up.
    let before = state(&mut fixture);
    let accept = fixture.start_open(1, "accept/2050");
    let connect = fixture.start_open(0, "stp/1/2050");
    let server = fixture.answer(1, accept).unwrap().0.unwrap();
    assert_eq!(fixture.cancel(0, connect), error(ECANCELED));
    let request = fixture.read(1, server, 100).unwrap();
    let request = Record::decode(request.first_chunk().unwrap());
    assert!(matches!(request, Ok(Record::Request(_))));
    fixture.close(1, server);
    assert_eq!(state(&mut fixture), before);
}

/// Whatever the peer sends, in whatever pieces: bytes, a documented error, or waiting.
#[test]
fn random_bytes_of_the_peer_are_answered() {
    let mut word = 12345_u64;
    let mut random = |limit: u64| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 33) % limit
    };
    for _ in 0..300 {
        let mut fixture = Fixture::new(1);
        let before = state(&mut fixture);
        let (client, server) = join(&mut fixture, 0, "", "stp/");
        let own = Parameters {
            port: 9,
            key: 1,
            bypass: false,
            channels: 4,
            slots: 64,
            window: 0,
        };
        let mut stream = Record::Request(own).encode().to_vec();
        for _ in 0..random(6) {
            stream.extend(Frame::Message(random(20) as usize).encode());
            stream.extend((0..random(24)).map(|byte| byte as u8));
        }
        stream.extend(Frame::End.encode());
        for _ in 0..random(3) {
            let at = random(stream.len() as u64) as usize;
            stream[at] = random(256) as u8;
        }
        while !stream.is_empty() {
            let rest = stream.split_off((1 + random(90) as usize).min(stream.len()));
            assert_eq!(fixture.write(0, client, &stream), Ok(stream.len()));
            stream = rest;
            let op = Op::Read {
                id: server,
                length: 1 + random(30) as usize,
                flags: O_NONBLOCK,
            };
            let allowed = [EAGAIN, EPROTO];
            if let (Err(error), _) = fixture.now(0, op) {
                assert!(allowed.contains(&error.errno), "{error:?}");
            }
        }
        fixture.close(0, client);
        fixture.close(0, server);
        assert_eq!(state(&mut fixture), before);
    }
}

#[test]
fn without_waiting() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open(1, "stp/listen/2050").unwrap();
    let client = fixture
        .open_with(0, "stp/1/2050", O_RDWR | O_NONBLOCK, USER)
        .unwrap();
    let write = |bytes: &[u8]| Op::Write {
        id: client,
        bytes: bytes.to_vec(),
        flags: O_NONBLOCK,
    };
    let read = |length| Op::Read {
        id: client,
        length,
        flags: O_NONBLOCK,
    };
    assert_eq!(fixture.now(0, write(b"x")).0, error(EAGAIN));
    let accept = fixture.start_accept(1, listener);
    let server = fixture.answer(1, accept).unwrap().0.unwrap();
    let waiting = fixture.start_read(1, server, 100);
    assert!(fixture.is_kept(1, waiting));
    assert_eq!(fixture.now(0, read(9)).0, error(EAGAIN));
    assert_eq!(fixture.now(0, write(b"one")).0, Ok(3));
    assert_eq!(fixture.answer(1, waiting).unwrap().0, Ok(3));
    assert_eq!(fixture.now(0, write(&vec![1; 4 << 20])).0, error(EMSGSIZE));
    // The longest one that any ring takes; this is the smallest.
    const LONGEST: usize = 4079;
    assert_eq!(fixture.now(0, write(&[2; LONGEST + 1])).0, error(EMSGSIZE));
    assert_eq!(fixture.now(0, write(&[2; LONGEST])).0, Ok(LONGEST));
    assert_eq!(fixture.read(1, server, 5000), Ok(vec![2; LONGEST]));
    // Whole messages are sent as long as there is room; then a read makes room.
    let mut sent = 0;
    while fixture.now(0, write(&[7; 1000])).0 == Ok(1000) {
        sent += 1;
    }
    assert!(sent > 0);
    assert_eq!(fixture.now(0, write(&[7; 1000])).0, error(EAGAIN));
    for _ in 0..sent {
        assert_eq!(fixture.read(1, server, 5000), Ok(vec![7; 1000]));
    }
    assert_eq!(fixture.now(0, write(&[7; 1000])).0, Ok(1000));
    assert_eq!(fixture.write(1, server, b"hi"), Ok(2));
    assert!(fixture.ready(0, client).contains(EventFlags::EVENT_READ));
    assert_eq!(fixture.now(0, read(9)).0, Ok(2));
    assert_eq!(fixture.now(0, read(9)).0, error(EAGAIN));
    fixture.close(1, server);
    assert_eq!(fixture.now(0, read(9)).0, Ok(0));
}

#[test]
fn what_would_break_the_stream_is_refused() {
    let mut fixture = Fixture::new(2);
    let (client, server) = pair(&mut fixture, 1);
    for name in [
        "bypass",
        "window",
        "own-window",
        "cached-window",
        "memory",
        "end",
        "accept",
    ] {
        let op = Op::Dup {
            id: client,
            name: name.as_bytes().to_vec(),
            caller: ADMIN,
        };
        assert_eq!(fixture.now(0, op).0, error(EINVAL), "{name}");
    }
    let calls = [
        Call::Send { flags: 0 },
        Call::Recv { flags: 0 },
        Call::Finish,
        Call::FinishReceiving,
        Call::Bind { port: 0 },
        Call::MapRun {
            remote_offset: 0,
            length: 4096,
        },
    ];
    for wanted in calls {
        assert_eq!(fixture.now(0, op(client, wanted)).0, error(ENOTTY));
    }
    assert_eq!(
        call(&mut fixture, 0, client, Call::PeerPort),
        Ok(1 << 16 | 2050)
    );
    let flags = MapFlags::MAP_SHARED | MapFlags::PROT_READ;
    assert_eq!(fixture.map(0, client, 0, PAGE, flags), error(ENODEV));
    assert_eq!(fixture.open(0, "stp/nodes"), error(ENOENT));
    let name = |fixture: &Fixture, node: usize, id| fixture.nodes[node].scif.name(id).unwrap();
    assert_eq!(name(&fixture, 0, client), "/scheme/scif/stp/1/2050");
    assert!(name(&fixture, 1, server).starts_with("/scheme/scif/stp/0/"));
    assert_eq!(call(&mut fixture, 0, client, Call::Shutdown), Ok(0));
    assert_eq!(fixture.read(1, server, 9), Ok(Vec::new()));
    const { assert!(MOST_BYTES == 1 << 30) };
}

#[test]
fn the_directory_has_nodes_and_ends() {
    let mut fixture = Fixture::new(2);
    let listener = fixture
        .open_with(0, "stp/listen/2050", O_RDWR, USER)
        .unwrap();
    let names = |fixture: &mut Fixture, path: &str| -> Vec<String> {
        let id = fixture.open_with(0, path, O_RDONLY, USER).unwrap();
        let list = fixture.nodes[0].scif.list(id).unwrap();
        fixture.close(0, id);
        list.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&mut fixture, "stp"), ["0", "1", "accept", "listen"]);
    assert_eq!(names(&mut fixture, "stp/listen"), ["2050"]);
    assert!(names(&mut fixture, "").contains(&"stp".to_string()));
    // Relative to the directory.
    let directory = fixture.open_with(0, "stp", O_RDONLY, USER).unwrap();
    let open = Op::Open {
        directory,
        path: "0/2050".to_string(),
        flags: O_RDWR,
        caller: USER,
    };
    let connect = fixture.submit(0, open);
    let accept = fixture.start_accept(0, listener);
    let server = fixture.answer(0, accept).unwrap().0.unwrap();
    let client = fixture.answer(0, connect).unwrap().0.unwrap();
    let write = fixture.start_write(0, client, b"x");
    assert_eq!(fixture.read(0, server, 5), Ok(b"x".to_vec()));
    assert_eq!(fixture.answer(0, write).unwrap().0, Ok(1));
}
