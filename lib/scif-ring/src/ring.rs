//! The two ends of a ring.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::access::{RingMemory, Side, Word};
use crate::outcome::{Found, Moved, Place, RingError};

/// Times `peek` tries to see position and index at one moment.
const PEEKS: usize = 64;

/// Bytes that a ring of the base protocol takes: 4 KiB, of which one stays free.
const BASE_RING_ROOM: u64 = 4095;

/// The ring the other side reads and this side writes.
///
/// May be shared by threads: what is remembered here only saves looks at the index.
#[derive(Debug)]
pub struct Producer {
    /// Bytes of the ring less one.
    mask: u64,
    /// Bytes that the other side had taken in all at the last load: a lower bound.
    seen: AtomicU64,
}

impl Producer {
    /// For a ring of `ring_bytes` bytes, a power of two of at most 2^31.
    pub const fn new(ring_bytes: u32) -> Producer {
        Producer {
            mask: (ring_bytes as u64).wrapping_sub(1),
            seen: AtomicU64::new(0),
        }
    }

    /// Puts as many of `bytes` as there is room for and makes them visible; `notify` says whether
    /// the other side is to be woken. 0 bytes: there is no room, or `bytes` is empty.
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

    /// As `send`, for a caller that holds the lock; does not check for a wake-up.
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

    /// As `put` of `bytes` bytes that are no slice: `copy` copies some of them into the other
    /// side's ring (memory, offset in the ring, offset in the bytes, how many).
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
        // The position first: a client that dies between the two has sent the bytes, the index
        // follows with the next ones (or by `publish`). The other way round the next ones would
        // overwrite them.
        let sent = sent.wrapping_add(count as u64);
        mem.set_position(Side::Send, sent);
        mem.store_peer(Word::LocalWrite, (sent & self.mask) as u32)?;
        Ok(count)
    }

    /// The first half of `put_with` in the usual case and by few instructions: finds the place of
    /// `bytes` bytes, if their room is known without a look and the ring does not end among them.
    ///
    /// In two halves because the copy between them, as an argument, would be a call.
    #[inline(always)]
    pub fn place_short<M: RingMemory>(&self, mem: &M, bytes: usize) -> Option<Place> {
        let mask = self.mask;
        let most = mask.checked_sub(bytes as u64)?;
        let sent = mem.position(Side::Send);
        let unread = sent.wrapping_sub(self.seen.load(Ordering::Relaxed));
        let offset = sent & mask;
        (unread <= most && offset <= most).then_some(Place {
            offset: offset as usize,
            behind: sent.wrapping_add(bytes as u64),
        })
    }

    /// The second half, once the bytes are copied: they are put.
    ///
    /// # Errors
    /// `Memory`.
    #[inline(always)]
    pub fn put_placed<M: RingMemory>(&self, mem: &mut M, place: Place) -> Result<(), M::Error> {
        // In this order, as in `put_with`.
        mem.set_position(Side::Send, place.behind);
        mem.store_peer(Word::LocalWrite, (place.behind & self.mask) as u32)
    }

    /// As `put`, but all of `bytes` or nothing; whether it did.
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

    /// Stores the index that goes with the position, in case the client that put the last bytes
    /// died.
    ///
    /// # Errors
    /// `Memory`.
    pub fn publish<M: RingMemory>(&self, mem: &mut M) -> Result<(), RingError<M::Error>> {
        let sent = mem.position(Side::Send);
        mem.store_peer(Word::LocalWrite, (sent & self.mask) as u32)?;
        Ok(())
    }

    /// Whether the other side asked to be woken when bytes come; it is asked for once. Call it
    /// after the `put`.
    #[inline]
    pub fn must_notify<M: RingMemory>(&self, mem: &mut M) -> bool {
        // The index must be visible before this look: the other side stores its wish, then looks.
        mem.fence();
        mem.load(Word::BytesArmed) != 0 && mem.clear(Word::BytesArmed) != 0
    }

    /// Gives the lock back after a `put`; whether the other side is to be woken, as
    /// [`must_notify`](Producer::must_notify).
    #[inline]
    pub fn unlock_and_must_notify<M: RingMemory>(&self, mem: &mut M) -> bool {
        // The fence is that of `must_notify`: it comes after the index, too.
        mem.unlock_and_fence(Side::Send);
        mem.load(Word::BytesArmed) != 0 && mem.clear(Word::BytesArmed) != 0
    }

    /// Bytes that can be put now, for a caller that holds the lock.
    ///
    /// # Errors
    /// `BadIndex`.
    pub fn room<M: RingMemory>(&self, mem: &M) -> Result<u32, RingError<M::Error>> {
        let sent = mem.position(Side::Send);
        let taken = self.refresh(mem, sent)?;
        self.seen.store(taken, Ordering::Release);
        Ok(self.room_at(sent, taken) as u32)
    }

    /// Bytes that can be on their way at one time.
    pub fn capacity(&self) -> u32 {
        // A ring's bytes fit 32 bits.
        self.mask as u32
    }

    /// Bytes that could be put now, for a caller without the lock. `None`: position and index could
    /// not be read together, because another client kept changing them; try again.
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

    /// Asks the other side to wake us when there is room, and looks once more; as `peek`. If there
    /// is none now, it is safe to sleep until woken.
    ///
    /// # Errors
    /// `BadIndex`, `Memory`.
    pub fn arm<M: RingMemory>(&self, mem: &mut M) -> Result<Option<u32>, RingError<M::Error>> {
        mem.store_peer(Word::RoomArmed, 1)?;
        mem.fence();
        mem.flush_peer(Word::RoomArmed)?;
        self.peek(mem)
    }

    /// Room when `sent` bytes were put and `taken` taken; 0 when that cannot be.
    #[inline]
    fn room_at(&self, sent: u64, taken: u64) -> u64 {
        self.mask.saturating_sub(sent.wrapping_sub(taken))
    }

    /// Loads how many bytes the other side has taken, when `sent` were put.
    #[inline]
    fn refresh<M: RingMemory>(&self, mem: &M, sent: u64) -> Result<u64, RingError<M::Error>> {
        // In this order: what another thread has seen before we look is never more than we see.
        let before = self.seen.load(Ordering::Acquire);
        let index = u64::from(mem.load(Word::LocalRead));
        let unread = sent.wrapping_sub(index) & self.mask;
        // The reader can only have read more of what we wrote, never "unread" it.
        if index > self.mask || unread > sent.wrapping_sub(before) {
            return Err(RingError::BadIndex);
        }
        Ok(sent.wrapping_sub(unread))
    }
}

/// The ring the other side writes and this side reads.
///
/// May be shared by threads: what is remembered here only saves looks at the index.
#[derive(Debug)]
pub struct Consumer {
    /// Bytes of the ring less one.
    mask: u64,
    /// Bytes that the other side had put in all at the last load: a lower bound.
    seen: AtomicU64,
    /// The position when we last gave room back.
    given: AtomicU64,
    /// Most bytes whose room is kept back.
    most_kept: u64,
}

impl Consumer {
    /// For a ring of `ring_bytes` bytes, a power of two of at most 2^31.
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

    /// Takes as many bytes as are there and fit, and gives room back as
    /// [`give_back`](Consumer::give_back) does; `notify` says whether the other side is to be
    /// woken. 0 bytes: there are none, or `buffer` is empty.
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

    /// As `receive` when the other side is gone: its memory is not touched.
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

    /// Copies out as many bytes as have arrived and fit, for a caller with the lock. Their room
    /// is not given back before [`publish`](Consumer::publish).
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

    /// As `take` of at most `bytes` bytes into what is no slice: `copy` copies some of them out of
    /// the own ring (memory, offset in the ring, offset in the buffer, how many).
    ///
    /// # Errors
    /// `BadIndex`; `Memory` when `copy` says so, and nothing is taken.
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

    /// The first half of `take_with` in the usual case and by few instructions: finds as many bytes
    /// as `wanted` says when it is told how many are there, if the ring does not end among them.
    /// `None`: there are none such.
    ///
    /// In two halves because the copy between them, as an argument, would be a call.
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
        // As in `refresh`.
        if index > mask || unread < self.there_at(received, before) {
            return Err(RingError::BadIndex);
        }
        let put = received.wrapping_add(unread);
        self.seen.store(put, Ordering::Release);
        let Some(bytes) = wanted(unread as usize) else {
            return Ok(None);
        };
        let offset = received & mask;
        if bytes as u64 > unread.min(mask.wrapping_sub(offset)) {
            return Ok(None);
        }
        Ok(Some(Found {
            offset: offset as usize,
            bytes,
            received,
            put,
        }))
    }

    /// Bytes that are there from the first one on that was found, up to the end of the ring.
    #[inline(always)]
    pub fn in_one_piece(&self, found: Found) -> usize {
        let there = found.put.wrapping_sub(found.received) as usize;
        there.min((self.mask as usize + 1).saturating_sub(found.offset))
    }

    /// The second half, once the bytes are copied: they are taken. Whether their room may have to
    /// be given back, by [`give_back`](Consumer::give_back).
    #[inline(always)]
    pub fn take_found<M: RingMemory>(&self, mem: &mut M, found: Found) -> bool {
        let received = found.received.wrapping_add(found.bytes as u64);
        mem.set_position(Side::Receive, received);
        // At least as much as `give_back` finds, which is the one to decide.
        let filled = found.put.wrapping_sub(self.given.load(Ordering::Relaxed));
        filled > self.most_kept || mem.load(Word::RoomArmed) != 0
    }

    /// Gives the room of everything taken back if the other side waits for it, or sees more than
    /// a quarter of the ring filled; whether it did. Call it after each `take` that took something.
    ///
    /// Otherwise room is kept back, because each store of the index takes a cache line away from
    /// the other side, or is a write on the bus. No writer waits for the room that is kept: when a
    /// writer finds no room, three quarters of the ring are unread, and the next `take` of those
    /// gives all room back and sees that the writer waits. The room of a ring of the base protocol
    /// is never kept back, because two programs may both send that much before either receives.
    ///
    /// # Errors
    /// `Memory`.
    #[inline]
    pub fn give_back<M: RingMemory>(&self, mem: &mut M) -> Result<bool, RingError<M::Error>> {
        // Room that others have given back since counts as filled: too early is harmless.
        let given = self.given.load(Ordering::Relaxed);
        let filled = u64::from(mem.load(Word::LocalWrite)).wrapping_sub(given) & self.mask;
        let kept = mem.position(Side::Receive).wrapping_sub(given);
        let is_due = self.is_due(mem, filled, kept);
        if is_due {
            self.publish(mem)?;
        }
        Ok(is_due)
    }

    /// Whether room is to be given back when `filled` bytes of the ring look full to the other
    /// side, and the room of `kept` bytes has been kept back.
    #[inline]
    fn is_due<M: RingMemory>(&self, mem: &M, filled: u64, kept: u64) -> bool {
        filled.max(kept) > self.most_kept || mem.load(Word::RoomArmed) != 0
    }

    /// Gives the room of everything taken back to the other side.
    ///
    /// # Errors
    /// `Memory`.
    #[inline]
    pub fn publish<M: RingMemory>(&self, mem: &mut M) -> Result<(), RingError<M::Error>> {
        let received = mem.position(Side::Receive);
        self.given.store(received, Ordering::Relaxed);
        // Orders the copy out before the index, so the writer cannot overwrite what is copied.
        mem.store_peer(Word::LocalRead, (received & self.mask) as u32)?;
        Ok(())
    }

    /// Whether the other side asked to be woken when there is room; it is asked for once. Call it
    /// after the `publish`.
    #[inline]
    pub fn must_notify<M: RingMemory>(&self, mem: &mut M) -> bool {
        // The index must be visible before this look: the other side stores its wish, then looks.
        mem.fence();
        mem.load(Word::RoomArmed) != 0 && mem.clear(Word::RoomArmed) != 0
    }

    /// Bytes that can be taken now, for a caller that holds the lock.
    ///
    /// # Errors
    /// `BadIndex`.
    pub fn available<M: RingMemory>(&self, mem: &M) -> Result<u32, RingError<M::Error>> {
        let received = mem.position(Side::Receive);
        let put = self.refresh(mem, received)?;
        self.seen.store(put, Ordering::Release);
        Ok(self.there_at(received, put) as u32)
    }

    /// Bytes that could be taken now, for a caller without the lock. `None`: position and index
    /// could not be read together, because another client kept changing them; try again.
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

    /// Whether nothing can be taken now, for a caller without the lock that polls: two loads. A bad
    /// index is not "nothing", so that the next take finds it.
    #[inline]
    pub fn is_empty<M: RingMemory>(&self, mem: &M) -> bool {
        let offset = mem.position(Side::Receive) & self.mask;
        // The next bytes come with the index, each with a cache line of their own: on their way at
        // the same time instead of one after the other.
        mem.touch(offset as usize);
        // In this order: whatever others take meanwhile, at the second load nothing was there.
        u64::from(mem.load(Word::LocalWrite)) == offset
    }

    /// Asks the other side to wake us when bytes come, and looks once more; as `peek`. If there are
    /// none now, it is safe to sleep until woken.
    ///
    /// # Errors
    /// `BadIndex`, `Memory`.
    pub fn arm<M: RingMemory>(&self, mem: &mut M) -> Result<Option<u32>, RingError<M::Error>> {
        mem.store_peer(Word::BytesArmed, 1)?;
        mem.fence();
        mem.flush_peer(Word::BytesArmed)?;
        self.peek(mem)
    }

    /// Bytes there when `put` bytes were put and `received` taken; 0 when that cannot be, as when
    /// others have taken more than we have seen put.
    #[inline]
    fn there_at(&self, received: u64, put: u64) -> u64 {
        let there = put.wrapping_sub(received);
        if there > self.mask { 0 } else { there }
    }

    /// Loads how many bytes the other side has put, when `received` were taken.
    #[inline]
    fn refresh<M: RingMemory>(&self, mem: &M, received: u64) -> Result<u64, RingError<M::Error>> {
        // In this order: what another thread has seen before we look is never more than we see.
        let before = self.seen.load(Ordering::Acquire);
        let index = u64::from(mem.load(Word::LocalWrite));
        let unread = index.wrapping_sub(received) & self.mask;
        // The writer can only have added to what we have not read yet.
        if index > self.mask || unread < self.there_at(received, before) {
            return Err(RingError::BadIndex);
        }
        Ok(received.wrapping_add(unread))
    }
}
