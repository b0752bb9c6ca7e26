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
//! double word that is stored last. The number is the slot's turn (1 in the first round, 2 in the
//! next). So a receiver loads one line to see that a slot is filled and to have its contents. A
//! descriptor that is longer than a body takes two slots; the second one is filled first.
//!
//! # Credits
//! A slot counts as filled until the sender has seen its return in `taken`. A sender stops when
//! all slots are filled. A receiver stores `taken` after each quarter of the slots, or at once if
//! the sender sleeps for room. Because it keeps slots back, there are a quarter more than the ends
//! have agreed on: so a sender never stops before the agreed number waits for the receiver.
//! Otherwise two programs that each fill the other's queue and then pull would wait for each
//! other.
//!
//! # Sleeping and waking
//! An end that wants to sleep *arms*: it stores 1 into a word of the peer's window and then looks
//! at its own memory once more. After the peer has sent or taken something it looks at that word,
//! swaps it to 0 and then has to wake the sleeper. A full fence lies between store and look on
//! both sides, so one of the two sees the other's store. Waking is the caller's work
//! ([`Sent::wake`]).

mod layout;

use crate::header::PAYLOAD_BYTES;
use layout::{Lane, Slot};

pub use crate::descriptor::{BODY_BYTES, Descriptor, Kind, MAX_DESCRIPTOR};
pub use layout::{LINE, Layout, MAX_CHANNELS, MAX_SLOTS, MIN_SLOTS};

/// Offsets in the line of a channel.
const TAKEN: usize = 0;
const ARMED: usize = 8;
const ROOM: usize = 12;

/// The memory of one end: its queue window and the peer's.
///
/// # Ordering
/// Loads are acquire loads and stores release stores: an end that sees a word sees everything
/// stored before it. On a bus with posted writes that takes a write barrier in front of a store.
pub trait QueueMemory {
    /// The reason why the peer's window cannot be reached.
    type Error;

    /// Loads a word of this end's window (acquire).
    fn load(&self, offset: usize) -> u32;

    /// Loads a double word of this end's window (acquire).
    fn load_long(&self, offset: usize) -> u64;

    /// Stores 0 into a word of this end's window, atomically. Returns its former value.
    fn clear(&mut self, offset: usize) -> u32;

    /// Copies a slot's body, or the beginning of one, out of this end's window.
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

    /// Fills a slot of the peer's window: copies the beginning of its body to `offset`, then stores
    /// its tail.
    ///
    /// # Errors
    /// It cannot be reached.
    #[inline]
    fn fill_peer(
        &mut self,
        offset: usize,
        message: &[u8; PAYLOAD_BYTES],
        tail: u64,
    ) -> Result<(), Self::Error> {
        self.write_peer(offset, message)?;
        self.store_peer_long(offset.wrapping_add(BODY_BYTES), tail)
    }

    /// Returns when an earlier store to this word of the peer's window has arrived. Has nothing to
    /// do where memory is shared.
    ///
    /// # Errors
    /// It cannot be reached.
    fn flush_peer(&mut self, offset: usize) -> Result<(), Self::Error>;

    /// A full fence: no load after it is done before the stores in front of it are visible.
    fn fence(&self);
}

/// Why a queue was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueError<E> {
    /// The peer has stored something impossible: a credit for slots that were not sent, or a
    /// descriptor of an unknown kind. The connection has to end.
    Broken,
    /// The peer's window cannot be reached.
    Memory(E),
}

impl<E> From<E> for QueueError<E> {
    fn from(error: E) -> QueueError<E> {
        QueueError::Memory(error)
    }
}

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The peer sleeps until something is sent: wake it.
    pub wake: bool,
}

/// The sending end of a channel.
#[derive(Clone, Debug)]
pub struct Sender {
    /// In the peer's window; the words are at the same offsets in this end's.
    lane: Lane,
    /// Slots that were filled since the connection began.
    pushed: u64,
    /// Slots that the peer had taken at the last look.
    taken: u64,
    /// The slot that is filled next.
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

    /// The slots that can be filled now.
    ///
    /// # Errors
    /// `Broken`.
    pub fn room<M: QueueMemory>(&mut self, mem: &M) -> Result<u64, QueueError<M::Error>> {
        let taken = mem.load_long(self.lane.word(TAKEN));
        // The peer takes only what was sent, and its count never falls.
        if taken < self.taken || taken > self.pushed {
            return Err(QueueError::Broken);
        }
        self.taken = taken;
        Ok(self.free())
    }

    /// The slots that could be filled at the last look.
    #[inline]
    pub const fn free(&self) -> u64 {
        // The peer has never taken more than was sent; that was checked.
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
        // The last slot comes first: a receiver that sees the first one filled finds the others
        // filled.
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

    /// [`send`](Sender::send) of a header of level 1, in the fewest instructions.
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
        self.store_message(mem, message)?;
        mem.fence();
        let wake = self.is_awaited(mem);
        Ok(Some(Sent { wake }))
    }

    /// The first half of [`send_message`](Sender::send_message), when there is [room](Sender::free):
    /// stores the header. A full fence has to follow, and then [`is_awaited`](Sender::is_awaited).
    ///
    /// # Errors
    /// `Memory`.
    #[inline(always)]
    pub fn store_message<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        message: &[u8; PAYLOAD_BYTES],
    ) -> Result<(), M::Error> {
        mem.fill_peer(self.next.at, message, tail(self.next, Kind::Message))?;
        self.pushed = self.pushed.wrapping_add(1);
        self.next = self.lane.after(self.next);
        Ok(())
    }

    /// The second half of [`send_message`](Sender::send_message), behind a full fence: whether the
    /// peer sleeps until something is sent, and has to be woken. Clears its wish.
    #[inline(always)]
    pub fn is_awaited<M: QueueMemory>(&self, mem: &mut M) -> bool {
        clear_wish(mem, self.lane.word(ARMED))
    }

    /// Sends headers of level 1, in order, while there is room and another header. Returns how
    /// many. Whether the peer sleeps is looked up once, after the last header: it may take the
    /// first ones before that, but is woken for all of them.
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
            // Counted apart from `self`, into which each header would otherwise have to be stored.
            let (mut next, mut filled) = (self.next, 0);
            let mut outcome = Ok(());
            // The iterator is asked only for headers that have a place.
            for message in messages.by_ref().take(room as usize) {
                outcome = mem.fill_peer(next.at, &message, tail(next, Kind::Message));
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

    /// Notes that the slots before `next` were filled.
    #[inline]
    fn sent<M: QueueMemory>(&mut self, mem: &mut M, slots: u64, next: Slot) -> Sent {
        self.pushed = self.pushed.wrapping_add(slots);
        self.next = next;
        let wake = take_wish(mem, self.lane.word(ARMED));
        Sent { wake }
    }

    /// Asks the peer to wake this end when it takes something, and looks once more. Returns the
    /// slots that can be filled. If these are too few, it is safe to sleep until woken.
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

    /// Slots that the peer is known to have taken: descriptors in the slots before this count have
    /// reached its program.
    pub const fn taken(&self) -> u64 {
        self.taken
    }
}

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

/// Fills a slot of the peer's window.
#[inline]
fn fill<M: QueueMemory>(mem: &mut M, slot: Slot, kind: Kind, body: &[u8]) -> Result<(), M::Error> {
    mem.write_peer(slot.at, body)?;
    mem.store_peer_long(slot.tail(), tail(slot, kind))
}

/// The tail of a filled slot.
#[inline]
fn tail(slot: Slot, kind: Kind) -> u64 {
    u64::from(slot.sequence) << 32 | kind as u64
}

/// The word with the kind of a filled slot of this end's window; `None`: the slot is not filled.
#[inline]
fn filled<M: QueueMemory>(mem: &M, slot: Slot) -> Option<u32> {
    let tail = mem.load_long(slot.tail());
    ((tail >> 32) as u32 == slot.sequence).then_some(tail as u32)
}

/// Stores a request to be woken into the peer's window, so that it is there before the next look.
fn arm<M: QueueMemory>(mem: &mut M, offset: usize) -> Result<(), M::Error> {
    mem.store_peer(offset, 1)?;
    mem.fence();
    mem.flush_peer(offset)
}

/// Whether the peer has asked to be woken; clears that request. To be called after the store that
/// the peer waits for.
#[inline]
fn take_wish<M: QueueMemory>(mem: &mut M, offset: usize) -> bool {
    // The store must be visible before this look: the peer stores its request, then looks.
    mem.fence();
    clear_wish(mem, offset)
}

/// [`take_wish`] behind a full fence.
#[inline]
fn clear_wish<M: QueueMemory>(mem: &mut M, offset: usize) -> bool {
    mem.load(offset) != 0 && mem.clear(offset) != 0
}
