//! Sends in the queue, from posting to completion.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::address::AddressVector;
use crate::types::{Opcode, SendFlags, WcStatus};
use crate::work::{Segment, SendRequest, ShortData, ShortSend};

/// Most inline bytes that a short send keeps in a box that is used again.
pub(super) const INLINE_KEPT: usize = 64;
/// That box. An entry of the queue that held the bytes itself would take a call to fill and to
/// move.
pub(super) type InlineBytes = Box<[u8; INLINE_KEPT]>;

/// How far a send has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not been executed, or only in part.
    Waiting,
    /// It was sent as the message of this number, and is not acknowledged yet.
    Sent(u32),
    /// It has ended with this status, and completes once all before it have.
    Done(WcStatus),
}

/// A send in the queue.
#[derive(Debug)]
pub(super) struct Send {
    pub ended: Ended,
    pub way: Way,
    pub kept: Kept,
}

/// The parts of a send that its completion needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub id: u64,
    pub opcode: Opcode,
    pub flags: SendFlags,
    /// Fits 32 bits, because no message is longer than `MAX_MESSAGE`.
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

    /// Of a short send of `bytes` bytes.
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

/// How far a send has come, and what has happened to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub stage: Stage,
    /// The peer may have seen some of it.
    pub has_begun: bool,
    /// The data of a write with immediate data has been written.
    pub is_written: bool,
    /// How often the peer's window was missing.
    pub misses: u8,
    /// The peer was asked to do this atomic operation.
    pub is_asked: bool,
    /// Bytes of the message that were sent.
    pub moved: u64,
    /// Bytes that were copied to or from the peer's memory. Fits 32 bits, because no message is
    /// longer than `MAX_MESSAGE`.
    pub copied: u32,
}

impl Default for Way {
    /// Nothing has been done.
    #[inline]
    fn default() -> Way {
        Way {
            stage: Stage::Waiting,
            has_begun: false,
            is_written: false,
            misses: 0,
            is_asked: false,
            moved: 0,
            copied: 0,
        }
    }
}

/// The part of a request that is needed until it ends, beside what its completion needs.
#[derive(Debug)]
pub(super) enum Kept {
    /// All of it.
    Whole(Box<Whole>),
    /// The segment of a message that takes the short way.
    Segment(Segment),
    /// The number of inline bytes of such a message, and the bytes.
    Inline(u8, InlineBytes),
    /// Nothing, because the request has ended.
    Nothing,
}

/// A request, and the destination if it is a datagram.
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
    /// Whether it owns no memory.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        matches!(self, Kept::Segment(_) | Kept::Nothing)
    }

    /// What to keep of a message that takes the short way. `spare`: boxes for inline bytes.
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
    /// The whole request, which only one that takes the long way has.
    pub fn whole(&self) -> Option<&Whole> {
        match &self.kept {
            Kept::Whole(whole) => Some(whole),
            Kept::Segment(_) | Kept::Inline(..) | Kept::Nothing => None,
        }
    }

    /// The data of a message that takes the short way.
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

    /// Makes a message that was to take the short way take the long way.
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
