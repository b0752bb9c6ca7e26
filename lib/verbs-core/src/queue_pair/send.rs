//! Sends in the queue, from the time they are posted to their completion.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::address::AddressVector;
use crate::types::{Opcode, SendFlags, WcStatus};
use crate::work::{Segment, SendRequest, ShortData, ShortSend};

/// Inline bytes that a short send keeps in memory that is used again.
pub(super) const INLINE_KEPT: usize = 64;
/// That memory. A place of the queue with the bytes themselves would take a call to fill and move.
pub(super) type InlineBytes = Box<[u8; INLINE_KEPT]>;

/// How far a send has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not all of it was handed over.
    Waiting,
    /// It was handed over as the message of this number, which is not acknowledged.
    Sent(u32),
    /// It is over, and completes when all before it have.
    Done(WcStatus),
}

/// A send in the queue.
#[derive(Debug)]
pub(super) struct Send {
    pub ended: Ended,
    pub way: Way,
    pub kept: Kept,
}

/// What there is to say of a send that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub id: u64,
    pub opcode: Opcode,
    pub flags: SendFlags,
    /// Fewer than two to the power of 32, as of every message.
    pub bytes: u32,
}

impl Ended {
    #[inline]
    pub fn of(request: &SendRequest) -> Ended {
        Ended {
            id: request.id,
            opcode: request.opcode,
            flags: request.flags,
            bytes: request.data.len() as u32,
        }
    }

    /// Of a short send of this number of bytes.
    #[inline]
    pub fn of_short(send: &ShortSend<'_>, bytes: usize) -> Ended {
        Ended {
            id: send.id,
            opcode: send.opcode,
            flags: send.flags,
            bytes: bytes as u32,
        }
    }
}

/// How far a send has come, and what has happened on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub stage: Stage,
    /// The peer may have seen some of it.
    pub has_begun: bool,
    /// The data of a write with immediate data is there.
    pub is_written: bool,
    /// How often the peer's window was not there.
    pub misses: u8,
    /// The peer was asked to do this atomic operation.
    pub is_asked: bool,
    /// Bytes of the message that were handed over.
    pub moved: u64,
}

impl Default for Way {
    /// Nothing has happened.
    #[inline]
    fn default() -> Way {
        Way {
            stage: Stage::Waiting,
            has_begun: false,
            is_written: false,
            misses: 0,
            is_asked: false,
            moved: 0,
        }
    }
}

/// What is needed of a request, beside what its completion says, until it is over.
#[derive(Debug)]
pub(super) enum Kept {
    /// All of it.
    Whole(Box<Whole>),
    /// The segment of a message by the short way.
    Segment(Segment),
    /// The bytes of such a message, and how many.
    Inline(u8, InlineBytes),
    /// Nothing: it is over.
    Nothing,
}

/// A request, and where a datagram goes.
#[derive(Debug)]
pub(super) struct Whole {
    pub request: SendRequest,
    pub to: AddressVector,
}

impl Whole {
    #[cold]
    fn of_short(send: &ShortSend<'_>) -> Box<Whole> {
        Box::new(Whole {
            request: send.to_request(),
            to: AddressVector::default(),
        })
    }
}

impl Kept {
    /// Whether it is without memory of its own.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        matches!(self, Kept::Segment(_) | Kept::Nothing)
    }

    /// Of a message by the short way. `spare`: memory for inline bytes.
    #[inline(always)]
    pub fn of_short(send: &ShortSend<'_>, spare: &mut Vec<InlineBytes>) -> Kept {
        match send.data {
            ShortData::Segment(segment) => Kept::Segment(segment),
            ShortData::Inline(_) => Kept::of_inline(send, spare),
        }
    }

    #[inline(never)]
    fn of_inline(send: &ShortSend<'_>, spare: &mut Vec<InlineBytes>) -> Kept {
        match send.data {
            ShortData::Segment(segment) => Kept::Segment(segment),
            ShortData::Inline(bytes) if bytes.len() <= INLINE_KEPT => {
                let mut kept = spare.pop().unwrap_or_else(|| Box::new([0; INLINE_KEPT]));
                if let Some(to) = kept.get_mut(..bytes.len()) {
                    to.copy_from_slice(bytes);
                }
                Kept::Inline(bytes.len() as u8, kept)
            }
            ShortData::Inline(_) => Kept::Whole(Whole::of_short(send)),
        }
    }
}

impl Send {
    /// All of the request, which has one since it waits, or began by the long way.
    pub fn whole(&self) -> Option<&Whole> {
        match &self.kept {
            Kept::Whole(whole) => Some(whole),
            Kept::Segment(_) | Kept::Inline(..) | Kept::Nothing => None,
        }
    }

    /// The data of a short message.
    pub fn short(&self) -> Option<ShortData<'_>> {
        match &self.kept {
            Kept::Segment(segment) => Some(ShortData::Segment(*segment)),
            Kept::Inline(bytes, kept) => {
                let bytes = kept.get(..usize::from(*bytes));
                Some(ShortData::Inline(bytes.unwrap_or_default()))
            }
            Kept::Whole(_) | Kept::Nothing => None,
        }
    }

    /// Has a short message go the long way.
    pub fn lengthen(&mut self) {
        let Some(data) = self.short() else {
            return;
        };
        let send = ShortSend {
            id: self.ended.id,
            opcode: self.ended.opcode,
            flags: self.ended.flags,
            data,
            remote: Default::default(),
        };
        self.kept = Kept::Whole(Whole::of_short(&send));
    }
}
