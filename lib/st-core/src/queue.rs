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
mod receiver;

use crate::header::PAYLOAD_BYTES;
use layout::{Lane, Slot};

pub use crate::descriptor::{BODY_BYTES, Descriptor, Kind, MAX_DESCRIPTOR};
pub use layout::{LINE, Layout, MAX_CHANNELS, MAX_SLOTS, MIN_SLOTS};
pub use receiver::{Armed, Next, Received, Receiver};

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

    /// The first half of [`send_message`](Sender::send_message), if there is [room](Sender::free):
    /// stores the header. A full fence has to follow, then [`is_awaited`](Sender::is_awaited).
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
    /// many. The receiver sees the first of them when the last one is there, and whether it sleeps
    /// is looked up once.
    ///
    /// # Errors
    /// All of [`QueueError`].
    #[inline]
    pub fn send_messages<M: QueueMemory>(
        &mut self,
        mem: &mut M,
        messages: &mut impl Iterator<Item = [u8; PAYLOAD_BYTES]>,
    ) -> Result<(u64, Sent), QueueError<M::Error>> {
        let before = self.pushed;
        loop {
            let room = match self.free() {
                0 => self.room(mem)?,
                free => free,
            };
            // The iterator is asked only for headers that have a place.
            let mut messages = messages.by_ref().take(room as usize);
            let Some(first) = messages.next() else {
                break;
            };
            // Counted apart from `self`, into which each header would otherwise have to be stored.
            let (mut next, mut filled) = (self.lane.after(self.next), 1);
            let mut outcome = Ok(());
            for message in messages {
                outcome = mem.fill_peer(next.at, &message, tail(next, Kind::Message));
                if outcome.is_err() {
                    break;
                }
                next = self.lane.after(next);
                filled += 1;
            }
            // The first slot comes last: until then the receiver loads none of the others, each of
            // which would have to be fetched back from it.
            mem.fill_peer(self.next.at, &first, tail(self.next, Kind::Message))?;
            self.next = next;
            self.pushed = self.pushed.wrapping_add(filled);
            outcome?;
            if filled < room {
                break;
            }
        }
        let count = self.pushed.wrapping_sub(before);
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
