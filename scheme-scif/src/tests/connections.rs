//! Connecting, accepting, sharing a port, giving up, losing the peer; the text files.

use scif_abi::error::Error as Errno;
use syscall::error::{
    EACCES, EAGAIN, ECANCELED, ECONNREFUSED, ECONNRESET, EINVAL, ENFILE, ENODEV, ENOMEM, ENOTDIR,
    Error,
};
use syscall::flag::{EventFlags, O_DIRECTORY, O_NONBLOCK, O_RDONLY, O_RDWR, O_STAT};

use scif_core::{Resource, Scope};

use super::fixture::{ADMIN, EMPTY, Fixture, Op, USER, state};
use crate::{Caller, HandleId, NodeEvent, ROOT};

pub fn error<T>(errno: i32) -> Result<T, Error> {
    Err(Error::new(errno))
}

/// Runs a test of connections inside one node and between two.
fn on_one_and_two_nodes(test: impl Fn(Fixture, usize)) {
    test(Fixture::new(1), 0);
    test(Fixture::new(2), 1);
}

#[test]
fn a_greeting_goes_both_ways_and_ends_with_a_reset() {
    on_one_and_two_nodes(|mut fixture, to| {
        let (client, server) = fixture.pair(0, to, 2050);
        assert_eq!(fixture.write(0, client, b"hello"), Ok(5));
        assert_eq!(fixture.read(to, server, 100), Ok(b"hello".to_vec()));
        assert_eq!(fixture.write(to, server, b"hi"), Ok(2));
        fixture.close(to, server);
        assert_eq!(fixture.read(0, client, 100), Ok(b"hi".to_vec()));
        assert_eq!(fixture.read(0, client, 100), error(ECONNRESET));
        assert_eq!(fixture.write(0, client, b"x"), error(ECONNRESET));
        assert_eq!(fixture.write(0, client, b""), Ok(0));
        fixture.close(0, client);
        assert_eq!(fixture.text(0, "connections").lines().count(), 1);
        assert_eq!(fixture.text(to, "ports").lines().count(), 1);
    });
}

#[test]
fn a_listener_gives_out_connections_by_dup() {
    on_one_and_two_nodes(|mut fixture, to| {
        let listener = fixture.open(to, "listen/2050").unwrap();
        assert_eq!(fixture.ready(to, listener), EMPTY);
        let first = fixture.start_open(0, &format!("{to}/2050"));
        let second = fixture.start_open(0, &format!("{to}/2050"));
        assert_eq!(fixture.ready(to, listener), EventFlags::EVENT_READ);
        assert!(fixture.nodes[to].events.contains(&listener));
        for connect in [first, second] {
            let accept = fixture.start_accept(to, listener);
            let accepted = fixture.answer(to, accept).unwrap().0.unwrap();
            let connected = fixture.answer(0, connect).unwrap().0.unwrap();
            assert_eq!(fixture.write(0, connected, b"x"), Ok(1));
            assert_eq!(fixture.read(to, accepted, 9), Ok(b"x".to_vec()));
        }
        // A third accept waits, is woken by a third connect.
        let accept = fixture.start_accept(to, listener);
        assert!(fixture.answer(to, accept).is_none());
        let connect = fixture.start_open(0, &format!("{to}/2050"));
        assert!(fixture.answer(to, accept).unwrap().0.is_ok());
        assert!(fixture.answer(0, connect).unwrap().0.is_ok());
    });
}

#[test]
fn accept_without_waiting() {
    let mut fixture = Fixture::new(1);
    let listener = fixture
        .open_with(0, "listen/2050", O_RDWR | O_NONBLOCK, USER)
        .unwrap();
    let accept = |fixture: &mut Fixture| {
        let op = Op::Dup {
            id: listener,
            name: b"accept".to_vec(),
            caller: USER,
        };
        fixture.now(0, op).0
    };
    assert_eq!(accept(&mut fixture), error(EAGAIN));
    let connect = fixture.start_open(0, "0/2050");
    // The accept waits for the handshake that follows a connection request.
    let request = fixture.start_accept(0, listener);
    assert!(fixture.answer(0, request).unwrap().0.is_ok());
    assert!(fixture.answer(0, connect).unwrap().0.is_ok());
    assert_eq!(accept(&mut fixture), error(EAGAIN));
    assert_eq!(fixture.nodes[0].scif.requests().len(), 0);
    let op = Op::Dup {
        id: listener,
        name: b"other".to_vec(),
        caller: USER,
    };
    assert_eq!(fixture.now(0, op).0, error(EINVAL));
}

pub fn take(listener: HandleId, name: &[u8]) -> Op {
    Op::Dup {
        id: listener,
        name: name.to_vec(),
        caller: USER,
    }
}

#[test]
fn an_accept_whose_connector_is_lost() {
    for (name, expected) in [(&b"accept-wait"[..], ENODEV), (b"accept-now", EAGAIN)] {
        let mut fixture = Fixture::new(2);
        let listener = fixture.open_with(0, "listen/2050", O_RDWR, USER).unwrap();
        let before = fixture.counter(0, "endpoints");
        fixture.start_open(1, "0/2050");
        let accept = fixture.submit_only(0, take(listener, name));
        assert!(fixture.is_kept(0, accept), "the grant is not acknowledged");
        fixture.lose(1);
        assert_eq!(fixture.answer(0, accept).unwrap().0, error(expected));
        assert_eq!(fixture.counter(0, "endpoints"), before);
        assert_eq!(fixture.nodes[0].scif.requests().len(), 0);
    }
}

#[test]
fn an_accept_that_was_granted_is_finished_when_the_table_of_handles_is_full() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open_with(0, "listen/2050", O_RDWR, USER).unwrap();
    let connect = fixture.start_open(1, "0/2050");
    let accept = fixture.submit_only(0, take(listener, b"accept-wait"));
    assert!(fixture.is_kept(0, accept), "the grant is not acknowledged");
    let scif = &mut fixture.nodes[0].scif;
    for scope in Scope::ALL {
        scif.engine().0.set_limit(Resource::Files, scope, u64::MAX);
    }
    let mut fill = || scif.open(ROOT, "endpoint", O_STAT, 0, ADMIN, u32::MAX);
    while fill().is_ok() {}
    assert_eq!(fill(), error(ENFILE));
    fixture.run();
    assert!(fixture.answer(0, accept).unwrap().0.is_ok());
    assert!(fixture.answer(1, connect).unwrap().0.is_ok());
    assert_eq!(fixture.nodes[0].scif.requests().len(), 0);
    // New accepts are refused and begin nothing.
    let connect = fixture.start_open(1, "0/2050");
    assert_eq!(
        fixture.now(0, take(listener, b"accept-wait")).0,
        error(ENFILE)
    );
    assert!(fixture.is_kept(1, connect));
    assert_eq!(fixture.nodes[0].scif.requests().len(), 0);
}

#[test]
fn an_accept_at_a_limit_connects_nobody() {
    for name in [&b"accept-wait"[..], b"accept-now", b"accept"] {
        let mut fixture = Fixture::new(2);
        let listener = fixture.open_with(0, "listen/2050", O_RDWR, USER).unwrap();
        let (engine, _) = fixture.nodes[0].scif.engine();
        engine.set_limit(Resource::Endpoints, Scope::Process, 1);
        let before = state(&mut fixture);
        let connect = fixture.start_open(1, "0/2050");
        assert_eq!(fixture.now(0, take(listener, name)).0, error(ENOMEM));
        assert_eq!(fixture.answer(1, connect).unwrap().0, error(ECONNREFUSED));
        assert_eq!(state(&mut fixture), before);
        // With room the next one is connected.
        let (engine, _) = fixture.nodes[0].scif.engine();
        engine.set_limit(Resource::Endpoints, Scope::Process, 2);
        let connect = fixture.start_open(1, "0/2050");
        assert!(fixture.now(0, take(listener, name)).0.is_ok());
        assert!(fixture.answer(1, connect).unwrap().0.is_ok());
    }
}

#[test]
fn an_accept_port_is_shared_within_a_user_only() {
    let mut fixture = Fixture::new(2);
    let open = |caller: Caller| Op::Open {
        directory: ROOT,
        path: "accept/2050".into(),
        flags: O_RDWR,
        caller,
    };
    let stranger = Caller { uid: 1001, ..USER };
    let mine = fixture.submit(0, open(USER));
    assert!(fixture.is_kept(0, mine));
    // Only the open of another user listens.
    assert_eq!(fixture.now(0, open(stranger)).0, error(EINVAL));
    let also_mine = fixture.submit(0, open(USER));
    let of_root = fixture.submit(0, open(ADMIN));
    assert!(fixture.is_kept(0, also_mine) && fixture.is_kept(0, of_root));
    let connect = fixture.start_open(1, "0/2050");
    assert!(fixture.answer(1, connect).unwrap().0.is_ok());
    assert!(fixture.answer(0, mine).unwrap().0.is_ok());
}

#[test]
fn a_free_port_is_given_out_and_named() {
    let mut fixture = Fixture::new(1);
    let first = fixture.open_with(0, "listen/0", O_RDWR, USER).unwrap();
    let second = fixture.open_with(0, "listen/0", O_RDWR, USER).unwrap();
    assert_eq!(
        fixture.nodes[0].scif.name(first).unwrap(),
        "/scheme/scif/listen/1088"
    );
    assert_eq!(
        fixture.nodes[0].scif.name(second).unwrap(),
        "/scheme/scif/listen/1089"
    );
    fixture.close(0, first);
    let third = fixture.open_with(0, "listen/0", O_RDWR, USER).unwrap();
    assert_eq!(
        fixture.nodes[0].scif.name(third).unwrap(),
        "/scheme/scif/listen/1088"
    );
}

#[test]
fn several_opens_share_an_accept_port() {
    on_one_and_two_nodes(|mut fixture, to| {
        let accepts: Vec<u32> = (0..3)
            .map(|_| fixture.start_open(to, "accept/2050"))
            .collect();
        assert_eq!(fixture.kept(to), 3);
        let scif = &mut fixture.nodes[to].scif;
        let first = scif.handles().iter().next().map(|(id, _)| id);
        let listed = scif.list(first.unwrap());
        assert!(listed.unwrap().iter().any(|(name, _)| name == "accept"));
        assert!(fixture.text(to, "ports").contains("2050  listening"));
        let mut done = 0;
        for _ in 0..3 {
            let connect = fixture.start_open(0, &format!("{to}/2050"));
            assert!(fixture.answer(0, connect).unwrap().0.is_ok());
            done += 1;
            assert_eq!(fixture.kept(to), 3 - done);
        }
        let answers: Vec<_> = accepts
            .iter()
            .map(|&r| fixture.answer(to, r).unwrap().0)
            .collect();
        assert!(answers.iter().all(Result::is_ok));
        // With the last open the listener is gone.
        assert_eq!(fixture.open(0, &format!("{to}/2050")), error(ECONNREFUSED));
    });
}

#[test]
fn accept_uses_a_listener_of_the_same_user() {
    let mut fixture = Fixture::new(1);
    let listener = fixture.open_with(0, "listen/2050", O_RDWR, USER).unwrap();
    let stranger = Caller {
        pid: 8,
        uid: 1001,
        gid: 1001,
    };
    assert_eq!(
        fixture.open_with(0, "accept/2050", O_RDWR, stranger),
        error(EINVAL)
    );
    let open = Op::Open {
        directory: ROOT,
        path: "accept/2050".into(),
        flags: O_RDWR,
        caller: USER,
    };
    let accept = fixture.submit(0, open);
    // The listener goes away; the open listens on its own from then on.
    fixture.close(0, listener);
    assert!(fixture.answer(0, accept).is_none());
    let connect = fixture.start_open(0, "0/2050");
    assert!(fixture.answer(0, accept).unwrap().0.is_ok());
    assert!(fixture.answer(0, connect).unwrap().0.is_ok());
}

#[test]
fn a_cancelled_accept_stops_listening() {
    let mut fixture = Fixture::new(1);
    let accept = fixture.start_open(0, "accept/2050");
    assert_eq!(fixture.cancel(0, accept), error(ECANCELED));
    assert_eq!(fixture.open(0, "0/2050"), error(ECONNREFUSED));
    assert_eq!(fixture.counter(0, "endpoints"), 0);
    assert_eq!(fixture.nodes[0].scif.requests().len(), 0);
}

#[test]
fn a_cancelled_connect_withdraws_its_request() {
    on_one_and_two_nodes(|mut fixture, to| {
        let listener = fixture.open(to, "listen/2050").unwrap();
        let connect = fixture.start_open(0, &format!("{to}/2050"));
        assert_eq!(fixture.ready(to, listener), EventFlags::EVENT_READ);
        assert_eq!(fixture.cancel(0, connect), error(ECANCELED));
        let accept = fixture.start_accept(to, listener);
        assert!(
            fixture.answer(to, accept).is_none(),
            "a request that was withdrawn was accepted"
        );
        let connect = fixture.start_open(0, &format!("{to}/2050"));
        assert!(fixture.answer(to, accept).unwrap().0.is_ok());
        assert!(fixture.answer(0, connect).unwrap().0.is_ok());
    });
}

#[test]
fn closing_a_listener_refuses_those_who_wait() {
    on_one_and_two_nodes(|mut fixture, to| {
        let listener = fixture.open(to, "listen/2050").unwrap();
        let connect = fixture.start_open(0, &format!("{to}/2050"));
        let accept = fixture.start_accept(to, listener);
        let more = fixture.start_accept(to, listener);
        let queued = {
            assert!(fixture.answer(to, accept).unwrap().0.is_ok());
            fixture.answer(0, connect).unwrap().0.unwrap();
            fixture.cancel(to, more).unwrap_err();
            fixture.start_open(0, &format!("{to}/2050"))
        };
        fixture.close(to, listener);
        assert_eq!(fixture.answer(0, queued).unwrap().0, error(ECONNREFUSED));
        // The port can be used again at once, though the accepted connection lives.
        assert!(fixture.open(to, "listen/2050").is_ok());
    });
}

#[test]
fn a_nonblocking_open_connects_in_the_background() {
    on_one_and_two_nodes(|mut fixture, to| {
        let listener = fixture.open(to, "listen/2050").unwrap();
        let flags = O_RDWR | O_NONBLOCK;
        let client = fixture
            .open_with(0, &format!("{to}/2050"), flags, USER)
            .unwrap();
        let write = |fixture: &mut Fixture| {
            fixture
                .now(
                    0,
                    Op::Write {
                        id: client,
                        bytes: b"x".to_vec(),
                        flags: O_NONBLOCK,
                    },
                )
                .0
        };
        assert_eq!(fixture.ready(0, client), EMPTY);
        assert_eq!(write(&mut fixture), error(EAGAIN));
        let read = fixture.start_read(0, client, 10);
        let accept = fixture.start_accept(to, listener);
        let server = fixture.answer(to, accept).unwrap().0.unwrap();
        assert_eq!(fixture.ready(0, client), EventFlags::EVENT_WRITE);
        assert!(fixture.nodes[0].events.contains(&client));
        assert_eq!(write(&mut fixture), Ok(1));
        assert_eq!(fixture.write(to, server, b"late"), Ok(4));
        assert_eq!(fixture.answer(0, read).unwrap().1[..4], *b"late");
        // A connect that fails: the first transfer reports the error.
        fixture.close(to, listener);
        let client = fixture.open_with(0, &format!("{to}/2050"), flags, USER);
        if let Ok(client) = client {
            assert!(fixture.ready(0, client).contains(EventFlags::EVENT_WRITE));
            let op = Op::Write {
                id: client,
                bytes: b"x".to_vec(),
                flags: O_NONBLOCK,
            };
            assert_eq!(fixture.now(0, op).0, error(ECONNREFUSED));
        } else {
            assert_eq!(client, error(ECONNREFUSED));
        }
    });
}

#[test]
fn losing_a_node_resets_its_connections() {
    let mut fixture = Fixture::new(3);
    assert_eq!(
        fixture.nodes[0].node_events,
        [NodeEvent::Up(1), NodeEvent::Up(2)]
    );
    let (client, server) = fixture.pair(0, 1, 2050);
    fixture.write(1, server, b"last words").unwrap();
    let blocked = fixture.start_write(0, client, &[7; 100_000]);
    let listener = fixture.open(1, "listen/2051").unwrap();
    let connect = fixture.start_open(0, "1/2051");
    let _ = listener;
    fixture.lose(1);
    assert!(fixture.nodes[0].node_events.contains(&NodeEvent::Down(1)));
    assert!(fixture.answer(0, blocked).unwrap().0.unwrap() > 0);
    assert_eq!(fixture.answer(0, connect).unwrap().0, error(ENODEV));
    assert_eq!(fixture.open(0, "1/2050"), error(ENODEV));
    assert_eq!(fixture.open(0, "1"), error(ENODEV));
    assert_eq!(fixture.read(0, client, 100), Ok(b"last words".to_vec()));
    assert_eq!(fixture.read(0, client, 100), error(ECONNRESET));
    let nodes = fixture.text(0, "nodes");
    let line = nodes.lines().find(|line| line.starts_with('1')).unwrap();
    let lost: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(lost[..4], ["1", "card", "lost", "-"]);
    assert!(
        lost[4].parse::<f64>().is_ok() && lost[5] == "gone",
        "{nodes}"
    );
}

#[test]
fn text_files_have_columns() {
    let mut fixture = Fixture::new(2);
    assert_eq!(
        fixture.text(1, "nodes"),
        "node  role  state   self  since  why\n\
         0     host  online  -     -      -\n\
         1     card  online  *     -      -\n"
    );
    let (client, server) = fixture.pair(0, 1, 2050);
    fixture.write(0, client, b"hello").unwrap();
    let connections = fixture.text(0, "connections");
    let lines: Vec<Vec<&str>> = connections
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "id", "local", "peer", "state", "unread", "unacked", "in", "out", "pid"
        ]
    );
    assert_eq!(
        lines[1][1..],
        ["0/1088", "1/2050", "connected", "0", "5", "0", "5", "7"]
    );
    let there = fixture.text(1, "connections");
    let there: Vec<&str> = there.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(there[4..8], ["5", "0", "0", "0"]);
    assert_eq!(fixture.read(1, server, 100), Ok(b"hello".to_vec()));
    let after = fixture.text(0, "connections");
    let after: Vec<&str> = after.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(after[4..8], ["0", "0", "0", "5"]);
    let ports = fixture.text(0, "ports");
    assert!(
        ports.starts_with("port  state      waiting  pid  endpoint\n1088  connected  0 "),
        "{ports}"
    );
    assert!(fixture.text(0, "version").starts_with("skiff "));
    assert_eq!(fixture.counter(0, "handles"), 1);
    // A text file keeps the content of its open, even when it is read in pieces.
    let nodes = fixture.open_with(0, "nodes", O_RDONLY, USER).unwrap();
    fixture.lose(1);
    let scif = &mut fixture.nodes[0].scif;
    let mut text = Vec::new();
    let mut piece = [0; 7];
    while let Ok(count @ 1..) = scif.read(nodes, &mut piece, text.len() as u64, 0, 0) {
        text.extend_from_slice(&piece[..count]);
    }
    assert!(String::from_utf8(text).unwrap().contains("card"));
    assert_eq!(scif.read(nodes, &mut piece, u64::MAX, 0, 0), Ok(0));
}

#[test]
fn directories_can_be_listed_and_opened_below() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open(0, "listen/2050").unwrap();
    let names = |fixture: &mut Fixture, path: &str| -> Vec<String> {
        let id = fixture
            .open_with(0, path, O_RDONLY | O_DIRECTORY, ADMIN)
            .unwrap();
        let entries = fixture.nodes[0].scif.list(id).unwrap();
        fixture.close(0, id);
        entries.into_iter().map(|(name, _)| name).collect()
    };
    let all = "0 1 accept listen stp endpoint memory peers nodes ports connections windows \
               mappings pins cards limits stats traffic version";
    assert_eq!(names(&mut fixture, "").join(" "), all);
    assert_eq!(names(&mut fixture, "0"), ["2050"]);
    assert_eq!(names(&mut fixture, "listen"), ["2050"]);
    assert_eq!(names(&mut fixture, "1"), [""; 0]);
    assert_eq!(names(&mut fixture, "accept"), [""; 0]);
    let directory = fixture.open_with(0, "0", O_RDONLY, USER).unwrap();
    let below = |path: &str| Op::Open {
        directory,
        path: path.into(),
        flags: O_RDWR | O_NONBLOCK,
        caller: USER,
    };
    assert!(fixture.now(0, below("2050")).0.is_ok());
    assert_eq!(fixture.now(0, below("x")).0, error(EINVAL));
    let op = Op::Open {
        directory: listener,
        path: "x".into(),
        flags: O_RDWR,
        caller: USER,
    };
    assert_eq!(fixture.now(0, op).0, error(ENOTDIR));
}

#[test]
fn a_name_alone_connects_to_nothing() {
    let mut fixture = Fixture::new(1);
    let id = fixture.open_with(0, "0/2050", O_STAT, USER).unwrap();
    let mut stat = syscall::data::Stat::default();
    fixture.nodes[0].scif.status(id, &mut stat).unwrap();
    assert_eq!(
        stat.st_mode & syscall::flag::MODE_TYPE,
        syscall::flag::MODE_CHR
    );
    assert_eq!(fixture.counter(0, "endpoints"), 0);
    assert_eq!(
        fixture.open_with(0, "listen/2050", O_RDWR | O_DIRECTORY, USER),
        error(ENOTDIR)
    );
}

#[test]
fn privileged_ports_are_for_root() {
    let mut fixture = Fixture::new(1);
    for path in ["listen/1023", "accept/1", "listen/1"] {
        assert_eq!(
            fixture.open_with(0, path, O_RDWR, USER),
            error(EACCES),
            "{path}"
        );
    }
    assert_eq!(Errno::AccessDenied.errno(), EACCES);
    assert!(fixture.open_with(0, "listen/1023", O_RDWR, ADMIN).is_ok());
    // Everybody may connect to such a port.
    let connect = Op::Open {
        directory: ROOT,
        path: "0/1023".into(),
        flags: O_RDWR,
        caller: USER,
    };
    let request = fixture.submit(0, connect);
    assert!(fixture.answer(0, request).is_none());
}

#[test]
fn a_thousand_connections_leave_nothing_behind() {
    on_one_and_two_nodes(|mut fixture, to| {
        // The first connection makes state that stays: the link's own.
        let (client, server) = fixture.pair(0, to, 2050);
        fixture.close(0, client);
        fixture.close(to, server);
        let before: Vec<usize> = fixture
            .nodes
            .iter_mut()
            .map(|n| n.scif.engine().1.allocated)
            .collect();
        for round in 0..1000 {
            let (client, server) = fixture.pair(0, to, 2050);
            if round % 3 == 0 {
                fixture.write(0, client, b"unread").unwrap();
            }
            if round % 2 == 0 {
                fixture.close(0, client);
                fixture.close(to, server);
            } else {
                fixture.close(to, server);
                fixture.close(0, client);
            }
        }
        let after: Vec<usize> = fixture
            .nodes
            .iter_mut()
            .map(|n| n.scif.engine().1.allocated)
            .collect();
        assert_eq!(before, after);
        for node in [0, to] {
            assert_eq!(fixture.text(node, "ports").lines().count(), 1);
            assert_eq!(fixture.text(node, "connections").lines().count(), 1);
            assert_eq!(fixture.counter(node, "handles"), 0);
            assert_eq!(fixture.counter(node, "waiting"), 0);
            assert_eq!(fixture.nodes[node].scif.handles().len(), 1);
        }
    });
}
