//! The tables of refusals for queue pairs, shared receive queues and domains.

use syscall::error::{EBADF, EBUSY, EINVAL, ENOENT, EOPNOTSUPP, EPERM};
use syscall::flag::{O_CREAT, O_EXCL};
use verbs_abi::command::Command::*;
use verbs_abi::records as abi;
use zerocopy::IntoBytes;

use super::errors::{case, check};
use super::fixture::*;

#[test]
fn queue_pairs() {
    let good = create_qp();
    let with = |name, errno, request| case(name, CreateQp, errno, request);
    check([
        with("type 0", EINVAL, abi::CreateQp { qp_type: 0, ..good }),
        with("type 7", EINVAL, abi::CreateQp { qp_type: 7, ..good }),
        with("raw packets", EPERM, abi::CreateQp { qp_type: 8, ..good }),
        with(
            "a driver's type",
            EINVAL,
            abi::CreateQp {
                qp_type: 255,
                ..good
            },
        ),
        with("unreliable", 0, abi::CreateQp { qp_type: 3, ..good }),
        with(
            "too many sends",
            EINVAL,
            abi::CreateQp {
                max_send_wr: 16385,
                ..good
            },
        ),
        with(
            "too many receives",
            EINVAL,
            abi::CreateQp {
                max_recv_wr: 16385,
                ..good
            },
        ),
        with(
            "too many elements",
            EINVAL,
            abi::CreateQp {
                max_send_sge: 33,
                ..good
            },
        ),
        with(
            "of receives",
            EINVAL,
            abi::CreateQp {
                max_recv_sge: 33,
                ..good
            },
        ),
        with(
            "too much inline",
            EINVAL,
            abi::CreateQp {
                max_inline_data: 1025,
                ..good
            },
        ),
        with(
            "sizes whose product and sum no number holds",
            EINVAL,
            abi::CreateQp {
                max_send_wr: u32::MAX,
                max_recv_wr: u32::MAX,
                max_send_sge: u32::MAX,
                max_recv_sge: u32::MAX,
                max_inline_data: u32::MAX,
                ..good
            },
        ),
        with(
            "no such shared queue",
            EINVAL,
            abi::CreateQp { is_srq: 1, ..good },
        ),
        with(
            "one of another type",
            EINVAL,
            abi::CreateQp {
                is_srq: 1,
                srq_handle: CQ,
                ..good
            },
        ),
        with(
            "a shared queue of another domain",
            EINVAL,
            abi::CreateQp {
                is_srq: 1,
                srq_handle: SRQ,
                pd_handle: FREE_PD,
                ..good
            },
        ),
        with(
            "with a shared queue",
            0,
            abi::CreateQp {
                is_srq: 1,
                srq_handle: SRQ,
                ..good
            },
        ),
    ]);
    // The number that a library has chosen.
    let mut fixture = Fixture::new();
    for (qpn, expected) in [
        (0x44_0000, Ok(0x44_0000)),
        (0x44_0000, Err(EINVAL)),
        (0x3_ffff, Err(EINVAL)),
        (0x4_0000, Ok(0x4_0000)),
        (0xff_ffff, Err(EINVAL)),
        (u32::MAX, Err(EINVAL)),
    ] {
        let provider = abi::CreateQpProvider { qpn, reserved: 0 };
        let request = [good.as_bytes(), provider.as_bytes()].concat();
        let result = fixture.run(&plain(CreateQp, &request, 32));
        let number = result.map(|answer| u32::from_ne_bytes(answer[4..8].try_into().unwrap()));
        assert_eq!(number, expected, "{qpn:#x}");
    }
    let extended_with = |change: fn(&mut abi::CreateQpEx)| {
        let (request, _, _) = super::fixture::good(CreateQp, true);
        let mut request: abi::CreateQpEx = zerocopy::FromBytes::read_from_bytes(&request).unwrap();
        change(&mut request);
        Fixture::new()
            .run(&extended(CreateQp, request.as_bytes(), 40))
            .map(|_| ())
    };
    assert_eq!(extended_with(|_| {}), Ok(()));
    assert_eq!(extended_with(|request| request.comp_mask = 1), Err(EINVAL));
    assert_eq!(
        extended_with(|request| request.create_flags = 1),
        Err(EOPNOTSUPP)
    );
    assert_eq!(
        extended_with(|request| request.source_qpn = 1),
        Err(EOPNOTSUPP)
    );
}

#[test]
fn changes_of_queue_pairs() {
    let good = to_init();
    let with = |name, errno, request| case(name, ModifyQp, errno, request);
    let mask = good.attr_mask;
    check([
        with("the first", 0, good),
        with(
            "an unknown bit",
            EOPNOTSUPP,
            abi::ModifyQp {
                attr_mask: mask | 1 << 21,
                ..good
            },
        ),
        with(
            "a rate",
            EOPNOTSUPP,
            abi::ModifyQp {
                attr_mask: mask | 1 << 25,
                ..good
            },
        ),
        with(
            "too little",
            EINVAL,
            abi::ModifyQp {
                attr_mask: mask & !(1 << 3),
                ..good
            },
        ),
        with(
            "too much",
            EINVAL,
            abi::ModifyQp {
                attr_mask: mask | 1 << 8,
                path_mtu: 1,
                ..good
            },
        ),
        with(
            "a state that is none",
            EINVAL,
            abi::ModifyQp {
                qp_state: 7,
                ..good
            },
        ),
        with(
            "a state that does not follow",
            EINVAL,
            abi::ModifyQp {
                qp_state: 3,
                ..good
            },
        ),
        with(
            "port 0",
            EINVAL,
            abi::ModifyQp {
                port_num: 0,
                ..good
            },
        ),
        with(
            "port 2",
            EINVAL,
            abi::ModifyQp {
                port_num: 2,
                ..good
            },
        ),
        with(
            "a key that is not in the table",
            EINVAL,
            abi::ModifyQp {
                pkey_index: 1,
                ..good
            },
        ),
        with(
            "unknown access",
            EINVAL,
            abi::ModifyQp {
                qp_access_flags: 1 << 12,
                ..good
            },
        ),
        with("to error from reset", EINVAL, to_error()),
        with(
            "to reset",
            0,
            abi::ModifyQp {
                qp_state: 0,
                attr_mask: 1,
                ..good
            },
        ),
        with(
            "a privileged key",
            EPERM,
            abi::ModifyQp {
                attr_mask: 1 << 6,
                qkey: 1 << 31,
                ..good
            },
        ),
    ]);
    let rtr = to_rtr();
    let cases = [
        ("the second", 0, rtr),
        (
            "another port",
            EINVAL,
            abi::ModifyQp {
                dest: abi::Destination {
                    port_num: 2,
                    ..rtr.dest
                },
                ..rtr
            },
        ),
        (
            "another identifier",
            EINVAL,
            abi::ModifyQp {
                dest: abi::Destination {
                    is_global: 1,
                    sgid_index: 1,
                    ..rtr.dest
                },
                ..rtr
            },
        ),
        (
            "packets of no size",
            EINVAL,
            abi::ModifyQp { path_mtu: 0, ..rtr },
        ),
        (
            "a number of 25 bits",
            EINVAL,
            abi::ModifyQp {
                dest_qp_num: 1 << 24,
                ..rtr
            },
        ),
        (
            "an alternate port",
            EINVAL,
            abi::ModifyQp {
                attr_mask: rtr.attr_mask | 1 << 14,
                alt_port_num: 2,
                ..rtr
            },
        ),
    ];
    for (name, errno, request) in cases {
        let mut fixture = Fixture::new();
        assert!(fixture.give(ModifyQp, &good).is_ok());
        let result = fixture.give(ModifyQp, &request).map(|_| ());
        assert_eq!(
            result,
            if errno == 0 { Ok(()) } else { Err(errno) },
            "{name}"
        );
        let query = abi::QueryQp {
            qp_handle: QP,
            ..Default::default()
        };
        let answer: abi::QueryQpAnswer = fixture.ask(QueryQp, &query);
        assert_eq!(answer.qp_state, if errno == 0 { 2 } else { 1 }, "{name}");
        assert_eq!(answer.dest.dlid, u16::from(errno == 0), "{name}");
    }
    let request = abi::ModifyQpEx {
        base: good,
        ..Default::default()
    };
    let longer = [request.as_bytes(), &[1; 8]].concat();
    let mut fixture = Fixture::new();
    assert_eq!(
        fixture.run(&extended(ModifyQp, &longer, 8)),
        Err(EOPNOTSUPP)
    );
    let rate = abi::ModifyQpEx {
        base: abi::ModifyQp {
            attr_mask: mask | 1 << 25,
            ..good
        },
        ..Default::default()
    };
    assert_eq!(
        fixture.run(&extended(ModifyQp, rate.as_bytes(), 8)),
        Err(EINVAL)
    );
}

#[test]
fn shared_receive_queues_and_domains() {
    let good = create_srq();
    let with = |name, errno, request| case(name, CreateSrq, errno, request);
    check([
        with("no receives", EINVAL, abi::CreateSrq { max_wr: 0, ..good }),
        with(
            "too many",
            EINVAL,
            abi::CreateSrq {
                max_wr: 16385,
                ..good
            },
        ),
        with(
            "too many elements",
            EINVAL,
            abi::CreateSrq {
                max_sge: 33,
                ..good
            },
        ),
        with(
            "a limit above them",
            EINVAL,
            abi::CreateSrq {
                srq_limit: 9,
                ..good
            },
        ),
        with(
            "a limit",
            0,
            abi::CreateSrq {
                srq_limit: 8,
                ..good
            },
        ),
    ]);
    let good = create_xsrq();
    let with = |name, errno, request| case(name, CreateXsrq, errno, request);
    check([
        with(
            "with tags",
            EOPNOTSUPP,
            abi::CreateXsrq {
                srq_type: 2,
                ..good
            },
        ),
        with(
            "for a domain",
            0,
            abi::CreateXsrq {
                srq_type: 1,
                ..good
            },
        ),
        with(
            "no such domain",
            ENOENT,
            abi::CreateXsrq {
                srq_type: 1,
                xrcd_handle: NONE,
                ..good
            },
        ),
        with(
            "no such queue",
            ENOENT,
            abi::CreateXsrq {
                srq_type: 1,
                cq_handle: NONE,
                ..good
            },
        ),
    ]);
    let change = |attr_mask, srq_limit| abi::ModifySrq {
        srq_handle: SRQ,
        attr_mask,
        max_wr: 16,
        srq_limit,
    };
    check([
        case("nothing", ModifySrq, 0, change(0, 99)),
        case("an unknown bit", ModifySrq, EINVAL, change(4, 0)),
        case("another size", ModifySrq, 0, change(1, 0)),
        case("another size and limit", ModifySrq, 0, change(3, 8)),
        case("a larger size and limit", ModifySrq, 0, change(3, 16)),
        case(
            "a limit above the new size",
            ModifySrq,
            EINVAL,
            change(3, 17),
        ),
        case(
            "a size that is none",
            ModifySrq,
            EINVAL,
            abi::ModifySrq {
                max_wr: 0,
                ..change(3, 8)
            },
        ),
        case(
            "a size too large",
            ModifySrq,
            EINVAL,
            abi::ModifySrq {
                max_wr: 16385,
                ..change(1, 0)
            },
        ),
        case("a limit above the size", ModifySrq, EINVAL, change(2, 9)),
        case("a limit", ModifySrq, 0, change(2, 8)),
    ]);
    let open = |fd, oflags: usize| abi::OpenXrcd {
        fd,
        oflags: oflags as u32,
        ..Default::default()
    };
    check([
        case("a file", OpenXrcd, EBADF, open(3, O_CREAT)),
        case("neither file nor O_CREAT", OpenXrcd, EINVAL, open(-1, 0)),
        case(
            "unknown flags",
            OpenXrcd,
            EINVAL,
            open(-1, O_CREAT | 1 << 3),
        ),
        case("of its own", OpenXrcd, 0, open(-1, O_CREAT | O_EXCL)),
    ]);
}

#[test]
fn halves_of_xrc_connections() {
    let mut fixture = Fixture::new();
    let before = fixture.objects();
    let sender = abi::CreateQp {
        qp_type: 9,
        recv_cq_handle: NONE,
        ..create_qp()
    };
    let receiver = abi::CreateQp {
        qp_type: 10,
        pd_handle: XRCD,
        send_cq_handle: NONE,
        recv_cq_handle: NONE,
        ..create_qp()
    };
    for bad in [
        abi::CreateQp {
            pd_handle: XRCD,
            ..sender
        },
        abi::CreateQp {
            send_cq_handle: NONE,
            ..sender
        },
        abi::CreateQp {
            pd_handle: PD,
            ..receiver
        },
        abi::CreateQp {
            is_srq: 1,
            srq_handle: SRQ,
            ..receiver
        },
    ] {
        assert_eq!(fixture.give(CreateQp, &bad), Err(EINVAL));
        assert_eq!(fixture.objects(), before);
    }
    let sender: abi::CreateQpAnswer = fixture.ask(CreateQp, &sender);
    let receiver: abi::CreateQpAnswer = fixture.ask(CreateQp, &receiver);
    let queue = abi::CreateXsrq {
        srq_type: 1,
        ..create_xsrq()
    };
    let queue: abi::CreateSrqAnswer = fixture.ask(CreateXsrq, &queue);
    // A shared receive queue of an XRC domain is not for other queue pairs.
    let other = abi::CreateQp {
        is_srq: 1,
        srq_handle: queue.srq_handle,
        ..create_qp()
    };
    assert_eq!(fixture.give(CreateQp, &other), Err(EINVAL));
    let domain = abi::CloseXrcd { xrcd_handle: XRCD };
    assert_eq!(fixture.give(CloseXrcd, &domain), Err(EBUSY));
    for qp_handle in [sender.qp_handle, receiver.qp_handle] {
        let end = abi::DestroyQp {
            qp_handle,
            ..Default::default()
        };
        assert!(fixture.give(DestroyQp, &end).is_ok());
    }
    assert_eq!(fixture.give(CloseXrcd, &domain), Err(EBUSY));
    let end = abi::DestroySrq {
        srq_handle: queue.srq_handle,
        ..Default::default()
    };
    assert!(fixture.give(DestroySrq, &end).is_ok());
    assert_eq!(fixture.objects(), before);
    assert!(fixture.give(CloseXrcd, &domain).is_ok());
}
