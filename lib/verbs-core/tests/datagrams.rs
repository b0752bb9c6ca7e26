//! Datagrams: where they go, what they bring, and when they are dropped.

mod pair;

use pair::datagrams::{GROUP, QKEY, datagram, ends, routed, setup};
use pair::{End, LANE, REGION, Setup, settle};
use verbs_core::address::{
    AddressVector, Datagram, GRH_BYTES, GlobalRoute, LanePeer, MULTICAST_QPN, OWN_QKEY, gid,
};
use verbs_core::attributes::Attributes;
use verbs_core::demo::BASE;
use verbs_core::record::{DatagramPiece, Marks, Record};
use verbs_core::table::Id;
use verbs_core::types::WcStatus::{LocLenErr, LocProtErr, Success, WrFlushErr};
use verbs_core::types::{
    AttributeMask as M, Error, EventType, Opcode, QpState, SendFlags, WcFlags, WcOpcode,
};
use verbs_core::work::{ReceiveRequest, Segment, SendRequest};
use verbs_core::{Destination, Event, Subject};

#[test]
fn a_datagram_brings_its_bytes_and_where_they_come_from() {
    let (mut left, mut right, ah) = routed(&setup());
    let data: Vec<u8> = (0..4096u32).map(|at| (at * 7) as u8).collect();
    left.fill(0, &data);
    left.program.ring = 4095;
    for length in [0, 1, 2000, 2001, 4096] {
        right.receive(10, 0x100, 4096 + 40);
        let mut request = datagram(&left, 1, length, ah);
        (request.opcode, request.immediate) = (Opcode::SendWithImm, 0xabcd);
        left.post(request);
        settle(&mut left, &mut right);
        assert_eq!(left.send_results(), [(1, Success)], "{length}");
        let wc = right.received()[0];
        assert_eq!((wc.id, wc.status, wc.opcode), (10, Success, WcOpcode::Recv));
        assert_eq!((wc.byte_len, wc.immediate), (length + 40, 0xabcd));
        assert_eq!((wc.qp, wc.src_qp, wc.slid), (2, 1, 1));
        assert_eq!((wc.flags, wc.service_level), (WcFlags::WITH_IMM, 0));
        let bytes = right.bytes(0x100 + 40, length as usize);
        assert_eq!(bytes, data[..length as usize], "{length}");
    }
}

#[test]
fn a_global_route_is_in_front_of_the_bytes() {
    let (mut left, mut right, _) = routed(&setup());
    let route = GlobalRoute {
        gid: gid(2),
        flow_label: 5,
        traffic_class: 6,
        hop_limit: 7,
    };
    let vector = AddressVector {
        lid: 2,
        service_level: 3,
        global: Some(route),
    };
    let ah = left.context.create_ah(left.pd, vector).unwrap();
    left.fill(0, b"datagram");
    // The header lies in two segments, and so do the bytes.
    let segments = vec![
        right.segment(0, 30),
        right.segment(100, 13),
        right.segment(200, 5),
    ];
    let receive = ReceiveRequest {
        id: 10,
        segments: segments.into(),
    };
    right.context.post_recv(2, receive).unwrap();
    left.post(datagram(&left, 1, 8, ah));
    settle(&mut left, &mut right);
    let wc = right.received()[0];
    assert_eq!(
        (wc.flags, wc.service_level, wc.byte_len),
        (WcFlags::GRH, 3, 48)
    );
    let header = [right.bytes(0, 30), right.bytes(100, 10)].concat();
    // The length is that of all behind the header: 12, 8 and 4 bytes besides the datagram's 8.
    assert_eq!(header[..8], [0x60, 0x60, 0, 5, 0, 32, 0x1b, 7]);
    assert_eq!(
        (&header[8..24], &header[24..40]),
        (&gid(1)[..], &gid(2)[..])
    );
    let bytes = [right.bytes(110, 3), right.bytes(200, 5)].concat();
    assert_eq!(bytes, b"datagram");
}

/// A name, what is done to the right end, the length and the key of the datagram that is then
/// dropped, and the number of key violations that are counted.
type Drop = (&'static str, fn(&mut End), u32, u32, u32);

#[test]
fn what_cannot_be_received_is_dropped() {
    let drops: [Drop; 5] = [
        ("no receive", |_| {}, 8, QKEY, 0),
        (
            "another key",
            |right| right.receive(10, 0, 64),
            8,
            QKEY + 1,
            1,
        ),
        ("too long", |right| right.receive(10, 0, 64), 25, QKEY, 0),
        (
            "not ready",
            |right| right.modify(QpState::Err, Attributes::default(), M::empty()),
            8,
            QKEY,
            0,
        ),
        (
            "no queue pair",
            |right| right.context.destroy_qp(2).unwrap(),
            8,
            QKEY,
            0,
        ),
    ];
    for (what, prepare, length, qkey, violations) in drops {
        let (mut left, mut right, ah) = routed(&setup());
        prepare(&mut right);
        let before = right.receive_results();
        let mut request = datagram(&left, 1, length, ah);
        request.datagram.qkey = qkey;
        left.post(request);
        settle(&mut left, &mut right);
        assert_eq!(left.send_results(), [(1, Success)], "{what}");
        assert_eq!(
            (before, right.receive_results()),
            (vec![], vec![]),
            "{what}"
        );
        assert_eq!(right.context.qkey_violations(), violations, "{what}");
        if matches!(what, "another key" | "too long") {
            // The receive is still there.
            left.post(datagram(&left, 2, 24, ah));
            settle(&mut left, &mut right);
            assert_eq!(right.receive_results(), [(10, Success)], "{what}");
        }
    }
}

#[test]
fn a_datagram_waits_for_the_next_receive_of_a_program_that_posts_them() {
    const DATAGRAMS: u64 = 40;
    let (mut left, mut right, ah) = routed(&setup());
    right.receive(0, 0, 64);
    for id in 0..DATAGRAMS {
        left.post(datagram(&left, id, 8, ah));
    }
    settle(&mut left, &mut right);
    let sent = (0..DATAGRAMS).map(|id| (id, Success));
    assert_eq!(left.send_results(), sent.collect::<Vec<_>>());
    // The receiver takes one at a time, and posts its receive again.
    for id in 0..DATAGRAMS {
        assert_eq!(right.receive_results(), [(id, Success)]);
        right.now += 1_000_000;
        right.receive(id + 1, 0, 64);
        settle(&mut left, &mut right);
    }
    left.post(datagram(&left, 99, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), [(DATAGRAMS, Success)]);
    // It posts none: the next one is dropped after a while, and others at once.
    for until in [Some(right.now + 20_000_000), None] {
        left.post(datagram(&left, 100, 8, ah));
        left.progress();
        assert_eq!(right.progress().until, until);
        right.now += 20_000_000;
        settle(&mut left, &mut right);
    }
    right.receive(7, 0, 64);
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), []);
    left.post(datagram(&left, 101, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), [(7, Success)]);
}

#[test]
fn the_key_of_the_sender_can_be_meant() {
    let mut setup = setup();
    let (mut left, mut right, ah) = routed(&setup);
    right.receive(10, 0, 64);
    right.receive(11, 0, 64);
    let mut request = datagram(&left, 1, 8, ah);
    request.datagram.qkey = OWN_QKEY | 5;
    left.post(request.clone());
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), [(10, Success)]);
    setup.attributes.qkey = 9;
    left.modify(QpState::Rts, setup.attributes, M::QKEY);
    left.post(request);
    settle(&mut left, &mut right);
    assert_eq!(
        (right.receive_results(), right.context.qkey_violations()),
        (vec![], 1)
    );
}

#[test]
fn what_no_datagram_can_be() {
    let (mut left, mut right, ah) = routed(&setup());
    let good = datagram(&left, 1, 8, ah);
    let pd = left.context.alloc_pd().unwrap();
    let vector = AddressVector {
        lid: 2,
        ..AddressVector::default()
    };
    let others = left.context.create_ah(pd, vector).unwrap();
    let with = |ah| SendRequest {
        datagram: Datagram {
            ah,
            ..good.datagram
        },
        ..good.clone()
    };
    let opcodes = [
        Opcode::RdmaWrite,
        Opcode::RdmaRead,
        Opcode::RdmaWriteWithImm,
    ];
    let operations = opcodes.map(|opcode| SendRequest {
        opcode,
        ..good.clone()
    });
    let bad = [with(Id(77)), with(others)].into_iter().chain(operations);
    for request in bad {
        let refused = left.context.post_send(1, request.clone());
        assert_eq!(refused, Err(Error::Invalid), "{request:?}");
    }
    assert_eq!(left.context.dealloc_pd(pd), Err(Error::Busy));
    left.context.destroy_ah(others).unwrap();
    left.context.dealloc_pd(pd).unwrap();
    assert_eq!(left.context.destroy_ah(others), Err(Error::NotFound));
    let none = left.context.create_ah(left.pd, AddressVector::default());
    assert_eq!(none, Err(Error::Invalid));
    assert_eq!(left.context.attach(1, LANE), Err(Error::Invalid));
    // The handle counts when a datagram is posted.
    right.receive(10, 0, 64);
    left.post(datagram(&left, 2, 8, ah));
    left.context.destroy_ah(ah).unwrap();
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), [(10, Success)]);
}

#[test]
fn own_mistakes_stop_the_sender_alone() {
    for (length, offset, status) in [(4097, 0, LocLenErr), (2, REGION as u64 - 1, LocProtErr)] {
        let (mut left, mut right, ah) = routed(&setup());
        right.receive(10, 0, 5000);
        let mut bad = datagram(&left, 1, length, ah);
        bad.data = verbs_core::work::Data::Segments(vec![left.segment(offset, length)]);
        left.post(bad);
        left.post(datagram(&left, 2, 8, ah));
        settle(&mut left, &mut right);
        assert_eq!(left.send_results(), [(1, status), (2, WrFlushErr)]);
        assert_eq!(
            (left.state(), right.receive_results()),
            (QpState::Sqe, vec![])
        );
        left.post(datagram(&left, 3, 8, ah));
        assert_eq!(left.send_results(), [(3, WrFlushErr)]);
        left.modify(QpState::Rts, Attributes::default(), M::empty());
        left.post(datagram(&left, 4, 8, ah));
        settle(&mut left, &mut right);
        assert_eq!(left.send_results(), [(4, Success)]);
        assert_eq!(right.receive_results(), [(10, Success)]);
    }
}

#[test]
fn a_receive_whose_key_is_bad_fails_its_queue_pair() {
    let (mut left, mut right, ah) = routed(&setup());
    for (id, key) in [(10, 0), (11, right.key)] {
        let segments = vec![Segment {
            address: BASE,
            length: 64,
            key,
        }];
        let request = ReceiveRequest {
            id,
            segments: segments.into(),
        };
        right.context.post_recv(2, request).unwrap();
    }
    left.post(datagram(&left, 1, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    assert_eq!(
        right.receive_results(),
        [(10, LocProtErr), (11, WrFlushErr)]
    );
    assert_eq!((left.state(), right.state()), (QpState::Rts, QpState::Err));
}

#[test]
fn shared_receives_take_datagrams_too() {
    let setup = Setup {
        shared: true,
        ..setup()
    };
    let (mut left, mut right, ah) = routed(&setup);
    right.receive(10, 0, 44);
    right.receive(11, 0, 64);
    let srq = right.srq.unwrap();
    right.context.modify_srq(srq, None, Some(1)).unwrap();
    left.post(datagram(&left, 1, 8, ah));
    left.post(datagram(&left, 2, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), [(10, LocLenErr), (11, Success)]);
    let limit = Event::Async(EventType::SrqLimitReached, Subject::Srq(srq));
    assert_eq!((right.events(), right.state()), (vec![limit], QpState::Rts));
}

#[test]
fn a_peer_that_does_not_run_costs_half_a_second_once() {
    let (mut left, mut right, ah) = routed(&setup());
    left.program.ring = 100;
    for id in 0..20 {
        left.post(datagram(&left, id, 8, ah));
    }
    // The right end receives nothing.
    left.progress();
    assert_eq!(left.sent().len(), 1);
    left.now += 500_000_000;
    let progress = left.progress();
    assert_eq!((left.sent().len(), progress.until), (19, None));
    right.receive(10, 0, 64);
    right.receive(11, 0, 64);
    settle(&mut left, &mut right);
    left.post(datagram(&left, 30, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), [(10, Success), (11, Success)]);
}

#[test]
fn a_datagram_that_stops_in_the_middle_is_not_there() {
    let (mut left, mut right, ah) = routed(&setup());
    left.program.ring = 2100;
    right.receive(10, 0, 5000);
    left.post(datagram(&left, 1, 3000, ah));
    left.progress();
    right.progress();
    // Its sender begins anew; the next datagram is not mixed up with it.
    left.modify(QpState::Reset, Attributes::default(), M::empty());
    left.enter_init(&setup());
    left.enter_rtr(&setup(), 0);
    left.enter_rts(&setup());
    left.fill(0, b"whole");
    left.post(datagram(&left, 2, 2500, ah));
    settle(&mut left, &mut right);
    let wc = right.received();
    assert_eq!((wc.len(), wc[0].byte_len), (1, 2540));
    assert_eq!(right.bytes(40, 5), b"whole");
}

#[test]
fn groups_receive_what_is_sent_to_them() {
    let (mut left, mut right, _) = ends(&setup());
    let route = GlobalRoute {
        gid: GROUP,
        ..GlobalRoute::default()
    };
    let vector = AddressVector {
        lid: 0xc001,
        global: Some(route),
        service_level: 0,
    };
    let ah = left.context.create_ah(left.pd, vector).unwrap();
    let group = Destination {
        lid: 0xc001,
        qpn: MULTICAST_QPN,
    };
    right.context.set_lane_peer(LANE, LanePeer::Relay).unwrap();
    for (gid, lid) in [([0xfe; 16], 0xc001), (GROUP, 0xbfff), (GROUP, 0xffff)] {
        let refused = right.context.attach_multicast(2, gid, lid);
        assert_eq!(refused, Err(Error::Invalid));
    }
    for _ in 0..2 {
        right.context.attach_multicast(2, GROUP, 0xc001).unwrap();
    }
    assert_eq!(right.context.destroy_qp(2), Err(Error::Busy));
    right.receive(10, 0, 64);
    right.receive(11, 0, 64);
    let mut request = datagram(&left, 1, 8, ah);
    request.datagram.qpn = MULTICAST_QPN;
    left.post(request.clone());
    left.progress();
    assert_eq!(left.events(), [Event::LaneWanted(group)]);
    left.context.route(group, Some(LANE)).unwrap();
    settle(&mut left, &mut right);
    let wc = right.received()[0];
    assert_eq!((wc.id, wc.src_qp, wc.flags), (10, 1, WcFlags::GRH));
    assert_eq!(right.bytes(24, 16), GROUP);
    // A relay says whose datagram it is.
    let passed = DatagramPiece {
        destination: MULTICAST_QPN,
        source: 77,
        qkey: QKEY,
        slid: 5,
        service_level: 0,
        global: Some(route),
        marks: Marks::FIRST | Marks::LAST,
        total: 0,
        immediate: 0,
        payload: 0,
    };
    left.program
        .inject(LANE, &Record::Datagram(passed).encode());
    settle(&mut left, &mut right);
    let wc = right.received()[0];
    assert_eq!(
        (wc.id, wc.src_qp, wc.slid, wc.byte_len),
        (11, 77, 5, GRH_BYTES as u32)
    );
    right.context.detach_multicast(2, GROUP).unwrap();
    assert_eq!(
        right.context.detach_multicast(2, GROUP),
        Err(Error::Invalid)
    );
    right.receive(12, 0, 64);
    left.post(request);
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), []);
    right.context.destroy_qp(2).unwrap();
}

#[test]
fn a_lane_for_datagrams_leads_to_no_memory() {
    let (mut left, mut right, _) = routed(&setup());
    left.program
        .inject(LANE, &Record::Expose(right.key).encode());
    settle(&mut left, &mut right);
    assert_eq!(right.program.windows(), 0);
}

#[test]
fn a_datagram_tells_its_channel() {
    let (mut left, mut right, ah) = routed(&setup());
    right.receive(10, 0, 64);
    right.receive(11, 0, 64);
    right.context.req_notify_cq(right.recv_cq, true).unwrap();
    left.post(datagram(&left, 1, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(right.events(), []);
    let mut request = datagram(&left, 2, 8, ah);
    request.flags |= SendFlags::SOLICITED;
    left.post(request);
    settle(&mut left, &mut right);
    assert_eq!(right.events(), [Event::Completion(right.recv_cq)]);
}

#[test]
fn queue_pairs_share_a_lane() {
    let (mut left, mut right, ah) = routed(&setup());
    left.program.ring = 2100;
    let init = left.context.query_qp(1).unwrap().init;
    left.context.create_qp(5, init).unwrap();
    left.qp = 5;
    left.enter_init(&setup());
    left.enter_rtr(&setup(), 0);
    left.enter_rts(&setup());
    for id in 10..13 {
        right.receive(id, 0, 5000);
    }
    // The second one waits for the end of what the first one has begun, also when that is reset.
    left.qp = 1;
    left.post(datagram(&left, 1, 4000, ah));
    left.progress();
    left.qp = 5;
    left.post(datagram(&left, 2, 4000, ah));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
    left.qp = 1;
    left.post(datagram(&left, 3, 4000, ah));
    left.progress();
    left.modify(QpState::Reset, Attributes::default(), M::empty());
    left.qp = 5;
    left.post(datagram(&left, 4, 4000, ah));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(4, Success)]);
    let sources: Vec<_> = right
        .received()
        .iter()
        .map(|wc| (wc.id, wc.src_qp))
        .collect();
    assert_eq!(sources, [(10, 1), (11, 5), (12, 5)]);
}
