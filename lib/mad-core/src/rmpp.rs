//! RMPP: how a message that is longer than a datagram travels in segments (InfiniBand
//! specification volume 1, 13.6).
//!
//! A segment has at most 220 bytes behind the headers of datagram and RMPP. Classes use some of
//! these for a header of their own, which each segment repeats. The receiver acknowledges the
//! first segment and then the last one of each window. If nothing comes, the sender sends again
//! from the last acknowledged segment on.

mod incoming;
mod outgoing;

pub use incoming::{Incoming, Kept, SegmentOutcome, Transfer};
pub use outgoing::{Acknowledged, Outgoing};

use crate::mad::{Mad, RmppHeader, method};

/// The version of RMPP.
pub const VERSION: u8 = 1;
/// Bytes of a segment behind the headers of datagram and RMPP.
pub const SEGMENT_BYTES: u32 = 220;
/// Segments of a window.
pub const WINDOW: u32 = 64;
/// Most bytes of a message, with all headers.
pub const MAX_MESSAGE: usize = 8 << 20;
/// Most nanoseconds until a sender sends again.
pub const ACK_TIMEOUT_NS: u64 = 2_000_000_000;
/// Nanoseconds without a new segment after which a receiver gives up a message. A fixed time for
/// the whole message, as Linux has it, is too short for a long one over a wire that loses one
/// datagram in twenty.
pub const MESSAGE_TIMEOUT_NS: u64 = 40_000_000_000;
/// Nanoseconds for which a receiver still answers segments of a message that it has completely.
pub const LINGER_NS: u64 = 10_000_000_000;

/// The kinds of segments.
pub mod kind {
    /// A piece of a message.
    pub const DATA: u8 = 1;
    /// Acknowledges segments.
    pub const ACK: u8 = 2;
    /// The receiver has no room.
    pub const STOP: u8 = 3;
    /// One end gives up.
    pub const ABORT: u8 = 4;
}

/// Flags of a segment.
pub mod flag {
    /// RMPP is in use.
    pub const ACTIVE: u8 = 1;
    /// The first segment.
    pub const FIRST: u8 = 2;
    /// The last segment.
    pub const LAST: u8 = 4;
    /// All flags.
    pub const ALL: u8 = 7;
}

/// Why a message ends early.
pub mod reason {
    /// STOP: no room.
    pub const NO_RESOURCES: u8 = 1;
    /// The first value of ABORT: the whole message took too long.
    pub const TOTAL_TIME: u8 = 118;
    /// The flag LAST and the length contradict each other.
    pub const BAD_LENGTH: u8 = 119;
    /// The flag FIRST and the segment's number contradict each other.
    pub const BAD_FIRST: u8 = 120;
    /// The kind of segment is unknown.
    pub const BAD_KIND: u8 = 121;
    /// The end of the new window is before the acknowledged segment.
    pub const WINDOW_TOO_SMALL: u8 = 122;
    /// A segment was acknowledged that was not sent.
    pub const SEGMENT_TOO_BIG: u8 = 123;
    /// The status is not possible for this kind of segment.
    pub const BAD_STATUS: u8 = 124;
    /// The version is unknown.
    pub const BAD_VERSION: u8 = 125;
    /// The last value of ABORT.
    pub const LAST: u8 = 127;
}

/// Whether a datagram, of a class that has RMPP, uses it.
pub fn is_active(mad: &Mad) -> bool {
    mad.rmpp().flags & flag::ACTIVE != 0
}

/// The answer to a segment: its headers with another kind, from the other end.
fn answer(to: &Mad, header_bytes: usize, kind: u8, status: u8, segment: u32, length: u32) -> Mad {
    let mut mad = Mad::padded(&to.bytes()[..header_bytes]);
    mad.header.method ^= method::RESPONSE;
    let asked = to.rmpp();
    mad.set_rmpp(RmppHeader {
        version: VERSION,
        kind,
        flags: asked.flags & !flag::ALL | flag::ACTIVE,
        status,
        segment: segment.into(),
        length: length.into(),
    });
    mad
}

/// The answer that refuses a segment.
pub fn abort(to: &Mad, header_bytes: usize, reason: u8) -> Mad {
    let kind = match reason {
        reason::NO_RESOURCES => kind::STOP,
        _ => kind::ABORT,
    };
    answer(to, header_bytes, kind, reason, 0, 0)
}
