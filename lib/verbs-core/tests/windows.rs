//! Memory windows, keys that are invalidated, and regions that are registered anew.

mod pair;

use pair::{ALL, End, REGION, Setup, pair, settle};
use verbs_core::context::Counts;
use verbs_core::demo::BASE;
use verbs_core::keys::{Region, WindowType};
use verbs_core::types::WcStatus::{
    LocProtErr, LocQpOpErr, MwBindErr, RemAccessErr, RemOpErr, Success, WrFlushErr,
};
use verbs_core::types::{Access, Error, EventType, Opcode, QpState, QpType, WcFlags, WcOpcode};
use verbs_core::work::{Bind, QpInit, ReceiveRequest, SendRequest};

const KINDS: [WindowType; 2] = [WindowType::One, WindowType::Two];

/// A region to which windows can be bound.
fn region(end: &mut End, access: Access) -> u32 {
    let region = Region {
        pd: end.pd,
        start: BASE,
        length: REGION as u64,
        iova: BASE,
        access: access | Access::MW_BIND,
    };
    end.context.register(region).unwrap()
}

/// The next key of a window.
fn next(key: u32) -> u32 {
    key & !0xff | (key + 1) & 0xff
}

fn bind(window: u32, region: u32) -> Bind {
    Bind {
        window,
        key: next(window),
        region,
        address: BASE + 64,
        length: 64,
        access: Access::REMOTE_WRITE | Access::REMOTE_READ,
    }
}

fn bind_request(id: u64, bind: Bind) -> SendRequest {
    SendRequest {
        bind: Some(bind),
        ..SendRequest::new(id, Opcode::BindMw, Vec::new())
    }
}

fn invalidate(id: u64, key: u32) -> SendRequest {
    SendRequest {
        immediate: key,
        ..SendRequest::new(id, Opcode::LocalInv, Vec::new())
    }
}

/// Two ends, a window of the right one, the region that it can be bound to.
fn ends(kind: WindowType) -> (End, End, u32, u32) {
    let (left, mut right) = pair(&Setup::default());
    let window = right.context.alloc_mw(right.pd, kind).unwrap();
    let region = region(&mut right, Access::LOCAL_WRITE);
    (left, right, window, region)
}

/// The result of a write of 8 bytes by a key.
fn write(
    left: &mut End,
    right: &mut End,
    offset: u64,
    key: u32,
) -> Vec<verbs_core::types::WcStatus> {
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 8), (offset, key)));
    settle(left, right);
    let done = left.send_results().into_iter();
    done.map(|(_, status)| status).collect()
}

#[test]
fn a_window_gives_a_peer_part_of_a_region() {
    for kind in KINDS {
        for (offset, length, status) in [
            (64, 64, Success),
            (120, 8, Success),
            (63, 8, RemAccessErr),
            (121, 8, RemAccessErr),
        ] {
            let (mut left, mut right, window, region) = ends(kind);
            let wanted = bind(window, region);
            right.post(bind_request(5, wanted));
            settle(&mut left, &mut right);
            let done = right.sent();
            assert_eq!(
                (done[0].status, done[0].opcode),
                (Success, WcOpcode::BindMw)
            );
            left.fill(0, &[7; 64]);
            let request = left.one_sided(1, Opcode::RdmaWrite, (0, length), (offset, wanted.key));
            left.post(request);
            settle(&mut left, &mut right);
            assert_eq!(left.send_results(), [(1, status)], "{kind:?} {offset}");
            if status == Success {
                assert_eq!(
                    right.bytes(offset, length as usize),
                    vec![7; length as usize]
                );
            }
        }
    }
}

#[test]
fn addresses_can_count_from_0() {
    let (mut left, mut right, window, region) = ends(WindowType::One);
    let mut wanted = bind(window, region);
    wanted.access |= Access::ZERO_BASED;
    right.post(bind_request(5, wanted));
    settle(&mut left, &mut right);
    left.fill(0, b"at-start");
    let status = write(&mut left, &mut right, 0u64.wrapping_sub(BASE), wanted.key);
    assert_eq!(
        (status, right.bytes(64, 8)),
        (vec![Success], b"at-start".to_vec())
    );
}

#[test]
fn what_a_window_does_not_give() {
    let (mut left, mut right, window, region) = ends(WindowType::Two);
    let mut wanted = bind(window, region);
    wanted.access = Access::REMOTE_WRITE;
    right.post(bind_request(5, wanted));
    settle(&mut left, &mut right);
    assert_eq!(write(&mut left, &mut right, 64, wanted.key), [Success]);
    left.post(left.one_sided(2, Opcode::RdmaRead, (0, 8), (64, wanted.key)));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(2, RemAccessErr)]);
    assert_eq!(right.qp_events(), [EventType::QpAccessErr]);
}

/// Changes a binding so that it is refused.
type Wrong = fn(&mut Bind, &mut End);

#[test]
fn bindings_that_are_refused() {
    let cases: [(&str, Wrong); 11] = [
        ("no window", |bind, _| bind.window = 0),
        ("a region as window", |bind, end| bind.window = end.key),
        ("the key of another window", |bind, _| bind.key += 256),
        ("the same key", |bind, _| bind.key = bind.window),
        ("no region", |bind, _| bind.region = 0),
        ("a region without windows", |bind, end| {
            bind.region = end.key
        }),
        ("before the region", |bind, _| bind.address = BASE - 1),
        ("behind the region", |bind, _| {
            bind.length = REGION as u64 - 63
        }),
        ("a right of the owner", |bind, _| {
            bind.access |= Access::LOCAL_WRITE
        }),
        ("more than the owner may", |bind, end| {
            bind.region = region(end, Access::REMOTE_READ);
        }),
        ("another domain", |bind, end| {
            let pd = end.context.alloc_pd().unwrap();
            bind.window = end.context.alloc_mw(pd, WindowType::One).unwrap();
            bind.key = next(bind.window);
        }),
    ];
    for kind in KINDS {
        for (what, wrong) in cases {
            let (mut left, mut right, window, region) = ends(kind);
            let mut wanted = bind(window, region);
            wrong(&mut wanted, &mut right);
            right.post(bind_request(5, wanted));
            right.send(6, 0, 8);
            settle(&mut left, &mut right);
            let results = right.send_results();
            assert_eq!(
                results,
                [(5, MwBindErr), (6, WrFlushErr)],
                "{kind:?} {what}"
            );
            assert_eq!(
                (right.state(), left.state()),
                (QpState::Err, QpState::Rts),
                "{what}"
            );
            assert_eq!(
                write(&mut left, &mut right, 64, wanted.key),
                [verbs_core::types::WcStatus::RetryExcErr]
            );
        }
    }
}

#[test]
fn a_window_is_bound_anew() {
    // Type 1 at any time: the former key fails.
    let (mut left, mut right, window, region) = ends(WindowType::One);
    let first = bind(window, region);
    let second = Bind {
        key: next(first.key),
        address: BASE + 256,
        ..first
    };
    right.post(bind_request(5, first));
    settle(&mut left, &mut right);
    assert_eq!(write(&mut left, &mut right, 64, first.key), [Success]);
    assert_eq!(right.program.windows(), 1);
    right.post(bind_request(6, second));
    right.progress();
    assert_eq!(right.program.windows(), 0);
    settle(&mut left, &mut right);
    assert_eq!(write(&mut left, &mut right, 256, second.key), [Success]);
    assert_eq!(write(&mut left, &mut right, 64, first.key), [RemAccessErr]);
    // Type 1 to nothing.
    let (mut left, mut right, window, region) = ends(WindowType::One);
    let first = bind(window, region);
    let nothing = Bind {
        key: next(first.key),
        length: 0,
        ..first
    };
    right.post(bind_request(5, first));
    right.post(bind_request(6, nothing));
    settle(&mut left, &mut right);
    assert_eq!(right.send_results(), [(5, Success), (6, Success)]);
    assert_eq!(
        write(&mut left, &mut right, 64, nothing.key),
        [RemAccessErr]
    );
    // Type 2 is invalidated before, and never bound to nothing.
    let (mut left, mut right, window, region) = ends(WindowType::Two);
    let first = bind(window, region);
    right.post(bind_request(5, first));
    right.post(invalidate(6, first.key));
    right.post(bind_request(
        7,
        Bind {
            key: next(first.key),
            ..first
        },
    ));
    right.post(bind_request(
        8,
        Bind {
            key: next(next(first.key)),
            ..first
        },
    ));
    settle(&mut left, &mut right);
    let results = right.send_results();
    assert_eq!(
        results,
        [(5, Success), (6, Success), (7, Success), (8, MwBindErr)]
    );
    let (mut left, mut right, window, region) = ends(WindowType::Two);
    right.post(bind_request(
        5,
        Bind {
            length: 0,
            ..bind(window, region)
        },
    ));
    settle(&mut left, &mut right);
    assert_eq!(right.send_results(), [(5, MwBindErr)]);
}

#[test]
fn a_key_is_invalidated_here() {
    let (mut left, mut right, window, region) = ends(WindowType::Two);
    let wanted = bind(window, region);
    right.post(bind_request(5, wanted));
    settle(&mut left, &mut right);
    assert_eq!(write(&mut left, &mut right, 64, wanted.key), [Success]);
    right.post(invalidate(6, wanted.key));
    right.progress();
    let done = right.sent();
    assert_eq!(
        (done[1].status, done[1].opcode),
        (Success, WcOpcode::LocalInv)
    );
    assert_eq!(right.program.windows(), 0);
    settle(&mut left, &mut right);
    assert_eq!(write(&mut left, &mut right, 64, wanted.key), [RemAccessErr]);
    // Keys that are none of a window of type 2 that is bound here.
    let bad: [fn(&mut End, u32) -> u32; 4] = [
        |_, window| window,
        |end, _| end.key,
        |_, _| 0,
        |_, window| next(next(window)),
    ];
    for bad in bad {
        let (mut left, mut right, window, region) = ends(WindowType::Two);
        right.post(bind_request(5, bind(window, region)));
        let key = bad(&mut right, window);
        right.post(invalidate(6, key));
        settle(&mut left, &mut right);
        assert_eq!(right.send_results(), [(5, Success), (6, LocQpOpErr)]);
    }
    let (mut left, mut right, window, region) = ends(WindowType::One);
    right.post(bind_request(5, bind(window, region)));
    right.post(invalidate(6, next(window)));
    settle(&mut left, &mut right);
    assert_eq!(right.send_results(), [(5, Success), (6, LocQpOpErr)]);
}

#[test]
fn a_key_is_invalidated_by_the_peer() {
    let (mut left, mut right, window, region) = ends(WindowType::Two);
    let wanted = bind(window, region);
    right.post(bind_request(5, wanted));
    right.receive(10, 0, 64);
    right.receive(11, 0, 64);
    settle(&mut left, &mut right);
    assert_eq!(write(&mut left, &mut right, 64, wanted.key), [Success]);
    let segments = vec![left.segment(0, 3000)];
    right
        .context
        .post_recv(
            2,
            ReceiveRequest {
                id: 12,
                segments: vec![].into(),
            },
        )
        .unwrap();
    let mut request = SendRequest::new(1, Opcode::SendWithInv, vec![]);
    request.immediate = wanted.key;
    left.post(request.clone());
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    let wc = right.received()[0];
    assert_eq!(
        (wc.id, wc.opcode, wc.flags),
        (10, WcOpcode::Recv, WcFlags::WITH_INV)
    );
    assert_eq!((wc.immediate, right.program.windows()), (wanted.key, 0));
    // A second time there is nothing to invalidate.
    request.data = verbs_core::work::Data::Segments(segments);
    request.id = 2;
    request.data = verbs_core::work::Data::Segments(vec![left.segment(0, 8)]);
    left.post(request);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(2, RemOpErr)]);
    assert_eq!(
        right.receive_results(),
        [(11, LocQpOpErr), (12, WrFlushErr)]
    );
    assert_eq!((left.state(), right.state()), (QpState::Err, QpState::Err));
}

#[test]
fn a_window_of_type_2_belongs_to_its_queue_pair() {
    let (mut left, mut right, window, region) = ends(WindowType::Two);
    let wanted = bind(window, region);
    // Another queue pair of the right end binds it.
    let other = QpInit {
        ..right.context.query_qp(2).unwrap().init
    };
    right.context.create_qp(9, other).unwrap();
    right.qp = 9;
    let setup = Setup::default();
    right.enter_init(&setup);
    right.enter_rtr(&setup, 8);
    right.enter_rts(&setup);
    right.post(bind_request(5, wanted));
    settle(&mut left, &mut right);
    assert_eq!(right.send_results(), [(5, Success)]);
    right.qp = 2;
    assert_eq!(write(&mut left, &mut right, 64, wanted.key), [RemAccessErr]);
    // It goes with it; its key is invalid, and it can be bound again.
    right.context.destroy_qp(9).unwrap();
    assert_eq!(right.context.deregister(&mut right.program, region), Ok(()));
    right
        .context
        .dealloc_mw(&mut right.program, window)
        .unwrap();
}

#[test]
fn bound_windows_go_with_their_queue_pair_also_for_peers() {
    let (mut left, mut right, window, region) = ends(WindowType::Two);
    right.post(bind_request(5, bind(window, region)));
    settle(&mut left, &mut right);
    assert_eq!(write(&mut left, &mut right, 64, next(window)), [Success]);
    assert_eq!(right.program.windows(), 1);
    right.context.destroy_qp(2).unwrap();
    settle(&mut left, &mut right);
    assert_eq!(right.program.windows(), 0);
}

#[test]
fn what_is_bound_stays() {
    let (mut left, mut right, window, region) = ends(WindowType::One);
    let before = right.context.counts();
    assert_eq!((before.windows, before.regions), (1, 2));
    right.post(bind_request(5, bind(window, region)));
    settle(&mut left, &mut right);
    assert_eq!(write(&mut left, &mut right, 64, next(window)), [Success]);
    let busy = Err(Error::Busy);
    assert_eq!(right.context.deregister(&mut right.program, region), busy);
    let same = *right.context.region(region).unwrap();
    let again = right.context.reregister(&mut right.program, region, same);
    assert_eq!(again, Err(Error::Busy));
    assert_eq!(
        right.context.deregister(&mut right.program, window),
        Err(Error::NotFound)
    );
    assert_eq!(
        right.context.dealloc_mw(&mut right.program, region),
        Err(Error::NotFound)
    );
    // By any key of it.
    right
        .context
        .dealloc_mw(&mut right.program, window)
        .unwrap();
    assert_eq!(right.program.windows(), 0);
    assert_eq!(
        right.context.dealloc_mw(&mut right.program, window),
        Err(Error::NotFound)
    );
    right
        .context
        .deregister(&mut right.program, region)
        .unwrap();
    let after = right.context.counts();
    assert_eq!(
        after,
        Counts {
            windows: 0,
            regions: 1,
            ..before
        }
    );
    settle(&mut left, &mut right);
    assert_eq!(
        write(&mut left, &mut right, 64, next(window)),
        [RemAccessErr]
    );
}

#[test]
fn who_can_bind_and_invalidate() {
    let setup = Setup {
        kind: QpType::Uc,
        ..Setup::default()
    };
    let (mut left, _right) = pair(&setup);
    let window = left.context.alloc_mw(left.pd, WindowType::Two).unwrap();
    let region = region(&mut left, Access::LOCAL_WRITE);
    let mut with_key = SendRequest::new(1, Opcode::SendWithInv, Vec::new());
    with_key.immediate = 1;
    for bad in [SendRequest::new(1, Opcode::BindMw, Vec::new()), with_key] {
        assert_eq!(left.context.post_send(1, bad), Err(Error::Invalid));
    }
    left.post(bind_request(1, bind(window, region)));
    left.post(invalidate(2, next(window)));
    left.progress();
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
}

#[test]
fn a_region_is_registered_anew() {
    let (mut left, mut right) = pair(&Setup::default());
    let pd = right.pd;
    let all = Region {
        pd,
        start: BASE,
        length: 4096,
        iova: BASE,
        access: ALL,
    };
    let key = right.context.register(all).unwrap();
    assert_eq!(write(&mut left, &mut right, 8, key), [Success]);
    assert_eq!(right.program.windows(), 1);
    // A change that is refused changes nothing.
    for (wrong, error) in [
        (Region { length: 0, ..all }, Error::Invalid),
        (
            Region {
                pd: verbs_core::table::Id(99),
                ..all
            },
            Error::NotFound,
        ),
    ] {
        let refused = right.context.reregister(&mut right.program, key, wrong);
        assert_eq!(refused, Err(error));
        assert_eq!(right.context.region(key), Some(&all));
    }
    // Other memory: the former key fails at once, the new one reaches it.
    let moved = Region {
        start: BASE + 0x2000,
        ..all
    };
    let second = right
        .context
        .reregister(&mut right.program, key, moved)
        .unwrap();
    assert!(second != key && right.context.region(key).is_none());
    assert_eq!(right.program.windows(), 0);
    left.fill(0, b"new mem.");
    assert_eq!(write(&mut left, &mut right, 8, second), [Success]);
    assert_eq!(right.bytes(0x2008, 8), b"new mem.");
    // Another domain: receives of it cannot be used by this queue pair.
    let other = right.context.alloc_pd().unwrap();
    let third = right
        .context
        .reregister(&mut right.program, second, Region { pd: other, ..moved })
        .unwrap();
    assert_eq!(right.context.dealloc_pd(other), Err(Error::Busy));
    let segments = vec![verbs_core::work::Segment {
        address: BASE,
        length: 64,
        key: third,
    }];
    right
        .context
        .post_recv(
            2,
            ReceiveRequest {
                id: 10,
                segments: segments.into(),
            },
        )
        .unwrap();
    left.send(2, 0, 8);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(2, RemOpErr)]);
    assert_eq!(right.receive_results(), [(10, LocProtErr)]);
    right.context.deregister(&mut right.program, third).unwrap();
    right.context.dealloc_pd(other).unwrap();
}
