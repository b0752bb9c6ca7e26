//! The records of a lane: what its two ends send each other.
//!
//! A record is a header of 48 bytes, all numbers little-endian, and a payload. A message that is
//! longer than one payload is cut into pieces.

mod datagram;
mod header;

use bitflags::bitflags;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::address::GlobalRoute;
use crate::types::{Access, Atomic};
use datagram::{decode_datagram, encode_datagram};

/// Bytes of a header.
pub const HEADER_BYTES: usize = size_of::<Header>();
/// Most bytes of a payload: half of what the smallest ring of a connection holds.
pub const MAX_PAYLOAD: usize = 2000;
/// Most bytes of a datagram: those of one packet.
pub const MAX_DATAGRAM: u32 = 4096;

/// A header as it is in memory; the kind decides what the other fields mean.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    kind: u8,
    flags: u8,
    detail: u16,
    payload: u32,
    destination: u32,
    source: u32,
    generation: u32,
    number: u32,
    total: u32,
    value: u32,
    first: u64,
    second: u64,
}

bitflags! {
    /// Marks of a piece of a message or datagram.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Marks: u8 {
        /// The message begins here.
        const FIRST = 1 << 0;
        /// The message ends here.
        const LAST = 1 << 1;
        /// Its completion is solicited.
        const SOLICITED = 1 << 2;
        /// It has immediate data.
        const IMMEDIATE = 1 << 3;
        /// The requester has written the data to memory; the receive only reports it.
        const WRITTEN = 1 << 4;
        /// The sender waits for the acknowledgement: it is sent as soon as a look for records
        /// finds none. In a message only.
        const WAITED_FOR = 1 << 5;
        /// The message invalidates the key that is in the place of immediate data.
        const INVALIDATE = 1 << 6;
    }
}

impl Marks {
    /// The marks that do not change what is done with the bytes of a message.
    const UNCHANGED: Marks = Marks::SOLICITED
        .union(Marks::IMMEDIATE)
        .union(Marks::WAITED_FOR);
}

/// The receiver and the sender of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The queue pair that it is for.
    pub destination: u32,
    /// The queue pair that it is from.
    pub source: u32,
    /// The generation of the destination, as the sender knows it; 0 if it does not.
    pub generation: u32,
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no receive: try again later.
    NotReady,
    /// The message is longer than the receive.
    TooLong,
    /// The receive's memory cannot be used.
    Unusable,
    /// There is no such shared receive queue.
    NoQueue,
}

/// What is wrong with a one-sided request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The requester has no right to this access.
    Access,
    /// It cannot be executed.
    Request,
}

/// The parameters that a queue pair announces to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its generation.
    pub generation: u32,
    /// The number of the first message for which there is no receive.
    pub limit: u32,
    /// Receives are shared: the limit does not count, and messages may be refused.
    pub is_shared: bool,
    /// The peer is asked to announce itself too.
    pub wants_answer: bool,
    /// The access that the peer has.
    pub access: Access,
    /// How long the peer waits after a refused message, as a code.
    pub rnr_timer: u8,
    /// Reads and atomics that it accepts at a time.
    pub reads: u8,
}

/// A piece of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The marks.
    pub marks: Marks,
    /// The message's number.
    pub number: u32,
    /// Bytes of the whole message.
    pub total: u32,
    /// Its immediate data, or the key that it invalidates.
    pub immediate: u32,
    /// The shared receive queue that it is for, if its queue pair is of type XRC.
    pub srq: u32,
    /// The acknowledgement of messages in the other direction.
    pub ack: Option<Ack>,
    /// Bytes of this piece, which follow the header.
    pub payload: u32,
}

/// The acknowledgement by which a responder tells its peer what it has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Messages before this number have been received.
    pub taken: u32,
    /// There are receives for the messages before this number.
    pub limit: u32,
}

/// A piece of a datagram. The pieces of one datagram follow each other on a lane, without a piece
/// of another one between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramPiece {
    /// The queue pair that it is for, or [`MULTICAST_QPN`](crate::address::MULTICAST_QPN).
    pub destination: u32,
    /// The queue pair that it is from.
    pub source: u32,
    /// The key that the receiver must have.
    pub qkey: u32,
    /// The local identifier of the port that it is from; used only if a relay passes it on.
    pub slid: u16,
    /// The service level.
    pub service_level: u8,
    /// The global route, if it has one.
    pub global: Option<GlobalRoute>,
    /// The marks.
    pub marks: Marks,
    /// Bytes of the whole datagram.
    pub total: u32,
    /// Its immediate data.
    pub immediate: u32,
    /// Bytes of this piece, which follow the header.
    pub payload: u32,
}

/// An atomic operation that the owner of the memory is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicCall {
    /// The operation.
    pub operation: Atomic,
    /// The address in the memory region.
    pub address: u64,
    /// The remote key.
    pub key: u32,
}

/// The peer's rights to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The address of the first byte.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// The access that is permitted.
    pub access: Access,
    /// The only queue pair of the owner through which the key can be used; 0: any.
    pub qp: u32,
    /// The number of the window.
    pub window: u64,
}

/// The answer to a request for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key may be used.
    Given(Grant),
    /// There is no such key for this peer.
    Denied,
    /// The memory cannot be made a window now.
    NoResources,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A queue pair can receive, with these parameters.
    Ready(Address, Ready),
    /// The queue pair of this generation no longer answers.
    Gone(Address, u32),
    /// A piece of a message.
    Message(Address, Piece),
    /// A piece of a datagram.
    Datagram(DatagramPiece),
    /// Messages have been received, or receives posted.
    Ack(Address, Ack),
    /// Messages before this number have been received, this one is refused.
    Refused(Address, u32, Refusal),
    /// A one-sided request to the receiver of this record was wrong.
    Error(Address, Fault),
    /// Asks for an atomic operation that the bus does not have.
    Atomic(Address, AtomicCall),
    /// The former value, or why the operation was not done.
    AtomicDone(Address, Result<u64, Fault>),
    /// Asks to use this key.
    Expose(u32),
    /// The answer to [`Expose`](Record::Expose).
    Granted(u32, Answer),
    /// A key that was granted is no longer valid.
    Revoke(u32),
    /// The sender closes the lane in order: nothing more comes.
    Bye,
}

/// A record that the short way receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usual {
    /// A message in one piece.
    Message,
    /// An [`Ack`](Record::Ack).
    Ack,
}

/// The peer has sent something that no peer may send, so its lane has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

const READY: u8 = 1;
const GONE: u8 = 2;
const MESSAGE: u8 = 3;
const ACK: u8 = 4;
const REFUSED: u8 = 5;
const ERROR: u8 = 6;
const EXPOSE: u8 = 7;
const GRANTED: u8 = 8;
const REVOKE: u8 = 9;
const BYE: u8 = 10;
const DATAGRAM: u8 = 11;
const ATOMIC: u8 = 12;
const ATOMIC_DONE: u8 = 13;

const WANTS_ANSWER: u8 = 1;
const IS_SHARED: u8 = 2;

/// A flag beside the marks of a message: `second` holds an [`Ack`].
const HAS_ACK: u8 = 1 << 7;

impl Record {
    /// The header of a message.
    #[inline(always)]
    pub(crate) fn encode_message(address: &Address, piece: &Piece) -> [u8; HEADER_BYTES] {
        let ack = piece.ack.unwrap_or_default();
        let header = Header {
            kind: MESSAGE,
            flags: piece.marks.bits() | (u8::from(piece.ack.is_some()) * HAS_ACK),
            detail: 0,
            payload: piece.payload.to_le(),
            destination: address.destination.to_le(),
            source: address.source.to_le(),
            generation: address.generation.to_le(),
            number: piece.number.to_le(),
            total: piece.total.to_le(),
            value: piece.immediate.to_le(),
            first: u64::from(piece.srq).to_le(),
            second: (u64::from(ack.limit) << 32 | u64::from(ack.taken)).to_le(),
        };
        zerocopy::transmute!(header)
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        if let Record::Message(address, piece) = self {
            return Record::encode_message(address, piece);
        }
        let mut header = Header::new_zeroed();
        let address = match self {
            Record::Ready(address, _)
            | Record::Gone(address, _)
            | Record::Ack(address, _)
            | Record::Refused(address, ..)
            | Record::Error(address, _)
            | Record::Atomic(address, _)
            | Record::AtomicDone(address, _) => Some(address),
            Record::Message(..)
            | Record::Datagram(_)
            | Record::Expose(_)
            | Record::Granted(..)
            | Record::Revoke(_)
            | Record::Bye => None,
        };
        if let Some(address) = address {
            header.destination = address.destination.to_le();
            header.source = address.source.to_le();
            header.generation = address.generation.to_le();
        }
        match *self {
            Record::Ready(_, ready) => {
                header.kind = READY;
                header.flags = u8::from(ready.wants_answer) * WANTS_ANSWER;
                header.flags |= u8::from(ready.is_shared) * IS_SHARED;
                header.number = ready.generation.to_le();
                header.value = ready.limit.to_le();
                header.total = ready.access.bits().to_le();
                header.detail = u16::from_le_bytes([ready.rnr_timer, ready.reads]).to_le();
            }
            Record::Gone(_, generation) => {
                header.kind = GONE;
                header.number = generation.to_le();
            }
            Record::Message(..) => {}
            Record::Ack(_, ack) => {
                header.kind = ACK;
                header.number = ack.taken.to_le();
                header.value = ack.limit.to_le();
            }
            Record::Refused(_, number, refusal) => {
                header.kind = REFUSED;
                header.number = number.to_le();
                header.detail = (refusal as u16).to_le();
            }
            Record::Error(_, fault) => {
                header.kind = ERROR;
                header.detail = (fault as u16).to_le();
            }
            Record::Expose(key) => {
                header.kind = EXPOSE;
                header.value = key.to_le();
            }
            Record::Granted(key, answer) => {
                header.kind = GRANTED;
                header.value = key.to_le();
                match answer {
                    Answer::Given(grant) => {
                        header.total = grant.access.bits().to_le();
                        header.destination = grant.qp.to_le();
                        header.first = grant.start.to_le();
                        header.second = grant.length.to_le();
                        header.number = (grant.window as u32).to_le();
                        header.source = ((grant.window >> 32) as u32).to_le();
                    }
                    Answer::Denied => header.detail = 1u16.to_le(),
                    Answer::NoResources => header.detail = 2u16.to_le(),
                }
            }
            Record::Revoke(key) => {
                header.kind = REVOKE;
                header.value = key.to_le();
            }
            Record::Bye => header.kind = BYE,
            Record::Datagram(piece) => encode_datagram(&piece, &mut header),
            Record::Atomic(_, call) => {
                header.kind = ATOMIC;
                header.value = call.key.to_le();
                header.number = (call.address as u32).to_le();
                header.total = ((call.address >> 32) as u32).to_le();
                let (flags, first, second) = match call.operation {
                    Atomic::CompareSwap(compare, swap) => (0, compare, swap),
                    Atomic::FetchAdd(add) => (1, add, 0),
                };
                header.flags = flags;
                (header.first, header.second) = (first.to_le(), second.to_le());
            }
            Record::AtomicDone(_, result) => {
                header.kind = ATOMIC_DONE;
                match result {
                    Ok(before) => header.first = before.to_le(),
                    Err(fault) => header.detail = (fault as u16 + 1).to_le(),
                }
            }
        }
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(header.as_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`Broken`]: the header makes no sense.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Record, Broken> {
        let header = Header::read_from_bytes(bytes).map_err(|_| Broken)?;
        let address = header.address();
        let (number, value) = (u32::from_le(header.number), u32::from_le(header.value));
        let (total, detail) = (u32::from_le(header.total), u16::from_le(header.detail));
        let payload = u32::from_le(header.payload);
        if !matches!(header.kind, MESSAGE | DATAGRAM) && payload != 0 {
            return Err(Broken);
        }
        Ok(match header.kind {
            READY => {
                let [rnr_timer, reads] = detail.to_le_bytes();
                let ready = Ready {
                    generation: number,
                    limit: value,
                    is_shared: header.flags & IS_SHARED != 0,
                    wants_answer: header.flags & WANTS_ANSWER != 0,
                    access: Access::from_bits_truncate(total),
                    rnr_timer: rnr_timer & 31,
                    reads,
                };
                Record::Ready(address, ready)
            }
            GONE => Record::Gone(address, number),
            MESSAGE => {
                let marks = Marks::from_bits(header.flags & !HAS_ACK).ok_or(Broken)?;
                let is_written = marks.contains(Marks::WRITTEN);
                let most = if is_written { 0 } else { total };
                let one = Marks::IMMEDIATE | Marks::WRITTEN;
                let is_odd = marks.contains(Marks::INVALIDATE) && marks.intersects(one);
                if is_odd || payload > most || payload as usize > MAX_PAYLOAD {
                    return Err(Broken);
                }
                Record::Message(address, header.piece(marks))
            }
            ACK => {
                let (taken, limit) = (number, value);
                Record::Ack(address, Ack { taken, limit })
            }
            REFUSED => {
                let refusal = match detail {
                    0 => Refusal::NotReady,
                    1 => Refusal::TooLong,
                    2 => Refusal::Unusable,
                    3 => Refusal::NoQueue,
                    _ => return Err(Broken),
                };
                Record::Refused(address, number, refusal)
            }
            ERROR => match detail {
                0 => Record::Error(address, Fault::Access),
                1 => Record::Error(address, Fault::Request),
                _ => return Err(Broken),
            },
            EXPOSE => Record::Expose(value),
            GRANTED => {
                let answer = match detail {
                    0 => Answer::Given(Grant {
                        start: u64::from_le(header.first),
                        length: u64::from_le(header.second),
                        access: Access::from_bits_truncate(total),
                        qp: address.destination,
                        window: u64::from(number) | (u64::from(address.source) << 32),
                    }),
                    1 => Answer::Denied,
                    2 => Answer::NoResources,
                    _ => return Err(Broken),
                };
                Record::Granted(value, answer)
            }
            REVOKE => Record::Revoke(value),
            BYE => Record::Bye,
            DATAGRAM => Record::Datagram(decode_datagram(&header)?),
            ATOMIC => {
                let (first, second) = (u64::from_le(header.first), u64::from_le(header.second));
                let operation = match header.flags {
                    0 => Atomic::CompareSwap(first, second),
                    1 => Atomic::FetchAdd(first),
                    _ => return Err(Broken),
                };
                let call = AtomicCall {
                    operation,
                    address: u64::from(number) | u64::from(total) << 32,
                    key: value,
                };
                Record::Atomic(address, call)
            }
            ATOMIC_DONE => {
                let result = match detail {
                    0 => Ok(u64::from_le(header.first)),
                    1 => Err(Fault::Access),
                    2 => Err(Fault::Request),
                    _ => return Err(Broken),
                };
                Record::AtomicDone(address, result)
            }
            _ => return Err(Broken),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Ack, Address, Answer, AtomicCall, Broken, DatagramPiece, Fault, Grant, HEADER_BYTES,
        MAX_DATAGRAM, MAX_PAYLOAD, Marks, Piece, Ready, Record, Refusal,
    };
    use crate::address::GlobalRoute;
    use crate::types::Access;
    use crate::types::Atomic;

    #[test]
    fn what_is_written_is_read() {
        let address = Address {
            destination: 0x12_3456,
            source: 0x65_4321,
            generation: 77,
        };
        let ready = Ready {
            generation: 3,
            limit: u32::MAX,
            is_shared: true,
            wants_answer: true,
            access: Access::REMOTE,
            rnr_timer: 31,
            reads: 128,
        };
        let piece = Piece {
            marks: Marks::FIRST | Marks::IMMEDIATE,
            number: 9,
            total: 1 << 20,
            immediate: 0xdead_beef,
            srq: 0x00ff_fffe,
            ack: None,
            payload: MAX_PAYLOAD as u32,
        };
        let ack = Ack {
            taken: 0x1234_5678,
            limit: u32::MAX,
        };
        let answer = Piece {
            ack: Some(ack),
            ..piece
        };
        let grant = Grant {
            start: u64::MAX - 5,
            length: 5,
            access: Access::REMOTE_READ,
            qp: 0x12_3456,
            window: 0x1234_5678_9abc_def0,
        };
        let datagram = DatagramPiece {
            destination: 0xff_ffff,
            source: 7,
            qkey: 0x1111_1111,
            slid: 3,
            service_level: 15,
            global: Some(GlobalRoute {
                gid: *b"0123456789abcdef",
                flow_label: 0xf_fffe,
                traffic_class: 0xab,
                hop_limit: 255,
            }),
            marks: Marks::FIRST | Marks::SOLICITED,
            total: MAX_DATAGRAM,
            immediate: 5,
            payload: MAX_PAYLOAD as u32,
        };
        let swap = AtomicCall {
            operation: Atomic::CompareSwap(1 << 40, u64::MAX),
            address: 0x1234_5678_9abc_def0,
            key: 0x301,
        };
        let add = AtomicCall {
            operation: Atomic::FetchAdd(7),
            ..swap
        };
        let local = DatagramPiece {
            global: None,
            ..datagram
        };
        let records = [
            Record::Datagram(datagram),
            Record::Datagram(local),
            Record::Ready(address, ready),
            Record::Gone(address, 4),
            Record::Message(address, piece),
            Record::Message(address, answer),
            Record::Ack(address, ack),
            Record::Refused(address, 7, Refusal::NotReady),
            Record::Refused(address, 7, Refusal::TooLong),
            Record::Refused(address, 7, Refusal::Unusable),
            Record::Refused(address, 7, Refusal::NoQueue),
            Record::Error(address, Fault::Access),
            Record::Error(address, Fault::Request),
            Record::Atomic(address, swap),
            Record::Atomic(address, add),
            Record::AtomicDone(address, Ok(u64::MAX)),
            Record::AtomicDone(address, Err(Fault::Access)),
            Record::AtomicDone(address, Err(Fault::Request)),
            Record::Expose(8),
            Record::Granted(9, Answer::Given(grant)),
            Record::Granted(9, Answer::Denied),
            Record::Granted(9, Answer::NoResources),
            Record::Revoke(10),
            Record::Bye,
        ];
        for record in records {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
        assert_eq!(HEADER_BYTES, 48);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = Record::Bye.encode();
        for (offset, value) in [(0, 0), (0, 14), (0, 255), (4, 1)] {
            let mut bytes = good;
            bytes[offset] = value;
            assert_eq!(Record::decode(&bytes), Err(Broken), "{offset} {value}");
        }
        let message = |marks: u8, total: u32, payload: u32| {
            let mut bytes = [0; HEADER_BYTES];
            (bytes[0], bytes[1]) = (3, marks);
            bytes[4..8].copy_from_slice(&payload.to_le_bytes());
            bytes[24..28].copy_from_slice(&total.to_le_bytes());
            Record::decode(&bytes).is_ok()
        };
        let most = MAX_PAYLOAD as u32;
        assert!(message(3, most, most));
        assert!(!message(3, most - 1, most));
        assert!(!message(3, most + 1, most + 1));
        assert!(message(32 | 3, 10, 10));
        let datagram = |marks: u8, total: u32, payload: u32| {
            let mut bytes = [0; HEADER_BYTES];
            (bytes[0], bytes[1]) = (11, marks);
            bytes[4..8].copy_from_slice(&payload.to_le_bytes());
            bytes[24..28].copy_from_slice(&total.to_le_bytes());
            Record::decode(&bytes).is_ok()
        };
        assert!(datagram(3, most, most) && datagram(1 | 32, MAX_DATAGRAM, most));
        assert!(!datagram(3, most, most - 1) && !datagram(1, most - 1, most));
        assert!(!datagram(1, MAX_DATAGRAM + 1, most) && !datagram(1, most + 1, most + 1));
        assert!(!datagram(16 | 3, 0, 0) && !datagram(64, 1, 1));
        assert!(!message(16 | 3, 10, 1) && message(16 | 3, 10, 0));
        assert!(!message(64 | 16 | 3, 1, 0) && !message(64 | 8 | 3, 1, 1) && message(64 | 3, 1, 1));
    }
}
