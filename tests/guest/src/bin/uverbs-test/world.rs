//! A context with an object of each type, and requests of all commands for it.

use alloc::vec::Vec;

use guest_tests::uverbs::{Context, Errno, bytes};
use libredox::Fd;
use syscall::error::{EBUSY, EINVAL, EOPNOTSUPP};
use syscall::flag::O_CREAT;
use verbs_abi::command::Command::{self, *};
use verbs_abi::records as abi;

/// Handles of what [`World::new`] makes, in this order.
pub const PD: u32 = 0;
pub const CQ: u32 = 1;
pub const SRQ: u32 = 2;
pub const QP: u32 = 3;
pub const MR: u32 = 4;
pub const AH: u32 = 5;
pub const XRCD: u32 = 6;
/// A handle that nothing has.
pub const NONE: u32 = 77;

pub fn errno<T>(result: Result<T, Errno>) -> Errno {
    result.map_or_else(|errno| errno, |_| 0)
}

pub fn create_cq(comp_channel: i32) -> abi::CreateCq {
    abi::CreateCq {
        user_handle: 0xc0,
        cqe: 16,
        comp_channel,
        ..Default::default()
    }
}

pub fn create_qp() -> abi::CreateQp {
    abi::CreateQp {
        user_handle: 0xc1,
        pd_handle: PD,
        send_cq_handle: CQ,
        recv_cq_handle: CQ,
        max_send_wr: 4,
        max_recv_wr: 4,
        max_send_sge: 1,
        max_recv_sge: 1,
        qp_type: 2,
        ..Default::default()
    }
}

pub fn reg_mr() -> abi::RegMr {
    abi::RegMr {
        start: 0x10_0000,
        length: 0x4000,
        hca_va: 0x10_0000,
        pd_handle: PD,
        access_flags: 7,
        ..Default::default()
    }
}

pub fn create_srq() -> abi::CreateSrq {
    abi::CreateSrq {
        pd_handle: PD,
        max_wr: 8,
        max_sge: 1,
        ..Default::default()
    }
}

pub fn create_ah() -> abi::CreateAh {
    abi::CreateAh {
        pd_handle: PD,
        attr: abi::AhAttributes {
            dlid: 1,
            port_num: 1,
            ..Default::default()
        },
        ..Default::default()
    }
}

pub fn to_init() -> abi::ModifyQp {
    abi::ModifyQp {
        qp_handle: QP,
        attr_mask: 1 | 1 << 3 | 1 << 4 | 1 << 5,
        qp_state: 1,
        port_num: 1,
        ..Default::default()
    }
}

pub fn to_error() -> abi::ModifyQp {
    abi::ModifyQp {
        qp_handle: QP,
        attr_mask: 1,
        qp_state: 6,
        ..Default::default()
    }
}

pub fn receive(handle: u32, wr_id: u64) -> Vec<u8> {
    let request = abi::PostRecv {
        handle,
        wr_count: 1,
        wqe_size: 16,
        ..Default::default()
    };
    let receive = abi::ReceiveRequest {
        wr_id,
        ..Default::default()
    };
    [bytes(&request), bytes(&receive)].concat()
}

/// A context with an object of each type.
pub struct World {
    pub context: Context,
}

impl World {
    pub fn new() -> Result<World, Errno> {
        let context = Context::begun()?;
        let xrcd = abi::OpenXrcd {
            fd: -1,
            oflags: O_CREAT as u32,
            ..Default::default()
        };
        let pd = abi::AllocPd::default();
        let make = |command, request: &[u8], room, handle: u32| {
            let answer = context.raw(command, request, room)?;
            match answer.get(..4) == Some(&handle.to_ne_bytes()[..]) {
                true => Ok(()),
                false => Err(syscall::error::EPROTO),
            }
        };
        make(AllocPd, bytes(&pd), 4, PD)?;
        make(CreateCq, bytes(&create_cq(-1)), 8, CQ)?;
        make(CreateSrq, bytes(&create_srq()), 16, SRQ)?;
        make(CreateQp, bytes(&create_qp()), 32, QP)?;
        make(RegMr, bytes(&reg_mr()), 12, MR)?;
        make(CreateAh, bytes(&create_ah()), 4, AH)?;
        make(OpenXrcd, bytes(&xrcd), 4, XRCD)?;
        Ok(World { context })
    }

    /// A context of this kind with channels, events and posted receives.
    pub fn full() -> Result<(World, [Fd; 2]), Errno> {
        let world = World::new()?;
        let context = &world.context;
        let fds = [context.events("async")?, context.events("channel")?];
        let with_channel = create_cq(0);
        context.raw(CreateCq, bytes(&with_channel), 8)?;
        context.give(ModifyQp, &to_init())?;
        for id in 0..4 {
            context.raw(PostRecv, &receive(QP, id), 4)?;
        }
        Ok((world, fds))
    }
}

/// A request of each command, room for its answer, and what comes of it in a [`World`].
pub fn requests() -> Vec<(Command, Vec<u8>, usize, Errno)> {
    let mut all = Vec::new();
    let mut add = |command, request: &[u8], room, errno| {
        all.push((command, request.to_vec(), room, errno));
    };
    let port = abi::QueryPort {
        port_num: 1,
        ..Default::default()
    };
    add(QueryDevice, &[0; 8], 176, 0);
    add(QueryPort, bytes(&port), 40, 0);
    add(AllocPd, &[0; 8], 4, 0);
    add(CreateAh, bytes(&create_ah()), 4, 0);
    add(RegMr, bytes(&reg_mr()), 12, 0);
    let change = abi::ReregMr {
        mr_handle: MR,
        flags: 4,
        access_flags: 1,
        ..Default::default()
    };
    add(ReregMr, bytes(&change), 8, 0);
    let window = abi::AllocMw {
        pd_handle: PD,
        mw_type: 1,
        ..Default::default()
    };
    add(AllocMw, bytes(&window), 8, 0);
    add(
        DeallocMw,
        bytes(&abi::DeallocMw { mw_handle: MR }),
        0,
        EINVAL,
    );
    add(CreateCompChannel, &[0; 8], 4, 0);
    add(CreateCq, bytes(&create_cq(-1)), 8, 0);
    let size = abi::ResizeCq {
        cq_handle: CQ,
        cqe: 32,
        ..Default::default()
    };
    add(ResizeCq, bytes(&size), 8, 0);
    let poll = abi::PollCq {
        cq_handle: CQ,
        ne: 1,
        ..Default::default()
    };
    add(PollCq, bytes(&poll), 56, 0);
    let arm = abi::ReqNotifyCq {
        cq_handle: CQ,
        solicited_only: 0,
    };
    add(ReqNotifyCq, bytes(&arm), 0, 0);
    add(CreateQp, bytes(&create_qp()), 32, 0);
    let open = abi::OpenQp {
        pd_handle: XRCD,
        ..Default::default()
    };
    add(OpenQp, bytes(&open), 32, EOPNOTSUPP);
    let query = abi::QueryQp {
        qp_handle: QP,
        ..Default::default()
    };
    add(QueryQp, bytes(&query), 128, 0);
    add(ModifyQp, bytes(&to_init()), 0, 0);
    add(PostRecv, &receive(QP, 1), 4, 0);
    add(PostSrqRecv, &receive(SRQ, 1), 4, 0);
    let none = abi::PostSend {
        qp_handle: QP,
        wqe_size: 56,
        ..Default::default()
    };
    add(PostSend, bytes(&none), 4, 0);
    let group = abi::Multicast {
        gid: [0xff; 16],
        qp_handle: QP,
        mlid: 0xc001,
        reserved: 0,
    };
    add(AttachMcast, bytes(&group), 0, EINVAL);
    add(DetachMcast, bytes(&group), 0, EINVAL);
    add(CreateSrq, bytes(&create_srq()), 16, 0);
    let newer = abi::CreateXsrq {
        pd_handle: PD,
        max_wr: 8,
        max_sge: 1,
        ..Default::default()
    };
    add(CreateXsrq, bytes(&newer), 16, 0);
    let limit = abi::ModifySrq {
        srq_handle: SRQ,
        attr_mask: 2,
        srq_limit: 4,
        ..Default::default()
    };
    add(ModifySrq, bytes(&limit), 0, 0);
    let query = abi::QuerySrq {
        srq_handle: SRQ,
        ..Default::default()
    };
    add(QuerySrq, bytes(&query), 16, 0);
    let xrcd = abi::OpenXrcd {
        fd: -1,
        oflags: O_CREAT as u32,
        ..Default::default()
    };
    add(OpenXrcd, bytes(&xrcd), 4, 0);
    // The command that ends an object; objects are ended in an order that is possible.
    let qp = abi::DestroyQp {
        qp_handle: QP,
        ..Default::default()
    };
    add(DestroyQp, bytes(&qp), 4, 0);
    let srq = abi::DestroySrq {
        srq_handle: SRQ,
        ..Default::default()
    };
    add(DestroySrq, bytes(&srq), 4, 0);
    let cq = abi::DestroyCq {
        cq_handle: CQ,
        ..Default::default()
    };
    // Another queue pair completes there.
    add(DestroyCq, bytes(&cq), 8, EBUSY);
    add(DeregMr, bytes(&abi::DeregMr { mr_handle: MR }), 0, 0);
    add(DestroyAh, bytes(&abi::DestroyAh { ah_handle: AH }), 0, 0);
    add(
        CloseXrcd,
        bytes(&abi::CloseXrcd { xrcd_handle: XRCD }),
        0,
        0,
    );
    add(
        DeallocPd,
        bytes(&abi::DeallocPd { pd_handle: PD }),
        0,
        EBUSY,
    );
    all
}
