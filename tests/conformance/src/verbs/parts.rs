//! The parts of a bench: ends and places, specifications of queue pairs, and their requests.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use verbs_core::attributes::Attributes;
use verbs_core::table::Id;
use verbs_core::types::{Access, Error, Opcode, QpState, QpType};
use verbs_core::work::{Capacity, Data, ReceiveRequest, Remote, Segment, SendRequest};

use super::end::Verbs;

/// A result whose error is a text.
pub type Checked<T = ()> = Result<T, String>;

/// Bytes of the region of each queue pair, at the beginning of the memory.
pub const REGION: u64 = 0x8000;
/// Offset of another page, for regions with other rights.
pub const OTHER: u64 = 0x1_0000;
/// All rights of peers and of the owner.
pub const ALL: Access = Access::REMOTE.union(Access::LOCAL_WRITE);

/// Where rows run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Two programs with the rules of `verbs-core`, in the simulator.
    Sim,
    /// Two programs with `lib/verbs` in one node.
    Node,
    /// Two programs with `lib/verbs`, on host and card.
    Pair,
}

impl Place {
    /// All places.
    pub const ALL: [Place; 3] = [Place::Sim, Place::Node, Place::Pair];

    /// The name in reports and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Sim => "sim",
            Place::Node => "node",
            Place::Pair => "pair",
        }
    }
}

/// An end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The requester of most rows.
    A = 0,
    /// The responder.
    B = 1,
}

/// The result of a job at an end: words that both ends learn, or the error of a call.
pub type Reply = Result<Vec<u64>, Error>;
/// A job at an end.
pub type Job<'a> = &'a mut dyn FnMut(&mut dyn Verbs) -> Reply;

/// A place. On booted nodes both ends run the same rows. A job runs only at its own end, and the
/// other one is told the result, so both make the same decisions.
pub trait Driver {
    /// The place.
    fn place(&self) -> Place;
    /// Runs a job at an end.
    ///
    /// # Errors
    /// The errors of the place.
    fn at(&mut self, side: Side, job: Job<'_>) -> Checked<Reply>;
    /// Lets some time pass.
    fn pause(&mut self);
    /// The time in nanoseconds, where it does not depend on how fast the machine is.
    fn now(&self) -> Option<u64> {
        None
    }
    /// Kills an end without notice, and starts a new one.
    ///
    /// # Errors
    /// The errors of the place.
    fn kill(&mut self, side: Side) -> Checked;
}

/// The specification of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its type.
    pub kind: QpType,
    /// Whether receives come from a shared receive queue.
    pub shared: bool,
    /// The access that the peer has.
    pub access: Access,
    /// The attributes for all changes up to RTS.
    pub attributes: Attributes,
    /// The sizes of its queues.
    pub capacity: Capacity,
    /// Number of completions that a completion queue has room for.
    pub completions: u32,
    /// Whether all sends raise a completion.
    pub signal_all: bool,
}

/// The key of datagrams.
pub const QKEY: u32 = 0x1111_1111;

impl Spec {
    /// A queue pair of this type with all rights that waits for receives for ever.
    pub const fn new(kind: QpType) -> Spec {
        Spec {
            kind,
            shared: false,
            access: Access::REMOTE,
            attributes: Attributes {
                state: QpState::Reset,
                cur_state: QpState::Reset,
                notify_drained: false,
                access: Access::empty(),
                pkey_index: 0,
                port: 1,
                qkey: QKEY,
                dlid: 0,
                path_mtu: 5,
                timeout: 18,
                retry_cnt: 7,
                rnr_retry: 7,
                rq_psn: 0,
                sq_psn: 0,
                max_rd_atomic: 4,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 12,
                dest_qpn: 0,
            },
            capacity: Capacity {
                send_wr: 16,
                recv_wr: 16,
                send_sge: 2,
                recv_sge: 2,
                inline: 128,
            },
            completions: 64,
            signal_all: false,
        }
    }
}

/// A queue pair with its domain, its completion queues and a region, as both ends know it.
#[derive(Clone, Copy, Debug)]
pub struct Qp {
    /// Its end.
    pub side: Side,
    /// Its type.
    pub kind: QpType,
    /// Its domain.
    pub pd: Id,
    /// The completion queue of its sends.
    pub sends: Id,
    /// The completion queue of its receives.
    pub receives: Id,
    /// Its shared receive queue.
    pub srq: Option<Id>,
    /// The key of its region.
    pub key: u32,
    /// Its number.
    pub number: u32,
    /// The address of its end's memory.
    pub base: u64,
    /// The local identifier of its port.
    pub lid: u16,
}

/// An object that a row has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kinds of objects")]
pub enum Thing {
    Pd(Id),
    Cq(Id),
    Srq(Id),
    Key(u32),
    Mw(Id, u32),
    Ah(Id, Id),
    Xrcd(Id),
    Qp(u32),
}

impl Qp {
    /// A segment of its region.
    pub fn segment(&self, at: u64, length: u32) -> Segment {
        Segment {
            address: self.base + at,
            length,
            key: self.key,
        }
    }

    /// A segment at these bytes by the key of another region.
    pub fn segment_by(&self, key: u32, at: u64, length: u32) -> Segment {
        Segment {
            key,
            ..self.segment(at, length)
        }
    }

    /// A place in the memory of its end, by a key.
    pub fn place(&self, at: u64, key: u32) -> Remote {
        Remote {
            address: self.base.wrapping_add(at),
            key,
        }
    }

    /// A SEND from the beginning of the region.
    pub fn send(&self, id: u64, length: u32) -> SendRequest {
        SendRequest::new(id, Opcode::Send, vec![self.segment(0, length)])
    }

    /// A one-sided request.
    pub fn one_sided(&self, id: u64, opcode: Opcode, length: u32, to: Remote) -> SendRequest {
        SendRequest {
            remote: to,
            ..SendRequest::new(id, opcode, vec![self.segment(0, length)])
        }
    }

    /// A request with inline data.
    pub fn inline(id: u64, opcode: Opcode, bytes: &[u8]) -> SendRequest {
        let mut request = SendRequest::new(id, opcode, Vec::new());
        request.flags |= verbs_core::types::SendFlags::INLINE;
        request.data = Data::Inline(bytes.to_vec());
        request
    }

    /// A receive in its region.
    pub fn receive(&self, id: u64, at: u64, length: u32) -> ReceiveRequest {
        ReceiveRequest {
            id,
            segments: vec![self.segment(at, length)].into(),
        }
    }
}
