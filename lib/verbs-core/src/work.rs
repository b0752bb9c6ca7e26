//! Work requests, and the completions that report their end.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Deref;
use core::slice;

use crate::address::Datagram;
use crate::table::Id;
use crate::types::{Access, Opcode, SendFlags, WcFlags, WcOpcode, WcStatus};

/// A scatter-gather element: a range of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first byte, in the addresses of the memory region.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The local key.
    pub key: u32,
}

/// The sum of the lengths of all segments, in bytes.
#[inline]
pub fn total(segments: &[Segment]) -> u64 {
    let lengths = segments.iter().map(|segment| u64::from(segment.length));
    lengths.sum()
}

/// The segments of a receive. A single segment, the usual case, needs no allocation.
#[derive(Clone, Debug)]
pub enum Segments {
    /// One segment.
    One(Segment),
    /// Any number of segments.
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
    /// Registered memory. The program must not change it before the completion.
    Segments(Vec<Segment>),
    /// A copy, made when the request was posted; it needs no key.
    Inline(Vec<u8>),
}

impl Data {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Data::Segments(segments) => total(segments),
            Data::Inline(bytes) => bytes.len() as u64,
        }
    }

    /// Whether there are no bytes.
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
    /// The window: any of its keys.
    pub window: u32,
    /// Its new key, which must differ from the current one in the low 8 bits, and only there.
    pub key: u32,
    /// The local key of the region.
    pub region: u32,
    /// The first byte, in the region's addresses.
    pub address: u64,
    /// Bytes; 0 ends the binding of a window of type 1.
    pub length: u64,
    /// The access that a peer has; with `ZERO_BASED` the window's addresses count from 0.
    pub access: Access,
}

/// A work request for a send queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// The number by which the program knows the request.
    pub id: u64,
    /// The operation.
    pub opcode: Opcode,
    /// How it is sent.
    pub flags: SendFlags,
    /// The data to send; for reads and atomics, where the peer's data goes.
    pub data: Data,
    /// The 32 bits of immediate data, if the operation has some, or the key that the operation
    /// invalidates.
    pub immediate: u32,
    /// The peer's memory, for one-sided operations.
    pub remote: Remote,
    /// The number that an atomic operation adds or compares with.
    pub compare_add: u64,
    /// The number that a compare-and-swap stores.
    pub swap: u64,
    /// Where a datagram goes.
    pub datagram: Datagram,
    /// The shared receive queue of the peer that takes the message, for an XRC queue pair.
    pub remote_srq: u32,
    /// For `BindMw`: the memory window, and the memory to bind it to.
    pub bind: Option<Bind>,
}

impl SendRequest {
    /// A signaled request of this kind; all other fields are empty.
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
    /// Bytes that are copied when the request is posted; `flags` must include `INLINE`.
    Inline(&'a [u8]),
}

/// A send or a write of one segment or of inline bytes, in borrowed form. Posting it takes the
/// fewest instructions of all work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortSend<'a> {
    /// The number by which the program knows the request.
    pub id: u64,
    /// `Send` or `RdmaWrite`.
    pub opcode: Opcode,
    /// How it is sent.
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

    /// The request as a short one, if it has that form.
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

    /// The request as a [`SendRequest`].
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
    /// The number by which the program knows the request.
    pub id: u64,
    /// Where the message is stored.
    pub segments: Segments,
}

/// The completion of a work request. Unless `status` is `Success`, only `id`, `status` and `qp`
/// are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The program's number of the request.
    pub id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// The operation that has completed.
    pub opcode: WcOpcode,
    /// Bytes received, read or exchanged; for a datagram including the 40 bytes in front of it.
    pub byte_len: u32,
    /// Immediate data or the invalidated key; `flags` tell which, if any.
    pub immediate: u32,
    /// The number of the queue pair that completed the request.
    pub qp: u32,
    /// The number of the peer's queue pair.
    pub src_qp: u32,
    /// The local identifier of the port that a datagram comes from.
    pub slid: u16,
    /// The service level of a datagram.
    pub service_level: u8,
    /// Further properties.
    pub flags: WcFlags,
}

impl WorkCompletion {
    /// A completion of the queue pair `qp` whose other fields are empty.
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

/// The sizes of the queues of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Requests that the send queue holds.
    pub send_wr: u32,
    /// Requests that the receive queue holds.
    pub recv_wr: u32,
    /// Segments of one send.
    pub send_sge: u32,
    /// Segments of one receive.
    pub recv_sge: u32,
    /// Bytes of inline data of one send.
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

/// The objects and sizes from which a queue pair is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInit {
    /// Its type.
    pub kind: crate::types::QpType,
    /// Its protection domain.
    pub pd: Id,
    /// The completion queue of its sends.
    pub send_cq: Id,
    /// The completion queue of its receives.
    pub recv_cq: Id,
    /// The shared receive queue that it uses in place of a receive queue of its own.
    pub srq: Option<Id>,
    /// The XRC domain, from whose shared receive queues peers choose. `XrcRecv` must have one, and
    /// uses neither `pd` nor the completion queues; the other types must have none.
    pub xrcd: Option<Id>,
    /// The sizes of its queues.
    pub capacity: Capacity,
    /// Every send adds a completion, signaled or not.
    pub signal_all: bool,
}
