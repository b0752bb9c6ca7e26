//! Helpers for tests of datagrams.

use super::{End, LANE, Setup};
use verbs_core::Destination;
use verbs_core::address::{AddressVector, Datagram, LanePeer};
use verbs_core::table::Id;
use verbs_core::types::{Opcode, QpType};
use verbs_core::work::SendRequest;

pub const QKEY: u32 = 0x1111_1111;
pub const GROUP: [u8; 16] = [0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
pub const TO_RIGHT: Destination = Destination { lid: 2, qpn: 2 };

pub fn setup() -> Setup {
    let mut setup = Setup {
        kind: QpType::Ud,
        ..Setup::default()
    };
    setup.attributes.qkey = QKEY;
    setup
}

/// Two ends with queue pairs that can send, a lane, no route, and an address handle to the right.
pub fn ends(setup: &Setup) -> (End, End, Id) {
    let (mut left, mut right) = (End::new(1, setup), End::new(2, setup));
    left.program.join(LANE, &mut right.program, LANE);
    for end in [&mut left, &mut right] {
        end.context.open_datagram_lane(LANE).unwrap();
        end.enter_init(setup);
        end.enter_rtr(setup, 0);
        end.enter_rts(setup);
    }
    left.context.set_lane_peer(LANE, LanePeer::Port(2)).unwrap();
    right
        .context
        .set_lane_peer(LANE, LanePeer::Port(1))
        .unwrap();
    let vector = AddressVector {
        lid: 2,
        ..AddressVector::default()
    };
    let ah = left.context.create_ah(left.pd, vector).unwrap();
    (left, right, ah)
}

/// As [`ends`], with a route.
pub fn routed(setup: &Setup) -> (End, End, Id) {
    let (mut left, right, ah) = ends(setup);
    left.context.route(TO_RIGHT, Some(LANE)).unwrap();
    (left, right, ah)
}

pub fn datagram(end: &End, id: u64, length: u32, ah: Id) -> SendRequest {
    let datagram = Datagram {
        ah,
        qpn: 2,
        qkey: QKEY,
    };
    SendRequest {
        datagram,
        ..SendRequest::new(id, Opcode::Send, vec![end.segment(0, length)])
    }
}
