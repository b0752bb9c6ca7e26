//! The errors at both ends of a connection whose memory and rights change meanwhile.
//! Who gets which error is a table: `tests/conformance/src/verbs/rows/errors.rs`.

mod pair;

use pair::{ALL, End, Setup, pair, settle};
use verbs_core::attributes::Attributes;
use verbs_core::demo::BASE;
use verbs_core::keys::Region;
use verbs_core::types::WcStatus::{
    LocProtErr, LocQpOpErr, RemAccessErr, RemInvReqErr, RemOpErr, RetryExcErr, Success, WrFlushErr,
};
use verbs_core::types::{Access, AttributeMask as M, EventType, Opcode, QpState};
use verbs_core::work::{ReceiveRequest, Segment, Segments, SendRequest};

const ERROR: QpState = QpState::Err;

fn write(left: &mut End, offset: u64, length: u32, key: u32) {
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, length), (offset, key)));
}

fn read_own(left: &mut End, key: u32) {
    left.post(left.one_sided(1, Opcode::RdmaRead, (0, 8), (0, key)));
}

/// A page of the region with other rights.
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

#[test]
fn the_receives_own_key_is_bad_when_it_is_used() {
    for rest in [false, true] {
        let (mut left, mut right) = pair(&Setup::default());
        let key = other_region(&mut right, Access::LOCAL_WRITE);
        let request = |id| ReceiveRequest {
            id,
            segments: Segments::One(Segment {
                address: BASE,
                length: 4096,
                key,
            }),
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
    let request = ReceiveRequest {
        id: 10,
        segments: segments.into(),
    };
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
    // The left end has not been told: it stores nothing, and asks.
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

/// A program may ask for a window of a driver that has just died, before it finds the end of its
/// connections.
#[test]
fn who_has_lost_the_lane_does_not_call_it_a_lack_of_windows() {
    let (mut left, mut right) = pair(&Setup::default());
    let key = other_region(&mut right, ALL);
    write(&mut left, 0, 8, key);
    right.program.has_driver = false;
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), []);
    right.program.cut(pair::LANE);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RetryExcErr)]);
}
