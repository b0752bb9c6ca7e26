//! Work on both rings of a queue pair, by the protocol of `scif-ring`. Positions and locks are in
//! this structure or, once clients work on the rings themselves, in a control page shared with
//! them.

use scif_abi::bypass::{LOCK_DAEMON, LOCK_FREE};
use scif_abi::limits::PAGE_BYTES;
use scif_ring::{Consumer, Producer, RingMemory, Side, Word};

use crate::base::memory::{BadAddress, Locality, Memory, Place};
use crate::base::pages::is_page;
use crate::queue_pair::block::{Block, RemoteQueuePair};

/// Both sides, for loops.
const SIDES: [Side; 2] = [Side::Send, Side::Receive];

/// How many times a ring that clients keep busy is armed in vain before a timer retries.
const ATTEMPTS: usize = 16;

/// Why a ring cannot be used any longer: the fault of the other side, or of a client of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingError {
    /// An impossible index or position.
    BadIndex,
    /// The other side's memory is not at the address it gave.
    BadAddress,
    /// More messages wait for room than an honest peer causes.
    Flooded,
}

impl From<BadAddress> for RingError {
    fn from(_: BadAddress) -> RingError {
        RingError::BadAddress
    }
}

impl From<scif_ring::RingError<BadAddress>> for RingError {
    fn from(error: scif_ring::RingError<BadAddress>) -> RingError {
        match error {
            scif_ring::RingError::Memory(BadAddress) => RingError::BadAddress,
            // These calls never return `Locked`.
            scif_ring::RingError::BadIndex | scif_ring::RingError::Locked => RingError::BadIndex,
        }
    }
}

/// The result of a transfer that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The number of bytes moved. 0: there is no room, or there are no bytes; the other side will
    /// notify us when that changes.
    Bytes(usize),
    /// None were moved, because a client has the lock; retry soon.
    Contended,
}

/// Addresses of both halves.
#[derive(Clone, Copy, Debug)]
struct Places {
    locality: Locality,
    /// Local address of our structure.
    own: u64,
    /// Local address of our ring.
    ring: u64,
    /// Bus address of the other side's structure.
    peer: u64,
    /// Bus address of the other side's ring.
    peer_ring: u64,
}

/// Position and lock of one side.
#[derive(Clone, Copy, Debug, Default)]
struct SideState {
    /// The position; with a control page, the last one that was read there.
    position: u64,
    /// Bytes that clients have moved and that the counters do not contain yet.
    uncounted: u64,
    /// Whether a transfer that has begun goes on later: clients wait until it ends.
    is_held: bool,
    /// Whether we hold the lock beyond one call.
    holds_lock: bool,
}

/// The positions and locks of both sides.
#[derive(Debug)]
struct SideStates {
    /// Local address of the control page.
    page: Option<u64>,
    sides: [SideState; 2],
}

/// Both rings.
#[derive(Debug)]
pub(crate) struct Rings {
    places: Places,
    producer: Producer,
    consumer: Consumer,
    states: SideStates,
    peer_ring_bytes: u32,
    /// Whether the peer speaks [`ARMED`](scif_abi::message::Extensions::ARMED).
    is_armable: bool,
}

/// The memory of a pair of rings during one call.
struct Access<'a> {
    mem: &'a mut dyn Memory,
    places: &'a Places,
    states: &'a mut SideStates,
}

impl RingMemory for Access<'_> {
    type Error = BadAddress;

    fn load(&self, word: Word) -> u32 {
        self.mem.load_index(self.places.own + word.offset())
    }

    fn clear(&mut self, word: Word) -> u32 {
        // Any other value is invalid. It stays, and counts as armed each time.
        self.mem.exchange(self.places.own + word.offset(), 1, 0)
    }

    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), BadAddress> {
        let address = self.places.peer + word.offset();
        self.places.locality.store_index(self.mem, address, value)
    }

    fn flush_peer(&mut self, word: Word) -> Result<(), BadAddress> {
        let address = self.places.peer + word.offset();
        self.places.locality.read(self.mem, address, &mut [0; 4])
    }

    fn read(&self, offset: usize, buffer: &mut [u8]) {
        self.mem.read(self.places.ring + offset as u64, buffer);
    }

    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), BadAddress> {
        let address = self.places.peer_ring + offset as u64;
        self.places.locality.write(self.mem, address, bytes)
    }

    fn fence(&self) {
        self.mem.full_fence();
    }

    fn position(&self, side: Side) -> u64 {
        match self.states.page {
            Some(page) => self.mem.load_position(page + side.position_offset()),
            None => self.states.sides[side as usize].position,
        }
    }

    fn set_position(&mut self, side: Side, position: u64) {
        self.states.sides[side as usize].position = position;
        if let Some(page) = self.states.page {
            self.mem
                .store_position(page + side.position_offset(), position);
        }
    }

    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        match self.states.page {
            Some(page) if !self.states.sides[side as usize].holds_lock => {
                let lock = page + side.lock_offset();
                self.mem.exchange(lock, LOCK_FREE, holder) == LOCK_FREE
            }
            _ => true,
        }
    }

    fn unlock(&mut self, side: Side) {
        self.states.sides[side as usize].holds_lock = false;
        if let Some(page) = self.states.page {
            let lock = page + side.lock_offset();
            self.mem.exchange(lock, LOCK_DAEMON, LOCK_FREE);
        }
    }
}

impl Access<'_> {
    /// Reads the position under our lock. A client must not have moved it backwards.
    fn check_position(&mut self, side: Side) -> Result<(), RingError> {
        let position = self.position(side);
        let state = &mut self.states.sides[side as usize];
        let moved = position.checked_sub(state.position);
        // The positions are the client's, so the sum may be anything.
        state.uncounted = state
            .uncounted
            .wrapping_add(moved.ok_or(RingError::BadIndex)?);
        state.position = position;
        Ok(())
    }

    /// Releases the lock, unless the transfer goes on.
    fn end_transfer(&mut self, side: Side, moved: usize) {
        let state = &mut self.states.sides[side as usize];
        state.holds_lock = state.is_held && (state.holds_lock || moved > 0);
        if !state.holds_lock {
            self.unlock(side);
        }
    }
}

/// Bytes of a connection that wait to be received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    pub(crate) here: u64,
    pub(crate) at_peer: u64,
}

impl Rings {
    pub(crate) fn new(own: &Block, remote: &RemoteQueuePair, is_armable: bool) -> Rings {
        Rings {
            places: Places {
                locality: remote.locality,
                own: own.address(),
                ring: own.ring_address(),
                peer: remote.address,
                peer_ring: remote.buffer,
            },
            producer: Producer::new(remote.ring_bytes),
            consumer: Consumer::new(own.ring_bytes()),
            states: SideStates {
                page: None,
                sides: [SideState::default(); 2],
            },
            peer_ring_bytes: remote.ring_bytes,
            is_armable,
        }
    }

    /// The memory, the producer and the consumer, borrowed separately.
    fn parts<'a>(
        &'a mut self,
        mem: &'a mut dyn Memory,
    ) -> (Access<'a>, &'a Producer, &'a Consumer) {
        let access = Access {
            mem,
            places: &self.places,
            states: &mut self.states,
        };
        (access, &self.producer, &self.consumer)
    }

    /// Whether the other side arms its words for notifications.
    pub(crate) fn is_armable(&self) -> bool {
        self.is_armable
    }

    /// Whether the other side's structure and ring have pages of their own, so that clients can
    /// map them.
    pub(crate) fn have_own_pages(&self, mem: &dyn Memory) -> bool {
        let Places { locality, peer, .. } = self.places;
        let ring = self.places.peer_ring;
        let bytes = (self.peer_ring_bytes as usize).next_multiple_of(PAGE_BYTES);
        self.is_armable
            && is_page(peer)
            && is_page(ring)
            && locality.reaches(mem, peer, PAGE_BYTES)
            && locality.reaches(mem, ring, bytes)
    }

    /// Bytes of the other side's ring.
    pub(crate) fn peer_ring_bytes(&self) -> u32 {
        self.peer_ring_bytes
    }

    /// The place of the other side's structure.
    pub(crate) fn peer_place(&self) -> Place {
        self.places.locality.place(self.places.peer)
    }

    /// The place of the other side's ring.
    pub(crate) fn peer_ring_place(&self) -> Place {
        self.places.locality.place(self.places.peer_ring)
    }

    /// How many bytes a side has moved in all, as far as we have seen.
    pub(crate) fn position(&self, side: Side) -> u64 {
        self.states.sides[side as usize].position
    }

    /// Puts as many of `bytes` as there is room for, leaving `spare` bytes free, and makes them
    /// visible. `bytes` is not empty.
    pub(crate) fn put(
        &mut self,
        mem: &mut dyn Memory,
        bytes: &[u8],
        spare: u32,
    ) -> Result<Moved, RingError> {
        let arms = self.is_armable;
        let (mut access, producer, _) = self.parts(mem);
        for _ in 0..ATTEMPTS {
            if !access.try_lock(Side::Send, LOCK_DAEMON) {
                return Ok(Moved::Contended);
            }
            let checked = access.check_position(Side::Send);
            let put = checked.and_then(|()| {
                let most = match spare {
                    0 => bytes.len(),
                    _ => producer.room(&access)?.saturating_sub(spare) as usize,
                };
                let part = bytes.get(..most).unwrap_or(bytes);
                Ok(producer.put(&mut access, part)?)
            });
            access.end_transfer(Side::Send, *put.as_ref().unwrap_or(&0));
            let count = put?;
            // A peer of the base protocol always sends notifications.
            if count > 0 || !arms {
                return Ok(Moved::Bytes(count));
            }
            if matches!(producer.arm(&mut access)?, Some(room) if room <= spare) {
                return Ok(Moved::Bytes(0));
            }
        }
        Ok(Moved::Contended)
    }

    /// Takes as many bytes as have arrived and fit into `buffer`, which is not empty. With
    /// `gives_room` it publishes the room to the other side, whose memory must still be there.
    pub(crate) fn take(
        &mut self,
        mem: &mut dyn Memory,
        buffer: &mut [u8],
        gives_room: bool,
    ) -> Result<Moved, RingError> {
        let arms = self.is_armable && gives_room;
        let (mut access, _, consumer) = self.parts(mem);
        for _ in 0..ATTEMPTS {
            if !access.try_lock(Side::Receive, LOCK_DAEMON) {
                return Ok(Moved::Contended);
            }
            let checked = access.check_position(Side::Receive);
            let taken = checked.and_then(|()| Ok(consumer.take(&mut access, buffer)?));
            let published = match taken {
                Ok(1..) if gives_room => consumer.publish(&mut access),
                _ => Ok(()),
            };
            access.end_transfer(Side::Receive, *taken.as_ref().unwrap_or(&0));
            let count = taken?;
            published?;
            if count > 0 || !arms || consumer.arm(&mut access)? == Some(0) {
                return Ok(Moved::Bytes(count));
            }
        }
        Ok(Moved::Contended)
    }

    /// Puts all of `bytes`, or nothing if there is no room for all. Returns whether it put them.
    /// For rings that no client shares.
    pub(crate) fn put_whole(
        &mut self,
        mem: &mut dyn Memory,
        bytes: &[u8],
    ) -> Result<bool, RingError> {
        let (mut access, producer, _) = self.parts(mem);
        Ok(producer.put_whole(&mut access, bytes)?)
    }

    /// How many bytes can be taken. For rings that no client shares.
    pub(crate) fn available(&mut self, mem: &mut dyn Memory) -> Result<u32, RingError> {
        let (access, _, consumer) = self.parts(mem);
        Ok(consumer.available(&access)?)
    }

    /// Whether bytes have arrived; `None`: clients are too busy to tell.
    pub(crate) fn has_bytes(&mut self, mem: &mut dyn Memory) -> Result<Option<bool>, RingError> {
        let (access, _, consumer) = self.parts(mem);
        Ok(consumer.peek(&access)?.map(|bytes| bytes > 0))
    }

    /// The peer's write index, unchecked.
    pub(crate) fn written(&mut self, mem: &mut dyn Memory) -> u32 {
        let (access, ..) = self.parts(mem);
        access.load(Word::LocalWrite)
    }

    /// Takes bytes without giving their room back. For rings that no client shares.
    pub(crate) fn take_quietly(
        &mut self,
        mem: &mut dyn Memory,
        buffer: &mut [u8],
    ) -> Result<usize, RingError> {
        let (mut access, _, consumer) = self.parts(mem);
        Ok(consumer.take(&mut access, buffer)?)
    }

    /// Gives the room of everything that was taken back to the other side.
    pub(crate) fn publish(&mut self, mem: &mut dyn Memory) -> Result<(), RingError> {
        let (mut access, _, consumer) = self.parts(mem);
        Ok(consumer.publish(&mut access)?)
    }

    /// How many bytes wait to be taken; 0 where clients are too busy to tell.
    pub(crate) fn queued(&mut self, mem: &mut dyn Memory) -> Result<Queued, RingError> {
        let (access, producer, consumer) = self.parts(mem);
        let here = consumer.peek(&access)?.unwrap_or(0);
        let at_peer = producer.peek(&access)?;
        let at_peer = at_peer.map_or(0, |room| producer.capacity().saturating_sub(room));
        Ok(Queued {
            here: here.into(),
            at_peer: at_peer.into(),
        })
    }

    /// Whether there are bytes, and whether there is room; `None`: clients are too busy to tell.
    pub(crate) fn readiness(
        &mut self,
        mem: &mut dyn Memory,
    ) -> Result<[Option<bool>; 2], RingError> {
        let (access, producer, consumer) = self.parts(mem);
        let there = consumer.peek(&access)?.map(|bytes| bytes > 0);
        let room = producer.peek(&access)?.map(|bytes| bytes > 0);
        Ok([there, room])
    }

    /// How many bytes can be put now. For rings that no client shares.
    pub(crate) fn room(&mut self, mem: &mut dyn Memory) -> Result<u32, RingError> {
        let (access, producer, _) = self.parts(mem);
        Ok(producer.room(&access)?)
    }

    /// Asks the other side to notify us of bytes. Returns whether there are some now, as
    /// `readiness`.
    pub(crate) fn arm_bytes(&mut self, mem: &mut dyn Memory) -> Result<Option<bool>, RingError> {
        let (mut access, _, consumer) = self.parts(mem);
        Ok(consumer.arm(&mut access)?.map(|bytes| bytes > 0))
    }

    /// Asks the other side to notify us of room. Returns whether there is some now, as
    /// `readiness`.
    pub(crate) fn arm_room(&mut self, mem: &mut dyn Memory) -> Result<Option<bool>, RingError> {
        let (mut access, producer, _) = self.parts(mem);
        Ok(producer.arm(&mut access)?.map(|bytes| bytes > 0))
    }

    /// Whether the other side has asked to be notified of bytes. Returns true once for each
    /// request.
    pub(crate) fn wants_bytes(&mut self, mem: &mut dyn Memory) -> bool {
        let (mut access, producer, _) = self.parts(mem);
        producer.must_notify(&mut access)
    }

    /// Whether the other side waits for room and less than `half` of the ring is free: then it is
    /// notified later, so that a writer is woken for many bytes.
    pub(crate) fn is_credit_small(&mut self, mem: &mut dyn Memory, half: u32) -> bool {
        let (access, _, consumer) = self.parts(mem);
        let asks = access.load(Word::RoomArmed) != 0;
        // While clients are too busy to tell, they send the notification.
        asks && matches!(consumer.peek(&access), Ok(Some(bytes)) if bytes > half)
    }

    /// Whether the other side has asked to be notified of room. Returns true once for each
    /// request.
    pub(crate) fn wants_room(&mut self, mem: &mut dyn Memory) -> bool {
        let (mut access, _, consumer) = self.parts(mem);
        consumer.must_notify(&mut access)
    }

    /// Begins or ends a transfer in several parts. From its first byte to its end no client moves
    /// bytes on that side.
    pub(crate) fn hold(&mut self, mem: &mut dyn Memory, side: Side, holds: bool) {
        let (mut access, ..) = self.parts(mem);
        let state = &mut access.states.sides[side as usize];
        state.is_held = holds;
        if !holds && state.holds_lock {
            access.unlock(side);
        }
    }

    /// Moves positions and locks to the control page at `page`.
    pub(crate) fn share(&mut self, mem: &mut dyn Memory, page: u64) {
        let (mut access, ..) = self.parts(mem);
        access.states.page = Some(page);
        for side in SIDES {
            let state = access.states.sides[side as usize];
            access.set_position(side, state.position);
            let holder = if state.holds_lock {
                LOCK_DAEMON
            } else {
                LOCK_FREE
            };
            access.mem.store_index(page + side.lock_offset(), holder);
        }
    }

    /// Moves the positions back: the control page is no longer shared.
    pub(crate) fn unshare(&mut self, mem: &mut dyn Memory) -> Result<(), RingError> {
        let (mut access, ..) = self.parts(mem);
        let checked = SIDES.map(|side| access.check_position(side));
        access.states.page = None;
        checked.into_iter().collect()
    }

    /// How many bytes clients have sent and received since the last call, as far as we have seen.
    pub(crate) fn take_uncounted(&mut self) -> [u64; 2] {
        SIDES.map(|side| core::mem::take(&mut self.states.sides[side as usize].uncounted))
    }

    /// Reads the positions from the control page.
    pub(crate) fn refresh(&mut self, mem: &mut dyn Memory) -> Result<(), RingError> {
        let (mut access, ..) = self.parts(mem);
        SIDES
            .into_iter()
            .try_for_each(|side| access.check_position(side))
    }

    /// Frees the locks of `holder`, which is gone. It may have died between storing its position
    /// and the index, so the indices are stored anew, if `reaches` says that the other side can be
    /// reached.
    pub(crate) fn release(
        &mut self,
        mem: &mut dyn Memory,
        holder: u32,
        reaches: bool,
    ) -> Result<(), RingError> {
        let (mut access, producer, consumer) = self.parts(mem);
        let Some(page) = access.states.page else {
            return Ok(());
        };
        for side in SIDES {
            let lock = page + side.lock_offset();
            if access.mem.load_index(lock) != holder {
                continue;
            }
            if reaches {
                match side {
                    Side::Send => producer.publish(&mut access)?,
                    Side::Receive => consumer.publish(&mut access)?,
                }
            }
            access.mem.exchange(lock, holder, LOCK_FREE);
        }
        Ok(())
    }
}
