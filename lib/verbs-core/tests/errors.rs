//! What each error means to both ends of a reliable connection.

mod pair;

use pair::{ALL, End, REGION, Setup, pair, settle};
use verbs_core::attributes::Attributes;
use verbs_core::demo::BASE;
use verbs_core::keys::Region;
use verbs_core::types::WcStatus::{
    LocLenErr, LocProtErr, LocQpOpErr, RemAccessErr, RemInvReqErr, RemOpErr, Success, WrFlushErr,
};
use verbs_core::types::{Access, AttributeMask as M, EventType, Opcode, QpState};
use verbs_core::work::{ReceiveRequest, Segment, SendRequest};

const ERROR: QpState = QpState::Err;

/// What a request leads to: completions of the requester and of the responder, whose receives are
/// 10 and 11, and the responder's events. Another request behind it is 2.
struct Case {
    what: &'static str,
    post: fn(&mut End, &mut End),
    sends: &'static [(u64, verbs_core::types::WcStatus)],
    receives: &'static [(u64, verbs_core::types::WcStatus)],
    events: &'static [EventType],
    responder_fails: bool,
}

fn write(left: &mut End, offset: u64, length: u32, key: u32) {
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, length), (offset, key)));
}

fn other_region(end: &mut End, access: Access) -> u32 {
    let region = Region {
        pd: end.pd,
        start: BASE,
        length: 4096,
        iova: BASE,
        access,
    };
    end.context.register(region).unwrap()
}

fn other_domain(end: &mut End) -> u32 {
    let region = Region {
        pd: end.context.alloc_pd().unwrap(),
        start: BASE,
        length: 4096,
        iova: BASE,
        access: ALL,
    };
    end.context.register(region).unwrap()
}

fn send_from(left: &mut End, segment: Segment) {
    left.post(SendRequest::new(1, Opcode::Send, vec![segment]));
}

fn read_own(left: &mut End, key: u32) {
    let segment = left.segment(0, 8);
    read_into(left, segment, key);
}

fn read_into(left: &mut End, segment: Segment, key: u32) {
    let mut read = left.one_sided(1, Opcode::RdmaRead, (0, 8), (0, key));
    read.data = verbs_core::work::Data::Segments(vec![segment]);
    left.post(read);
}

const FLUSHED: &[(u64, verbs_core::types::WcStatus)] = &[(10, WrFlushErr), (11, WrFlushErr)];
const ACCESS: &[EventType] = &[EventType::QpAccessErr];

const CASES: &[Case] = &[
    Case {
        what: "no local key",
        post: |left, _| {
            send_from(
                left,
                Segment {
                    address: BASE,
                    length: 1,
                    key: 0,
                },
            )
        },
        sends: &[(1, LocProtErr), (2, WrFlushErr)],
        receives: &[],
        events: &[],
        responder_fails: false,
    },
    Case {
        what: "local key of another domain",
        post: |left, _| {
            let key = other_domain(left);
            send_from(
                left,
                Segment {
                    address: BASE,
                    length: 1,
                    key,
                },
            );
        },
        sends: &[(1, LocProtErr), (2, WrFlushErr)],
        receives: &[],
        events: &[],
        responder_fails: false,
    },
    Case {
        what: "outside of the local region",
        post: |left, _| send_from(left, left.segment(REGION as u64 - 1, 2)),
        sends: &[(1, LocProtErr), (2, WrFlushErr)],
        receives: &[],
        events: &[],
        responder_fails: false,
    },
    Case {
        what: "a read into memory that cannot be written",
        post: |left, right| {
            let key = other_region(left, Access::empty());
            read_into(
                left,
                Segment {
                    address: BASE,
                    length: 8,
                    key,
                },
                right.key,
            );
        },
        sends: &[(1, LocProtErr), (2, WrFlushErr)],
        receives: &[],
        events: &[],
        responder_fails: false,
    },
    Case {
        what: "no remote key",
        post: |left, _| write(left, 0, 8, 0),
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "a guessed remote key",
        post: |left, right| write(left, 0, 8, right.key ^ 1),
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "remote key of another domain",
        post: |left, right| {
            let key = other_domain(right);
            write(left, 0, 8, key);
        },
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "behind the remote region",
        post: |left, right| write(left, REGION as u64 - 7, 8, right.key),
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "before the remote region",
        post: |left, right| write(left, 0u64.wrapping_sub(1), 8, right.key),
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "at the end of all addresses",
        post: |left, right| write(left, u64::MAX - BASE - 3, 8, right.key),
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "a write to what may only be read",
        post: |left, right| {
            let key = other_region(right, Access::REMOTE_READ);
            write(left, 0, 8, key);
        },
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "a write to what peers may not use",
        post: |left, right| {
            let key = other_region(right, Access::LOCAL_WRITE);
            write(left, 0, 8, key);
        },
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "a read of what may only be written",
        post: |left, right| {
            let key = other_region(right, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
            read_into(left, left.segment(0, 8), key);
        },
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "an atomic without the right",
        post: |left, right| {
            let key = other_region(
                right,
                Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ,
            );
            left.post(left.one_sided(1, Opcode::AtomicFetchAndAdd, (0, 8), (0, key)));
        },
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
    Case {
        what: "an atomic that is not aligned",
        post: |left, right| {
            left.post(left.one_sided(1, Opcode::AtomicFetchAndAdd, (0, 8), (4, right.key)));
        },
        sends: &[(1, RemInvReqErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: &[EventType::QpReqErr],
        responder_fails: true,
    },
    Case {
        what: "an atomic of 4 bytes",
        post: |left, right| {
            left.post(left.one_sided(1, Opcode::AtomicFetchAndAdd, (0, 4), (0, right.key)));
        },
        sends: &[(1, LocLenErr), (2, WrFlushErr)],
        receives: &[],
        events: &[],
        responder_fails: false,
    },
    Case {
        what: "longer than the receive",
        post: |left, _| left.send(1, 0, 65),
        sends: &[(1, RemInvReqErr), (2, WrFlushErr)],
        receives: &[(10, LocLenErr), (11, WrFlushErr)],
        events: &[],
        responder_fails: true,
    },
    Case {
        what: "a write with immediate data and no right",
        post: |left, right| {
            left.post(left.one_sided(1, Opcode::RdmaWriteWithImm, (0, 8), (0, right.key ^ 1)));
        },
        sends: &[(1, RemAccessErr), (2, WrFlushErr)],
        receives: FLUSHED,
        events: ACCESS,
        responder_fails: true,
    },
];

#[test]
fn who_gets_which_error() {
    for case in CASES {
        for before in 0..3u64 {
            let (mut left, mut right) = pair(&Setup::default());
            let mut good = Vec::new();
            for id in 0..before {
                right.receive(20 + id, 0, 64);
                left.send(30 + id, 0, 64);
                good.push(id);
            }
            for id in [10, 11] {
                right.receive(id, 0, 64);
            }
            (case.post)(&mut left, &mut right);
            left.send(2, 0, 8);
            settle(&mut left, &mut right);
            let mut sends: Vec<_> = good.iter().map(|id| (30 + id, Success)).collect();
            sends.extend(case.sends);
            let mut receives: Vec<_> = good.iter().map(|id| (20 + id, Success)).collect();
            receives.extend(case.receives);
            let what = case.what;
            assert_eq!(left.send_results(), sends, "{what}");
            assert_eq!(right.receive_results(), receives, "{what}");
            assert_eq!(left.state(), ERROR, "{what}");
            let fails = right.state() == ERROR;
            assert_eq!(fails, case.responder_fails, "{what}");
            assert_eq!(right.qp_events(), case.events, "{what}");
            assert_eq!(left.qp_events(), [], "{what}");
            // What is posted from now on is flushed.
            left.send(3, 0, 8);
            left.receive(4, 0, 8);
            assert_eq!(left.send_results(), [(3, WrFlushErr)], "{what}");
            assert_eq!(left.receive_results(), [(4, WrFlushErr)], "{what}");
        }
    }
}

#[test]
fn the_receives_own_key_is_bad_when_it_is_used() {
    for rest in [false, true] {
        let (mut left, mut right) = pair(&Setup::default());
        let key = other_region(&mut right, Access::LOCAL_WRITE);
        let request = |id| ReceiveRequest {
            id,
            segments: vec![Segment {
                address: BASE,
                length: 4096,
                key,
            }],
        };
        right.context.post_recv(2, request(10)).unwrap();
        right.context.post_recv(2, request(11)).unwrap();
        left.program.ring = 2100;
        settle(&mut left, &mut right);
        left.send(1, 0, 4000);
        if rest {
            // The first piece has arrived.
            left.progress();
            right.progress();
        }
        right.context.deregister(&mut right.program, key).unwrap();
        settle(&mut left, &mut right);
        assert_eq!(left.send_results(), [(1, RemOpErr)]);
        assert_eq!(
            right.receive_results(),
            [(10, LocProtErr), (11, WrFlushErr)]
        );
        assert_eq!((left.state(), right.state()), (ERROR, ERROR));
    }
    // Memory that its owner may not write to is no receive either.
    let (mut left, mut right) = pair(&Setup::default());
    let key = other_region(&mut right, Access::REMOTE_READ);
    let segments = vec![Segment {
        address: BASE,
        length: 8,
        key,
    }];
    let request = ReceiveRequest { id: 10, segments };
    right.context.post_recv(2, request).unwrap();
    left.send(1, 0, 8);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RemOpErr)]);
    assert_eq!(right.receive_results(), [(10, LocProtErr)]);
}

#[test]
fn access_flags_of_the_queue_pair_count_too() {
    let setup = Setup {
        access: Access::REMOTE_READ,
        ..Setup::default()
    };
    let (mut left, mut right) = pair(&setup);
    let key = right.key;
    left.post(left.one_sided(1, Opcode::RdmaRead, (0, 8), (0, key)));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    // They can be changed.
    let attributes = Attributes {
        access: Access::REMOTE_WRITE,
        ..Attributes::default()
    };
    right.modify(QpState::Rts, attributes, M::ACCESS_FLAGS);
    settle(&mut left, &mut right);
    write(&mut left, 0, 8, key);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    read_own(&mut left, key);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RemAccessErr)]);
    assert_eq!(right.qp_events(), [EventType::QpAccessErr]);
}

#[test]
fn reads_that_are_not_allowed() {
    let mut setup = Setup::default();
    setup.attributes.max_dest_rd_atomic = 0;
    let (mut left, mut right) = pair(&setup);
    read_own(&mut left, right.key);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RemInvReqErr)]);
    assert_eq!(right.qp_events(), [EventType::QpReqErr]);
    setup.attributes.max_rd_atomic = 0;
    let (mut left, mut right) = pair(&setup);
    read_own(&mut left, right.key);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, LocQpOpErr)]);
    assert_eq!(right.state(), QpState::Rts);
}

#[test]
fn memory_that_is_taken_back_is_refused_at_once() {
    let (mut left, mut right) = pair(&Setup::default());
    let key = other_region(&mut right, ALL);
    write(&mut left, 0, 8, key);
    settle(&mut left, &mut right);
    assert_eq!(
        (left.send_results(), right.program.windows()),
        (vec![(1, Success)], 1)
    );
    right.context.deregister(&mut right.program, key).unwrap();
    assert_eq!(right.program.windows(), 0);
    // The left end has not heard of it: it stores nothing, and asks.
    left.fill(0, b"too late");
    write(&mut left, 0, 8, key);
    left.progress();
    assert_eq!(
        (right.bytes(0, 8), left.send_results()),
        (vec![0; 8], vec![])
    );
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RemAccessErr)]);
    settle(&mut left, &mut right);
    assert_eq!(right.qp_events(), [EventType::QpAccessErr]);
}

#[test]
fn a_window_that_cannot_be_exposed() {
    let (mut left, mut right) = pair(&Setup::default());
    right.program.windows_left = 0;
    write(&mut left, 0, 8, right.key);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RemOpErr)]);
    assert_eq!(right.state(), QpState::Rts);
}

#[test]
fn nothing_is_checked_for_no_bytes() {
    let (mut left, mut right) = pair(&Setup::default());
    write(&mut left, 0, 0, 0);
    left.post(SendRequest::new(2, Opcode::RdmaRead, Vec::new()));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
}
