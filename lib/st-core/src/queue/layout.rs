//! Where the channels and slots of a queue window are.

use crate::descriptor::Kind;

/// Bytes of a cache line: of a slot, and of a channel's words.
pub const LINE: usize = 64;
/// Fewest slots of a channel.
pub const MIN_SLOTS: u32 = 8;
/// Most slots of a channel.
pub const MAX_SLOTS: u32 = 4096;
/// Most channels of a connection.
pub const MAX_CHANNELS: u32 = 64;

/// The offset of the double word behind the body of a slot: its kind, and in the upper half the
/// sequence number.
const TAIL: usize = 56;

/// The layout of a queue window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    channels: u32,
    slots: u32,
}

impl Layout {
    /// The window of an end that receives on `channels` channels of `slots` slots each; `None` if
    /// one of them is out of range or `slots` is not a power of two. Connections have at least
    /// [`MIN_SLOTS`]; the queues themselves work with as few as the longest descriptor takes.
    pub const fn new(channels: u32, slots: u32) -> Option<Layout> {
        let good = channels > 0
            && channels <= MAX_CHANNELS
            && slots.is_power_of_two()
            && slots as u64 >= Kind::HeaderWithPayload.slots()
            && slots <= MAX_SLOTS;
        if good {
            Some(Layout { channels, slots })
        } else {
            None
        }
    }

    /// Channels.
    pub const fn channels(self) -> u32 {
        self.channels
    }

    /// Slots of each channel, as the ends have agreed on them: this number can be filled, whatever
    /// the receiver has taken and not yet returned.
    pub const fn slots(self) -> u32 {
        self.slots
    }

    /// Slots that each channel really has: a quarter more than [`slots`](Self::slots), because a
    /// receiver keeps less than a quarter back.
    pub const fn places(self) -> u32 {
        self.slots + self.slots / 4
    }

    /// Bytes of the window, at most 21 MiB.
    pub const fn bytes(self) -> usize {
        (self.channels as usize) * LINE * (1 + self.places() as usize)
    }

    /// The part of the window that belongs to a channel.
    pub(super) const fn lane(self, channel: u32) -> Lane {
        let line = channel as usize;
        let (lines, places) = (self.channels as usize, self.places() as usize);
        Lane {
            words: LINE * line,
            first: LINE * (lines + line * places),
            end: LINE * (lines + (line + 1) * places),
            slots: self.slots as u64,
            places: places as u64,
        }
    }
}

/// The part of a queue window that belongs to a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// The offset of the channel's line of words.
    words: usize,
    /// The offset of the first slot.
    first: usize,
    /// The offset behind the last slot.
    end: usize,
    /// Slots that the ends have agreed on.
    pub(super) slots: u64,
    /// Slots that each channel really has.
    pub(super) places: u64,
}

/// A slot: its offset, and the sequence number that it has once it is filled. Both are kept for
/// the next slot, because every look needs them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) at: usize,
    pub(super) sequence: u32,
}

impl Lane {
    /// The offset of a word.
    #[inline]
    pub(super) const fn word(&self, word: usize) -> usize {
        // Inside the window, here and below.
        self.words.wrapping_add(word)
    }

    /// The slot that is filled first.
    #[inline]
    pub(super) const fn first(&self) -> Slot {
        Slot {
            at: self.first,
            sequence: 1,
        }
    }

    /// The slot `count` places behind another one.
    #[inline]
    pub(super) fn behind(&self, slot: Slot, count: u64) -> Slot {
        (0..count).fold(slot, |slot, _| self.after(slot))
    }

    /// The slot behind another one.
    #[inline]
    pub(super) const fn after(&self, slot: Slot) -> Slot {
        let at = slot.at.wrapping_add(LINE);
        if at != self.end {
            return Slot { at, ..slot };
        }
        Slot {
            at: self.first,
            sequence: slot.sequence.wrapping_add(1),
        }
    }
}

impl Slot {
    #[inline]
    pub(super) const fn tail(&self) -> usize {
        self.at.wrapping_add(TAIL)
    }
}
