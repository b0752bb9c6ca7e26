//! The receiving half of a channel: pull and get.

use core::sync::atomic::Ordering;

use hal::idle_poll::Watched;
use scif::raw::Target;
use scif::{RmaFlags, Waiting};
use st_core::queue::{self, Descriptor, Kind, Next};
use zerocopy::{FromBytes, IntoBytes};

use crate::MAX_HEADER_BYTES;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::half::{Half, transfer_error};
use crate::region::{Place, Remote};
use crate::shared::Shared;
use crate::wait::{Condition, ShortSleep, wait};

/// The receiving half of a channel.
pub struct Receiver {
    pub(crate) half: Half,
    queue: queue::Receiver,
}

/// The wait for a descriptor in this end's queue.
struct Filled<'a> {
    shared: &'a Shared,
    queue: &'a mut queue::Receiver,
    channel: u32,
}

impl Condition for Filled<'_> {
    #[inline]
    fn look(&mut self) -> Result<bool> {
        match self.shared.own_window_at_once() {
            Some(own) => Ok(self.queue.is_ready(&own)),
            None => Ok(self.queue.is_ready(&self.shared.windows()?)),
        }
    }

    fn arm(&mut self) -> Result<bool> {
        let mut windows = self.shared.windows()?;
        let armed = self.queue.arm(&mut windows);
        let armed = armed.map_err(|error| self.shared.queue_error(error))?;
        if armed.wake {
            self.shared.wake_peer(self.channel);
        }
        Ok(armed.is_ready)
    }

    fn prepare_short_sleep(&mut self) -> Result<ShortSleep> {
        let mut windows = self.shared.windows()?;
        let wake = self.queue.return_all(&mut windows);
        if wake.map_err(|error| self.shared.queue_error(error))? {
            self.shared.wake_peer(self.channel);
        }
        let word = windows.own_word(self.queue.next_word());
        let value = word.load(Ordering::Acquire);
        Ok(match self.queue.is_ready(&windows) {
            true => ShortSleep::No,
            false => ShortSleep::Until(Watched::new(word, value)),
        })
    }
}

impl Receiver {
    pub(crate) fn new(half: Half, queue: queue::Receiver) -> Self {
        Self { half, queue }
    }

    /// Receives a header; waits until there is one.
    ///
    /// # Errors
    /// `OtherLevel`: the next descriptor is one of level 0, or its header does not have the right
    /// size of 32 bytes; it stays in the queue. `Ended`, `Broken`, `ENODEV`: the connection has
    /// ended, and all headers that had arrived have been pulled.
    #[inline]
    pub fn pull<T: FromBytes>(&mut self) -> Result<T> {
        self.pull_until(Deadline::Never)
    }

    /// Receives a header if there is one.
    ///
    /// # Errors
    /// Those of [`pull`](Self::pull).
    #[inline]
    pub fn try_pull<T: FromBytes>(&mut self) -> Result<Option<T>> {
        match self.pull_until(Deadline::Now) {
            Ok(header) => Ok(Some(header)),
            Err(Error::WouldBlock) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Receives a header; waits for it at most until the deadline.
    ///
    /// # Errors
    /// Those of [`pull`](Self::pull), `WouldBlock`, `TimedOut`.
    #[inline]
    pub fn pull_until<T: FromBytes>(&mut self, deadline: Deadline) -> Result<T> {
        const {
            assert!(
                size_of::<T>() <= MAX_HEADER_BYTES,
                "a header has at most 32 bytes"
            )
        };
        let mut message = [0; MAX_HEADER_BYTES];
        let message = &mut message[..size_of::<T>()];
        self.next(message, deadline)?;
        // The size is right, as was checked above.
        T::read_from_bytes(message).map_err(|_| Error::Invalid)
    }

    /// Receives the headers that have arrived, in order, but not more than `headers` has places
    /// and not more than a quarter of this end's queue. Returns their number. Waits until there is
    /// one. For each of them this costs less than a [`pull`](Self::pull).
    ///
    /// # Errors
    /// Those of [`pull`](Self::pull). `OtherLevel`: the next descriptor is one of level 0.
    pub fn pull_some<T: FromBytes + IntoBytes>(&mut self, headers: &mut [T]) -> Result<usize> {
        self.pull_some_until(headers, Deadline::Never)
    }

    /// Receives headers as [`pull_some`](Self::pull_some) does; waits at most until the deadline.
    ///
    /// # Errors
    /// Those of [`pull_some`](Self::pull_some), `WouldBlock`, `TimedOut`.
    pub fn pull_some_until<T: FromBytes + IntoBytes>(
        &mut self,
        headers: &mut [T],
        deadline: Deadline,
    ) -> Result<usize> {
        const {
            assert!(
                size_of::<T>() <= MAX_HEADER_BYTES,
                "a header has at most 32 bytes"
            )
        };
        let shared = &self.half.shared;
        let places = headers.iter_mut().map(IntoBytes::as_mut_bytes);
        let found = self.queue.receive_messages(&mut shared.windows()?, places);
        let (count, wake) = found.map_err(|error| shared.queue_error(error))?;
        if wake {
            shared.wake_peer(self.half.channel);
        }
        match headers.first_mut() {
            Some(first) if count == 0 => self.next(first.as_mut_bytes(), deadline).map(|()| 1),
            _ => Ok(count as usize),
        }
    }

    /// Copies data out of the peer's memory; the peer's program does not notice. The data is there
    /// when this returns.
    ///
    /// # Errors
    /// `Outside`, `Gone`. `Ended`, `Broken`, `ENODEV`: the connection has ended.
    #[inline]
    pub fn get(&mut self, buffer: &mut [u8], from: Place) -> Result<()> {
        self.get_target(buffer.into(), from)
    }

    /// Copies data as [`get`](Self::get) does, into memory that is given as a slice or by address.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and `EFAULT`.
    #[inline]
    pub fn get_target(&mut self, buffer: Target<'_>, from: Place) -> Result<()> {
        let shared = &self.half.shared;
        let bytes = match &buffer {
            Target::Slice(bytes) => bytes.len(),
            Target::Range(range) => range.bytes(),
        };
        let offset = from.check(shared, bytes as u64)?;
        if bytes == 0 {
            return shared.check();
        }
        let read = shared.endpoint.vread_target(buffer, offset, RmaFlags::SYNC);
        read.map_err(transfer_error)
    }

    /// Receives a header, then fills `buffer` from the place that `place` finds in it.
    ///
    /// # Errors
    /// Those of [`pull`](Self::pull), [`get`](Self::get) and `place`. The header is consumed even
    /// if the data cannot be copied.
    pub fn pull_get<T: FromBytes>(
        &mut self,
        buffer: &mut [u8],
        place: impl FnOnce(&T) -> Result<Place>,
    ) -> Result<T> {
        let header = self.pull()?;
        self.get(buffer, place(&header)?)?;
        Ok(header)
    }

    /// The memory that the peer has mapped on this channel, as
    /// [`Sender::remote`](crate::Sender::remote) gives it.
    ///
    /// # Errors
    /// Those of [`Sender::remote`](crate::Sender::remote).
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

    /// Whether a header can be pulled now. If not, the peer has been asked to make the
    /// connection's [endpoint](crate::Connection::endpoint) readable when that changes: for
    /// programs that wait in an event queue of their own, and then call this again.
    ///
    /// # Errors
    /// `Ended`, `Broken`, `ENODEV`: the connection has ended.
    pub fn arm(&mut self) -> Result<bool> {
        // Records are taken before the peer is asked: those that come later make the endpoint
        // readable.
        let update = self.half.shared.take_records(None);
        let alive = update.and_then(|_| self.half.shared.check());
        let mut filled = Filled {
            shared: &self.half.shared,
            queue: &mut self.queue,
            channel: self.half.channel,
        };
        match alive {
            Ok(()) => filled.arm(),
            // Headers that have arrived come before the end.
            Err(end) => filled.look()?.then_some(true).ok_or(end),
        }
    }

    /// Whether a descriptor is there, by a look at this end's memory.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        Ok(self.queue.is_ready(&self.half.shared.windows()?))
    }

    /// Takes the next descriptor, which must be a header of level 1, and stores its first bytes;
    /// waits for it.
    #[inline(always)]
    fn next(&mut self, message: &mut [u8], deadline: Deadline) -> Result<()> {
        loop {
            let Some(own) = self.half.shared.own_window_at_once() else {
                return self.next_otherwise(message, deadline);
            };
            match self.queue.receive_usual(&own, message) {
                Some(Next::Nothing) => self.wait_for_descriptor(deadline)?,
                Some(_) => return Ok(()),
                None => return self.next_otherwise(message, deadline),
            }
        }
    }

    /// [`next`](Self::next) in every case.
    #[cold]
    #[inline(never)]
    fn next_otherwise(&mut self, message: &mut [u8], deadline: Deadline) -> Result<()> {
        loop {
            let shared = &self.half.shared;
            let found = self.queue.receive_message(&mut shared.windows()?, message);
            match found.map_err(|error| shared.queue_error(error))? {
                Next::Message { wake } => {
                    if wake {
                        shared.wake_peer(self.half.channel);
                    }
                    return Ok(());
                }
                Next::Nothing => self.wait_for_descriptor(deadline)?,
                Next::Other => return Err(Error::OtherLevel),
            }
        }
    }

    /// The next descriptor, which stays in the queue; waits for it.
    pub(crate) fn peek(&mut self, deadline: Deadline) -> Result<Descriptor> {
        loop {
            let shared = &self.half.shared;
            let found = self.queue.peek(&shared.windows()?);
            match found.map_err(|error| shared.queue_error(error))? {
                Some(descriptor) => return Ok(descriptor),
                None => self.wait_for_descriptor(deadline)?,
            }
        }
    }

    /// Takes the descriptor that [`peek`](Self::peek) has returned.
    pub(crate) fn take(&mut self, kind: Kind) -> Result<()> {
        let shared = &self.half.shared;
        let wake = self.queue.take(&mut shared.windows()?, kind);
        if wake.map_err(|error| shared.queue_error(error))? {
            shared.wake_peer(self.half.channel);
        }
        Ok(())
    }

    #[cold]
    fn wait_for_descriptor(&mut self, deadline: Deadline) -> Result<()> {
        let Half {
            shared,
            channel,
            waiting,
            sleeper,
        } = &mut self.half;
        let mut filled = Filled {
            shared,
            queue: &mut self.queue,
            channel: *channel,
        };
        wait(shared, sleeper, *waiting, deadline, &mut filled)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let half = &self.half;
        let queue = self.queue.clone();
        half.shared.remove_user(half.channel, None, Some(queue));
    }
}
