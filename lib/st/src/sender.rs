//! The sending half of a channel: push and put.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

use scif::raw::{Data, Range, Source};
use scif::{Memory, RmaFlags, Waiting};
use st_core::queue::{self, Descriptor};
use zerocopy::{Immutable, IntoBytes};

use crate::MAX_HEADER_BYTES;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::half::{Half, transfer_error};
use crate::region::{Mapper, Place, Region, Registered, Remote};
use crate::shared::Shared;
use crate::wait::{Condition, wait};

/// The sending half of a channel.
pub struct Sender {
    pub(crate) half: Half,
    queue: queue::Sender,
}

/// The wait for room in the peer's queue.
struct Room<'a> {
    shared: &'a Shared,
    queue: &'a mut queue::Sender,
    slots: u64,
}

impl Condition for Room<'_> {
    #[inline]
    fn look(&mut self) -> Result<bool> {
        let windows = self.shared.windows()?;
        let room = self.queue.room(&windows);
        Ok(room.map_err(|error| self.shared.queue_error(error))? >= self.slots)
    }

    fn arm(&mut self) -> Result<bool> {
        let mut windows = self.shared.windows()?;
        let room = self.queue.arm(&mut windows);
        Ok(room.map_err(|error| self.shared.queue_error(error))? >= self.slots)
    }
}

/// The bytes of a program's header, filled up with zeros.
#[inline]
pub(crate) fn message<T: IntoBytes + Immutable>(header: &T) -> [u8; MAX_HEADER_BYTES] {
    const {
        assert!(
            size_of::<T>() <= MAX_HEADER_BYTES,
            "a header has at most 32 bytes"
        )
    };
    let mut message = [0; MAX_HEADER_BYTES];
    message[..size_of::<T>()].copy_from_slice(header.as_bytes());
    message
}

impl Sender {
    pub(crate) fn new(half: Half, queue: queue::Sender) -> Self {
        Self { half, queue }
    }

    /// Sends a header; waits while the peer's queue is full.
    ///
    /// # Errors
    /// `Ended`, `Broken`, `ENODEV`: the connection has ended.
    #[inline]
    pub fn push<T: IntoBytes + Immutable>(&mut self, header: &T) -> Result<()> {
        self.push_until(header, Deadline::Never)
    }

    /// Sends a header if there is room.
    ///
    /// # Errors
    /// Those of [`push`](Self::push), and `WouldBlock`.
    #[inline]
    pub fn try_push<T: IntoBytes + Immutable>(&mut self, header: &T) -> Result<()> {
        self.push_until(header, Deadline::Now)
    }

    /// Sends a header; waits at most until the deadline.
    ///
    /// # Errors
    /// Those of [`push`](Self::push). `WouldBlock`, `TimedOut`: the header was not sent.
    #[inline]
    pub fn push_until<T: IntoBytes + Immutable>(
        &mut self,
        header: &T,
        deadline: Deadline,
    ) -> Result<()> {
        self.send_message(&message(header), deadline)
    }

    /// Sends headers in order; waits while the peer's queue is full. For each header that finds
    /// room this costs less than a [`push`](Self::push): it looks once for all of them whether the
    /// peer sleeps or has ended.
    ///
    /// # Errors
    /// Those of [`push`](Self::push). Some headers may have been sent.
    pub fn push_all<T: IntoBytes + Immutable>(&mut self, headers: &[T]) -> Result<()> {
        let mut messages = headers.iter().map(message);
        loop {
            self.send_messages(&mut messages)?;
            if messages.len() == 0 {
                return Ok(());
            }
            self.wait_for_more_room(1, Deadline::Never)?;
        }
    }

    /// Sends as many of the headers as there is room for, as [`push_all`](Self::push_all) does,
    /// and returns their number.
    ///
    /// # Errors
    /// Those of [`push`](Self::push). `WouldBlock`: there is room for none of them.
    pub fn try_push_all<T: IntoBytes + Immutable>(&mut self, headers: &[T]) -> Result<usize> {
        let mut messages = headers.iter().map(message);
        match self.send_messages(&mut messages)? {
            0 if !headers.is_empty() => {
                // The peer may have announced its end.
                self.wait_for_more_room(1, Deadline::Now)?;
                self.send_messages(&mut messages)
            }
            sent => Ok(sent),
        }
    }

    /// Copies data into the peer's memory; the peer's program does not notice. The data may be
    /// changed once this returns.
    ///
    /// # Errors
    /// `Outside`, `Gone`: nothing was moved. Those of [`push`](Self::push).
    #[inline]
    pub fn put(&mut self, data: &[u8], to: Place) -> Result<()> {
        self.put_source(data.into(), to)
    }

    /// Puts data that is given as a slice or by address, as [`put`](Self::put) does.
    ///
    /// # Errors
    /// Those of [`put`](Self::put), and `EFAULT`.
    #[inline]
    pub fn put_source(&mut self, data: Source<'_>, to: Place) -> Result<()> {
        let shared = &self.half.shared;
        let bytes = data.bytes() as u64;
        let offset = to.check(shared, bytes)?;
        if bytes == 0 {
            return shared.check();
        }
        // The copy is complete on return, also if the driver has to make it.
        let written = shared.endpoint.vwrite_source(data, offset, RmaFlags::SYNC);
        written.map_err(transfer_error)?;
        shared.drain();
        Ok(())
    }

    /// Copies data into the peer's memory, then sends a header: a program that pulls it finds the
    /// data there. Waits first, while the peer's queue is full.
    ///
    /// # Errors
    /// Those of [`put`](Self::put) and [`push`](Self::push). No header is sent if the data was not
    /// put.
    #[inline]
    pub fn put_with<T: IntoBytes + Immutable>(
        &mut self,
        data: &[u8],
        to: Place,
        header: &T,
    ) -> Result<()> {
        self.put_with_until(data, to, header, Deadline::Never)
    }

    /// Puts data and sends a header as [`put_with`](Self::put_with) does; waits at most until the
    /// deadline.
    ///
    /// # Errors
    /// Those of [`put_with`](Self::put_with). `WouldBlock`, `TimedOut`: nothing was moved or sent.
    #[inline]
    pub fn put_with_until<T: IntoBytes + Immutable>(
        &mut self,
        data: &[u8],
        to: Place,
        header: &T,
        deadline: Deadline,
    ) -> Result<()> {
        self.put_data_with(data, to, header, deadline)
    }

    /// Puts data that is given as a slice or by address, and sends a header as
    /// [`put_with_until`](Self::put_with_until) does.
    ///
    /// # Errors
    /// Those of [`put_with_until`](Self::put_with_until), and `EFAULT`.
    #[inline]
    pub fn put_source_with<T: IntoBytes + Immutable>(
        &mut self,
        data: Source<'_>,
        to: Place,
        header: &T,
        deadline: Deadline,
    ) -> Result<()> {
        self.put_data_with(data, to, header, deadline)
    }

    #[inline(always)]
    fn put_data_with<'a, T: IntoBytes + Immutable>(
        &mut self,
        data: impl Data<'a>,
        to: Place,
        header: &T,
        deadline: Deadline,
    ) -> Result<()> {
        let message = message(header);
        match self.put_short(data, &to, &message) {
            true => Ok(()),
            false => self.put_long(data.into(), to, &message, deadline),
        }
    }

    /// Puts short data and sends a header in the usual case: nothing has changed, room is known,
    /// and the last short put went to the same memory. Returns whether it did; if not, the header
    /// was not sent, and the data still has to be copied.
    #[inline(always)]
    fn put_short<'a>(
        &mut self,
        data: impl Data<'a>,
        to: &Place,
        message: &[u8; MAX_HEADER_BYTES],
    ) -> bool {
        let shared = &self.half.shared;
        // Only this half fills a slot.
        let has_room = self.queue.free() > 0 && shared.is_known_live();
        let Some(mut windows) = shared.windows_undrained().filter(|_| has_room) else {
            return false;
        };
        let Ok(offset) = to.check(shared, data.bytes() as u64) else {
            return false;
        };
        let Some(write) = shared.endpoint.begin_short_write(data, offset) else {
            return false;
        };
        let Ok(()) = self.queue.store_message(&mut windows, message);
        // A full fence.
        drop(write);
        match self.queue.is_awaited(&mut windows) {
            true => self.wake_peer(),
            false => true,
        }
    }

    /// [`put_source_with`](Self::put_source_with) in every case.
    #[inline(never)]
    fn put_long(
        &mut self,
        data: Source<'_>,
        to: Place,
        message: &[u8; MAX_HEADER_BYTES],
        deadline: Deadline,
    ) -> Result<()> {
        self.wait_for_room(1, deadline)?;
        self.put_source(data, to)?;
        // The connection was there for the data; whether it has ended since is not asked again.
        self.half.shared.check_over()?;
        match self.try_send_message(message)? {
            true => Ok(()),
            false => self.wait_and_send_message(message, Deadline::Now),
        }
    }

    /// Returns once everything that this end has put is in the peer's memory, for every program
    /// that looks there and however it learns of it.
    ///
    /// # Errors
    /// Those of the end.
    pub fn fence(&mut self) -> Result<()> {
        self.half.shared.check()?;
        self.half.shared.flush()
    }

    /// Adds to a double word of the peer's memory and returns its former value, in one step for
    /// all that reach the word.
    ///
    /// # Errors
    /// `Invalid`: the place is not a multiple of 8 bytes from the memory's beginning. `Outside`,
    /// `Gone`. `EOPNOTSUPP`: the bus between the nodes has no locked operations. Those of
    /// [`push`](Self::push).
    pub fn fetch_add(&mut self, to: Place, value: u64) -> Result<u64> {
        self.fetch(to, |word| word.fetch_add(value, Ordering::AcqRel))
    }

    /// Subtracts from a double word, as [`fetch_add`](Self::fetch_add) adds.
    ///
    /// # Errors
    /// Those of [`fetch_add`](Self::fetch_add).
    pub fn fetch_sub(&mut self, to: Place, value: u64) -> Result<u64> {
        self.fetch(to, |word| word.fetch_sub(value, Ordering::AcqRel))
    }

    /// Stores 0 in a double word, and otherwise does what [`fetch_add`](Self::fetch_add) does.
    ///
    /// # Errors
    /// Those of [`fetch_add`](Self::fetch_add).
    pub fn fetch_clear(&mut self, to: Place) -> Result<u64> {
        self.fetch(to, |word| word.swap(0, Ordering::AcqRel))
    }

    fn fetch(&mut self, to: Place, operation: impl FnOnce(&AtomicU64) -> u64) -> Result<u64> {
        let shared = &self.half.shared;
        let offset = to.check(shared, size_of::<u64>() as u64)?;
        if offset % size_of::<u64>() as i64 != 0 {
            return Err(Error::Invalid);
        }
        let value = shared.endpoint.fetch(offset, operation);
        value.map_err(transfer_error)
    }

    /// Maps memory for the peer (`st_map`): from now on the peer can reach it on this channel. A
    /// channel has one range at a time.
    ///
    /// # Errors
    /// `Busy`: memory is mapped on this channel. `EAGAIN`: the limit on pinned pages. `ENOMEM`.
    /// `TimedOut`: the peer has made no call since the last 1,800 or so maps and unmaps, nor for
    /// 10 s from now. Those of [`push`](Self::push).
    pub fn map(&mut self, memory: Memory) -> Result<Region> {
        self.mapper().map(memory)
    }

    /// Maps memory that is given by address and stays where it is, as [`map`](Self::map) does. The
    /// peer reaches all of its first and last page by addresses; level 0 counts from its
    /// beginning.
    ///
    /// # Errors
    /// Those of [`map`](Self::map), `EFAULT`.
    pub fn map_range(&mut self, range: Range<'_>) -> Result<Registered> {
        self.mapper().map_range(range)
    }

    /// What maps memory on this channel while this half waits.
    pub fn mapper(&self) -> Mapper {
        Mapper::new(&self.half.shared, self.half.channel)
    }

    /// The memory that the peer has mapped on this channel; waits until it has mapped some for the
    /// first time.
    ///
    /// # Errors
    /// `Gone`: the peer has taken it back. `WouldBlock`, `TimedOut`. Those of
    /// [`push`](Self::push).
    pub fn remote(&mut self, deadline: Deadline) -> Result<Remote> {
        self.half.remote(deadline)
    }

    /// Fails if the connection has ended, for a call that moves nothing.
    ///
    /// # Errors
    /// `Ended`, `Broken`, `ENODEV`: the connection has ended.
    pub fn check(&self) -> Result<()> {
        self.half.check()
    }

    /// Sets how calls wait from now on.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.half.waiting = waiting;
    }

    /// Whether a header can be sent now. If not, the peer has been asked to make the connection's
    /// [endpoint](crate::Connection::endpoint) readable when that changes: for programs that wait
    /// in an event queue of their own, and then call this again.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn arm(&mut self) -> Result<bool> {
        // Records are taken before the peer is asked: those that come later make the endpoint
        // readable.
        self.half.shared.take_records(None)?;
        self.half.shared.check()?;
        let mut room = Room {
            shared: &self.half.shared,
            queue: &mut self.queue,
            slots: 1,
        };
        room.arm()
    }

    /// Whether there is room, by a look at this end's memory.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        let mut room = Room {
            shared: &self.half.shared,
            queue: &mut self.queue,
            slots: 1,
        };
        room.look()
    }

    /// Waits until `slots` slots can be filled.
    #[inline]
    pub(crate) fn wait_for_room(&mut self, slots: u64, deadline: Deadline) -> Result<()> {
        match self.queue.free() >= slots {
            true => Ok(()),
            false => self.wait_for_more_room(slots, deadline),
        }
    }

    #[cold]
    fn wait_for_more_room(&mut self, slots: u64, deadline: Deadline) -> Result<()> {
        let Half {
            shared,
            waiting,
            sleeper,
            ..
        } = &mut self.half;
        let mut room = Room {
            shared,
            queue: &mut self.queue,
            slots,
        };
        wait(shared, sleeper, *waiting, deadline, &mut room)
    }

    /// Sends a header of level 1; waits for room.
    #[inline]
    fn send_message(&mut self, message: &[u8; MAX_HEADER_BYTES], deadline: Deadline) -> Result<()> {
        match self.send_short(message) {
            true => Ok(()),
            false => self.send_long(message, deadline),
        }
    }

    /// Sends a header of level 1 in the usual case: nothing has changed, and room is known. Returns
    /// whether it was sent.
    #[inline(always)]
    fn send_short(&mut self, message: &[u8; MAX_HEADER_BYTES]) -> bool {
        let Some(mut windows) = self.half.shared.windows_at_once() else {
            return false;
        };
        if self.queue.free() == 0 {
            return false;
        }
        match self.queue.send_message(&mut windows, message) {
            Ok(Some(sent)) if sent.wake => self.wake_peer(),
            Ok(Some(_)) => true,
            // The general path tries again, and reports an error.
            Ok(None) | Err(_) => false,
        }
    }

    /// Ends a short send to a peer that sleeps. Returns true, in a way that hides this from the
    /// compiler: a known result would not come from this call, which could be no jump then.
    #[cold]
    #[inline(never)]
    fn wake_peer(&self) -> bool {
        self.half.shared.wake_peer(self.half.channel);
        black_box(true)
    }

    /// [`send_message`](Self::send_message) in every case.
    #[inline(never)]
    fn send_long(&mut self, message: &[u8; MAX_HEADER_BYTES], deadline: Deadline) -> Result<()> {
        self.half.shared.check_sending()?;
        match self.try_send_message(message)? {
            true => Ok(()),
            false => self.wait_and_send_message(message, deadline),
        }
    }

    /// [`send_message`](Self::send_message) when there is no room.
    #[cold]
    #[inline(never)]
    fn wait_and_send_message(
        &mut self,
        message: &[u8; MAX_HEADER_BYTES],
        deadline: Deadline,
    ) -> Result<()> {
        loop {
            self.wait_for_more_room(1, deadline)?;
            self.half.shared.check_sending()?;
            if self.try_send_message(message)? {
                return Ok(());
            }
        }
    }

    /// Sends a header of level 1 if there is room. Returns whether there was.
    #[inline(always)]
    fn try_send_message(&mut self, message: &[u8; MAX_HEADER_BYTES]) -> Result<bool> {
        let shared = &self.half.shared;
        let sent = self.queue.send_message(&mut shared.windows()?, message);
        let sent = sent.map_err(|error| shared.queue_error(error))?;
        if sent.is_some_and(|sent| sent.wake) {
            shared.wake_peer(self.half.channel);
        }
        Ok(sent.is_some())
    }

    /// Sends headers of level 1 while there is room. Returns how many.
    #[inline]
    fn send_messages(
        &mut self,
        messages: &mut impl Iterator<Item = [u8; MAX_HEADER_BYTES]>,
    ) -> Result<usize> {
        let shared = &self.half.shared;
        shared.check_sending()?;
        let sent = self.queue.send_messages(&mut shared.windows()?, messages);
        let (count, sent) = sent.map_err(|error| shared.queue_error(error))?;
        if sent.wake {
            shared.wake_peer(self.half.channel);
        }
        Ok(count as usize)
    }

    pub(crate) fn send(&mut self, descriptor: &Descriptor, deadline: Deadline) -> Result<()> {
        loop {
            let shared = &self.half.shared;
            shared.check_sending()?;
            let mut windows = shared.windows()?;
            let sent = self.queue.send(&mut windows, descriptor);
            match sent.map_err(|error| shared.queue_error(error))? {
                Some(sent) => {
                    if sent.wake {
                        shared.wake_peer(self.half.channel);
                    }
                    return Ok(());
                }
                None => self.wait_for_room(descriptor.kind().slots(), deadline)?,
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let half = &self.half;
        let queue = self.queue.clone();
        half.shared.remove_user(half.channel, Some(queue), None);
    }
}
