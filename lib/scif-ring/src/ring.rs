//! The two ends of a ring.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::access::{RingMemory, Side, Word};
use crate::outcome::{Found, Moved, Place, RingError};

/// How many times `peek` tries to read position and index at one moment.
const PEEKS: usize = 64;

/// The bytes that a ring of the base protocol holds: its size is 4 KiB, of which one byte stays
/// free.
const BASE_RING_ROOM: u64 = 4095;

/// The ring that this side writes and the other side reads.
///
/// Threads may share a value: what it remembers only saves loads of the index.
#[derive(Debug)]
pub struct Producer {
    /// Bytes of the ring, less one.
    mask: u64,
    /// How many bytes in all the other side had taken at the last load: a lower bound.
    seen: AtomicU64,
}

impl Producer {
    /// A producer for a ring of `ring_bytes` bytes, a power of two of at most 2^31.
    pub const fn new(ring_bytes: u32) -> Producer {
        Producer {
            mask: (ring_bytes as u64).wrapping_sub(1),
            seen: AtomicU64::new(0),
        }
    }

    /// Puts as many of `bytes` as there is room for and makes them visible. `notify` says whether
    /// the caller must wake the other side. 0 bytes: there is no room, or `bytes` is empty.
    ///
    /// # Errors
    /// All of [`RingError`].
    #[inline]
    pub fn send<M: RingMemory>(
        &self,
        mem: &mut M,
        holder: u32,
        bytes: &[u8],
    ) -> Result<Moved, RingError<M::Error>> {
        if !mem.try_lock(Side::Send, holder) {
            return Err(RingError::Locked);
        }
        match self.put(mem, bytes) {
            Ok(bytes @ 1..) => {
                let notify = self.unlock_and_must_notify(mem);
                Ok(Moved { bytes, notify })
            }
            put => {
                mem.unlock(Side::Send);
                let notify = false;
                put.map(|bytes| Moved { bytes, notify })
            }
        }
    }

    /// As `send`, for a caller that holds the lock. Does not check whether to wake the other side.
    ///
    /// # Errors
    /// `BadIndex`, `Memory`.
    #[inline]
    pub fn put<M: RingMemory>(
        &self,
        mem: &mut M,
        bytes: &[u8],
    ) -> Result<usize, RingError<M::Error>> {
        self.put_with(mem, bytes.len(), |mem, offset, from, count| {
            let part = bytes.get(from..from + count).unwrap_or_default();
            mem.write_peer(offset, part)
        })
    }

    /// As `put`, of `bytes` bytes that are no slice. `copy` copies some of them into the other
    /// side's ring; its arguments are the memory, the offset in the ring, the offset in the bytes,
    /// and how many.
    ///
    /// # Errors
    /// `BadIndex`, `Memory`.
    #[inline]
    pub fn put_with<M: RingMemory>(
        &self,
        mem: &mut M,
        bytes: usize,
        mut copy: impl FnMut(&mut M, usize, usize, usize) -> Result<(), M::Error>,
    ) -> Result<usize, RingError<M::Error>> {
        let sent = mem.position(Side::Send);
        let mut room = self.room_at(sent, self.seen.load(Ordering::Relaxed));
        if room < bytes as u64 {
            let taken = self.refresh(mem, sent)?;
            self.seen.store(taken, Ordering::Release);
            room = self.room_at(sent, taken);
        }
        let count = bytes.min(room as usize);
        if count == 0 {
            return Ok(0);
        }
        let offset = (sent & self.mask) as usize;
        let until_end = self.mask as usize + 1 - offset;
        let first = count.min(until_end);
        copy(mem, offset, 0, first)?;
        if first < count {
            copy(mem, 0, first, count - first)?;
        }
        // The position goes first: if a client dies between the two, it has sent the bytes, and
        // the index follows with the next ones (or by `publish`). The other way round the next
        // ones would overwrite them.
        let sent = sent.wrapping_add(count as u64);
        mem.set_position(Side::Send, sent);
        mem.store_peer(Word::LocalWrite, (sent & self.mask) as u32)?;
        Ok(count)
    }

    /// The first half of `put_with` in the usual case, in few instructions: finds the place of
    /// `bytes` bytes, if room for them is known without loading the index. The ring may end among
    /// them; the copy finds out, by [`offset`](Producer::offset) or by itself.
    ///
    /// In two halves, because the copy between them would be a call if it were an argument.
    #[inline(always)]
    pub fn place_short<M: RingMemory>(&self, mem: &M, bytes: usize) -> Option<Place> {
        let position = mem.position(Side::Send);
        let behind = position.wrapping_add(bytes as u64);
        let unread = behind.wrapping_sub(self.seen.load(Ordering::Relaxed));
        (unread <= self.mask).then_some(Place { position, behind })
    }

    /// The offset in the ring of a place that [`place_short`](Producer::place_short) found. `None`:
    /// the ring ends among its bytes.
    pub fn offset(&self, place: Place) -> Option<usize> {
        let bytes = place.behind.wrapping_sub(place.position);
        offset_in_one_piece(self.mask, place.position, bytes)
    }

    /// The second half, after the bytes were copied: makes them visible.
    ///
    /// # Errors
    /// `Memory`.
    #[inline(always)]
    pub fn put_placed<M: RingMemory>(&self, mem: &mut M, place: Place) -> Result<(), M::Error> {
        // In this order, as in `put_with`.
        mem.set_position(Side::Send, place.behind);
        mem.store_peer(Word::LocalWrite, (place.behind & self.mask) as u32)
    }

    /// As `put`, but puts all of `bytes` or nothing. Returns whether it put them.
    ///
    /// # Errors
    /// `BadIndex`, `Memory`.
    pub fn put_whole<M: RingMemory>(
        &self,
        mem: &mut M,
        bytes: &[u8],
    ) -> Result<bool, RingError<M::Error>> {
        if (self.room(mem)? as usize) < bytes.len() {
            return Ok(false);
        }
        Ok(self.put(mem, bytes)? == bytes.len())
    }

    /// Stores the index that belongs to the position, in case the client that put the last bytes
    /// died before it did.
    ///
    /// # Errors
    /// `Memory`.
    pub fn publish<M: RingMemory>(&self, mem: &mut M) -> Result<(), RingError<M::Error>> {
        let sent = mem.position(Side::Send);
        mem.store_peer(Word::LocalWrite, (sent & self.mask) as u32)?;
        Ok(())
    }

    /// Whether the other side asked to be woken when bytes come. Takes the request back, so each
    /// request gives one `true`. Call it after the `put`.
    #[inline]
    pub fn must_notify<M: RingMemory>(&self, mem: &mut M) -> bool {
        // The index must be visible before this load: the other side stores its request, then
        // loads the index.
        mem.fence();
        mem.load(Word::BytesArmed) != 0 && mem.clear(Word::BytesArmed) != 0
    }

    /// Releases the lock after a `put`. Returns whether the caller must wake the other side, as
    /// [`must_notify`](Producer::must_notify).
    #[inline]
    pub fn unlock_and_must_notify<M: RingMemory>(&self, mem: &mut M) -> bool {
        // This fence serves as that of `must_notify`: it comes after the index, too.
        mem.unlock_and_fence(Side::Send);
        mem.load(Word::BytesArmed) != 0 && mem.clear(Word::BytesArmed) != 0
    }

    /// How many bytes can be put now, for a caller that holds the lock.
    ///
    /// # Errors
    /// `BadIndex`.
    pub fn room<M: RingMemory>(&self, mem: &M) -> Result<u32, RingError<M::Error>> {
        let sent = mem.position(Side::Send);
        let taken = self.refresh(mem, sent)?;
        self.seen.store(taken, Ordering::Release);
        Ok(self.room_at(sent, taken) as u32)
    }

    /// How many bytes the ring holds.
    pub fn capacity(&self) -> u32 {
        // A ring's bytes fit 32 bits.
        self.mask as u32
    }

    /// How many bytes could be put now, for a caller without the lock. `None`: position and index
    /// could not be read together, because another client kept changing them; try again.
    ///
    /// # Errors
    /// `BadIndex`.
    pub fn peek<M: RingMemory>(&self, mem: &M) -> Result<Option<u32>, RingError<M::Error>> {
        for _ in 0..PEEKS {
            let sent = mem.position(Side::Send);
            let taken = self.refresh(mem, sent);
            if mem.position(Side::Send) == sent {
                return Ok(Some(self.room_at(sent, taken?) as u32));
            }
        }
        Ok(None)
    }

    /// Asks the other side to wake this one when there is room, then does as `peek`. If there is
    /// no room, it is safe to sleep until woken.
    ///
    /// # Errors
    /// `BadIndex`, `Memory`.
    pub fn arm<M: RingMemory>(&self, mem: &mut M) -> Result<Option<u32>, RingError<M::Error>> {
        mem.store_peer(Word::RoomArmed, 1)?;
        mem.fence();
        mem.flush_peer(Word::RoomArmed)?;
        self.peek(mem)
    }

    /// The room when `sent` bytes were put and `taken` were taken; 0 when these cannot be.
    #[inline]
    fn room_at(&self, sent: u64, taken: u64) -> u64 {
        self.mask.saturating_sub(sent.wrapping_sub(taken))
    }

    /// Loads how many bytes the other side has taken in all, when `sent` were put.
    #[inline]
    fn refresh<M: RingMemory>(&self, mem: &M, sent: u64) -> Result<u64, RingError<M::Error>> {
        // In this order, what another thread saw before this load is never more than what this
        // load sees.
        let before = self.seen.load(Ordering::Acquire);
        let index = u64::from(mem.load(Word::LocalRead));
        let unread = sent.wrapping_sub(index) & self.mask;
        // The reader can only have read more of what this side wrote, never "unread" it.
        if index > self.mask || unread > sent.wrapping_sub(before) {
            return Err(RingError::BadIndex);
        }
        Ok(sent.wrapping_sub(unread))
    }
}

/// The ring that the other side writes and this side reads.
///
/// Threads may share a value: what it remembers only saves loads of the index.
#[derive(Debug)]
pub struct Consumer {
    /// Bytes of the ring, less one.
    mask: u64,
    /// How many bytes in all the other side had put at the last load: a lower bound.
    seen: AtomicU64,
    /// The position when room was last given back.
    given: AtomicU64,
    /// The most bytes whose room is kept back.
    most_kept: u64,
}

impl Consumer {
    /// A consumer for a ring of `ring_bytes` bytes, a power of two of at most 2^31.
    pub const fn new(ring_bytes: u32) -> Consumer {
        let mask = (ring_bytes as u64).wrapping_sub(1);
        let quarter = mask / 4;
        let beyond_base = mask.saturating_sub(BASE_RING_ROOM);
        Consumer {
            mask,
            seen: AtomicU64::new(0),
            given: AtomicU64::new(0),
            most_kept: if quarter < beyond_base {
                quarter
            } else {
                beyond_base
            },
        }
    }

    /// Takes as many bytes as have arrived and fit, and gives room back as
    /// [`give_back`](Consumer::give_back) does. `notify` says whether the caller must wake the
    /// other side. 0 bytes: none have arrived, or `buffer` is empty.
    ///
    /// # Errors
    /// All of [`RingError`].
    #[inline]
    pub fn receive<M: RingMemory>(
        &self,
        mem: &mut M,
        holder: u32,
        buffer: &mut [u8],
    ) -> Result<Moved, RingError<M::Error>> {
        if !mem.try_lock(Side::Receive, holder) {
            return Err(RingError::Locked);
        }
        let taken = self.take(mem, buffer);
        let given = match taken {
            Ok(1..) => self.give_back(mem),
            _ => Ok(false),
        };
        mem.unlock(Side::Receive);
        let bytes = taken?;
        let notify = given? && self.must_notify(mem);
        Ok(Moved { bytes, notify })
    }

    /// As `receive`, but does not touch the other side's memory: for when the other side is gone.
    ///
    /// # Errors
    /// `Locked`, `BadIndex`.
    pub fn drain<M: RingMemory>(
        &self,
        mem: &mut M,
        holder: u32,
        buffer: &mut [u8],
    ) -> Result<usize, RingError<M::Error>> {
        if !mem.try_lock(Side::Receive, holder) {
            return Err(RingError::Locked);
        }
        let taken = self.take(mem, buffer);
        mem.unlock(Side::Receive);
        taken
    }

    /// Copies out as many bytes as have arrived and fit, for a caller that holds the lock. Does
    /// not give their room back: [`publish`](Consumer::publish) does.
    ///
    /// # Errors
    /// `BadIndex`.
    #[inline]
    pub fn take<M: RingMemory>(
        &self,
        mem: &mut M,
        buffer: &mut [u8],
    ) -> Result<usize, RingError<M::Error>> {
        self.take_with(mem, buffer.len(), |mem, offset, to, count| {
            mem.read(offset, buffer.get_mut(to..to + count).unwrap_or_default());
            Ok(())
        })
    }

    /// As `take`, of at most `bytes` bytes into what is no slice. `copy` copies some of them out
    /// of the own ring; its arguments are the memory, the offset in the ring, the offset in the
    /// buffer, and how many.
    ///
    /// # Errors
    /// `BadIndex`; `Memory` when `copy` fails, and then nothing is taken.
    #[inline]
    pub fn take_with<M: RingMemory>(
        &self,
        mem: &mut M,
        bytes: usize,
        mut copy: impl FnMut(&mut M, usize, usize, usize) -> Result<(), M::Error>,
    ) -> Result<usize, RingError<M::Error>> {
        let received = mem.position(Side::Receive);
        let mut there = self.there_at(received, self.seen.load(Ordering::Relaxed));
        if there < bytes as u64 {
            let put = self.refresh(mem, received)?;
            self.seen.store(put, Ordering::Release);
            there = self.there_at(received, put);
        }
        let count = bytes.min(there as usize);
        if count == 0 {
            return Ok(0);
        }
        let offset = (received & self.mask) as usize;
        let until_end = self.mask as usize + 1 - offset;
        let first = count.min(until_end);
        copy(mem, offset, 0, first)?;
        if first < count {
            copy(mem, 0, first, count - first)?;
        }
        mem.set_position(Side::Receive, received.wrapping_add(count as u64));
        Ok(count)
    }

    /// The first half of `take_with` in the usual case, in few instructions: finds bytes that have
    /// arrived. `wanted` gets the number of these bytes and returns how many to take. `None`: it
    /// wants none or more than have arrived. The ring may end among them; the copy finds out, by
    /// [`offset`](Consumer::offset) or by itself.
    ///
    /// In two halves, because the copy between them would be a call if it were an argument.
    ///
    /// # Errors
    /// `BadIndex`.
    #[inline(always)]
    pub fn find_short<M: RingMemory>(
        &self,
        mem: &M,
        wanted: impl FnOnce(usize) -> Option<usize>,
    ) -> Result<Option<Found>, RingError<M::Error>> {
        let mask = self.mask;
        let before = self.seen.load(Ordering::Acquire);
        let received = mem.position(Side::Receive);
        let index = u64::from(mem.load(Word::LocalWrite));
        let unread = index.wrapping_sub(received) & mask;
        // Checked as in `refresh`.
        if index > mask || unread < self.there_at(received, before) {
            return Err(RingError::BadIndex);
        }
        let put = received.wrapping_add(unread);
        self.seen.store(put, Ordering::Release);
        let Some(bytes) = wanted(unread as usize) else {
            return Ok(None);
        };
        Ok((bytes as u64 <= unread).then_some(Found {
            position: received,
            bytes,
            put,
        }))
    }

    /// The offset in the ring of bytes that [`find_short`](Consumer::find_short) found. `None`:
    /// the ring ends among them.
    pub fn offset(&self, found: Found) -> Option<usize> {
        offset_in_one_piece(self.mask, found.position, found.bytes as u64)
    }

    /// How many bytes, from the first one that was found on, have arrived before the end of the
    /// ring.
    #[inline(always)]
    pub fn in_one_piece(&self, found: Found) -> usize {
        let there = found.put.wrapping_sub(found.position);
        let until_end = self.mask + 1 - (found.position & self.mask);
        there.min(until_end) as usize
    }

    /// The second half, after the bytes were copied: marks them as taken. Returns whether their
    /// room may have to be given back by [`give_back`](Consumer::give_back).
    #[inline(always)]
    pub fn take_found<M: RingMemory>(&self, mem: &mut M, found: Found) -> bool {
        let received = found.position.wrapping_add(found.bytes as u64);
        mem.set_position(Side::Receive, received);
        // About as much as `give_back` finds, which decides. Bytes that came since are seen by the
        // next receive.
        let seen = self.seen.load(Ordering::Relaxed);
        let filled = seen.wrapping_sub(self.given.load(Ordering::Relaxed));
        filled > self.most_kept || mem.load(Word::RoomArmed) != 0
    }

    /// Gives the room of everything taken back if the other side waits for it, or sees more than a
    /// quarter of the ring filled. Returns whether it did. Call it after each `take` that took
    /// bytes.
    ///
    /// Otherwise room is kept back, because each store of the index takes a cache line away from
    /// the other side, or is a write on the bus. No writer waits for room that is kept back: when
    /// a writer finds no room, three quarters of the ring are unread, and the next `take` of those
    /// gives all room back and sees that the writer waits. The room of a ring of the base protocol
    /// is never kept back, because two programs may both send that much before either receives.
    ///
    /// # Errors
    /// `Memory`.
    #[inline]
    pub fn give_back<M: RingMemory>(&self, mem: &mut M) -> Result<bool, RingError<M::Error>> {
        // Room that others have given back since counts as filled: giving back too early is
        // harmless.
        let given = self.given.load(Ordering::Relaxed);
        let filled = u64::from(mem.load(Word::LocalWrite)).wrapping_sub(given) & self.mask;
        let kept = mem.position(Side::Receive).wrapping_sub(given);
        let is_due = self.is_due(mem, filled, kept);
        if is_due {
            self.publish(mem)?;
        }
        Ok(is_due)
    }

    /// Whether room must be given back now, when the other side sees `filled` bytes of the ring as
    /// filled, and the room of `kept` bytes was kept back.
    #[inline]
    fn is_due<M: RingMemory>(&self, mem: &M, filled: u64, kept: u64) -> bool {
        filled.max(kept) > self.most_kept || mem.load(Word::RoomArmed) != 0
    }

    /// Gives the room of everything that was taken back to the other side.
    ///
    /// # Errors
    /// `Memory`.
    #[inline]
    pub fn publish<M: RingMemory>(&self, mem: &mut M) -> Result<(), RingError<M::Error>> {
        let received = mem.position(Side::Receive);
        self.given.store(received, Ordering::Relaxed);
        // A release store comes after the copy out, so the writer cannot overwrite what is being
        // copied.
        mem.store_peer(Word::LocalRead, (received & self.mask) as u32)?;
        Ok(())
    }

    /// Whether the other side asked to be woken when there is room. Takes the request back, so
    /// each request gives one `true`. Call it after the `publish`.
    #[inline]
    pub fn must_notify<M: RingMemory>(&self, mem: &mut M) -> bool {
        // The index must be visible before this load: the other side stores its request, then
        // loads the index.
        mem.fence();
        mem.load(Word::RoomArmed) != 0 && mem.clear(Word::RoomArmed) != 0
    }

    /// How many bytes can be taken now, for a caller that holds the lock.
    ///
    /// # Errors
    /// `BadIndex`.
    pub fn available<M: RingMemory>(&self, mem: &M) -> Result<u32, RingError<M::Error>> {
        let received = mem.position(Side::Receive);
        let put = self.refresh(mem, received)?;
        self.seen.store(put, Ordering::Release);
        Ok(self.there_at(received, put) as u32)
    }

    /// How many bytes could be taken now, for a caller without the lock. `None`: position and
    /// index could not be read together, because another client kept changing them; try again.
    ///
    /// # Errors
    /// `BadIndex`.
    #[inline]
    pub fn peek<M: RingMemory>(&self, mem: &M) -> Result<Option<u32>, RingError<M::Error>> {
        for _ in 0..PEEKS {
            let received = mem.position(Side::Receive);
            let put = self.refresh(mem, received);
            if mem.position(Side::Receive) == received {
                return Ok(Some(self.there_at(received, put?) as u32));
            }
        }
        Ok(None)
    }

    /// Whether nothing can be taken now, for a caller that polls without the lock: two loads. A
    /// bad index does not count as empty, so that the next take finds it.
    #[inline]
    pub fn is_empty<M: RingMemory>(&self, mem: &M) -> bool {
        let offset = mem.position(Side::Receive) & self.mask;
        // The next bytes come in a cache line of their own, as the index does. Touched here, both
        // lines are on their way at the same time instead of one after the other.
        mem.touch(offset as usize);
        // In this order the answer is right at the second load, whatever others take meanwhile.
        u64::from(mem.load(Word::LocalWrite)) == offset
    }

    /// Asks the other side to wake this one when bytes come, then does as `peek`. If none have
    /// come, it is safe to sleep until woken.
    ///
    /// # Errors
    /// `BadIndex`, `Memory`.
    pub fn arm<M: RingMemory>(&self, mem: &mut M) -> Result<Option<u32>, RingError<M::Error>> {
        mem.store_peer(Word::BytesArmed, 1)?;
        mem.fence();
        mem.flush_peer(Word::BytesArmed)?;
        self.peek(mem)
    }

    /// How many bytes are in the ring when `put` bytes were put and `received` were taken. 0 when
    /// these cannot be, as when others have taken more than this value has seen put.
    #[inline]
    fn there_at(&self, received: u64, put: u64) -> u64 {
        let there = put.wrapping_sub(received);
        if there > self.mask { 0 } else { there }
    }

    /// Loads how many bytes the other side has put in all, when `received` were taken.
    #[inline]
    fn refresh<M: RingMemory>(&self, mem: &M, received: u64) -> Result<u64, RingError<M::Error>> {
        // In this order, what another thread saw before this load is never more than what this
        // load sees.
        let before = self.seen.load(Ordering::Acquire);
        let index = u64::from(mem.load(Word::LocalWrite));
        let unread = index.wrapping_sub(received) & self.mask;
        // The writer can only have added to what this side has not read yet.
        if index > self.mask || unread < self.there_at(received, before) {
            return Err(RingError::BadIndex);
        }
        Ok(received.wrapping_add(unread))
    }
}

/// The offset of the `bytes` bytes at a position in a ring of `mask + 1` bytes, if the ring does
/// not end among them.
fn offset_in_one_piece(mask: u64, position: u64, bytes: u64) -> Option<usize> {
    let offset = position & mask;
    (bytes <= mask + 1 - offset).then_some(offset as usize)
}
