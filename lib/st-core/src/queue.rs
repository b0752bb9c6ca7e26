//! The Schedule Header queues of a connection: slots of one cache line, credits, sleeping and
//! waking.
//!
//! # Memory
//! Each end has a *queue window* that only its peer writes to, so that each end polls its own
//! memory and never reads across the bus:
//!
//! ```text
//! line 0 …     one line per channel:  taken  how many slots of ours the peer has taken
//!                                     armed  1: the peer sleeps until we send
//!                                     room   1: the peer sleeps until we take
//! then         the slots of channel 0, those of channel 1, …
//! ```
//!
//! # A slot
//! A slot is one cache line: 56 bytes of body, then its kind and a sequence number, which are one
//! double word that is stored last.
//! The number is the slot's turn (1 in the first round, 2 in the next), so a receiver loads one
//! line to see that a slot is filled and to have what is in it. A descriptor that is longer than a
//! body takes two slots; the second one is filled first.
//!
//! # Credits
//! A sender stops when as many slots are filled as there are, less those whose return it has seen
//! in `taken`. A receiver stores `taken` after a quarter of the slots, or at once when the sender
//! sleeps for room. As it so keeps slots back, there are a quarter more than the ends have agreed
//! on: a sender never stops before the agreed number waits for the receiver. Two programs that
//! each fill the other's queue and pull then would otherwise wait for each other.
//!
//! # Sleeping and waking
//! An end that wants to sleep *arms*: it stores 1 into a word of the peer's window and then looks
//! at its own memory once more. The peer looks at that word after it has sent or taken something,
//! swaps it to 0 and then has to wake the sleeper. A full fence lies between store and look on both
//! sides, so one of the two sees the other's store. Waking is the caller's work ([`Sent::wake`]).

mod layout;

use crate::header::PAYLOAD_BYTES;
use layout::{Lane, Slot};

pub use crate::descriptor::{BODY_BYTES, Descriptor, Kind, MAX_DESCRIPTOR};
pub use layout::{LINE, Layout, MAX_CHANNELS, MAX_SLOTS, MIN_SLOTS};

/// Offsets in the line of a channel.
const TAKEN: usize = 0;
const ARMED: usize = 8;
const ROOM: usize = 12;

/// The memory of one end: its own queue window and the peer's.
///
/// # Ordering
/// Loads are acquire loads and stores release stores: an end that sees a word sees everything
/// stored before it. On a bus with posted writes that takes a write barrier in front of a store.
pub trait QueueMemory {
    /// The reason why the peer's window cannot be reached.
    type Error;

    /// Loads a word of the own window (acquire).
    fn load(&self, offset: usize) -> u32;

    /// Loads a double word of the own window (acquire).
    fn load_long(&self, offset: usize) -> u64;

    /// Stores 0 into a word of the own window, atomically; what was there before.
    fn clear(&mut self, offset: usize) -> u32;

    /// Copies a slot's body, or the beginning of one, out of the own window.
    fn read(&self, offset: usize, body: &mut [u8]);

    /// Stores a word of the peer's window (release).
    ///
    /// # Errors
    /// It cannot be reached.
    fn store_peer(&mut self, offset: usize, value: u32) -> Result<(), Self::Error>;

    /// Stores a double word of the peer's window (release).
    ///
    /// # Errors
    /// It cannot be reached.
    fn store_peer_long(&mut self, offset: usize, value: u64) -> Result<(), Self::Error>;

    /// Copies a body, or the beginning of one, into a slot of the peer's window.
    ///
    /// # Errors
    /// It cannot be reached.
    fn write_peer(&mut self, offset: usize, body: &[u8]) -> Result<(), Self::Error>;

    /// Returns when an earlier store to this word of the peer's window has arrived; nothing to do
    /// where memory is shared.
    ///
    /// # Errors
    /// It cannot be reached.
    fn flush_peer(&mut self, offset: usize) -> Result<(), Self::Error>;

    /// A full fence: no load behind it is done before the stores in front of it are visible.
    fn fence(&self);
}

/// Why a queue was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueError<E> {
    /// The peer has stored what cannot be: a credit for what was not sent, a descriptor of an
    /// unknown kind. The connection is to be ended.
    Broken,
    /// The peer's window cannot be reached.
    Memory(E),
}

impl<E> From<E> for QueueError<E> {
    fn from(error: E) -> QueueError<E> {
        QueueError::Memory(error)
    }
}

/// The outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The peer sleeps until something is sent: wake it.
    pub wake: bool,
}

/// The sending end of a channel.
#[derive(Clone, Debug)]
pub struct Sender {
    /// In the peer's window; the words are at the same place in the own one.
    lane: Lane,
    /// Slots filled since the connection began.
    pushed: u64,
    /// Slots that the peer had taken when we last looked.
    taken: u64,
    /// The slot with the number `pushed`.
    next: Slot,
}

impl Sender {
    /// The sending end of a channel of a new connection; `layout` is that of the peer's window.
    pub const fn new(layout: Layout, channel: u32) -> Sender {
        let lane = layout.lane(channel);
        Sender {
            lane,
            pushed: 0,
            taken: 0,
            next: lane.first(),
        }
    }

    /// Slots that can be filled now.
    ///
    /// # Errors
    /// `Broken`.
    pub fn room<M: QueueMemory>(&mut self, mem: &M) -> Result<u64, QueueError<M::Error>> {
        let taken = mem.load_long(self.lane.word(TAKEN));
        // The peer takes what was sent and has not been taken, and gives none of it back.
        if taken < self.taken || taken > self.pushed {
            return Err(QueueError::Broken);
        }
        self.taken = taken;
        Ok(self.free())
    }

    /// Slots that could be filled when we last looked.
    #[inline]
    pub const fn free(&self) -> u64 {
        // The peer has never taken more than was sent, as was checked.
        let filled = self.pushed.wrapping_sub(self.taken);
        self.lane.places.saturating_sub(filled)
    }

    /// Sends a descriptor; `None`: there is no room.
    ///
    /// # Errors
    /// All of [`QueueError`].
    pub fn send<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        descriptor: &Descriptor,
    ) -> Result<Option<Sent>, QueueError<M::Error>> {
        let slots = descriptor.kind.slots();
        if self.free() < slots && self.room(mem)? < slots {
            return Ok(None);
        }
        // The last slot first: a receiver that sees the first one finds the others filled.
        for slot in (0..slots).rev() {
            let from = slot as usize * BODY_BYTES;
            let bytes = descriptor.bytes();
            let body = &bytes[from..bytes.len().min(from + BODY_BYTES)];
            let place = self.lane.behind(self.next, slot);
            fill(mem, place, descriptor.kind, body)?;
        }
        let next = self.lane.behind(self.next, slots);
        Ok(Some(self.sent(mem, slots, next)))
    }

    /// As [`send`](Sender::send), a header of level 1: the shortest way.
    ///
    /// # Errors
    /// All of [`QueueError`].
    #[inline(always)]
    pub fn send_message<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        message: &[u8; PAYLOAD_BYTES],
    ) -> Result<Option<Sent>, QueueError<M::Error>> {
        if self.free() == 0 && self.room(mem)? == 0 {
            return Ok(None);
        }
        fill(mem, self.next, Kind::Message, message)?;
        let next = self.lane.after(self.next);
        Ok(Some(self.sent(mem, 1, next)))
    }

    /// Sends headers of level 1, in order, as long as there is room and another one; how many. The
    /// peer's wish is looked at once, behind the last one: it can take the first before, but is
    /// woken for all of them.
    ///
    /// # Errors
    /// All of [`QueueError`].
    #[inline]
    pub fn send_messages<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        messages: &mut impl Iterator<Item = [u8; PAYLOAD_BYTES]>,
    ) -> Result<(u64, Sent), QueueError<M::Error>> {
        let first = self.pushed;
        loop {
            let room = match self.free() {
                0 => self.room(mem)?,
                free => free,
            };
            // Counted and placed apart from `self`, which each header would have to be stored in.
            let (mut next, mut filled) = (self.next, 0);
            let mut outcome = Ok(());
            // Asked only for what has a place.
            for message in messages.by_ref().take(room as usize) {
                outcome = fill(mem, next, Kind::Message, &message);
                if outcome.is_err() {
                    break;
                }
                next = self.lane.after(next);
                filled += 1;
            }
            self.next = next;
            self.pushed = self.pushed.wrapping_add(filled);
            outcome?;
            if filled < room || room == 0 {
                break;
            }
        }
        let count = self.pushed.wrapping_sub(first);
        let wake = count > 0 && take_wish(mem, self.lane.word(ARMED));
        Ok((count, Sent { wake }))
    }

    /// Notes that slots were filled, before the slot `next`.
    #[inline]
    fn sent<M: QueueMemory>(&mut self, mem: &mut M, slots: u64, next: Slot) -> Sent {
        self.pushed = self.pushed.wrapping_add(slots);
        self.next = next;
        let wake = take_wish(mem, self.lane.word(ARMED));
        Sent { wake }
    }

    /// Asks the peer to wake us when it takes something, and looks once more; the slots that can be
    /// filled. If these are too few, it is safe to sleep until woken.
    ///
    /// # Errors
    /// All of [`QueueError`].
    pub fn arm<M: QueueMemory>(&mut self, mem: &mut M) -> Result<u64, QueueError<M::Error>> {
        arm(mem, self.lane.word(ROOM))?;
        self.room(mem)
    }

    /// Slots that were filled since the connection began.
    pub const fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Slots that the peer is known to have taken: those of descriptors before this count have
    /// reached its program.
    pub const fn taken(&self) -> u64 {
        self.taken
    }
}

/// The outcome of a receive.
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
    /// Nothing.
    Nothing,
    /// A header, which was taken.
    Message {
        /// The peer sleeps until something is taken: wake it.
        wake: bool,
    },
    /// A descriptor of level 0.
    Other,
}

/// The receiving end of a channel.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// In the own window; the words are at the same place in the peer's.
    lane: Lane,
    /// Slots taken since the connection began.
    taken: u64,
    /// Slots whose return was stored.
    given: u64,
    /// Most slots whose return is kept back, plus one: what there is beyond the agreed slots.
    quarter: u64,
    /// The slot with the number `taken`.
    next: Slot,
}

impl Receiver {
    /// The receiving end of a channel of a new connection; `layout` is that of the own window.
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

    /// The next descriptor, which stays; `None`: there is none.
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
            // The sender fills the last slot first.
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

    /// As [`receive`](Receiver::receive), a header of level 1, of which `message` gets as many
    /// bytes as it has room for: the shortest way. A descriptor of another kind stays.
    ///
    /// # Errors
    /// All of [`QueueError`].
    #[inline(always)]
    pub fn receive_message<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        message: &mut [u8],
    ) -> Result<Next, QueueError<M::Error>> {
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

    /// Takes the headers of level 1 that are there, in order and up to the first descriptor of
    /// level 0, and stores the first bytes of each; `messages` are their places. At most a quarter
    /// of the slots at a time, so that their return does not wait for the rest. How many, and
    /// whether the peer is to be woken.
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

    /// Takes the descriptor that [`peek`](Receiver::peek) has shown, of this kind; whether the peer
    /// is to be woken.
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

    /// As [`take`](Receiver::take), and returns all slots at once: for a peer that waits until
    /// something was taken, not only for room.
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

    /// Notes that slots were taken, before the slot `next`; whether the peer is to be woken.
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

    /// Returns all slots that were taken to the sender; whether it is to be woken.
    ///
    /// # Errors
    /// `Memory`.
    pub fn give_back<M: QueueMemory>(&mut self, mem: &mut M) -> Result<bool, QueueError<M::Error>> {
        mem.store_peer_long(self.lane.word(TAKEN), self.taken)?;
        self.given = self.taken;
        Ok(take_wish(mem, self.lane.word(ROOM)))
    }

    /// The offset in the own window of a word (32 bits) that changes when the next descriptor
    /// comes.
    pub fn next_word(&self) -> usize {
        // The sequence number: the upper half of the tail.
        self.next.tail() + 4
    }

    /// Before a sleep that needs no wake-up by the peer: returns all slots, so that no end waits
    /// for the other one. Whether the peer is to be woken.
    ///
    /// # Errors
    /// `Memory`.
    pub fn return_all<M: QueueMemory>(
        &mut self,
        mem: &mut M,
    ) -> Result<bool, QueueError<M::Error>> {
        Ok(self.given != self.taken && self.give_back(mem)?)
    }

    /// Asks the peer to wake us when it sends something, and looks once more. If nothing is there,
    /// it is safe to sleep until woken. All slots are returned before, so that no end waits for the
    /// other one. A wish of an earlier call cannot be relied on: the peer may have seen it beside
    /// something that was taken since, and clear it late.
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

/// The outcome of arming a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    /// A descriptor is there: do not sleep.
    pub is_ready: bool,
    /// The peer sleeps until something is taken: wake it.
    pub wake: bool,
}

/// Fills a slot of the peer's window.
#[inline]
fn fill<M: QueueMemory>(mem: &mut M, slot: Slot, kind: Kind, body: &[u8]) -> Result<(), M::Error> {
    mem.write_peer(slot.at, body)?;
    let tail = u64::from(slot.sequence) << 32 | kind as u64;
    mem.store_peer_long(slot.tail(), tail)
}

/// The word for the kind of what is in a slot of the own window, if it is filled.
#[inline]
fn filled<M: QueueMemory>(mem: &M, slot: Slot) -> Option<u32> {
    let tail = mem.load_long(slot.tail());
    ((tail >> 32) as u32 == slot.sequence).then_some(tail as u32)
}

/// Stores a wish into the peer's window, and sees to it that it is there before the next look.
fn arm<M: QueueMemory>(mem: &mut M, offset: usize) -> Result<(), M::Error> {
    mem.store_peer(offset, 1)?;
    mem.fence();
    mem.flush_peer(offset)
}

/// Whether the peer has stored a wish, which is cleared by this. To be called after the store that
/// the peer waits for.
#[inline]
fn take_wish<M: QueueMemory>(mem: &mut M, offset: usize) -> bool {
    // The store must be visible before this look: the peer stores its wish, then looks.
    mem.fence();
    mem.load(offset) != 0 && mem.clear(offset) != 0
}
