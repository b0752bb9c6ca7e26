//! The sender of a long message.

use alloc::vec::Vec;

use super::{SEGMENT_BYTES, VERSION, flag, kind, reason};
use crate::mad::{MAD_BYTES, Mad, RMPP_HEADER_BYTES, RmppHeader, class};

/// The effect of an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// Nothing: it is an old one.
    Nothing,
    /// It acknowledges more segments.
    Progress,
    /// It only opens the window, which shows that nothing more has arrived.
    Opened,
    /// All segments are acknowledged.
    All,
    /// It is wrong, for this [`reason`], and the message ends.
    Wrong(u8),
}

/// A message that is sent in segments.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// All headers, then the data.
    message: Vec<u8>,
    header_bytes: usize,
    /// The number of segments, at least 1.
    segments: u32,
    /// `acknowledged` <= `sent` <= `segments`; `sent` may be beyond `window` after a segment was
    /// sent again.
    acknowledged: u32,
    sent: u32,
    /// The last segment that may be sent.
    window: u32,
}

impl Outgoing {
    /// A message with all its headers, whose class has RMPP. Its length is at least that of the
    /// class's headers and at most [`MAX_MESSAGE`](super::MAX_MESSAGE).
    pub fn new(message: Vec<u8>) -> Outgoing {
        let header_bytes = class::header_bytes(message.get(1).copied().unwrap_or(0));
        let room = MAD_BYTES - header_bytes;
        let data = message.len().saturating_sub(header_bytes);
        Outgoing {
            message,
            header_bytes,
            segments: data.div_ceil(room).max(1) as u32,
            acknowledged: 0,
            sent: 0,
            window: 1,
        }
    }

    /// The first segment, with its headers.
    pub fn first(&self) -> Mad {
        self.segment(1)
    }

    /// The number of segments.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// The segment with this number, from 1.
    fn segment(&self, number: u32) -> Mad {
        let (headers, data) = self
            .message
            .split_at(self.header_bytes.min(self.message.len()));
        let room = MAD_BYTES - self.header_bytes;
        let start = (number as usize - 1) * room;
        let piece = data.get(start..).unwrap_or_default();
        let piece = &piece[..piece.len().min(room)];
        let mut mad = Mad::padded(headers);
        mad.bytes_mut()[self.header_bytes..][..piece.len()].copy_from_slice(piece);
        let of_class = (self.header_bytes - RMPP_HEADER_BYTES) as u32;
        let (is_first, is_last) = (number == 1, number == self.segments);
        // The last segment has its own length, the first one that of all segments.
        let length = match (is_first, is_last) {
            (_, true) => of_class + piece.len() as u32,
            (true, false) => self.segments * of_class + data.len() as u32,
            (false, false) => 0,
        };
        let flags = [(is_first, flag::FIRST), (is_last, flag::LAST)];
        let flags = flags.map(|(is, flag)| if is { flag } else { 0 });
        let given = mad.rmpp().flags & !flag::ALL;
        mad.set_rmpp(RmppHeader {
            version: VERSION,
            kind: kind::DATA,
            flags: given | flag::ACTIVE | flags[0] | flags[1],
            status: 0,
            segment: number.into(),
            length: length.into(),
        });
        mad
    }

    /// The next segment, if the window has room for one.
    pub fn next_segment(&mut self) -> Option<Mad> {
        if self.sent >= self.segments.min(self.window) {
            return None;
        }
        self.sent += 1;
        Some(self.segment(self.sent))
    }

    /// Begins again behind the last acknowledged segment, because nothing has come. Returns the
    /// first segment to send again, even if the window has no room for it.
    pub fn again(&mut self) -> Option<Mad> {
        if self.is_complete() {
            return None;
        }
        self.sent = self.acknowledged + 1;
        Some(self.segment(self.sent))
    }

    /// Whether all segments were acknowledged.
    pub fn is_complete(&self) -> bool {
        self.acknowledged == self.segments
    }

    /// Handles an ACK: all segments up to `segment` have arrived, and those up to `window` may be
    /// sent.
    pub fn acknowledge(&mut self, segment: u32, window: u32) -> Acknowledged {
        if window < segment {
            return Acknowledged::Wrong(reason::WINDOW_TOO_SMALL);
        }
        if self.is_complete() {
            return Acknowledged::Nothing;
        }
        if segment > self.segments || segment > self.window {
            return Acknowledged::Wrong(reason::SEGMENT_TOO_BIG);
        }
        if window < self.window || segment < self.acknowledged {
            return Acknowledged::Nothing;
        }
        let has_arrived = segment > self.acknowledged;
        let has_opened = window > self.window;
        self.acknowledged = segment;
        self.sent = self.sent.max(segment);
        self.window = window;
        match (has_arrived, has_opened) {
            _ if self.is_complete() => Acknowledged::All,
            (true, _) => Acknowledged::Progress,
            (false, true) => Acknowledged::Opened,
            (false, false) => Acknowledged::Nothing,
        }
    }
}

const _: () = assert!(SEGMENT_BYTES as usize == MAD_BYTES - RMPP_HEADER_BYTES);

#[cfg(test)]
mod tests {
    use super::{Acknowledged, Outgoing};
    use crate::rmpp::reason;
    use alloc::vec::Vec;

    /// A message of class `class` with `data` bytes of data.
    fn message(class: u8, header: usize, data: usize) -> Vec<u8> {
        let mut message = Vec::from([1, class, 1, 0x92]);
        message.resize(header, 0);
        message.extend((0..data).map(|at| at as u8));
        message
    }

    #[test]
    fn lengths_are_what_linux_writes() {
        // Data, segments, length in the first one, in the last one.
        for (data, segments, first, last) in [
            (0, 1, 20, 20),
            (1, 1, 21, 21),
            (200, 1, 220, 220),
            (201, 2, 241, 21),
            (400, 2, 440, 220),
            (1000, 5, 1100, 220),
        ] {
            let outgoing = Outgoing::new(message(3, 56, data));
            assert_eq!(outgoing.segments(), segments, "{data}");
            assert_eq!(outgoing.segment(1).rmpp().length.get(), first, "{data}");
            assert_eq!(outgoing.segment(segments).rmpp().length.get(), last);
        }
        let vendor = Outgoing::new(message(0x30, 40, 217));
        assert_eq!(vendor.segment(1).rmpp().length.get(), 225);
        assert_eq!(vendor.segment(2).rmpp().length.get(), 5);
    }

    #[test]
    fn flags_mark_the_ends_and_the_class_header_is_repeated() {
        let mut bytes = message(3, 56, 401);
        bytes[55] = 77;
        let outgoing = Outgoing::new(bytes);
        let flags: Vec<u8> = (1..=3).map(|n| outgoing.segment(n).rmpp().flags).collect();
        assert_eq!(flags, [3, 1, 5]);
        for number in 1..=3 {
            let mad = outgoing.segment(number);
            assert_eq!(mad.bytes()[55], 77);
            assert_eq!(mad.bytes()[56], (200 * (number - 1)) as u8);
        }
    }

    #[test]
    fn the_window_bounds_what_is_sent() {
        let mut outgoing = Outgoing::new(message(3, 56, 200 * 100));
        assert!(outgoing.next_segment().is_some() && outgoing.next_segment().is_none());
        assert_eq!(outgoing.acknowledge(1, 65), Acknowledged::Progress);
        assert_eq!(core::iter::from_fn(|| outgoing.next_segment()).count(), 64);
        assert_eq!(outgoing.acknowledge(1, 65), Acknowledged::Nothing);
        assert_eq!(outgoing.acknowledge(1, 66), Acknowledged::Opened);
        assert!(outgoing.next_segment().is_some());
        assert_eq!(outgoing.acknowledge(65, 129), Acknowledged::Progress);
        assert_eq!(outgoing.acknowledge(1, 65), Acknowledged::Nothing);
        assert_eq!(core::iter::from_fn(|| outgoing.next_segment()).count(), 34);
        assert_eq!(outgoing.acknowledge(100, 129), Acknowledged::All);
        assert!(outgoing.again().is_none());
    }

    #[test]
    fn nothing_acknowledged_begins_again() {
        let mut outgoing = Outgoing::new(message(3, 56, 200 * 10));
        assert!(outgoing.next_segment().is_some());
        assert_eq!(outgoing.acknowledge(1, 5), Acknowledged::Progress);
        assert_eq!(core::iter::from_fn(|| outgoing.next_segment()).count(), 4);
        assert_eq!(outgoing.acknowledge(3, 5), Acknowledged::Progress);
        let again = outgoing.again().unwrap();
        assert_eq!(again.rmpp().segment.get(), 4);
        assert_eq!(core::iter::from_fn(|| outgoing.next_segment()).count(), 1);
        // A window that the receiver does not open is tried beyond.
        assert_eq!(outgoing.acknowledge(5, 5), Acknowledged::Progress);
        assert!(outgoing.next_segment().is_none());
        assert_eq!(outgoing.again().unwrap().rmpp().segment.get(), 6);
        assert!(outgoing.next_segment().is_none());
    }

    #[test]
    fn wrong_acks_end_the_message() {
        let mut outgoing = Outgoing::new(message(3, 56, 200 * 10));
        outgoing.next_segment();
        let wrong = Acknowledged::Wrong;
        assert_eq!(outgoing.acknowledge(1, 0), wrong(reason::WINDOW_TOO_SMALL));
        assert_eq!(outgoing.acknowledge(2, 9), wrong(reason::SEGMENT_TOO_BIG));
        assert_eq!(outgoing.acknowledge(11, 65), wrong(reason::SEGMENT_TOO_BIG));
    }
}
