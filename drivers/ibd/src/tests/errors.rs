//! Tables of the refusals of commands: those about the device, memory and completion.

use syscall::error::{EBADF, EBUSY, EINVAL, ENOENT, ENOMEM, ENOSPC, EOPNOTSUPP};
use verbs_abi::command::Command::{self, *};
use verbs_abi::records as abi;
use zerocopy::{Immutable, IntoBytes};

use super::fixture::*;

/// A step and its result; 0 is success.
pub type Case = (&'static str, Command, Vec<u8>, i32);

pub fn case<T: IntoBytes + Immutable>(
    name: &'static str,
    command: Command,
    errno: i32,
    request: T,
) -> Case {
    (name, command, request.as_bytes().to_vec(), errno)
}

/// Runs each case on a fixture of its own. A refused command must leave everything as it was.
pub fn check(cases: impl IntoIterator<Item = Case>) {
    for (name, command, request, errno) in cases {
        let mut fixture = Fixture::new();
        let before = fixture.objects();
        let result = fixture.run(&plain(command, &request, 1024)).map(|_| ());
        let expected = if errno == 0 { Ok(()) } else { Err(errno) };
        assert_eq!(result, expected, "{command:?}: {name}");
        if errno != 0 {
            assert_eq!(fixture.objects(), before, "{command:?}: {name}");
        }
    }
}

#[test]
fn device_and_port() {
    let port = |port_num| abi::QueryPort {
        port_num,
        ..Default::default()
    };
    check([
        case("port 0", QueryPort, EINVAL, port(0)),
        case("port 2", QueryPort, EINVAL, port(2)),
        case("port 1", QueryPort, 0, port(1)),
    ]);
    let mut fixture = Fixture::new();
    for (comp_mask, reserved) in [(1, 0), (0, 1)] {
        let request = abi::QueryDeviceEx {
            comp_mask,
            reserved,
        };
        let result = fixture.run(&extended(QueryDevice, request.as_bytes(), 304));
        assert_eq!(result, Err(EINVAL));
    }
    let longer = [[0; 8], [1; 8]].concat();
    assert_eq!(
        fixture.run(&extended(QueryDevice, &longer, 304)),
        Err(EOPNOTSUPP)
    );
    let longer = [0; 16];
    assert_eq!(
        fixture
            .run(&extended(QueryDevice, &longer, 304))
            .map(|a| a.len()),
        Ok(304)
    );
}

#[test]
fn memory() {
    let good = reg_mr();
    let with = |name, errno, request| case(name, RegMr, errno, request);
    check([
        with("no bytes", EINVAL, abi::RegMr { length: 0, ..good }),
        with(
            "around the end of memory",
            EINVAL,
            abi::RegMr {
                length: u64::MAX,
                ..good
            },
        ),
        with(
            "too many bytes",
            EINVAL,
            abi::RegMr {
                length: (1 << 30) + 1,
                ..good
            },
        ),
        with(
            "another offset in the page",
            EINVAL,
            abi::RegMr {
                hca_va: 0x5679,
                ..good
            },
        ),
        with(
            "another page",
            0,
            abi::RegMr {
                hca_va: 0x678,
                ..good
            },
        ),
        with(
            "unknown access",
            EINVAL,
            abi::RegMr {
                access_flags: 1 << 11,
                ..good
            },
        ),
        with(
            "an access that is a wish",
            0,
            abi::RegMr {
                access_flags: 1 << 20,
                ..good
            },
        ),
        with(
            "a peer may write, the owner not",
            EINVAL,
            abi::RegMr {
                access_flags: 2,
                ..good
            },
        ),
        with(
            "atomics without writing",
            EINVAL,
            abi::RegMr {
                access_flags: 8,
                ..good
            },
        ),
        with(
            "a peer may read",
            0,
            abi::RegMr {
                access_flags: 4,
                ..good
            },
        ),
        with(
            "the limit of pages",
            0,
            abi::RegMr {
                start: 0,
                hca_va: 0,
                length: 65_534 << 12,
                ..good
            },
        ),
        with(
            "beyond it",
            ENOMEM,
            abi::RegMr {
                start: 0,
                hca_va: 0,
                length: 65_535 << 12,
                ..good
            },
        ),
    ]);
    let good = abi::ReregMr {
        mr_handle: MR,
        start: 0x9000,
        length: 100,
        hca_va: 0x9000,
        pd_handle: FREE_PD,
        access_flags: 1,
        ..Default::default()
    };
    let with =
        |name, flags, errno, request| case(name, ReregMr, errno, abi::ReregMr { flags, ..request });
    check([
        with("no change", 0, EINVAL, good),
        with("an unknown one", 8, EINVAL, good),
        with("everything", 7, 0, good),
        with(
            "another offset in the page",
            1,
            EINVAL,
            abi::ReregMr { hca_va: 1, ..good },
        ),
        with("no bytes", 1, EINVAL, abi::ReregMr { length: 0, ..good }),
        with(
            "no bytes that nobody looks at",
            4,
            0,
            abi::ReregMr { length: 0, ..good },
        ),
        with(
            "no domain",
            2,
            ENOENT,
            abi::ReregMr {
                pd_handle: NONE,
                ..good
            },
        ),
        with(
            "a domain that is none",
            2,
            EINVAL,
            abi::ReregMr {
                pd_handle: CQ,
                ..good
            },
        ),
        with(
            "access that is not possible",
            4,
            EINVAL,
            abi::ReregMr {
                access_flags: 2,
                ..good
            },
        ),
        with(
            "too many pages",
            1,
            ENOMEM,
            abi::ReregMr {
                start: 0,
                hca_va: 0,
                length: 1 << 28,
                ..good
            },
        ),
    ]);
    let window = |mw_type| abi::AllocMw {
        pd_handle: PD,
        mw_type,
        ..Default::default()
    };
    check([
        case("type 0", AllocMw, EINVAL, window(0)),
        case("type 3", AllocMw, EINVAL, window(3)),
        case("type 2", AllocMw, 0, window(2)),
    ]);
}

#[test]
fn what_is_in_use_stays() {
    check([
        case(
            "with a region",
            DeallocPd,
            EBUSY,
            abi::DeallocPd { pd_handle: PD },
        ),
        case("free", DeallocPd, 0, abi::DeallocPd { pd_handle: FREE_PD }),
        case(
            "with a queue pair",
            DestroyCq,
            EBUSY,
            abi::DestroyCq {
                cq_handle: CQ,
                ..Default::default()
            },
        ),
    ]);
    // Each kind of user of a domain in turn.
    let mut fixture = Fixture::new();
    let mut end = |command: Command, request: &[u8]| {
        let pd = abi::DeallocPd { pd_handle: PD };
        assert_eq!(
            fixture.give(DeallocPd, &pd),
            Err(EBUSY),
            "before {command:?}"
        );
        assert!(
            fixture.run(&plain(command, request, 64)).is_ok(),
            "{command:?}"
        );
    };
    let qp = abi::DestroyQp {
        qp_handle: QP,
        ..Default::default()
    };
    let srq = abi::DestroySrq {
        srq_handle: SRQ,
        ..Default::default()
    };
    end(DestroyQp, qp.as_bytes());
    end(DeregMr, abi::DeregMr { mr_handle: MR }.as_bytes());
    end(DestroySrq, srq.as_bytes());
    end(DestroyAh, abi::DestroyAh { ah_handle: AH }.as_bytes());
    end(DeallocMw, abi::DeallocMw { mw_handle: MW }.as_bytes());
    let pd = abi::DeallocPd { pd_handle: PD };
    assert!(fixture.give(DeallocPd, &pd).is_ok());
    assert_eq!(fixture.give(DeallocPd, &pd), Err(ENOENT));
    // A shared receive queue with a queue pair.
    let mut fixture = Fixture::new();
    let with_srq = abi::CreateQp {
        srq_handle: SRQ,
        is_srq: 1,
        ..create_qp()
    };
    let made: abi::CreateQpAnswer = fixture.ask(CreateQp, &with_srq);
    assert_eq!(fixture.give(DestroySrq, &srq), Err(EBUSY));
    let qp = abi::DestroyQp {
        qp_handle: made.qp_handle,
        ..Default::default()
    };
    assert!(fixture.give(DestroyQp, &qp).is_ok() && fixture.give(DestroySrq, &srq).is_ok());
}

#[test]
fn completion_queues() {
    let good = create_cq();
    let with = |name, errno, request| case(name, CreateCq, errno, request);
    check([
        with("none", EINVAL, abi::CreateCq { cqe: 0, ..good }),
        with("most", 0, abi::CreateCq { cqe: 65536, ..good }),
        with("too many", EINVAL, abi::CreateCq { cqe: 65537, ..good }),
        with(
            "an unknown vector",
            EINVAL,
            abi::CreateCq {
                comp_vector: 1,
                ..good
            },
        ),
        with(
            "no such channel",
            EBADF,
            abi::CreateCq {
                comp_channel: 0,
                ..good
            },
        ),
        with(
            "no channel at all",
            EBADF,
            abi::CreateCq {
                comp_channel: -2,
                ..good
            },
        ),
    ]);
    let size = |cqe| abi::ResizeCq {
        cq_handle: CQ,
        cqe,
        ..Default::default()
    };
    let poll = |ne| abi::PollCq {
        cq_handle: CQ,
        ne,
        ..Default::default()
    };
    check([
        case("none", ResizeCq, EINVAL, size(0)),
        case("too many", ResizeCq, EINVAL, size(65537)),
        case("smaller", ResizeCq, 0, size(1)),
        case("more than there is room for", PollCq, ENOSPC, poll(22)),
        case("as many as there is room for", PollCq, 0, poll(21)),
        case("very many", PollCq, ENOSPC, poll(u32::MAX)),
        case("none", PollCq, 0, poll(0)),
    ]);
    let mut fixture = Fixture::new();
    for (comp_mask, flags, reserved, errno) in
        [(1, 0, 0, EINVAL), (0, 1, 0, EOPNOTSUPP), (0, 0, 1, EINVAL)]
    {
        let request = abi::CreateCqEx {
            cqe: 1,
            comp_channel: -1,
            comp_mask,
            flags,
            reserved,
            ..Default::default()
        };
        let result = fixture.run(&extended(CreateCq, request.as_bytes(), 16));
        assert_eq!(result, Err(errno));
    }
}

/// A user at a limit can shrink objects, and refused commands charge nothing.
#[test]
fn queues_shrink_at_the_limit() {
    let mut fixture = Fixture::new();
    let cq = |cqe| abi::ResizeCq {
        cq_handle: CQ,
        cqe,
        ..Default::default()
    };
    let srq = |max_wr, limit: Option<u32>| abi::ModifySrq {
        srq_handle: SRQ,
        attr_mask: abi::SRQ_MAX_WR | limit.map_or(0, |_| abi::SRQ_LIMIT),
        max_wr,
        srq_limit: limit.unwrap_or(0),
    };
    assert!(fixture.give(ResizeCq, &cq(20)).is_ok());
    assert!(fixture.give(ModifySrq, &srq(20, None)).is_ok());
    let used = fixture.counter("slots");
    let limit = format!("slots_per_user {used}");
    let accounts = &mut fixture.device.shared.accounts;
    accounts.set(&limit).unwrap();
    for (of_cq, of_srq, freed) in [(19, 20, 1), (19, 17, 4), (20, 17, 3), (20, 20, 0)] {
        assert!(fixture.give(ResizeCq, &cq(of_cq)).is_ok(), "{freed}");
        assert!(
            fixture.give(ModifySrq, &srq(of_srq, None)).is_ok(),
            "{freed}"
        );
        assert_eq!(fixture.counter("slots"), used - freed);
    }
    assert_eq!(fixture.give(ResizeCq, &cq(21)), Err(ENOMEM));
    assert_eq!(fixture.give(ModifySrq, &srq(21, Some(5))), Err(ENOMEM));
    assert_eq!(fixture.give(ResizeCq, &cq(0)), Err(EINVAL));
    assert_eq!(fixture.give(ModifySrq, &srq(0, Some(3))), Err(EINVAL));
    assert_eq!(fixture.counter("slots"), used);
    let query = abi::QuerySrq {
        srq_handle: SRQ,
        ..Default::default()
    };
    let found: abi::QuerySrqAnswer = fixture.ask(QuerySrq, &query);
    assert_eq!((found.max_wr, found.srq_limit), (20, 0));
}
