//! Work requests, and the completions they end in.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Deref;
use core::slice;

use crate::address::Datagram;
use crate::table::Id;
use crate::types::{Access, Opcode, SendFlags, WcFlags, WcOpcode, WcStatus};

/// A scatter-gather element: some registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first byte, in the addresses of the memory region.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The local key.
    pub key: u32,
}

/// Bytes of all segments.
#[inline]
pub fn total(segments: &[Segment]) -> u64 {
    let lengths = segments.iter().map(|segment| u64::from(segment.length));
    lengths.sum()
}

/// The segments of a receive. One, which is usual, needs no memory beside the request's.
#[derive(Clone, Debug)]
pub enum Segments {
    /// One.
    One(Segment),
    /// Any number.
    Many(Vec<Segment>),
}

impl Deref for Segments {
    type Target = [Segment];

    #[inline]
    fn deref(&self) -> &[Segment] {
        match self {
            Segments::One(segment) => slice::from_ref(segment),
            Segments::Many(segments) => segments,
        }
    }
}

impl From<&[Segment]> for Segments {
    #[inline]
    fn from(segments: &[Segment]) -> Segments {
        match segments {
            [segment] => Segments::One(*segment),
            _ => Segments::Many(segments.to_vec()),
        }
    }
}

impl From<Vec<Segment>> for Segments {
    fn from(segments: Vec<Segment>) -> Segments {
        match segments[..] {
            [segment] => Segments::One(segment),
            _ => Segments::Many(segments),
        }
    }
}

impl FromIterator<Segment> for Segments {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Segments {
        segments.into_iter().collect::<Vec<_>>().into()
    }
}

impl PartialEq for Segments {
    fn eq(&self, other: &Segments) -> bool {
        **self == **other
    }
}

impl Eq for Segments {}

/// The data of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Registered memory, which is not to be changed before the completion.
    Segments(Vec<Segment>),
    /// A copy that was made when the request was posted; no key is looked at.
    Inline(Vec<u8>),
}

impl Data {
    /// Bytes.
    pub fn len(&self) -> u64 {
        match self {
            Data::Segments(segments) => total(segments),
            Data::Inline(bytes) => bytes.len() as u64,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A place in the peer's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// The first byte, in the addresses of the peer's memory region.
    pub address: u64,
    /// The remote key.
    pub key: u32,
}

/// A request to bind a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The window: any key of it.
    pub window: u32,
    /// Its new key, which differs from the former one in the low 8 bits, and there only.
    pub key: u32,
    /// The local key of the region.
    pub region: u32,
    /// The first byte, in the region's addresses.
    pub address: u64,
    /// Bytes; none ends the binding of a window of type 1.
    pub length: u64,
    /// The access that a peer has; `ZERO_BASED`: its addresses count from 0.
    pub access: Access,
}

/// A work request for a send queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// The program's number for it.
    pub id: u64,
    /// The operation.
    pub opcode: Opcode,
    /// How.
    pub flags: SendFlags,
    /// The data to send; for reads and atomics, the place for the peer's data.
    pub data: Data,
    /// The 32 bits of an operation with immediate data, or the key that one invalidates.
    pub immediate: u32,
    /// The peer's memory, for one-sided operations.
    pub remote: Remote,
    /// The number that an atomic operation adds, or compares with.
    pub compare_add: u64,
    /// The number that a compare-and-swap stores.
    pub swap: u64,
    /// Where a datagram goes.
    pub datagram: Datagram,
    /// The peer's shared receive queue that a message of an XRC queue pair is for.
    pub remote_srq: u32,
    /// The memory window that `BindMw` binds, and what to.
    pub bind: Option<Bind>,
}

impl SendRequest {
    /// A signaled request of this kind; everything else is empty.
    pub fn new(id: u64, opcode: Opcode, segments: Vec<Segment>) -> SendRequest {
        SendRequest {
            id,
            opcode,
            flags: SendFlags::SIGNALED,
            data: Data::Segments(segments),
            immediate: 0,
            remote: Remote::default(),
            compare_add: 0,
            swap: 0,
            datagram: Datagram::default(),
            remote_srq: 0,
            bind: None,
        }
    }
}

/// The data of a [`ShortSend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortData<'a> {
    /// One segment.
    Segment(Segment),
    /// Bytes that are copied when the request is posted, which is marked as inline.
    Inline(&'a [u8]),
}

/// A send or a write of one segment or inline bytes, as a program has it at hand: the work request
/// that is posted by the fewest instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortSend<'a> {
    /// The program's number for it.
    pub id: u64,
    /// `Send` or `RdmaWrite`.
    pub opcode: Opcode,
    /// How.
    pub flags: SendFlags,
    /// The data.
    pub data: ShortData<'a>,
    /// The peer's memory, for a write.
    pub remote: Remote,
}

impl<'a> ShortSend<'a> {
    /// A signaled message.
    #[inline]
    pub fn message(id: u64, data: ShortData<'a>) -> ShortSend<'a> {
        let mut flags = SendFlags::SIGNALED;
        flags.set(SendFlags::INLINE, matches!(data, ShortData::Inline(_)));
        ShortSend {
            id,
            opcode: Opcode::Send,
            flags,
            data,
            remote: Remote::default(),
        }
    }

    /// A signaled write.
    #[inline]
    pub fn write(id: u64, data: ShortData<'a>, remote: Remote) -> ShortSend<'a> {
        ShortSend {
            opcode: Opcode::RdmaWrite,
            remote,
            ..ShortSend::message(id, data)
        }
    }

    /// A request as a short one, if it can be one.
    #[inline]
    pub fn of(request: &'a SendRequest) -> Option<ShortSend<'a>> {
        let data = match &request.data {
            Data::Segments(segments) => match segments[..] {
                [segment] => ShortData::Segment(segment),
                _ => return None,
            },
            Data::Inline(bytes) => ShortData::Inline(bytes),
        };
        let is_one = matches!(request.opcode, Opcode::Send | Opcode::RdmaWrite);
        is_one.then_some(ShortSend {
            id: request.id,
            opcode: request.opcode,
            flags: request.flags,
            data,
            remote: request.remote,
        })
    }

    /// The same as any other request.
    pub fn to_request(&self) -> SendRequest {
        let data = match self.data {
            ShortData::Segment(segment) => Data::Segments(vec![segment]),
            ShortData::Inline(bytes) => Data::Inline(bytes.to_vec()),
        };
        SendRequest {
            flags: self.flags,
            data,
            remote: self.remote,
            ..SendRequest::new(self.id, self.opcode, Vec::new())
        }
    }
}

/// A work request for a receive queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// The program's number for it.
    pub id: u64,
    /// Where the message goes.
    pub segments: Segments,
}

/// The completion of a work request. With a status that is no success, only `id`, `status` and `qp`
/// mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The program's number of the request.
    pub id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// The operation that has completed.
    pub opcode: WcOpcode,
    /// Bytes received, read, or exchanged; with the 40 in front of a datagram.
    pub byte_len: u32,
    /// Immediate data or the key that was invalidated, if `flags` say so.
    pub immediate: u32,
    /// The own queue pair.
    pub qp: u32,
    /// The peer's queue pair.
    pub src_qp: u32,
    /// The local identifier of the port that a datagram comes from.
    pub slid: u16,
    /// The service level of a datagram.
    pub service_level: u8,
    /// Further properties.
    pub flags: WcFlags,
}

impl WorkCompletion {
    /// A completion of the queue pair `qp` that says nothing else.
    #[inline]
    pub fn new(id: u64, qp: u32, opcode: WcOpcode, status: WcStatus) -> WorkCompletion {
        WorkCompletion {
            id,
            status,
            opcode,
            byte_len: 0,
            immediate: 0,
            qp,
            src_qp: 0,
            slid: 0,
            service_level: 0,
            flags: WcFlags::empty(),
        }
    }
}

/// The sizes of a queue pair's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Requests in the send queue.
    pub send_wr: u32,
    /// Requests in the receive queue.
    pub recv_wr: u32,
    /// Segments of a send.
    pub send_sge: u32,
    /// Segments of a receive.
    pub recv_sge: u32,
    /// Bytes of inline data.
    pub inline: u32,
}

impl Default for Capacity {
    /// 128 requests of 4 segments, and no inline data.
    fn default() -> Self {
        Self {
            send_wr: 128,
            recv_wr: 128,
            send_sge: 4,
            recv_sge: 4,
            inline: 0,
        }
    }
}

/// The objects and sizes that a queue pair is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInit {
    /// Its type.
    pub kind: crate::types::QpType,
    /// Its protection domain.
    pub pd: Id,
    /// Where its sends complete.
    pub send_cq: Id,
    /// Where its receives complete.
    pub recv_cq: Id,
    /// Where its receives come from, if not from a queue of its own.
    pub srq: Option<Id>,
    /// The XRC domain, from whose shared receive queues peers choose: for `XrcRecv`, which uses
    /// neither `pd` nor completion queues, and for it alone.
    pub xrcd: Option<Id>,
    /// Sizes.
    pub capacity: Capacity,
    /// Every send completes with an entry.
    pub signal_all: bool,
}
