//! The tables of refusals for addresses, groups, posting and limits.

use syscall::error::{EBUSY, EINVAL, ENOMEM};
use verbs_abi::command::Command::*;
use verbs_abi::records as abi;
use zerocopy::IntoBytes;

use super::errors::{case, check};
use super::fixture::*;

#[test]
fn addresses_and_groups() {
    let good = create_ah();
    let with = |name, errno, attr| case(name, CreateAh, errno, abi::CreateAh { attr, ..good });
    let attr = good.attr;
    check([
        with(
            "port 0",
            EINVAL,
            abi::AhAttributes {
                port_num: 0,
                ..attr
            },
        ),
        with(
            "port 2",
            EINVAL,
            abi::AhAttributes {
                port_num: 2,
                ..attr
            },
        ),
        with(
            "no local identifier",
            EINVAL,
            abi::AhAttributes { dlid: 0, ..attr },
        ),
        with(
            "another global identifier",
            EINVAL,
            abi::AhAttributes {
                is_global: 1,
                sgid_index: 1,
                ..attr
            },
        ),
        with(
            "which nobody looks at",
            0,
            abi::AhAttributes {
                sgid_index: 1,
                ..attr
            },
        ),
    ]);
}

#[test]
fn groups() {
    let mut fixture = Fixture::new();
    let datagrams = abi::CreateQp {
        qp_type: 4,
        ..create_qp()
    };
    let qp: abi::CreateQpAnswer = fixture.ask(CreateQp, &datagrams);
    let empty = fixture.objects();
    let mut gid = [7; 16];
    gid[0] = 0xff;
    let group = |gid, mlid| abi::Multicast {
        gid,
        qp_handle: qp.qp_handle,
        mlid,
        reserved: 0,
    };
    for (gid, mlid) in [([7; 16], 0xc001), (gid, 0xbfff), (gid, 0xffff), (gid, 0)] {
        assert_eq!(fixture.give(AttachMcast, &group(gid, mlid)), Err(EINVAL));
    }
    let of_another_type = abi::Multicast {
        qp_handle: QP,
        ..group(gid, 0xc001)
    };
    assert_eq!(fixture.give(AttachMcast, &of_another_type), Err(EINVAL));
    assert_eq!(fixture.give(DetachMcast, &group(gid, 0xc001)), Err(EINVAL));
    for _ in 0..2 {
        assert!(fixture.give(AttachMcast, &group(gid, 0xc001)).is_ok());
        assert_eq!(fixture.counter("memberships"), 1);
    }
    // The same group by another local identifier.
    assert_eq!(fixture.give(AttachMcast, &group(gid, 0xc002)), Err(EINVAL));
    assert_eq!(fixture.give(DetachMcast, &group(gid, 0xc002)), Err(EINVAL));
    let end = abi::DestroyQp {
        qp_handle: qp.qp_handle,
        ..Default::default()
    };
    assert_eq!(fixture.give(DestroyQp, &end), Err(EBUSY));
    for number in 1..64 {
        gid[15] = 100 + number;
        assert!(fixture.give(AttachMcast, &group(gid, 0xc001)).is_ok());
    }
    gid[15] = 0;
    assert_eq!(fixture.give(AttachMcast, &group(gid, 0xc001)), Err(ENOMEM));
    for number in 0..64 {
        gid[15] = if number == 0 { 7 } else { 100 + number };
        assert!(fixture.give(DetachMcast, &group(gid, 0xc001)).is_ok());
    }
    assert_eq!(fixture.objects(), empty);
    // A context that is closed leaves its groups.
    assert!(fixture.give(AttachMcast, &group(gid, 0xc001)).is_ok());
    fixture.device.close(fixture.context);
    assert!(fixture.objects().iter().all(|count| *count == 0));
}

#[test]
fn posting() {
    let mut fixture = Fixture::new();
    let mut post = |command, request: &[u8]| fixture.run(&plain(command, request, 4)).map(|_| ());
    // Both are refused in this state.
    assert_eq!(post(PostRecv, &receive(QP, 1)), Err(EINVAL));
    assert_eq!(post(PostSend, &send(QP, 1)), Err(EINVAL));
    assert_eq!(post(ModifyQp, to_init().as_bytes()), Ok(()));
    assert_eq!(post(PostSend, &send(QP, 1)), Err(EINVAL));
    assert_eq!(post(PostRecv, &receive(QP, 1)), Ok(()));
    assert_eq!(post(PostSrqRecv, &receive(SRQ, 1)), Ok(()));
    // Counts that do not agree with the bytes of the command.
    for (at, value) in [
        (12, 2),
        (12, u32::MAX),
        (16, 0),
        (16, 2),
        (20, 15),
        (20, 0),
        (20, u32::MAX),
    ] {
        let mut request = receive(QP, 2);
        request[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
        assert_eq!(post(PostRecv, &request), Err(EINVAL), "{value} at {at}");
    }
    // One element too many for the request.
    let mut request = receive(QP, 2);
    request[32..36].copy_from_slice(&2_u32.to_ne_bytes());
    assert_eq!(post(PostRecv, &request), Err(EINVAL));
    assert_eq!(post(ModifyQp, to_rtr().as_bytes()), Ok(()));
    assert_eq!(post(ModifyQp, to_rts().as_bytes()), Ok(()));
    for (at, value) in [(36, 10), (36, 99), (40, 1 << 9)] {
        let mut request = send(QP, 1);
        request[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
        assert_eq!(post(PostSend, &request), Err(EINVAL), "{value} at {at}");
    }
    // Inline data of memory that the daemon cannot reach.
    let mut request = send(QP, 1);
    let length = request.len() - 8;
    for (at, value) in [(40, 8), (length, 4)] {
        request[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
    }
    assert_eq!(post(PostSend, &request), Err(EINVAL));
    // The queue has four places.
    for number in 0..4 {
        assert_eq!(post(PostSend, &send(QP, number)), Ok(()), "{number}");
    }
    assert_eq!(post(PostSend, &send(QP, 5)), Err(ENOMEM));
    for _ in 1..4 {
        assert_eq!(post(PostRecv, &receive(QP, 2)), Ok(()));
    }
    assert_eq!(post(PostRecv, &receive(QP, 2)), Err(ENOMEM));
    // Posting to a queue pair that the library runs.
    let provider = abi::CreateQpProvider {
        qpn: 0x44_0000,
        reserved: 0,
    };
    let request = [create_qp().as_bytes(), provider.as_bytes()].concat();
    let answer = fixture.run(&plain(CreateQp, &request, 32)).unwrap();
    let handle = u32::from_ne_bytes(answer[..4].try_into().unwrap());
    assert_eq!(
        fixture.run(&plain(PostRecv, &receive(handle, 1), 4)),
        Err(EINVAL)
    );
}

#[test]
fn limits_of_a_user() {
    let mut fixture = Fixture::new();
    let accounts = &mut fixture.device.shared.accounts;
    accounts
        .set("objects_per_user 11\nslots_per_user 54")
        .unwrap();
    let pd = abi::AllocPd::default();
    assert!(fixture.give(AllocPd, &pd).is_ok());
    let before = fixture.objects();
    for command in [
        AllocPd, RegMr, CreateAh, CreateCq, CreateQp, CreateSrq, OpenXrcd,
    ] {
        let (request, room, _) = good(command, false);
        let result = fixture.run(&plain(command, &request, room));
        assert_eq!(result, Err(ENOMEM), "{command:?}");
        assert_eq!(fixture.objects(), before, "{command:?}");
    }
    fixture
        .device
        .shared
        .accounts
        .set("objects_per_user 100")
        .unwrap();
    for command in [CreateCq, CreateQp, CreateSrq] {
        let (request, room, _) = good(command, false);
        let result = fixture.run(&plain(command, &request, room));
        assert_eq!(result, Err(ENOMEM), "{command:?}");
        assert_eq!(fixture.objects(), before, "{command:?}");
    }
    let bigger = abi::ResizeCq {
        cq_handle: CQ,
        cqe: 40,
        ..Default::default()
    };
    assert_eq!(fixture.give(ResizeCq, &bigger), Err(ENOMEM));
}

#[test]
fn inline_data_counts_as_elements() {
    let mut fixture = Fixture::new();
    let with = |max_send_sge, max_inline_data| abi::CreateQp {
        max_send_sge,
        max_inline_data,
        ..create_qp()
    };
    // Four receives of an element, and four sends of the larger one.
    let sizes = [
        (with(0, 0), 4 + 4),
        (with(1, 16), 4 + 4),
        (with(1, 17), 4 + 2 * 4),
        (with(3, 17), 4 + 3 * 4),
        (with(1, 1024), 4 + 64 * 4),
    ];
    for (request, expected) in sizes {
        let used = fixture.counter("slots");
        assert!(fixture.give(CreateQp, &request).is_ok());
        assert_eq!(fixture.counter("slots") - used, expected);
    }
    let limit = format!("slots_per_user {}", fixture.counter("slots") + 259);
    fixture.device.shared.accounts.set(&limit).unwrap();
    assert_eq!(fixture.give(CreateQp, &with(1, 1024)), Err(ENOMEM));
    assert!(fixture.give(CreateQp, &with(1, 1008)).is_ok());
}
