//! A device with a program that has one object of each type.

use verbs_abi::command::Command;
use verbs_abi::records as abi;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::context::Owner;
use crate::device::{ContextId, Device};

/// Handles of the objects that [`Fixture::new`] makes.
pub const PD: u32 = 0;
pub const CQ: u32 = 1;
pub const SRQ: u32 = 2;
pub const QP: u32 = 3;
pub const MR: u32 = 4;
pub const AH: u32 = 5;
pub const XRCD: u32 = 6;
/// A completion queue and a protection domain that nothing uses.
pub const FREE_CQ: u32 = 7;
pub const FREE_PD: u32 = 8;
/// A memory window.
pub const MW: u32 = 9;
/// A handle that no object has.
pub const NONE: u32 = 99;
/// The user of the program.
pub const UID: u32 = 1000;

/// The program's own names for its objects.
pub const CQ_NAME: u64 = 0xc0;
pub const QP_NAME: u64 = 0xc1;

pub struct Fixture {
    pub device: Device,
    pub context: ContextId,
    /// The time in nanoseconds.
    pub now: u64,
}

/// A plain command: header, request, data of the provider.
pub fn plain(command: Command, request: &[u8], room: usize) -> Vec<u8> {
    assert!(request.len().is_multiple_of(4) && room.is_multiple_of(4));
    let header = abi::Header {
        command: command.number(),
        in_words: ((8 + request.len()) / 4) as u16,
        out_words: (room / 4) as u16,
    };
    [header.as_bytes(), request].concat()
}

/// An extended command, with an address for the answer if there is room for one.
pub fn extended(command: Command, request: &[u8], room: usize) -> Vec<u8> {
    assert!(request.len().is_multiple_of(8) && room.is_multiple_of(8));
    let header = abi::Header {
        command: command.number() | 1 << 31,
        in_words: (request.len() / 8) as u16,
        out_words: (room / 8) as u16,
    };
    let extension = abi::ExtendedHeader {
        response: if room > 0 { 0x1000 } else { 0 },
        ..Default::default()
    };
    [header.as_bytes(), extension.as_bytes(), request].concat()
}

pub fn create_qp() -> abi::CreateQp {
    abi::CreateQp {
        user_handle: QP_NAME,
        pd_handle: PD,
        send_cq_handle: CQ,
        recv_cq_handle: CQ,
        srq_handle: NONE,
        max_send_wr: 4,
        max_recv_wr: 4,
        max_send_sge: 1,
        max_recv_sge: 1,
        qp_type: 2,
        ..Default::default()
    }
}

pub fn create_cq() -> abi::CreateCq {
    abi::CreateCq {
        user_handle: CQ_NAME,
        cqe: 16,
        comp_channel: -1,
        ..Default::default()
    }
}

pub fn reg_mr() -> abi::RegMr {
    abi::RegMr {
        start: 0x5678,
        length: 0x1000,
        hca_va: 0x5678,
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

pub fn create_xsrq() -> abi::CreateXsrq {
    abi::CreateXsrq {
        pd_handle: PD,
        max_wr: 8,
        max_sge: 1,
        xrcd_handle: XRCD,
        cq_handle: CQ,
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

pub fn open_xrcd() -> abi::OpenXrcd {
    abi::OpenXrcd {
        fd: -1,
        oflags: syscall::flag::O_CREAT as u32,
        ..Default::default()
    }
}

/// Changes a queue pair to INIT.
pub fn to_init() -> abi::ModifyQp {
    abi::ModifyQp {
        qp_handle: QP,
        attr_mask: 1 | 1 << 3 | 1 << 4 | 1 << 5,
        qp_state: 1,
        port_num: 1,
        ..Default::default()
    }
}

/// Changes a queue pair to RTR.
pub fn to_rtr() -> abi::ModifyQp {
    abi::ModifyQp {
        dest: abi::Destination {
            dlid: 1,
            port_num: 1,
            ..Default::default()
        },
        qp_handle: QP,
        attr_mask: 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20,
        dest_qp_num: 0x44_0000,
        qp_state: 2,
        path_mtu: 5,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 12,
        ..Default::default()
    }
}

/// Changes a queue pair to RTS.
pub fn to_rts() -> abi::ModifyQp {
    abi::ModifyQp {
        qp_handle: QP,
        attr_mask: 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16,
        qp_state: 3,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic: 1,
        ..Default::default()
    }
}

/// Changes a queue pair to the error state.
pub fn to_error() -> abi::ModifyQp {
    abi::ModifyQp {
        qp_handle: QP,
        attr_mask: 1,
        qp_state: 6,
        ..Default::default()
    }
}

/// A receive for a queue, with one scatter/gather element.
pub fn receive(handle: u32, wr_id: u64) -> Vec<u8> {
    let request = abi::PostRecv {
        handle,
        wr_count: 1,
        sge_count: 1,
        wqe_size: 16,
        ..Default::default()
    };
    let receive = abi::ReceiveRequest {
        wr_id,
        num_sge: 1,
        ..Default::default()
    };
    let element = abi::Element::default();
    [request.as_bytes(), receive.as_bytes(), element.as_bytes()].concat()
}

/// A send with one scatter/gather element.
pub fn send(handle: u32, wr_id: u64) -> Vec<u8> {
    let request = abi::PostSend {
        qp_handle: handle,
        wr_count: 1,
        sge_count: 1,
        wqe_size: 56,
        ..Default::default()
    };
    let send = abi::SendRequest {
        wr_id,
        num_sge: 1,
        opcode: 2,
        send_flags: 2,
        ..Default::default()
    };
    let element = abi::Element::default();
    [request.as_bytes(), send.as_bytes(), element.as_bytes()].concat()
}

/// A request of each command, as the fixture's program can give it with success, and the room for
/// its answer. A command for which the fixture has no suitable object comes with the error number
/// of its refusal.
pub fn good(command: Command, is_extended: bool) -> (Vec<u8>, usize, i32) {
    use Command::*;
    use syscall::error::{EINVAL, EOPNOTSUPP};
    fn of<T: IntoBytes + Immutable>(request: T, room: usize) -> (Vec<u8>, usize, i32) {
        (request.as_bytes().to_vec(), room, 0)
    }
    let (mut request, room, mut errno) = match (command, is_extended) {
        (GetContext, _) => of(abi::GetContext::default(), 8),
        (QueryDevice, false) => of(abi::QueryDevice::default(), 176),
        (QueryDevice, true) => of(abi::QueryDeviceEx::default(), 304),
        (QueryPort, _) => of(
            abi::QueryPort {
                port_num: 1,
                ..Default::default()
            },
            40,
        ),
        (AllocPd, _) => of(abi::AllocPd::default(), 4),
        (DeallocPd, _) => of(abi::DeallocPd { pd_handle: FREE_PD }, 0),
        (CreateAh, _) => of(create_ah(), 4),
        (DestroyAh, _) => of(abi::DestroyAh { ah_handle: AH }, 0),
        (RegMr, _) => of(reg_mr(), 12),
        (ReregMr, _) => of(
            abi::ReregMr {
                mr_handle: MR,
                flags: 4,
                access_flags: 1,
                ..Default::default()
            },
            8,
        ),
        (DeregMr, _) => of(abi::DeregMr { mr_handle: MR }, 0),
        (AllocMw, _) => of(
            abi::AllocMw {
                pd_handle: PD,
                mw_type: 1,
                ..Default::default()
            },
            8,
        ),
        (DeallocMw, _) => of(abi::DeallocMw { mw_handle: MW }, 0),
        (CreateCompChannel, _) => of(abi::CreateCompChannel::default(), 4),
        (CreateCq, false) => of(create_cq(), 8),
        (CreateCq, true) => of(
            abi::CreateCqEx {
                cqe: 16,
                comp_channel: -1,
                ..Default::default()
            },
            16,
        ),
        (ResizeCq, _) => of(
            abi::ResizeCq {
                cq_handle: CQ,
                cqe: 32,
                ..Default::default()
            },
            8,
        ),
        (DestroyCq, _) => of(
            abi::DestroyCq {
                cq_handle: FREE_CQ,
                ..Default::default()
            },
            8,
        ),
        (PollCq, _) => of(
            abi::PollCq {
                cq_handle: CQ,
                ne: 1,
                ..Default::default()
            },
            56,
        ),
        (ReqNotifyCq, _) => of(
            abi::ReqNotifyCq {
                cq_handle: CQ,
                solicited_only: 0,
            },
            0,
        ),
        (CreateQp, false) => of(create_qp(), 32),
        (CreateQp, true) => of(
            abi::CreateQpEx {
                pd_handle: PD,
                send_cq_handle: CQ,
                recv_cq_handle: CQ,
                qp_type: 2,
                ..Default::default()
            },
            40,
        ),
        (OpenQp, _) => of(
            abi::OpenQp {
                pd_handle: XRCD,
                ..Default::default()
            },
            32,
        ),
        (QueryQp, _) => of(
            abi::QueryQp {
                qp_handle: QP,
                ..Default::default()
            },
            128,
        ),
        (ModifyQp, false) => of(to_init(), 0),
        (ModifyQp, true) => of(
            abi::ModifyQpEx {
                base: to_init(),
                ..Default::default()
            },
            8,
        ),
        (DestroyQp, _) => of(
            abi::DestroyQp {
                qp_handle: QP,
                ..Default::default()
            },
            4,
        ),
        // Posting no requests does nothing, in any state.
        (PostSend, _) => of(
            abi::PostSend {
                qp_handle: QP,
                wqe_size: 56,
                ..Default::default()
            },
            4,
        ),
        (PostRecv | PostSrqRecv, _) => of(
            abi::PostRecv {
                handle: if command == PostRecv { QP } else { SRQ },
                wqe_size: 16,
                ..Default::default()
            },
            4,
        ),
        (AttachMcast | DetachMcast, _) => of(
            abi::Multicast {
                gid: [0xff; 16],
                qp_handle: QP,
                mlid: 0xc001,
                reserved: 0,
            },
            0,
        ),
        (CreateSrq, _) => of(create_srq(), 16),
        (CreateXsrq, _) => of(create_xsrq(), 16),
        (ModifySrq, _) => of(
            abi::ModifySrq {
                srq_handle: SRQ,
                attr_mask: 2,
                srq_limit: 4,
                ..Default::default()
            },
            0,
        ),
        (QuerySrq, _) => of(
            abi::QuerySrq {
                srq_handle: SRQ,
                ..Default::default()
            },
            16,
        ),
        (DestroySrq, _) => of(
            abi::DestroySrq {
                srq_handle: SRQ,
                ..Default::default()
            },
            4,
        ),
        (OpenXrcd, _) => of(open_xrcd(), 4),
        (CloseXrcd, _) => of(abi::CloseXrcd { xrcd_handle: XRCD }, 0),
        (ModifyAh | QueryAh | RegSmr | QueryMr | BindMw | PeekCq, _) => (Vec::new(), 0, EOPNOTSUPP),
    };
    match command {
        OpenQp => errno = EOPNOTSUPP,
        // The queue pair is not for datagrams.
        AttachMcast | DetachMcast => errno = EINVAL,
        GetContext => errno = EINVAL,
        _ => {}
    }
    request.resize(
        request
            .len()
            .next_multiple_of(if is_extended { 8 } else { 4 }),
        0,
    );
    (request, room, errno)
}

impl Fixture {
    /// A device with a context that has executed GET_CONTEXT and has no objects.
    pub fn empty() -> Fixture {
        let mut device = Device::new(0);
        let owner = Owner { pid: 7, uid: UID };
        let context = device.open(owner).unwrap();
        let mut fixture = Fixture {
            device,
            context,
            now: 0,
        };
        let (request, room, _) = good(Command::GetContext, false);
        let begun = fixture.run(&plain(Command::GetContext, &request, room));
        assert_eq!(begun.map(|answer| answer.len()), Ok(8));
        fixture
    }

    /// A device whose context has one object of each type, by the handles above.
    pub fn new() -> Fixture {
        let mut fixture = Fixture::empty();
        let mut make = |command, request: &[u8], room, handle| {
            let answer = fixture.run(&plain(command, request, room)).unwrap();
            assert_eq!(answer[..4], u32::to_ne_bytes(handle), "{command:?}");
        };
        let pd = abi::AllocPd::default();
        let free_cq = create_cq();
        make(Command::AllocPd, pd.as_bytes(), 4, PD);
        make(Command::CreateCq, create_cq().as_bytes(), 8, CQ);
        make(Command::CreateSrq, create_srq().as_bytes(), 16, SRQ);
        make(Command::CreateQp, create_qp().as_bytes(), 32, QP);
        make(Command::RegMr, reg_mr().as_bytes(), 12, MR);
        make(Command::CreateAh, create_ah().as_bytes(), 4, AH);
        make(Command::OpenXrcd, open_xrcd().as_bytes(), 4, XRCD);
        make(Command::CreateCq, free_cq.as_bytes(), 8, FREE_CQ);
        make(Command::AllocPd, pd.as_bytes(), 4, FREE_PD);
        let window = abi::AllocMw {
            pd_handle: PD,
            mw_type: 1,
            ..Default::default()
        };
        make(Command::AllocMw, window.as_bytes(), 8, MW);
        fixture
    }

    /// Executes a command. Returns its answer, or the error number.
    pub fn run(&mut self, command: &[u8]) -> Result<Vec<u8>, i32> {
        let (answer, result) = self.device.execute(self.context, command, true, self.now);
        result.map(|()| answer).map_err(|error| error.errno)
    }

    /// Executes a plain command with a structure, with more room than any answer needs.
    pub fn give<T: IntoBytes + Immutable>(
        &mut self,
        command: Command,
        request: &T,
    ) -> Result<Vec<u8>, i32> {
        self.run(&plain(command, request.as_bytes(), 1024))
    }

    /// Executes a plain command and returns the answer as a structure.
    pub fn ask<T: IntoBytes + Immutable, A: FromBytes>(
        &mut self,
        command: Command,
        request: &T,
    ) -> A {
        let answer = self.give(command, request).unwrap();
        A::read_from_prefix(&answer).unwrap().0
    }

    /// A counter of `stats`.
    pub fn counter(&self, name: &str) -> u64 {
        let Some(crate::files::Found::Text(index)) = crate::files::find("stats") else {
            panic!("no stats");
        };
        let text = crate::files::text(index, &self.device, crate::files::Viewer { uid: 0 });
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(counter, _)| *counter == name);
        found
            .unwrap_or_else(|| panic!("no counter {name}"))
            .1
            .parse()
            .unwrap()
    }

    /// The objects of the context.
    pub fn objects(&self) -> Vec<u64> {
        let names = [
            "pds",
            "mrs",
            "cqs",
            "qps",
            "srqs",
            "ahs",
            "xrcds",
            "mws",
            "contexts",
            "channels",
            "waiting_events",
            "memberships",
            "files",
            "objects",
            "locked_pages",
            "ports",
            "slots",
        ];
        names.iter().map(|name| self.counter(name)).collect()
    }
}
