//! The traffic of queue pairs and completion queues, and a queue pair that lives elsewhere.

mod pair;

use pair::{End, LANE, Setup, pair, settle};
use verbs_core::Traffic;
use verbs_core::context::Taken;
use verbs_core::demo::{BASE, Program};
use verbs_core::host::{Host, LaneId, Source};
use verbs_core::keys::Region;
use verbs_core::record::{Address, HEADER_BYTES, Record};
use verbs_core::types::{Error, Opcode, QpState, SendFlags, WcStatus};
use verbs_core::work::{Data, ReceiveRequest, Segment, SendRequest};

fn traffic(end: &End) -> Traffic {
    end.context.query_qp(end.qp).unwrap().traffic
}

#[test]
fn requests_messages_and_errors_are_counted() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(1, 0, 100);
    left.send(1, 0, 40);
    // One that does not complete counts, too.
    let mut quiet = left.one_sided(2, Opcode::RdmaWrite, (0, 8), (64, right.key));
    quiet.flags = SendFlags::empty();
    left.post(quiet);
    settle(&mut left, &mut right);
    let sent = Traffic {
        sends: 2,
        sent_bytes: 48,
        stored_bytes: 8,
        ..Traffic::default()
    };
    let received = Traffic {
        receives: 1,
        received_bytes: 40,
        ..Traffic::default()
    };
    assert_eq!((traffic(&left), traffic(&right)), (sent, received));
    assert_eq!(left.context.cq_traffic(left.send_cq), Ok((1, 1)));
    assert_eq!(left.send_results(), [(1, WcStatus::Success)]);
    assert_eq!(left.context.cq_traffic(left.send_cq), Ok((0, 1)));
    // A wrong key, and a receive that is flushed with it.
    right.receive(2, 0, 100);
    left.post(left.one_sided(3, Opcode::RdmaWrite, (0, 8), (64, right.key ^ 1)));
    settle(&mut left, &mut right);
    assert_eq!(traffic(&left), Traffic { errors: 1, ..sent });
    assert_eq!(
        traffic(&right),
        Traffic {
            errors: 1,
            ..received
        }
    );
}

#[test]
fn a_state_that_was_come_to_elsewhere_is_followed() {
    let (mut left, _) = pair(&Setup::default());
    let (context, qp) = (&mut left.context, left.qp);
    assert_eq!(context.follow_state(qp, QpState::Rts), Ok(()));
    for wrong in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Sqd] {
        assert_eq!(context.follow_state(qp, wrong), Err(Error::Invalid));
    }
    for state in [QpState::Sqe, QpState::Err] {
        assert_eq!(context.follow_state(qp, state), Ok(()));
        assert_eq!(context.query_qp(qp).unwrap().state, state);
    }
    assert_eq!(context.follow_state(qp, QpState::Rts), Err(Error::Invalid));
    assert_eq!(context.follow_state(99, QpState::Err), Err(Error::NotFound));
}

/// Bytes that are on their way to an end.
fn on_the_way(end: &mut End) -> usize {
    end.program.available(LANE, 0).bytes
}

#[test]
fn a_message_carries_what_its_sender_owes() {
    let (mut left, mut right) = pair(&Setup::default());
    for end in [&mut left, &mut right] {
        (0..8).for_each(|id| end.receive(id, 0, 8));
    }
    settle(&mut left, &mut right);
    left.send(1, 0, 8);
    left.progress();
    assert!(
        right.progress().is_busy,
        "what is owed waits for a call more"
    );
    assert_eq!(right.receive_results(), [(0, WcStatus::Success)]);
    right.send(2, 0, 8);
    right.progress();
    assert_eq!(on_the_way(&mut left), HEADER_BYTES + 8);
    left.progress();
    assert_eq!(left.send_results(), [(1, WcStatus::Success)]);
    right.progress();
    assert_eq!(on_the_way(&mut left), 0, "nothing is owed");
    // Without a message there is a record.
    assert!(left.context.owes());
    left.progress();
    assert_eq!(on_the_way(&mut right), HEADER_BYTES);
    right.progress();
    assert_eq!(right.send_results(), [(2, WcStatus::Success)]);
    assert!(!left.context.owes() && !right.context.owes());
}

#[test]
fn posting_begins_at_once_where_it_can() {
    let mut setup = Setup::default();
    setup.attributes.rnr_retry = 6;
    let (mut left, mut right) = pair(&setup);
    let request = |end: &End| end.one_sided(1, Opcode::Send, (0, 8), (0, 0));
    let post = |end: &mut End| {
        let request = request(end);
        let posted = end.context.post_send_now(&mut end.program, end.qp, request);
        posted.unwrap()
    };
    // There is no receive: how long to wait for one, a clock says.
    assert!(!post(&mut left));
    assert_eq!(on_the_way(&mut right), 0);
    let receive = ReceiveRequest {
        id: 1,
        segments: vec![right.segment(0, 8)].into(),
    };
    for _ in 0..2 {
        let end = &mut right;
        let posted = end
            .context
            .post_recv_now(&mut end.program, end.qp, receive.clone());
        assert_eq!(posted, Ok(true));
    }
    assert!(
        on_the_way(&mut left) > 0,
        "a peer that waits is told at once"
    );
    settle(&mut left, &mut right);
    assert!(post(&mut left));
    assert_eq!(on_the_way(&mut right), HEADER_BYTES + 8);
    // There is no room.
    left.program.ring = 0;
    right.receive(1, 0, 8);
    right.progress();
    left.progress();
    assert!(!post(&mut left));
    left.program.ring = 1 << 16;
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, WcStatus::Success); 3]);
    assert_eq!(right.receive_results().len(), 3);
}

const OTHER: LaneId = LaneId(LANE.0 + 1);

/// A second lane of an end, and the program behind it.
fn join_other(end: &mut End) -> Program {
    let mut other = Program::new(64);
    end.program.join(OTHER, &mut other, OTHER);
    end.context.open_lane(OTHER, end.pd).unwrap();
    other
}

/// A record for a queue pair that is not there, which is dropped.
fn send_stray(other: &mut Program) {
    let address = Address {
        destination: 99,
        source: 98,
        generation: 97,
    };
    let stray = Record::Gone(address, 96).encode();
    other.send(OTHER, &stray, Source::Bytes(&[])).unwrap();
}

#[test]
fn a_lane_that_always_has_something_keeps_no_other_one_waiting() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(1, 0, 8);
    settle(&mut left, &mut right);
    let mut other = join_other(&mut right);
    left.send(1, 0, 8);
    for _ in 0..50 {
        send_stray(&mut other);
        assert!(right.progress().is_busy);
        left.progress();
    }
    assert_eq!(right.receive_results(), [(1, WcStatus::Success)]);
    assert_eq!(left.send_results(), [(1, WcStatus::Success)]);
}

#[test]
fn messages_alone_are_not_all_that_is_there() {
    let (mut left, mut right) = pair(&Setup::default());
    for id in 1..3 {
        right.receive(id, 0, 8);
    }
    settle(&mut left, &mut right);
    let mut other = join_other(&mut right);
    left.send(1, 0, 8);
    left.progress();
    let taken = right.context.take_messages(&mut right.program);
    assert_eq!(taken, Taken::All);
    left.send(2, 0, 8);
    left.progress();
    send_stray(&mut other);
    let taken = right.context.take_messages(&mut right.program);
    assert_eq!(taken, Taken::More);
    let results = [(1, WcStatus::Success), (2, WcStatus::Success)];
    assert_eq!(right.receive_results(), results);
}

/// The limit of the bytes that a turn copies.
const TURN: u64 = 1 << 20;
/// How many more it may be, as short copies are not cut.
const MORE: u64 = 2 * (64 << 10);

/// Two ends of which the first has that limit.
fn limited(setup: &Setup) -> (End, End) {
    let (mut left, right) = pair(setup);
    left.context.limit_turns(TURN / 2);
    (left, right)
}

/// A region of all of an end's memory.
fn whole(end: &mut End, bytes: usize) -> u32 {
    let region = Region {
        pd: end.pd,
        start: BASE,
        length: bytes as u64,
        iova: BASE,
        access: pair::ALL,
    };
    end.context.register(region).unwrap()
}

#[test]
fn a_turn_copies_only_so_much() {
    let bytes = 3 * TURN as usize + 1000;
    let setup = Setup {
        bytes,
        ..Setup::default()
    };
    for opcode in [
        Opcode::RdmaWrite,
        Opcode::RdmaRead,
        Opcode::RdmaWriteWithImm,
    ] {
        let (mut left, mut right) = limited(&setup);
        let keys = [whole(&mut left, bytes), whole(&mut right, bytes)];
        let contents: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        match opcode {
            Opcode::RdmaRead => right.fill(0, &contents),
            _ => left.fill(0, &contents),
        }
        right.receive(9, 0, 0);
        // Few bytes behind many: they wait for their turn.
        for (id, count) in [(1, bytes), (2, 8)] {
            let mut request = left.one_sided(id, opcode, (0, 0), (0, keys[1]));
            request.data = Data::Segments(vec![Segment {
                address: BASE,
                length: count as u32,
                key: keys[0],
            }]);
            left.post(request);
        }
        right.receive(10, 0, 0);
        let (mut before, mut turns) = (0, 0);
        let mut results = Vec::new();
        while results.len() < 2 {
            let is_busy = left.progress().is_busy;
            right.progress();
            let copied = left.program.copied_bytes - before;
            assert!(copied <= TURN + MORE, "{copied} bytes in a turn");
            let is_over = left.program.copied_bytes >= bytes as u64;
            assert!(is_busy || copied == 0 || is_over, "it would sleep");
            before = left.program.copied_bytes;
            results.extend(left.send_results());
            turns += 1;
            assert!(turns < 50, "it does not go on");
        }
        assert_eq!(results, [(1, WcStatus::Success), (2, WcStatus::Success)]);
        assert!(left.bytes(0, bytes) == contents && right.bytes(0, bytes) == contents);
    }
}

/// A long WRITE from two places is made in pieces, whose bytes come in ascending order: between
/// the turns the peer's memory holds a beginning of it and nothing else.
#[test]
fn the_last_bytes_of_a_write_are_stored_last() {
    let half = TURN + 1000;
    let bytes = 2 * half as usize;
    let setup = Setup {
        bytes,
        ..Setup::default()
    };
    let (mut left, mut right) = limited(&setup);
    let keys = [whole(&mut left, bytes), whole(&mut right, bytes)];
    left.fill(0, &vec![1; bytes]);
    let mut request = left.one_sided(1, Opcode::RdmaWrite, (0, 0), (0, keys[1]));
    // The second half comes first.
    request.data = Data::Segments(Vec::from([half, 0].map(|at| Segment {
        address: BASE + at,
        length: half as u32,
        key: keys[0],
    })));
    left.post(request);
    let mut parts = 0;
    loop {
        left.progress();
        right.progress();
        let found = right.bytes(0, bytes);
        let stored = found.iter().take_while(|byte| **byte == 1).count();
        assert!(found[stored..].iter().all(|byte| *byte == 0), "{stored}");
        if stored == bytes {
            break;
        }
        parts += usize::from(stored > 0);
        assert!(left.send_results().is_empty() && parts < 50);
    }
    assert!(parts > 0, "nobody could look between the pieces");
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, WcStatus::Success)]);
}

#[test]
fn all_queue_pairs_get_their_turn() {
    let setup = Setup {
        bytes: TURN as usize,
        ..Setup::default()
    };
    let (mut left, mut right) = limited(&setup);
    let keys = [left.key, right.key];
    // One has work for many turns, another one that comes later has little.
    let write = |id, count| {
        let mut request = SendRequest::new(id, Opcode::RdmaWrite, Vec::new());
        request.data = Data::Segments(vec![Segment {
            address: BASE,
            length: count,
            key: keys[0],
        }]);
        (request.remote.address, request.remote.key) = (BASE, keys[1]);
        request
    };
    let other = [&mut left, &mut right].map(|end| {
        let (first, number) = (end.qp, end.qp + 100);
        end.context
            .create_qp(number, end.context.query_qp(first).unwrap().init)
            .unwrap();
        number
    });
    let qps = [left.qp, right.qp];
    for (end, peer) in [(&mut left, other[1]), (&mut right, other[0])] {
        end.qp += 100;
        end.enter_init(&setup);
        end.context.attach(end.qp, LANE).unwrap();
        end.enter_rtr(&setup, peer);
        end.enter_rts(&setup);
    }
    settle(&mut left, &mut right);
    // The key is asked for first.
    left.post(write(1, 8));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, WcStatus::Success)]);
    for id in 0..64 {
        left.context
            .post_send(qps[0], write(100 + id, pair::REGION as u32))
            .unwrap();
    }
    left.post(write(2, 8));
    left.progress();
    left.progress();
    let found = left.send_results();
    assert!(found.contains(&(2, WcStatus::Success)), "{found:?}");
    assert!(found.len() < 65);
}

/// Short copies are whole however little of the limit is left.
#[test]
fn short_copies_are_whole() {
    let setup = Setup::default();
    for bytes in [4, 8, 64, 4096] {
        let (mut left, mut right) = pair(&setup);
        // What a request counts for, and one byte.
        left.context.limit_turns(256 + 1);
        let keys = [left.key, right.key];
        for round in 0..3_u32 {
            let is_new = round.to_le_bytes();
            right.fill(0, &is_new.repeat(bytes / 4));
            let mut request = left.one_sided(1, Opcode::RdmaRead, (0, 0), (0, keys[1]));
            request.data = Data::Segments(vec![Segment {
                address: BASE,
                length: bytes as u32,
                key: keys[0],
            }]);
            let before = left.program.copied_bytes;
            left.post(request);
            loop {
                let copied = left.program.copied_bytes - before;
                assert!([0, bytes as u64].contains(&copied), "{copied} of {bytes}");
                if !left.send_results().is_empty() {
                    break;
                }
                left.progress();
                right.progress();
            }
            assert_eq!(left.bytes(0, bytes), is_new.repeat(bytes / 4));
        }
    }
}
