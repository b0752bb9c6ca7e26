//! Programs that use commands as intended.

use syscall::error::{EINVAL, EIO, ENOMEM, EWOULDBLOCK, Error};
use verbs_abi::command::Command::*;
use verbs_abi::records as abi;
use zerocopy::FromBytes;

use super::fixture::*;
use crate::context::Owner;
use crate::device::Device;
use crate::events::SharedQueue;
use crate::identity::PortState;

fn query(fixture: &mut Fixture) -> abi::QueryQpAnswer {
    let query = abi::QueryQp {
        qp_handle: QP,
        ..Default::default()
    };
    fixture.ask(QueryQp, &query)
}

fn poll(fixture: &mut Fixture, cq_handle: u32) -> Vec<abi::Completion> {
    let poll = abi::PollCq {
        cq_handle,
        ne: 16,
        ..Default::default()
    };
    let answer = fixture
        .run(&plain(PollCq, zerocopy::IntoBytes::as_bytes(&poll), 1024))
        .unwrap();
    let (head, rest) = answer.split_at(8);
    let count = u32::from_ne_bytes(head[..4].try_into().unwrap());
    assert_eq!(rest.len(), count as usize * 48);
    rest.chunks(48)
        .map(|bytes| abi::Completion::read_from_bytes(bytes).unwrap())
        .collect()
}

#[test]
fn device_and_port_are_described() {
    let mut fixture = Fixture::new();
    fixture.device.set_port(PortState::Active);
    let device: abi::QueryDeviceAnswer = fixture.ask(QueryDevice, &abi::QueryDevice::default());
    assert_eq!(device.node_guid, [2, 0x53, 0x4b, 0x49, 0, 0, 0, 0]);
    assert_eq!(
        (device.max_qp, device.max_cqe, device.phys_port_cnt),
        (4096, 65536, 1)
    );
    let request = abi::QueryPort {
        port_num: 1,
        ..Default::default()
    };
    let port: abi::QueryPortAnswer = fixture.ask(QueryPort, &request);
    assert_eq!(
        (port.lid, port.state, port.phys_state, port.link_layer),
        (1, 4, 5, 1)
    );
    let answer = fixture.run(&extended(QueryDevice, &[0; 8], 304)).unwrap();
    assert_eq!(answer[..8], device.fw_ver.to_ne_bytes());
    assert_eq!(answer[180..184], 304_u32.to_ne_bytes());
    // A shorter room cuts the answer off; a longer one is filled with zeros.
    let answer = fixture.run(&extended(QueryDevice, &[0; 8], 184)).unwrap();
    assert_eq!(
        (answer.len(), &answer[180..184]),
        (184, &184_u32.to_ne_bytes()[..])
    );
    let answer = fixture.run(&extended(QueryDevice, &[0; 8], 320)).unwrap();
    assert_eq!((answer.len(), &answer[304..]), (320, &[0; 16][..]));
}

#[test]
fn a_queue_pair_goes_through_its_states_and_flushes() {
    let mut fixture = Fixture::new();
    assert_eq!(query(&mut fixture).qp_state, 0);
    for (request, state) in [(to_init(), 1), (to_rtr(), 2), (to_rts(), 3)] {
        assert!(fixture.give(ModifyQp, &request).is_ok());
        assert_eq!(query(&mut fixture).qp_state, state);
    }
    let answer = query(&mut fixture);
    assert_eq!(
        (answer.dest.dlid, answer.dest_qp_num, answer.path_mtu),
        (1, 0x44_0000, 5)
    );
    assert_eq!(
        (answer.timeout, answer.retry_cnt, answer.min_rnr_timer),
        (14, 7, 12)
    );
    assert_eq!(
        (answer.max_send_wr, answer.max_recv_sge, answer.port_num),
        (4, 1, 1)
    );
    for id in [11, 12] {
        assert!(fixture.run(&plain(PostRecv, &receive(QP, id), 4)).is_ok());
    }
    assert!(fixture.run(&plain(PostSend, &send(QP, 13), 4)).is_ok());
    assert_eq!(poll(&mut fixture, CQ), []);
    assert!(fixture.give(ModifyQp, &to_error()).is_ok());
    let found = poll(&mut fixture, CQ);
    const FLUSHED: u32 = 5;
    let mut ids: Vec<u64> = found.iter().map(|completion| completion.wr_id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [11, 12, 13]);
    assert!(found.iter().all(|completion| completion.status == FLUSHED));
    let number = found[0].qp_num;
    let text = crate::files::find("qps");
    let Some(crate::files::Found::Text(index)) = text else {
        panic!("no file");
    };
    let text = crate::files::text(index, &fixture.device, crate::files::Viewer { uid: UID });
    assert!(
        text.contains(&format!(
            " {QP} {number} RC ERR {PD} {CQ} {CQ} - 0x1 4456448 0 0 0 0 0 0 3 7\n"
        )),
        "{text}"
    );
    assert_eq!(
        (fixture.counter("posted"), fixture.counter("polled")),
        (3, 3)
    );
}

#[test]
fn the_request_that_is_not_posted_has_its_number_in_the_answer() {
    let mut fixture = Fixture::new();
    assert!(fixture.give(ModifyQp, &to_init()).is_ok());
    let request = abi::PostRecv {
        handle: QP,
        wr_count: 6,
        sge_count: 0,
        wqe_size: 16,
        ..Default::default()
    };
    let mut bytes = zerocopy::IntoBytes::as_bytes(&request).to_vec();
    bytes.extend([0; 6 * 16]);
    let (answer, result) =
        fixture
            .device
            .execute(fixture.context, &plain(PostRecv, &bytes, 4), true, 0);
    assert_eq!(result, Err(Error::new(syscall::error::ENOMEM)));
    assert_eq!(answer, 5_u32.to_ne_bytes());
    assert_eq!(fixture.counter("posted"), 4);
}

fn channel(fixture: &Fixture, number: u32) -> SharedQueue {
    let context = fixture.device.context(fixture.context).unwrap();
    SharedQueue::clone(context.channel(number).unwrap())
}

#[test]
fn an_armed_queue_tells_its_channel_once() {
    let mut fixture = Fixture::empty();
    assert!(fixture.give(AllocPd, &abi::AllocPd::default()).is_ok());
    let made: abi::CreateCompChannelAnswer =
        fixture.ask(CreateCompChannel, &abi::CreateCompChannel::default());
    let with_channel = abi::CreateCq {
        comp_channel: made.fd as i32,
        ..create_cq()
    };
    assert!(fixture.give(CreateCq, &with_channel).is_ok());
    let qp: abi::CreateQpAnswer = fixture.ask(CreateQp, &create_qp());
    let with = |request| abi::ModifyQp {
        qp_handle: qp.qp_handle,
        ..request
    };
    assert!(fixture.give(ModifyQp, &with(to_init())).is_ok());
    let queue = channel(&fixture, made.fd);
    queue.borrow_mut().descriptors.push(77);
    let mut buffer = [0; 8];
    let would_block = Err(Error::new(EWOULDBLOCK));
    for id in [1, 2] {
        assert!(
            fixture
                .run(&plain(PostRecv, &receive(qp.qp_handle, id), 4))
                .is_ok()
        );
    }
    assert!(fixture.give(ModifyQp, &with(to_error())).is_ok());
    // The completion queue was not armed.
    assert_eq!(queue.borrow_mut().read(&mut buffer), would_block);
    let arm = abi::ReqNotifyCq {
        cq_handle: CQ,
        solicited_only: 1,
    };
    assert!(fixture.give(ReqNotifyCq, &arm).is_ok());
    for id in [3, 4] {
        assert!(
            fixture
                .run(&plain(PostRecv, &receive(qp.qp_handle, id), 4))
                .is_ok()
        );
    }
    assert_eq!(fixture.device.take_woken(), [77]);
    assert_eq!(queue.borrow_mut().read(&mut buffer), Ok(8));
    assert_eq!(u64::from_ne_bytes(buffer), CQ_NAME);
    assert_eq!(queue.borrow_mut().read(&mut buffer), would_block);
    assert_eq!(poll(&mut fixture, CQ).len(), 4);
    // Destroying reports how many events were read; those that were not are dropped.
    assert!(fixture.give(ReqNotifyCq, &arm).is_ok());
    assert!(
        fixture
            .run(&plain(PostRecv, &receive(qp.qp_handle, 5), 4))
            .is_ok()
    );
    assert_eq!(fixture.counter("waiting_events"), 1);
    let end = abi::DestroyQp {
        qp_handle: qp.qp_handle,
        ..Default::default()
    };
    assert!(fixture.give(DestroyQp, &end).is_ok());
    let end = abi::DestroyCq {
        cq_handle: CQ,
        ..Default::default()
    };
    let answer: abi::DestroyCqAnswer = fixture.ask(DestroyCq, &end);
    assert_eq!(
        (answer.comp_events_reported, answer.async_events_reported),
        (1, 0)
    );
    assert_eq!(fixture.counter("waiting_events"), 0);
    fixture.device.close(fixture.context);
    assert_eq!(queue.borrow_mut().read(&mut buffer), Err(Error::new(EIO)));
}

#[test]
fn an_overrun_is_an_event_of_the_queue_and_the_queue_pair() {
    let mut fixture = Fixture::new();
    let smaller = abi::ResizeCq {
        cq_handle: CQ,
        cqe: 2,
        ..Default::default()
    };
    assert!(fixture.give(ResizeCq, &smaller).is_ok());
    assert!(fixture.give(ModifyQp, &to_init()).is_ok());
    for id in 0..3 {
        assert!(fixture.run(&plain(PostRecv, &receive(QP, id), 4)).is_ok());
    }
    assert!(fixture.give(ModifyQp, &to_error()).is_ok());
    let context = fixture.device.context(fixture.context).unwrap();
    let events = SharedQueue::clone(&context.events);
    let mut buffer = [0; 16];
    assert_eq!(
        events.borrow_mut().read(&mut buffer[..15]),
        Err(Error::new(EINVAL))
    );
    assert_eq!(events.borrow_mut().read(&mut buffer), Ok(16));
    assert_eq!(buffer[..8], CQ_NAME.to_ne_bytes());
    assert_eq!(buffer[8..12], 0_u32.to_ne_bytes());
    let end = abi::DestroyQp {
        qp_handle: QP,
        ..Default::default()
    };
    assert!(fixture.give(DestroyQp, &end).is_ok());
    let end = abi::DestroyCq {
        cq_handle: CQ,
        ..Default::default()
    };
    let answer: abi::DestroyCqAnswer = fixture.ask(DestroyCq, &end);
    assert_eq!(
        (answer.comp_events_reported, answer.async_events_reported),
        (0, 1)
    );
}

#[test]
fn the_port_tells_all_contexts() {
    let mut fixture = Fixture::new();
    fixture.device.set_port(PortState::Active);
    fixture.device.set_port(PortState::Active);
    fixture.device.set_port(PortState::Down);
    let context = fixture.device.context(fixture.context).unwrap();
    let events = SharedQueue::clone(&context.events);
    let read = || {
        let mut buffer = [0; 16];
        let count = events.borrow_mut().read(&mut buffer);
        count.map(|_| (buffer[0], buffer[8]))
    };
    const ACTIVE: u8 = 9;
    const ERROR: u8 = 10;
    assert_eq!([read(), read()], [Ok((1, ACTIVE)), Ok((1, ERROR))]);
    assert_eq!(read(), Err(Error::new(EWOULDBLOCK)));
}

#[test]
fn regions_are_counted_each_time() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.counter("locked_pages"), 2);
    let second: abi::RegMrAnswer = fixture.ask(RegMr, &reg_mr());
    assert_eq!(fixture.counter("locked_pages"), 4);
    let change = abi::ReregMr {
        mr_handle: second.mr_handle,
        flags: 1,
        start: 0x9000,
        hca_va: 0x9000,
        length: 1,
        ..Default::default()
    };
    let answer: abi::ReregMrAnswer = fixture.ask(ReregMr, &change);
    assert_ne!(answer.lkey, second.lkey);
    assert_eq!(fixture.counter("locked_pages"), 3);
    for mr_handle in [MR, second.mr_handle] {
        assert!(fixture.give(DeregMr, &abi::DeregMr { mr_handle }).is_ok());
    }
    assert_eq!(fixture.counter("locked_pages"), 0);
    // The key that a library has chosen is the one that is shown.
    let request = [
        zerocopy::IntoBytes::as_bytes(&reg_mr()),
        &[7, 1, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let answer = fixture.run(&plain(RegMr, &request, 12)).unwrap();
    assert_eq!(answer[4..], [7, 1, 0, 0, 7, 1, 0, 0]);
}

/// An empty queue would report its limit never: no message takes a receive of it.
#[test]
fn a_limit_above_the_receives_is_reported_at_once() {
    let mut fixture = Fixture::new();
    let mut limit = abi::ModifySrq {
        srq_handle: SRQ,
        attr_mask: abi::SRQ_LIMIT,
        srq_limit: 1,
        ..Default::default()
    };
    let query = abi::QuerySrq {
        srq_handle: SRQ,
        ..Default::default()
    };
    for (events, is_limit) in [(1, 0), (1, 1)] {
        assert!(fixture.give(ModifySrq, &limit).is_ok());
        assert_eq!(fixture.counter("waiting_events"), events);
        let found: abi::QuerySrqAnswer = fixture.ask(QuerySrq, &query);
        assert_eq!(found.srq_limit, is_limit);
        let post = plain(PostSrqRecv, &receive(SRQ, 1), 4);
        assert!(fixture.run(&post).is_ok());
    }
    limit.srq_limit = 3;
    assert!(fixture.give(ModifySrq, &limit).is_ok());
    assert_eq!(fixture.counter("waiting_events"), 2);
}

#[test]
fn closing_ends_everything() {
    let mut fixture = Fixture::new();
    let with_srq = abi::CreateQp {
        srq_handle: SRQ,
        is_srq: 1,
        ..create_qp()
    };
    assert!(fixture.give(CreateQp, &with_srq).is_ok());
    let made: abi::CreateCompChannelAnswer =
        fixture.ask(CreateCompChannel, &abi::CreateCompChannel::default());
    let with_channel = abi::CreateCq {
        comp_channel: made.fd as i32,
        ..create_cq()
    };
    assert!(fixture.give(CreateCq, &with_channel).is_ok());
    assert!(fixture.objects().iter().any(|count| *count > 0));
    fixture.device.close(fixture.context);
    assert!(
        fixture.objects().iter().all(|count| *count == 0),
        "{:?}",
        fixture.objects()
    );
}

#[test]
fn nobody_opens_a_device_of_no_node() {
    let mut device = Device::unplaced();
    let owner = Owner { pid: 1, uid: UID };
    let opened = device.open(owner).map(|_| ());
    assert_eq!(opened, Err(Error::new(syscall::error::ENODEV)));
    assert!(device.set_node(3) && !device.set_node(3));
    assert!(device.open(owner).is_ok());
    assert_eq!(device.shared.node, 3);
}

#[test]
fn a_user_has_so_many_contexts() {
    let mut device = Device::new(0);
    device.shared.accounts.set("contexts_per_user 2").unwrap();
    let owner = Owner { pid: 1, uid: UID };
    let first = device.open(owner).unwrap();
    assert!(device.open(owner).is_ok());
    let over = device.open(owner).map(|_| ());
    assert_eq!(over, Err(Error::new(syscall::error::ENOMEM)));
    assert!(device.open(Owner { pid: 2, uid: 0 }).is_ok());
    device.close(first);
    assert!(device.open(owner).is_ok());
}

/// Makes a queue pair for datagrams and returns its handle.
fn datagram_pair(fixture: &mut Fixture) -> u32 {
    let datagrams = abi::CreateQp {
        qp_type: 4,
        ..create_qp()
    };
    let made: abi::CreateQpAnswer = fixture.ask(CreateQp, &datagrams);
    made.qp_handle
}

/// Makes a queue pair join a group with this number.
fn join(fixture: &mut Fixture, qp_handle: u32, group: u8) -> Result<(), i32> {
    let mut gid = [0xff; 16];
    gid[15] = group;
    let request = abi::Multicast {
        gid,
        qp_handle,
        mlid: 0xc001,
        reserved: 0,
    };
    fixture.give(AttachMcast, &request).map(drop)
}

/// A user who joins all groups that it may, with as many queue pairs as it may, keeps no other
/// user out of a new group or out of the same ones.
#[test]
fn a_user_keeps_nobody_out_of_groups() {
    let mut fixture = Fixture::new();
    let (mut members, mut refused) = (0, None);
    while refused.is_none() {
        let qp = datagram_pair(&mut fixture);
        for group in 0..64 {
            match join(&mut fixture, qp, group) {
                Ok(()) => members += 1,
                Err(error) => refused = Some(error),
            }
        }
    }
    assert_eq!((members, refused), (256, Some(ENOMEM)));
    assert_eq!(fixture.counter("memberships"), members);
    let first = fixture.context;
    let other = Owner {
        pid: 9,
        uid: UID + 1,
    };
    fixture.context = fixture.device.open(other).unwrap();
    let get = abi::GetContext::default();
    assert!(fixture.give(GetContext, &get).is_ok());
    let pd: abi::AllocPdAnswer = fixture.ask(AllocPd, &abi::AllocPd::default());
    let cq: abi::CreateCqAnswer = fixture.ask(CreateCq, &create_cq());
    assert_eq!((pd.pd_handle, cq.cq_handle), (PD, CQ));
    let qp = datagram_pair(&mut fixture);
    for group in [0, 200] {
        assert_eq!(join(&mut fixture, qp, group), Ok(()), "{group}");
    }
    // The users' shares together are bounded, too, whatever the limit.
    let accounts = &mut fixture.device.shared.accounts;
    accounts.set("memberships_per_user 1000000").unwrap();
    fixture.context = first;
    let qps: Vec<u32> = (0..32).map(|_| datagram_pair(&mut fixture)).collect();
    let groups = (0..64).flat_map(|group| qps.iter().map(move |qp| (*qp, group)));
    let results: Vec<_> = groups
        .map(|(qp, group)| join(&mut fixture, qp, group))
        .collect();
    assert_eq!(results.last(), Some(&Err(ENOMEM)));
    assert_eq!(fixture.counter("memberships"), 1024);
    // They keep other users out, but not root.
    for (uid, result) in [(UID + 1, Err(ENOMEM)), (0, Ok(()))] {
        fixture.context = fixture.device.open(Owner { pid: 10, uid }).unwrap();
        assert!(fixture.give(GetContext, &get).is_ok());
        let _: abi::AllocPdAnswer = fixture.ask(AllocPd, &abi::AllocPd::default());
        let _: abi::CreateCqAnswer = fixture.ask(CreateCq, &create_cq());
        let qp = datagram_pair(&mut fixture);
        assert_eq!(join(&mut fixture, qp, 0), result, "{uid}");
    }
    // What a context had is free when it is closed.
    fixture.device.close(first);
    assert_eq!(fixture.counter("memberships"), 3);
}

#[test]
fn a_channel_is_none_of_another_context() {
    let mut fixture = Fixture::new();
    let channel = abi::CreateCompChannel::default();
    let own: abi::CreateCompChannelAnswer = fixture.ask(CreateCompChannel, &channel);
    let first = fixture.context;
    let owner = Owner { pid: 9, uid: UID };
    fixture.context = fixture.device.open(owner).unwrap();
    assert!(
        fixture
            .give(GetContext, &abi::GetContext::default())
            .is_ok()
    );
    let other: abi::CreateCompChannelAnswer = fixture.ask(CreateCompChannel, &channel);
    assert_ne!(own.fd, other.fd);
    let with = |number: u32| abi::CreateCq {
        comp_channel: number as i32,
        ..create_cq()
    };
    assert_eq!(
        fixture.give(CreateCq, &with(own.fd)),
        Err(syscall::error::EBADF)
    );
    assert!(fixture.give(CreateCq, &with(other.fd)).is_ok());
    fixture.device.close(first);
    let next: abi::CreateCompChannelAnswer = fixture.ask(CreateCompChannel, &channel);
    assert_eq!(next.fd, own.fd);
}

#[test]
fn a_send_to_nobody_ends_when_its_time_is_over() {
    let mut fixture = Fixture::new();
    for request in [to_init(), to_rtr(), to_rts()] {
        assert!(fixture.give(ModifyQp, &request).is_ok());
    }
    assert_eq!(fixture.device.deadline(), None);
    assert!(fixture.run(&plain(PostSend, &send(QP, 1), 4)).is_ok());
    // The time-out is 67 ms, eight times.
    let until = fixture.device.deadline().unwrap();
    assert_eq!(until, 8 * (4096 << 14));
    fixture.device.progress(until - 1);
    assert_eq!(poll(&mut fixture, CQ), []);
    fixture.device.progress(until);
    fixture.now = until;
    let found = poll(&mut fixture, CQ);
    const NO_ANSWER: u32 = 12;
    let found: Vec<_> = found
        .iter()
        .map(|found| (found.wr_id, found.status))
        .collect();
    assert_eq!(found, [(1, NO_ANSWER)]);
    assert_eq!(query(&mut fixture).qp_state, 6);
    assert_eq!(fixture.device.deadline(), None);
}

#[test]
fn a_datagram_to_nobody_is_dropped() {
    let mut fixture = Fixture::new();
    let datagrams = abi::CreateQp {
        qp_type: 4,
        ..create_qp()
    };
    let qp: abi::CreateQpAnswer = fixture.ask(CreateQp, &datagrams);
    let qp_handle = qp.qp_handle;
    for (state, mask) in [(1, 1 << 4 | 1 << 5 | 1 << 6), (2, 0), (3, 1 << 16)] {
        let request = abi::ModifyQp {
            qp_handle,
            attr_mask: 1 | mask,
            qp_state: state,
            port_num: 1,
            ..Default::default()
        };
        assert!(fixture.give(ModifyQp, &request).is_ok(), "to {state}");
    }
    let mut request = send(qp_handle, 7);
    // Posts nothing to send, by a handle that is none, then by one that is.
    request[32..36].fill(0);
    request[48..52].copy_from_slice(&NONE.to_ne_bytes());
    assert_eq!(fixture.run(&plain(PostSend, &request, 4)), Err(EINVAL));
    request[48..52].copy_from_slice(&AH.to_ne_bytes());
    assert!(fixture.run(&plain(PostSend, &request, 4)).is_ok());
    // The connection is to be made at once.
    assert_eq!(poll(&mut fixture, CQ), []);
    assert_eq!(fixture.device.next_look(), Some(0));
    fixture.device.serve(0, |_, _| Ok(()));
    let found = poll(&mut fixture, CQ);
    let found: Vec<_> = found
        .iter()
        .map(|found| (found.wr_id, found.status))
        .collect();
    assert_eq!(found, [(7, 0)]);
}
