//! A queue pair of a program that has nothing but commands: with a domain, a completion queue and
//! registered memory in a context.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use guest_tests::uverbs::{Context, Errno, bytes};
use guest_tests::{settled, text};
use scif::Memory;
use verbs_abi::command::Command::{self, *};
use verbs_abi::records as abi;
use verbs_core::types::{Opcode, SendFlags, WcStatus};
use zerocopy::FromBytes;

pub type Checked<T = ()> = Result<T, String>;

/// Bytes of the memory.
pub const BYTES: usize = 1 << 20;
/// Access of the owner and of peers: all.
pub const ALL: u32 = 0xf;
/// Work requests of each queue.
const DEPTH: u32 = 16;
/// Bytes of inline data at most.
pub const INLINE: u32 = 64;
/// Types of queue pairs.
pub const RELIABLE: u8 = 2;
pub const DATAGRAMS: u8 = 4;
/// The key of datagrams.
pub const QKEY: u32 = 0x11;

/// Where a queue pair is, and its memory.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub lid: u16,
    pub qpn: u32,
    pub memory: u64,
    pub key: u32,
}

/// See the module.
pub struct End<'a> {
    pub context: &'a Context,
    pub memory: Memory,
    pub pd: u32,
    pub cq: u32,
    pub qp: u32,
    pub mr: u32,
    /// The shared receive queue that receives are posted to.
    pub srq: Option<u32>,
    pub address: Address,
}

/// A send that is to be posted: what, its part of the own memory, and where at the peer.
#[derive(Clone, Copy)]
pub struct Send {
    pub opcode: Opcode,
    pub at: usize,
    pub length: usize,
    pub remote: u64,
    pub key: u32,
    pub numbers: (u64, u64),
    pub flags: SendFlags,
}

/// A region of memory of the own program; handle and key.
///
/// # Errors
/// Those of the command.
pub fn register(
    context: &Context,
    (pd, access): (u32, u32),
    (start, length): (u64, u64),
) -> Result<abi::RegMrAnswer, Errno> {
    context.send_space()?;
    let request = abi::RegMr {
        start,
        length,
        hca_va: start,
        pd_handle: pd,
        access_flags: access,
        ..Default::default()
    };
    context.ask(RegMr, &request)
}

fn shared_queue(context: &Context, pd_handle: u32) -> Checked<u32> {
    let request = abi::CreateSrq {
        pd_handle,
        max_wr: DEPTH,
        max_sge: 1,
        ..Default::default()
    };
    let made: abi::CreateSrqAnswer = context
        .ask(CreateSrq, &request)
        .map_err(text("shared queue"))?;
    Ok(made.srq_handle)
}

impl<'a> End<'a> {
    /// Makes a reliable one.
    pub fn new(context: &'a Context, access: u32) -> Checked<Self> {
        Self::of_type(context, access, RELIABLE, false)
    }

    /// Makes one of this type, whose receives are shared or not.
    pub fn of_type(context: &'a Context, access: u32, kind: u8, shared: bool) -> Checked<Self> {
        let port = abi::QueryPort {
            port_num: 1,
            ..Default::default()
        };
        let port: abi::QueryPortAnswer = context.ask(QueryPort, &port).map_err(text("port"))?;
        let pd: abi::AllocPdAnswer = context
            .ask(AllocPd, &abi::AllocPd::default())
            .map_err(text("domain"))?;
        let pd = pd.pd_handle;
        let queue = abi::CreateCq {
            cqe: 4 * DEPTH,
            comp_channel: -1,
            ..Default::default()
        };
        let cq: abi::CreateCqAnswer = context.ask(CreateCq, &queue).map_err(text("queue"))?;
        let srq = match shared {
            true => Some(shared_queue(context, pd)?),
            false => None,
        };
        let pair = abi::CreateQp {
            srq_handle: srq.unwrap_or(0),
            is_srq: shared.into(),
            max_inline_data: INLINE,
            pd_handle: pd,
            send_cq_handle: cq.cq_handle,
            recv_cq_handle: cq.cq_handle,
            max_send_wr: DEPTH,
            max_recv_wr: DEPTH,
            max_send_sge: 1,
            max_recv_sge: 1,
            qp_type: kind,
            ..Default::default()
        };
        let qp: abi::CreateQpAnswer = context.ask(CreateQp, &pair).map_err(text("pair"))?;
        let memory = Memory::ordinary(BYTES).map_err(text("memory"))?;
        let start = memory.address() as u64;
        let region = register(context, (pd, access), (start, BYTES as u64));
        let region = region.map_err(text("region"))?;
        Ok(Self {
            context,
            memory,
            pd,
            cq: cq.cq_handle,
            qp: qp.qp_handle,
            mr: region.mr_handle,
            srq,
            address: Address {
                lid: port.lid,
                qpn: qp.qpn,
                memory: start,
                key: region.lkey,
            },
        })
    }

    /// Connects it: all states up to RTS. `rnr_retry` of 7 waits for receives without end.
    pub fn connect(&self, lid: u16, qpn: u32, rnr_retry: u8) -> Checked {
        let to_init = abi::ModifyQp {
            qp_handle: self.qp,
            attr_mask: 1 | 1 << 3 | 1 << 4 | 1 << 5,
            qp_state: 1,
            port_num: 1,
            qp_access_flags: ALL,
            ..Default::default()
        };
        let to_rtr = abi::ModifyQp {
            dest: abi::Destination {
                dlid: lid,
                port_num: 1,
                ..Default::default()
            },
            qp_handle: self.qp,
            attr_mask: 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20,
            dest_qp_num: qpn,
            qp_state: 2,
            path_mtu: 5,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
            ..Default::default()
        };
        let to_rts = abi::ModifyQp {
            qp_handle: self.qp,
            attr_mask: 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16,
            qp_state: 3,
            timeout: 18,
            retry_cnt: 7,
            rnr_retry,
            max_rd_atomic: 1,
            ..Default::default()
        };
        for request in [to_init, to_rtr, to_rts] {
            let state = format!("to state {}", request.qp_state);
            let changed = self.context.give(ModifyQp, &request);
            changed.map_err(text(&state))?;
        }
        Ok(())
    }

    /// Has one for datagrams take and send them.
    pub fn open(&self) -> Checked {
        let to_init = abi::ModifyQp {
            attr_mask: 1 | 1 << 4 | 1 << 5 | 1 << 6,
            port_num: 1,
            qkey: QKEY,
            ..Default::default()
        };
        let to_rtr = abi::ModifyQp {
            attr_mask: 1,
            ..Default::default()
        };
        let to_rts = abi::ModifyQp {
            attr_mask: 1 | 1 << 16,
            ..Default::default()
        };
        for (mut request, state) in [(to_init, 1), (to_rtr, 2), (to_rts, 3)] {
            (request.qp_handle, request.qp_state) = (self.qp, state);
            let changed = self.context.give(ModifyQp, &request);
            changed.map_err(text(&format!("to state {state}")))?;
        }
        Ok(())
    }

    /// Connects two with each other.
    pub fn join(&self, other: &End<'_>, rnr_retry: u8) -> Checked {
        self.connect(other.address.lid, other.address.qpn, rnr_retry)?;
        other.connect(self.address.lid, self.address.qpn, rnr_retry)
    }

    pub fn element(&self, at: usize, length: usize, lkey: u32) -> abi::Element {
        abi::Element {
            addr: self.address.memory + at as u64,
            length: length as u32,
            lkey,
        }
    }

    /// Posts; the number of the error.
    pub fn try_post(&self, command: Command, parts: [&[u8]; 3]) -> Result<(), Errno> {
        self.context.raw(command, &parts.concat(), 4).map(drop)
    }

    fn post(&self, command: Command, parts: [&[u8]; 3]) -> Checked {
        self.try_post(command, parts).map_err(text("post"))
    }

    /// Posts a receive into a part of the memory.
    pub fn receive(&self, wr_id: u64, element: abi::Element) -> Checked {
        let command = self.srq.map_or(PostRecv, |_| PostSrqRecv);
        let request = abi::PostRecv {
            handle: self.srq.unwrap_or(self.qp),
            wr_count: 1,
            sge_count: 1,
            wqe_size: size_of::<abi::ReceiveRequest>() as u32,
            ..Default::default()
        };
        let receive = abi::ReceiveRequest {
            wr_id,
            num_sge: 1,
            ..Default::default()
        };
        self.post(command, [bytes(&request), bytes(&receive), bytes(&element)])
    }

    /// Posts a send with an element.
    pub fn send_element(&self, wr_id: u64, send: &Send, element: abi::Element) -> Checked {
        self.try_send(wr_id, send, element).map_err(text("post"))
    }

    /// The same; the number of the error.
    pub fn try_send(&self, wr_id: u64, send: &Send, element: abi::Element) -> Result<(), Errno> {
        let request = abi::PostSend {
            qp_handle: self.qp,
            wr_count: 1,
            sge_count: 1,
            wqe_size: size_of::<abi::SendRequest>() as u32,
            ..Default::default()
        };
        let wr = match send.opcode.is_atomic() {
            true => [send.remote, send.numbers.0, send.numbers.1, send.key.into()],
            false => [send.remote, send.key.into(), 0, 0],
        };
        let send = abi::SendRequest {
            wr_id,
            num_sge: 1,
            opcode: send.opcode as u32,
            send_flags: (SendFlags::SIGNALED | send.flags).bits(),
            imm_data: 0x1234_5678,
            wr,
        };
        self.try_post(PostSend, [bytes(&request), bytes(&send), bytes(&element)])
    }

    /// Posts a send of a part of the memory.
    pub fn send(&self, wr_id: u64, send: &Send) -> Checked {
        let element = self.element(send.at, send.length, self.address.key);
        self.send_element(wr_id, send, element)
    }

    /// Takes the completions that are there.
    pub fn poll(&self) -> Result<Vec<abi::Completion>, Errno> {
        let request = abi::PollCq {
            cq_handle: self.cq,
            ne: DEPTH,
            ..Default::default()
        };
        let room = 8 + DEPTH as usize * size_of::<abi::Completion>();
        let answer = self.context.raw(PollCq, bytes(&request), room)?;
        let list = answer.get(8..).unwrap_or_default();
        let list = list.chunks_exact(size_of::<abi::Completion>());
        Ok(list
            .filter_map(|bytes| abi::Completion::read_from_bytes(bytes).ok())
            .collect())
    }

    /// Waits for a number of completions.
    pub fn wait(&self, count: usize) -> Checked<Vec<abi::Completion>> {
        let mut found = vec![];
        let look = || {
            found.extend(self.poll().unwrap_or_default());
            found.len() >= count
        };
        settled(look, &true);
        match found.len() == count {
            true => Ok(found),
            false => Err(format!("{count} completions were to come, not {found:?}")),
        }
    }

    /// Waits for completions with these identifiers and statuses, in this order.
    pub fn expect(&self, expected: &[(u64, WcStatus)]) -> Checked {
        let found = self.wait(expected.len())?;
        let found = found.iter().map(|of| (of.wr_id, of.status));
        let wanted = expected.iter().map(|(id, status)| (*id, *status as u32));
        match found.clone().eq(wanted) {
            true => Ok(()),
            false => Err(format!(
                "expected {expected:?}, found {:?}",
                found.collect::<Vec<_>>()
            )),
        }
    }

    /// Stores a pattern into the memory.
    pub fn fill(&self, seed: u8, at: usize, length: usize) -> Checked {
        let written = self.memory.copy_in(at, &pattern(seed, length));
        written.map_err(text("fill"))
    }

    /// Checks that a pattern is there.
    pub fn has(&self, seed: u8, at: usize, length: usize) -> Checked {
        let mut found = vec![0; length];
        self.memory.copy_out(at, &mut found).map_err(text("look"))?;
        match found == pattern(seed, length) {
            true => Ok(()),
            false => Err(format!("no pattern {seed} of {length} bytes at {at}")),
        }
    }

    /// Ends all of it.
    pub fn end(self) -> Checked {
        let qp = abi::DestroyQp {
            qp_handle: self.qp,
            ..Default::default()
        };
        let cq = abi::DestroyCq {
            cq_handle: self.cq,
            ..Default::default()
        };
        let (mr_handle, pd_handle) = (self.mr, self.pd);
        let context = self.context;
        context
            .ask::<_, abi::DestroyQpAnswer>(DestroyQp, &qp)
            .map_err(text("end of the pair"))?;
        if let Some(srq_handle) = self.srq {
            let srq = abi::DestroySrq {
                srq_handle,
                ..Default::default()
            };
            context
                .ask::<_, abi::DestroySrqAnswer>(DestroySrq, &srq)
                .map_err(text("end of the shared queue"))?;
        }
        context
            .ask::<_, abi::DestroyCqAnswer>(DestroyCq, &cq)
            .map_err(text("end of the queue"))?;
        let ended = context.give(DeregMr, &abi::DeregMr { mr_handle });
        ended.map_err(text("end of the region"))?;
        let ended = context.give(DeallocPd, &abi::DeallocPd { pd_handle });
        ended.map_err(text("end of the domain"))
    }
}

fn pattern(seed: u8, length: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(31) >> 3) as u8 ^ at as u8 ^ seed;
    (0..length).map(byte).collect()
}
