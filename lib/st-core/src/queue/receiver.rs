//! The receiving end of a channel: what is there, taking it, and giving its slots back.

use super::layout::{Lane, Layout, Slot};
use super::{
    ARMED, BODY_BYTES, Descriptor, Kind, MAX_DESCRIPTOR, QueueError, QueueMemory, ROOM, TAKEN, arm,
    filled, tail, take_wish,
};
use crate::header::PAYLOAD_BYTES;

/// The result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// The peer sleeps until something is taken: wake it.
    pub wake: bool,
}

/// The result of looking for a header of level 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is none.
    Nothing,
    /// There was a header, which was taken.
    Message {
        /// The peer sleeps until something is taken: wake it.
        wake: bool,
    },
    /// The next descriptor is one of level 0, and stays.
    Other,
}

/// The receiving end of a channel.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// In this end's window; the words are at the same offsets in the peer's.
    lane: Lane,
    /// Slots that were taken since the connection began.
    taken: u64,
    /// Slots whose return was stored in the peer's window.
    given: u64,
    /// The slots beyond the agreed ones. Slots are returned once this number was taken.
    quarter: u64,
    /// The slot that is taken next.
    next: Slot,
}

impl Receiver {
    /// The receiving end of a channel of a new connection; `layout` is that of this end's window.
    pub const fn new(layout: Layout, channel: u32) -> Receiver {
        let lane = layout.lane(channel);
        Receiver {
            lane,
            taken: 0,
            given: 0,
            quarter: if lane.slots < 4 { 1 } else { lane.slots / 4 },
            next: lane.first(),
        }
    }

    /// Whether a descriptor is there.
    #[inline]
    pub fn is_ready<M: QueueMemory>(&self, mem: &M) -> bool {
        filled(mem, self.next).is_some()
    }

    /// The next descriptor, which stays in the queue; `None`: there is none.
    ///
    /// # Errors
    /// `Broken`.
    pub fn peek<M: QueueMemory>(
        &self,
        mem: &M,
    ) -> Result<Option<Descriptor>, QueueError<M::Error>> {
        let Some(kind) = filled(mem, self.next) else {
            return Ok(None);
        };
        let kind = Kind::from_word(kind).ok_or(QueueError::Broken)?;
        let mut bytes = [0; MAX_DESCRIPTOR];
        for (slot, to) in (0..).zip(bytes[..kind.bytes()].chunks_mut(BODY_BYTES)) {
            let slot = self.lane.behind(self.next, slot);
            // The sender has filled the last slot first.
            if filled(mem, slot).is_none() {
                return Err(QueueError::Broken);
            }
            mem.read(slot.at, to);
        }
        Ok(Some(Descriptor { kind, bytes }))
    }

    /// Takes the next descriptor; `None`: there is none.
    ///
    /// # Errors
    /// All of [`QueueError`].
    pub fn receive<M: QueueMemory>(
        &mut self,
        mem: &mut M,
    ) -> Result<Option<Received>, QueueError<M::Error>> {
        let Some(descriptor) = self.peek(mem)? else {
            return Ok(None);
        };
        let wake = self.take(mem, descriptor.kind)?;
        Ok(Some(Received { descriptor, wake }))
    }

    /// [`receive`](Receiver::receive) of a header of level 1, in the fewest instructions.
    /// `message` gets as many of its bytes as it has room for. A descriptor of another kind stays
    /// in the queue.
    ///
    /// # Errors
    /// All of [`QueueError`].
    #[inline(always)]
    pub fn receive_message<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        message: &mut [u8],
    ) -> Result<Next, QueueError<M::Error>> {
        if let Some(next) = self.receive_usual(mem, message) {
            return Ok(next);
        }
        let slot = self.next;
        match filled(mem, slot).map(Kind::from_word) {
            Some(Some(Kind::Message)) => {}
            Some(Some(_)) => return Ok(Next::Other),
            Some(None) => return Err(QueueError::Broken),
            None => return Ok(Next::Nothing),
        }
        let bytes = message.len().min(PAYLOAD_BYTES);
        mem.read(slot.at, &mut message[..bytes]);
        let wake = self.took(mem, 1, self.lane.after(slot))?;
        Ok(Next::Message { wake })
    }

    /// [`receive_message`](Receiver::receive_message) in the usual cases: nothing is there, or a
    /// header is and no slot has to be given back. It changes this end's window in no way, and
    /// reads no other. `None`: another case; nothing was done.
    #[inline(always)]
    pub fn receive_usual<M: QueueMemory>(&mut self, mem: &M, message: &mut [u8]) -> Option<Next> {
        let slot = self.next;
        let found = mem.load_long(slot.tail());
        if found != tail(slot, Kind::Message) {
            return (found >> 32 != u64::from(slot.sequence)).then_some(Next::Nothing);
        }
        let taken = self.taken.wrapping_add(1);
        let kept = taken.wrapping_sub(self.given);
        if kept >= self.quarter || mem.load(self.lane.word(ROOM)) != 0 {
            return None;
        }
        let bytes = message.len().min(PAYLOAD_BYTES);
        mem.read(slot.at, &mut message[..bytes]);
        self.taken = taken;
        self.next = self.lane.after(slot);
        Some(Next::Message { wake: false })
    }

    /// Takes the headers of level 1 that have arrived, in order and up to the first descriptor of
    /// level 0, and stores the first bytes of each in a place of `messages`. Takes at most a
    /// quarter of the slots at a time, so that their return does not wait for the rest. Returns
    /// how many, and whether the peer has to be woken.
    ///
    /// # Errors
    /// All of [`QueueError`]; `Broken` only when nothing was taken before.
    #[inline]
    pub fn receive_messages<'a, M: QueueMemory>(
        &mut self,
        mem: &mut M,
        messages: impl Iterator<Item = &'a mut [u8]>,
    ) -> Result<(u64, bool), QueueError<M::Error>> {
        let mut next = self.next;
        let mut count = 0;
        for message in messages.take(self.quarter as usize) {
            match filled(mem, next).map(Kind::from_word) {
                Some(Some(Kind::Message)) => {}
                Some(None) if count == 0 => return Err(QueueError::Broken),
                _ => break,
            }
            let bytes = message.len().min(PAYLOAD_BYTES);
            mem.read(next.at, &mut message[..bytes]);
            next = self.lane.after(next);
            count += 1;
        }
        match count {
            0 => Ok((0, false)),
            count => Ok((count, self.took(mem, count, next)?)),
        }
    }

    /// Takes the descriptor, of this kind, that [`peek`](Receiver::peek) has returned. Returns
    /// whether the peer has to be woken.
    ///
    /// # Errors
    /// `Memory`.
    #[inline]
    pub fn take<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        kind: Kind,
    ) -> Result<bool, QueueError<M::Error>> {
        let next = self.lane.behind(self.next, kind.slots());
        self.took(mem, kind.slots(), next)
    }

    /// [`take`](Receiver::take) that also gives all slots back at once: for a peer that waits
    /// until something was taken, not only for room.
    ///
    /// # Errors
    /// `Memory`.
    pub fn take_and_give_back<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        kind: Kind,
    ) -> Result<bool, QueueError<M::Error>> {
        self.next = self.lane.behind(self.next, kind.slots());
        self.taken = self.taken.wrapping_add(kind.slots());
        self.give_back(mem)
    }

    /// Notes that the slots before `next` were taken. Returns whether the peer has to be woken.
    #[inline]
    fn took<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        slots: u64,
        next: Slot,
    ) -> Result<bool, QueueError<M::Error>> {
        self.taken = self.taken.wrapping_add(slots);
        self.next = next;
        let kept = self.taken.wrapping_sub(self.given);
        if kept < self.quarter && mem.load(self.lane.word(ROOM)) == 0 {
            return Ok(false);
        }
        self.give_back(mem)
    }

    /// Gives all slots that were taken back to the sender. Returns whether it has to be woken.
    ///
    /// # Errors
    /// `Memory`.
    pub fn give_back<M: QueueMemory>(&mut self, mem: &mut M) -> Result<bool, QueueError<M::Error>> {
        mem.store_peer_long(self.lane.word(TAKEN), self.taken)?;
        self.given = self.taken;
        Ok(take_wish(mem, self.lane.word(ROOM)))
    }

    /// The offset in this end's window of a word (32 bits) that changes when the next descriptor
    /// arrives.
    pub fn next_word(&self) -> usize {
        // The sequence number: the upper half of the tail.
        self.next.tail() + 4
    }

    /// Gives all slots back before a sleep that needs no wake-up by the peer, so that neither end
    /// waits for the other. Returns whether the peer has to be woken.
    ///
    /// # Errors
    /// `Memory`.
    pub fn return_all<M: QueueMemory>(
        &mut self,
        mem: &mut M,
    ) -> Result<bool, QueueError<M::Error>> {
        Ok(self.given != self.taken && self.give_back(mem)?)
    }

    /// Asks the peer to wake this end when it sends something, and looks once more. If nothing is
    /// there, it is safe to sleep until woken. All slots are given back before, so that neither
    /// end waits for the other. An earlier call cannot be relied on: the peer may have seen its
    /// request together with something that was taken since, and may clear it late.
    ///
    /// # Errors
    /// All of [`QueueError`].
    pub fn arm<M: QueueMemory>(&mut self, mem: &mut M) -> Result<Armed, QueueError<M::Error>> {
        let wake = self.return_all(mem)?;
        arm(mem, self.lane.word(ARMED))?;
        Ok(Armed {
            is_ready: self.is_ready(mem),
            wake,
        })
    }
}

/// The result of arming a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    /// A descriptor is there: do not sleep.
    pub is_ready: bool,
    /// The peer sleeps until something is taken: wake it.
    pub wake: bool,
}
