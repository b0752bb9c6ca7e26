//! The state that all parts of a connection share: its endpoint, its queue windows, the peer's
//! records and the threads that sleep.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use core::time::Duration;

use hal::idle_poll::{Ended, IdlePoll, Watched};
use hal::lock::Mutex;
use libredox::Fd;
use scif::{
    Arrived, Endpoint, Errno, Mapping, Memory, PollEntry, Readiness, RecvFlags, SendFlags, poll,
    raw,
};
use scif_abi::limits::MAX_ENDPOINT_RING_BYTES;
use st_core::connection::{Connection, Update};
use st_core::queue;
use st_core::record::{RECORD_BYTES, Record};
use syscall::error::EINTR;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::memory::{OwnWindow, Windows};

/// Most bytes of the stream that are received at a time.
const PIECE: usize = 16 * RECORD_BYTES;

/// Most bytes that one call receives: as many as a stream can hold, so it takes all that had
/// arrived when it began, and a peer that sends without end holds no caller for ever.
const MOST_TAKEN: usize = MAX_ENDPOINT_RING_BYTES as usize;

/// The end of a connection, as far as it is known: it has not ended; the peer has broken the
/// protocol; the peer has announced its end; SCIF has reported the end.
const LIVE: u8 = 0;
const BROKEN: u8 = 1;
const ENDED: u8 = 2;
const LOST: u8 = 3;

/// How long a call waits for room in the stream.
const ROOM_TIME: Duration = Duration::from_secs(10);

/// Most records about sessions that a peer may send before one is taken.
const MOST_SESSION_UPDATES: usize = 4;

/// The number of the next connection of this program.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// One end of a connection.
pub struct Shared {
    /// Tells apart places in the memory of different peers.
    pub number: u32,
    /// Unmapped before the connection ends.
    peer_window: Mapping,
    pub endpoint: Endpoint,
    /// Dropped after the endpoint: its window has ended with the connection then.
    own_window: Memory,
    pub is_local: bool,
    gathers: bool,
    inbox: Mutex<Inbox>,
    /// The rest of a record that found no room in the stream.
    outbox: Mutex<Vec<u8>>,
    /// For each channel, the ends of its queues while it is not attached.
    parked: Mutex<Vec<Parked>>,
    /// [`LIVE`], or why calls fail.
    over: AtomicU8,
    idle_poll: IdlePoll,
}

/// The ends of a channel's queues, which are here while it is not attached.
#[derive(Debug)]
struct Parked {
    sender: Option<queue::Sender>,
    receiver: Option<queue::Receiver>,
    /// Handles of the channel that exist.
    users: u32,
}

struct Inbox {
    connection: Connection,
    sleepers: Vec<SleeperSlot>,
    /// The peer's records about sessions that were not taken yet.
    sessions: Vec<Update>,
    /// Here, because a buffer on the stack would be cleared for each look.
    buffer: [u8; PIECE],
}

/// How much of a record was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// All of it.
    Whole,
    /// A part. The rest follows with a later record: the wait for room has failed with this error.
    Begun(Error),
}

impl Sent {
    /// What follows from an error while a record is sent. A record that is begun must not be
    /// treated as if the peer never got it, unless the connection has ended.
    fn failed(is_begun: bool, error: Error) -> Result<Self> {
        match is_begun && !error.is_end() {
            true => Ok(Self::Begun(error)),
            false => Err(error),
        }
    }
}

/// A thread that may sleep until records arrive.
struct SleeperSlot {
    id: u64,
    sleeps: bool,
    bell: Arc<Fd>,
}

impl Shared {
    /// An end whose set-up is done.
    pub fn new(
        endpoint: Endpoint,
        own_window: Memory,
        peer_window: Mapping,
        connection: Connection,
        is_local: bool,
    ) -> Arc<Self> {
        let agreed = *connection.agreed();
        let parked = (0..connection.own().channels).map(|channel| Parked {
            sender: Some(queue::Sender::new(agreed.peer, channel)),
            receiver: Some(queue::Receiver::new(agreed.own, channel)),
            users: 0,
        });
        Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            peer_window,
            gathers: endpoint.gathers(),
            endpoint,
            own_window,
            is_local,
            inbox: Mutex::new(Inbox {
                connection,
                sleepers: Vec::new(),
                sessions: Vec::new(),
                buffer: [0; PIECE],
            }),
            outbox: Mutex::new(Vec::new()),
            parked: Mutex::new(parked.collect()),
            over: AtomicU8::new(LIVE),
            idle_poll: IdlePoll::default(),
        })
    }

    /// The queue windows.
    ///
    /// # Errors
    /// None: both can be read and written.
    #[inline]
    pub fn windows(&self) -> Result<Windows<'_>> {
        Windows::new(&self.own_window, &self.peer_window, self.gathers)
    }

    /// The queue windows for a short send: `None` unless the connection is alive and nothing has
    /// to be drained, by the fewest looks. Otherwise [`check_sending`](Self::check_sending) and
    /// [`windows`](Self::windows) find out.
    #[inline(always)]
    pub fn windows_at_once(&self) -> Option<Windows<'_>> {
        match self.endpoint.can_store_at_once() && self.is_known_live() {
            true => self.windows_undrained(),
            false => None,
        }
    }

    /// The queue windows for a caller that finds out that nothing has to be drained.
    #[inline(always)]
    pub fn windows_undrained(&self) -> Option<Windows<'_>> {
        Windows::undrained(&self.own_window, &self.peer_window)
    }

    /// Whether no end of the connection is known.
    #[inline(always)]
    pub fn is_known_live(&self) -> bool {
        self.over.load(Ordering::Relaxed) == LIVE
    }

    /// This end's queue window alone, for a call that stores nowhere. `None`:
    /// [`windows`](Self::windows) says why.
    #[inline(always)]
    pub fn own_window_at_once(&self) -> Option<OwnWindow<'_>> {
        OwnWindow::at_once(&self.own_window)
    }

    /// Runs an action on the protocol's state of the connection.
    pub fn with_connection<T>(&self, action: impl FnOnce(&mut Connection) -> T) -> T {
        action(&mut self.inbox.lock().connection)
    }

    /// Drains stores into the peer's memory, if they may arrive out of order.
    #[inline]
    pub fn drain(&self) {
        if self.gathers {
            hal::mem::drain_writes();
        }
    }

    /// Loads a word of the peer's memory: then everything that was stored there before has
    /// arrived.
    ///
    /// # Errors
    /// None: it can be read.
    pub fn flush(&self) -> Result<()> {
        self.drain();
        self.peer_window.load_acquire_u64(0)?;
        Ok(())
    }

    /// Whether records may have arrived, or the connection may have ended, by a look at this end's
    /// memory.
    #[inline]
    pub fn may_be_readable(&self) -> bool {
        self.endpoint.may_be_readable()
    }

    /// Fails if the connection has ended, without a look at the peer's memory: for calls that
    /// store there. The loss of the peer's node shows once the driver has noticed it.
    ///
    /// # Errors
    /// `Broken`, `Ended`, `ENODEV`.
    #[inline]
    pub fn check_sending(&self) -> Result<()> {
        match self.endpoint.is_connected() && self.over.load(Ordering::Relaxed) == LIVE {
            true => Ok(()),
            false => Err(self.reason()),
        }
    }

    /// Fails if the connection is known to have ended, because the peer has announced that or has
    /// broken the protocol, or because a call has found it.
    ///
    /// # Errors
    /// Those of [`check_sending`](Self::check_sending).
    #[inline]
    pub fn check_over(&self) -> Result<()> {
        match self.over.load(Ordering::Relaxed) {
            LIVE => Ok(()),
            _ => Err(self.reason()),
        }
    }

    /// Fails if the connection has ended.
    ///
    /// # Errors
    /// `Broken`, `Ended`, `ENODEV`.
    pub fn check(&self) -> Result<()> {
        match self.is_live() {
            true => Ok(()),
            false => Err(self.reason()),
        }
    }

    /// Whether the connection has not ended. Takes no records.
    pub fn is_live(&self) -> bool {
        self.endpoint.is_live() && self.over.load(Ordering::Relaxed) == LIVE
    }

    /// Why the connection has ended.
    #[cold]
    pub fn reason(&self) -> Error {
        match self.over.load(Ordering::Relaxed) {
            BROKEN => return Error::Broken,
            ENDED => return Error::Ended,
            _ => {}
        }
        // The stream may still hold records, which are no longer of use.
        let mut bytes = [0; PIECE];
        for _ in 0..MOST_TAKEN / PIECE + 1 {
            match self.endpoint.recv(&mut bytes, RecvFlags::empty()) {
                Err(error) => return error.into(),
                Ok(0) => break,
                Ok(_) => {}
            }
        }
        Error::Ended
    }

    /// Ends the connection, because the peer has broken the protocol.
    #[cold]
    pub fn end(&self) -> Error {
        self.over.store(BROKEN, Ordering::Relaxed);
        // It fails when the connection has gone already.
        let _ = raw::shutdown(self.endpoint.fd());
        Error::Broken
    }

    /// The error of a call on the endpoint, with which the connection may have ended.
    #[cold]
    fn failed(&self, error: scif::Error) -> Error {
        let error = Error::from(error);
        if error.is_end() {
            // Calls that only store would not notice the end by themselves.
            self.over.store(LOST, Ordering::Relaxed);
        }
        error
    }

    /// The error of a queue operation: the connection ends with it.
    #[cold]
    pub fn queue_error<E>(&self, _: queue::QueueError<E>) -> Error {
        self.end()
    }

    /// Closes the connection, and returns this end's queue window with what has arrived. `None`:
    /// other parts still use the connection.
    pub fn close(shared: Arc<Self>) -> Option<Memory> {
        let Self {
            peer_window,
            endpoint,
            own_window,
            ..
        } = Arc::into_inner(shared)?;
        drop(peer_window);
        drop(endpoint);
        Some(own_window)
    }

    /// Takes the records that have arrived, and wakes the threads that sleep, except `reader`.
    /// Returns whether there were any. What arrives meanwhile may be left for the next call; then
    /// it wakes `reader`, too.
    ///
    /// # Errors
    /// `Broken`, and those of the end.
    #[inline]
    pub fn take_records(&self, reader: Option<u64>) -> Result<bool> {
        self.take_into(&mut self.inbox.lock(), reader, true)
    }

    /// [`take_records`](Self::take_records) before a sleep in the driver, which reports its own
    /// death: if nothing has arrived, a look at this end's memory is enough.
    ///
    /// # Errors
    /// Those of [`take_records`](Self::take_records).
    pub fn take_records_that_are_there(&self) -> Result<bool> {
        self.take_into(&mut self.inbox.lock(), None, false)
    }

    /// `asks`: if nothing more has arrived, the driver is asked now and then whether it is alive.
    fn take_into(&self, inbox: &mut Inbox, reader: Option<u64>, asks: bool) -> Result<bool> {
        let mut any = false;
        let mut taken_bytes = 0;
        loop {
            if taken_bytes >= MOST_TAKEN {
                // No event follows for bytes that are left, so nobody may sleep now.
                inbox.wake(None);
                return Ok(any);
            }
            if self.over.load(Ordering::Relaxed) != LIVE {
                return Err(self.reason());
            }
            if !asks && !self.endpoint.may_be_readable() {
                return Ok(any);
            }
            let count = match self.endpoint.recv(&mut inbox.buffer, RecvFlags::empty()) {
                Ok(0) => return Ok(any),
                Ok(count) => count,
                Err(error) => {
                    inbox.wake(reader);
                    return Err(self.failed(error));
                }
            };
            any = true;
            taken_bytes += count;
            let (endpoint, over) = (&self.endpoint, &self.over);
            let bytes = inbox.buffer.get(..count).unwrap_or(&[]);
            let sessions = &mut inbox.sessions;
            let taken = inbox.connection.receive(bytes, |update| match update {
                // If it cannot be mapped, transfers go through the driver.
                Update::Announced(_, region) => {
                    let _ = endpoint.prepare_window(region.offset, region.length);
                }
                Update::TakenBack(_, region) => endpoint.forget_window(region.offset),
                Update::Ended => over.store(ENDED, Ordering::Relaxed),
                Update::Wake(_) => {}
                // A peer that keeps to the protocol has sent no more by now.
                Update::Session(..) | Update::NoSession(..)
                    if sessions.len() == MOST_SESSION_UPDATES => {}
                Update::Session(..) | Update::NoSession(..) => sessions.push(update),
            });
            inbox.wake(reader);
            taken.map_err(|_| self.end())?;
        }
    }

    /// Takes the peer's records about sessions, oldest first.
    pub fn take_session_updates(&self) -> Vec<Update> {
        core::mem::take(&mut self.inbox.lock().sessions)
    }

    /// Notes that a thread is going to sleep, and takes the records that have arrived. Returns
    /// whether there were any. A thread that takes records from now on rings this thread's bell.
    ///
    /// # Errors
    /// Those of [`take_records`](Self::take_records).
    pub fn fall_asleep(&self, id: u64) -> Result<bool> {
        let mut inbox = self.inbox.lock();
        if let Some(slot) = inbox.sleepers.iter_mut().find(|slot| slot.id == id) {
            slot.sleeps = true;
        }
        self.take_into(&mut inbox, Some(id), true)
    }

    /// Sleeps shortly until records have come since the mark was read, the connection ends, or a
    /// word changes. Returns whether any of that was seen. Makes no request to the driver.
    ///
    /// # Errors
    /// `EINTR`.
    pub fn sleep_shortly(&self, mark: Arrived, word: Watched) -> Result<bool> {
        if !self.idle_poll.may_pay() {
            return Ok(false);
        }
        let Some([bytes, state]) = self.endpoint.watched(mark) else {
            return Ok(true);
        };
        match self.idle_poll.sleep(&[word, bytes, state]) {
            Ended::Changed => Ok(true),
            Ended::InVain => Ok(false),
            Ended::Interrupted => Err(syscall::error::Error::new(EINTR).into()),
        }
    }

    /// Sleeps in the driver until records have come since the mark was read, even if another
    /// thread takes them, or the connection ends; it may return earlier. `false`: the driver lets
    /// no more requests wait.
    ///
    /// # Errors
    /// `EINTR`; those of the end.
    pub fn sleep_past(&self, mark: Arrived) -> Result<bool> {
        match self.endpoint.wait_past(mark) {
            Ok(()) => Ok(true),
            Err(scif::Error::Scif(Errno::NoMemory)) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Notes that a thread may sleep; `bell` wakes it.
    pub fn add_sleeper(&self, id: u64, bell: &Arc<Fd>) {
        let slot = SleeperSlot {
            id,
            sleeps: false,
            bell: bell.clone(),
        };
        self.inbox.lock().sleepers.push(slot);
    }

    /// Undoes [`add_sleeper`](Self::add_sleeper).
    pub fn remove_sleeper(&self, id: u64) {
        self.inbox.lock().sleepers.retain(|slot| slot.id != id);
    }

    /// Sends a record, after everything that found no room before. Waits for room for
    /// [`ROOM_TIME`]: a peer that makes no call takes nothing out of the stream.
    ///
    /// # Errors
    /// `TimedOut`, and those of polling: nothing of the record was sent. Those of the end.
    pub fn send(&self, record: &Record) -> Result<Sent> {
        // Two programs that only map memory would otherwise leave each other no room.
        if self.may_be_readable() {
            self.take_records(None)?;
        }
        let mut is_begun = self.try_send(record)?;
        if is_begun && self.outbox.lock().is_empty() {
            return Ok(Sent::Whole);
        }
        let sent = self.send_with_waits(record, &mut is_begun);
        sent.map_or_else(|error| Sent::failed(is_begun, error), |()| Ok(Sent::Whole))
    }

    /// [`send`](Self::send) when there is too little room.
    fn send_with_waits(&self, record: &Record, is_begun: &mut bool) -> Result<()> {
        let deadline = Deadline::after(ROOM_TIME)?;
        loop {
            self.take_records(None)?;
            let both = Readiness::IN | Readiness::OUT;
            poll(
                &mut [PollEntry::new(&self.endpoint, both)],
                deadline.left()?,
            )?;
            *is_begun = *is_begun || self.try_send(record)?;
            if *is_begun && self.send_rest(&mut self.outbox.lock())? {
                return Ok(());
            }
        }
    }

    /// Sends a record if there is room for some of it; the rest is sent before all that follows.
    fn try_send(&self, record: &Record) -> Result<bool> {
        let mut outbox = self.outbox.lock();
        if !self.send_rest(&mut outbox)? {
            return Ok(false);
        }
        let bytes = record.encode();
        let sent = self.endpoint.send(&bytes, SendFlags::empty())?;
        if sent > 0 {
            outbox.extend_from_slice(&bytes[sent..]);
        }
        Ok(sent > 0)
    }

    /// Sends what found no room before. Returns whether that is all.
    fn send_rest(&self, outbox: &mut Vec<u8>) -> Result<bool> {
        if !outbox.is_empty() {
            let sent = self.endpoint.send(outbox, SendFlags::empty())?;
            outbox.drain(..sent);
        }
        Ok(outbox.is_empty())
    }

    /// Sends a record now, or together with the next one, without waiting: for records that take
    /// back an earlier one, of which there are never more than channels.
    ///
    /// # Errors
    /// Those of the end.
    pub fn post(&self, record: &Record) -> Result<()> {
        if !self.try_send(record)? {
            self.outbox.lock().extend_from_slice(&record.encode());
        }
        Ok(())
    }

    /// Wakes the peer, which sleeps on a channel. A stream without room is full of records that
    /// wake it anyway. If the connection has ended, the next call reports it.
    #[cold]
    pub fn wake_peer(&self, channel: u32) {
        self.say(&Record::Wake { channel });
    }

    /// Tells the peer that nothing more comes. So the peer need not wait for the end of the SCIF
    /// connection, which comes once this end has no memory of the peer mapped.
    pub fn say_end(&self) {
        self.say(&Record::Disconnect);
    }

    /// Sends a record if there is room.
    fn say(&self, record: &Record) {
        // If the connection has ended, the next call reports it.
        let _ = self.try_send(record);
    }

    /// Takes the ends of a channel's queues.
    ///
    /// # Errors
    /// `Invalid`: there is no such channel. `Busy`: it is attached.
    pub fn attach(&self, channel: u32) -> Result<(queue::Sender, queue::Receiver)> {
        let mut parked = self.parked.lock();
        let ends = parked.get_mut(channel as usize).ok_or(Error::Invalid)?;
        if ends.users > 0 {
            return Err(Error::Busy);
        }
        match (ends.sender.take(), ends.receiver.take()) {
            (Some(sender), Some(receiver)) => {
                ends.users = 2;
                Ok((sender, receiver))
            }
            _ => Err(Error::Busy),
        }
    }

    /// Notes one more user of a channel, which stays attached as long as there are any.
    pub fn add_user(&self, channel: u32) {
        if let Some(ends) = self.parked.lock().get_mut(channel as usize) {
            ends.users += 1;
        }
    }

    /// Notes that a user of a channel has gone, and takes back the end of a queue that it had.
    pub fn remove_user(
        &self,
        channel: u32,
        sender: Option<queue::Sender>,
        receiver: Option<queue::Receiver>,
    ) {
        if let Some(ends) = self.parked.lock().get_mut(channel as usize) {
            ends.users -= 1;
            ends.sender = sender.or(ends.sender.take());
            ends.receiver = receiver.or(ends.receiver.take());
        }
    }
}

impl Inbox {
    /// Rings the bells of all threads that sleep, except the reader's.
    fn wake(&mut self, reader: Option<u64>) {
        for slot in &mut self.sleepers {
            if Some(slot.id) != reader && core::mem::take(&mut slot.sleeps) {
                // It fails when the bell has rung so often that the thread is awake.
                let _ = slot.bell.write(&[1]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::played::Driver;

    #[test]
    fn a_peer_that_sends_without_end_holds_no_caller() {
        let driver = Driver::default();
        driver.send_for_ever(&Record::Wake { channel: 0 });
        driver.play(|| {
            let shared = driver.connection(&Options::new());
            let bell = Arc::new(Fd::new(77));
            shared.add_sleeper(1, &bell);
            assert_eq!(shared.take_records(None), Ok(true));
            let once = driver.received.get();
            assert!((MOST_TAKEN..MOST_TAKEN + PIECE).contains(&once), "{once}");
            // It may not sleep, because it has left bytes behind.
            assert_eq!(shared.fall_asleep(1), Ok(true));
            assert_eq!(driver.rung(77), 1);
            assert!(!shared.inbox.lock().sleepers[0].sleeps);
        });
    }

    #[test]
    fn a_record_that_is_begun_is_sent_unless_the_connection_has_ended() {
        let scarce = Error::Scif(scif::Error::from_errno(24));
        for error in [Error::TimedOut, scarce] {
            assert_eq!(Sent::failed(true, error), Ok(Sent::Begun(error)));
            assert_eq!(Sent::failed(false, error), Err(error));
        }
        for is_begun in [true, false] {
            assert_eq!(Sent::failed(is_begun, Error::Ended), Err(Error::Ended));
        }
    }
}
