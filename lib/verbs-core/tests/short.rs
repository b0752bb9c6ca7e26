//! The short way of requests, and requests that have to take the long way, with the same result.

mod pair;

use pair::{End, LANE, Setup, pair, settle, wait};
use verbs_core::context::{AtOnce, Taken};
use verbs_core::host::Host;
use verbs_core::keys::Region;
use verbs_core::types::{Access, Opcode, QpState, SendFlags, WcStatus};
use verbs_core::work::{Remote, Segment, ShortData, ShortSend};

use WcStatus::{LocProtErr, RemAccessErr, RemOpErr, Success, WrFlushErr};

fn short(id: u64, data: ShortData<'_>) -> ShortSend<'_> {
    ShortSend::message(id, data)
}

fn segment(end: &End, offset: u64, length: u32) -> ShortData<'static> {
    ShortData::Segment(end.segment(offset, length))
}

/// Posts by the short way. Returns whether the request could take it.
fn post(end: &mut End, send: &ShortSend<'_>) -> bool {
    let (context, program) = (&mut end.context, &mut end.program);
    let posted = context.post_short(program, end.qp, send);
    matches!(posted, AtOnce::Posted { .. })
}

/// Posts by either way.
fn post_any(end: &mut End, send: &ShortSend<'_>) {
    let (context, program) = (&mut end.context, &mut end.program);
    let posted = context.post_send_now(program, end.qp, send.to_request());
    posted.unwrap();
}

fn take(end: &mut End) -> Taken {
    end.context.take_messages(&mut end.program)
}

/// Another region of an end, at the end of its first one.
fn region(end: &mut End, access: Access) -> u32 {
    let region = Region {
        pd: end.pd,
        access,
        ..*end.context.region(end.key).unwrap()
    };
    end.context.register(region).unwrap()
}

#[test]
fn messages_of_one_piece_and_writes_need_no_progress() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(10, 0, 100);
    right.receive(11, 100, 100);
    // Now the peer knows of the receives, and the key has been granted.
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 8), (200, right.key)));
    settle(&mut left, &mut right);
    left.fill(0, b"a message");
    let message = segment(&left, 0, 9);
    assert!(post(&mut left, &short(2, message)));
    assert!(post(&mut left, &short(3, ShortData::Inline(b"inline"))));
    assert_eq!(take(&mut right), Taken::All);
    assert_eq!(right.receive_results(), [(10, Success), (11, Success)]);
    assert_eq!(right.bytes(0, 9), b"a message");
    assert_eq!(right.bytes(100, 6), b"inline");
    let write = ShortSend {
        opcode: Opcode::RdmaWrite,
        remote: Remote {
            address: right.segment(300, 0).address,
            key: right.key,
        },
        ..short(4, segment(&left, 0, 9))
    };
    assert!(post(&mut left, &write));
    assert_eq!(right.bytes(300, 9), b"a message");
    // It completes behind the messages, which the peer has not acknowledged yet.
    assert_eq!(left.send_results(), [(1, Success)]);
    right.progress();
    assert_eq!(take(&mut left), Taken::All);
    assert_eq!(
        left.send_results(),
        [(2, Success), (3, Success), (4, Success)]
    );
    assert_eq!(take(&mut left), Taken::Nothing);
}

#[test]
fn messages_behind_one_that_waits_are_kept_in_order() {
    // A limited number of waits for a receive needs a clock, waiting without limit does not.
    for retries in [6, 7] {
        let mut setup = Setup::default();
        setup.attributes.rnr_retry = retries;
        let (mut left, mut right) = pair(&setup);
        let long = [7; 100];
        left.fill(0, b"second");
        let first = short(1, ShortData::Inline(b"first"));
        let is_posted = post(&mut left, &first);
        assert_eq!(is_posted, retries == 7, "there is no receive");
        if !is_posted {
            post_any(&mut left, &first);
        }
        let second = segment(&left, 0, 6);
        assert!(post(&mut left, &short(2, second)));
        assert!(post(&mut left, &short(3, ShortData::Inline(b"third"))));
        assert!(post(&mut left, &short(4, ShortData::Inline(&long))));
        settle(&mut left, &mut right);
        for id in 0..4 {
            right.receive(id, 100 * id, 100);
        }
        settle(&mut left, &mut right);
        let all = [0, 1, 2, 3].map(|id| (id, Success));
        assert_eq!(right.receive_results(), all);
        assert_eq!(right.bytes(0, 5), b"first");
        assert_eq!(right.bytes(100, 6), b"second");
        assert_eq!(right.bytes(200, 5), b"third");
        assert_eq!(right.bytes(300, 100), long);
        assert_eq!(left.send_results(), [1, 2, 3, 4].map(|id| (id, Success)));
    }
}

#[test]
fn what_is_not_short_goes_the_long_way() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(10, 0, 8000);
    settle(&mut left, &mut right);
    let (one, two) = (left.segment(0, 4000), left.segment(4000, 4000));
    // More than one record holds, no such right, more bytes than the region has, no such key.
    let long = segment(&left, 0, 4000);
    assert!(!post(&mut left, &short(1, long)));
    let beyond = left.segment(pair::REGION as u64 - 4, 8);
    let other = Segment {
        key: one.key ^ 1,
        ..one
    };
    for bad in [beyond, other] {
        assert!(!post(&mut left, &short(1, ShortData::Segment(bad))));
    }
    let bytes = [0; 129];
    assert!(
        !post(&mut left, &short(1, ShortData::Inline(&bytes))),
        "more than it has"
    );
    let mut request = short(1, segment(&left, 0, 8)).to_request();
    request.data = verbs_core::work::Data::Segments(vec![one, two]);
    left.fill(0, &[3; 8000]);
    let (context, program) = (&mut left.context, &mut left.program);
    context.post_send_now(program, 1, request).unwrap();
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), [(10, Success)]);
    assert_eq!(right.bytes(0, 8000), [3; 8000]);
    assert_eq!(left.send_results(), [(1, Success)]);
    // A receive of two segments.
    let request = verbs_core::work::ReceiveRequest {
        id: 11,
        segments: vec![right.segment(0, 4), right.segment(100, 4)].into(),
    };
    right.context.post_recv(2, request).unwrap();
    settle(&mut left, &mut right);
    assert!(post(&mut left, &short(2, ShortData::Inline(b"abcdefgh"))));
    assert_eq!(take(&mut right), Taken::More);
    settle(&mut left, &mut right);
    assert_eq!(
        (right.bytes(0, 4), right.bytes(100, 4)),
        (b"abcd".to_vec(), b"efgh".to_vec())
    );
}

#[test]
fn a_key_that_goes_while_its_message_waits_is_bad() {
    for is_shorter in [false, true] {
        let (mut left, mut right) = pair(&Setup::default());
        let key = region(&mut left, Access::LOCAL_WRITE);
        let of = Segment {
            key,
            ..left.segment(0, 64)
        };
        post_any(&mut left, &short(1, ShortData::Inline(b"first")));
        assert!(post(&mut left, &short(2, ShortData::Segment(of))));
        let (context, program) = (&mut left.context, &mut left.program);
        match is_shorter {
            false => context.deregister(program, key).unwrap(),
            true => {
                let before = *context.region(key).unwrap();
                let new = Region {
                    length: 32,
                    ..before
                };
                context.reregister(program, key, new).unwrap();
            }
        }
        right.receive(10, 0, 100);
        right.receive(11, 100, 100);
        settle(&mut left, &mut right);
        assert_eq!(left.send_results(), [(1, Success), (2, LocProtErr)]);
        assert_eq!(left.state(), QpState::Err);
        assert_eq!(right.receive_results(), [(10, Success)]);
    }
}

#[test]
fn a_receive_that_has_become_unusable_fails() {
    // Deregistered, of fewer rights, shorter than it was.
    for change in 0..3 {
        let (mut left, mut right) = pair(&Setup::default());
        let key = region(&mut right, Access::LOCAL_WRITE);
        let segments = vec![Segment {
            key,
            ..right.segment(0, 64)
        }];
        let request = verbs_core::work::ReceiveRequest {
            id: 10,
            segments: segments.into(),
        };
        right.context.post_recv(2, request).unwrap();
        settle(&mut left, &mut right);
        let (context, program) = (&mut right.context, &mut right.program);
        let before = *context.region(key).unwrap();
        let new = match change {
            0 => None,
            1 => Some(Region {
                access: Access::empty(),
                ..before
            }),
            _ => Some(Region {
                length: 32,
                ..before
            }),
        };
        match new {
            None => context.deregister(program, key).unwrap(),
            Some(new) => drop(context.reregister(program, key, new).unwrap()),
        }
        assert!(post(&mut left, &short(1, ShortData::Inline(b"message"))));
        assert_eq!(take(&mut right), Taken::More);
        settle(&mut left, &mut right);
        assert_eq!(right.receive_results(), [(10, LocProtErr)]);
        assert_eq!(left.send_results(), [(1, RemOpErr)]);
    }
}

#[test]
fn a_write_by_a_key_that_has_gone_fails() {
    let (mut left, mut right) = pair(&Setup::default());
    let key = region(&mut right, Access::REMOTE | Access::LOCAL_WRITE);
    let write = |id, left: &End, right: &End| ShortSend {
        opcode: Opcode::RdmaWrite,
        remote: Remote {
            address: right.segment(300, 0).address,
            key,
        },
        ..short(id, segment(left, 0, 8))
    };
    let first = write(1, &left, &right);
    assert!(!post(&mut left, &first), "it was not asked for");
    post_any(&mut left, &first);
    settle(&mut left, &mut right);
    let second = write(2, &left, &right);
    assert!(post(&mut left, &second));
    right.context.deregister(&mut right.program, key).unwrap();
    // The peer has not revoked the key yet.
    let third = write(3, &left, &right);
    assert!(!post(&mut left, &third));
    post_any(&mut left, &third);
    settle(&mut left, &mut right);
    assert_eq!(
        left.send_results(),
        [(1, Success), (2, Success), (3, RemAccessErr)]
    );
}

#[test]
fn who_waits_is_acknowledged_at_once_and_others_later() {
    let (mut left, mut right) = pair(&Setup::default());
    for id in 0..8 {
        right.receive(id, 0, 64);
    }
    settle(&mut left, &mut right);
    let mut quiet = short(1, ShortData::Inline(b"nobody waits"));
    quiet.flags = SendFlags::INLINE;
    assert!(post(&mut left, &quiet));
    assert_eq!(take(&mut right), Taken::All);
    let looks = (0..1000).take_while(|_| !right.context.owes()).count();
    assert!((8..1000).contains(&looks), "{looks} looks");
    // Progress acknowledges in any case, and one acknowledgement covers all earlier messages.
    assert!(post(
        &mut left,
        &short(2, ShortData::Inline(b"the program waits"))
    ));
    assert_eq!(take(&mut right), Taken::All);
    assert!(right.context.owes());
    right.progress();
    assert!(!right.context.owes());
    assert_eq!(take(&mut left), Taken::All);
    assert_eq!(left.send_results(), [(2, Success)]);
    assert_eq!(left.context.query_qp(1).unwrap().queued.0, 0);
}

#[test]
fn a_queue_that_gets_full_is_waited_for() {
    let (mut left, mut right) = pair(&Setup::default());
    for id in 0..64 {
        right.receive(id, 0, 64);
    }
    settle(&mut left, &mut right);
    let mut quiet = short(1, ShortData::Inline(b"nobody waits"));
    quiet.flags = SendFlags::INLINE;
    for _ in 0..32 {
        assert!(post(&mut left, &quiet));
    }
    assert_eq!(take(&mut right), Taken::All);
    assert!(!right.context.owes());
    assert!(post(&mut left, &quiet));
    assert_eq!(take(&mut right), Taken::All);
    assert!(right.context.owes());
}

#[test]
fn news_of_the_peer_come_before_a_request() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(10, 0, 64);
    settle(&mut left, &mut right);
    // The peer begins anew, and the record that says so is on its way.
    right.modify(
        QpState::Err,
        Default::default(),
        verbs_core::types::AttributeMask::empty(),
    );
    right.progress();
    assert!(left.program.available(LANE, 1).bytes > 0);
    assert!(!post(&mut left, &short(1, ShortData::Inline(b"late"))));
    post_any(&mut left, &short(1, ShortData::Inline(b"late")));
    post_any(&mut left, &short(2, ShortData::Inline(b"later")));
    wait(&mut left, &mut right, 0);
    let results = left.send_results();
    assert_eq!(results[0], (1, WcStatus::RetryExcErr));
    assert_eq!(results[1], (2, WrFlushErr));
}

#[test]
fn a_record_that_is_spoilt_after_the_look_at_it_goes_the_long_way() {
    let (mut left, mut right) = pair(&Setup::default());
    for id in 10..14 {
        right.receive(id, 0, 64);
    }
    settle(&mut left, &mut right);
    left.fill(0, b"a message");
    for id in 1..=4 {
        let message = segment(&left, 0, 9);
        assert!(post(&mut left, &short(id, message)));
        // A message there, an acknowledgement here.
        right.program.spoilt_records = 1;
        left.program.spoilt_records = 1;
        settle(&mut left, &mut right);
        assert_eq!(right.receive_results(), [(id + 9, Success)]);
        assert_eq!(right.bytes(0, 9), b"a message");
        assert_eq!(left.send_results(), [(id, Success)]);
        assert_eq!(
            (left.program.spoilt_records, right.program.spoilt_records),
            (0, 0)
        );
    }
    assert_eq!((left.events(), right.events()), (vec![], vec![]));
}
