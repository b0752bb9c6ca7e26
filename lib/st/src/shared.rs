//! The state that all parts of a connection share: endpoint, queue windows, the peer's records and
//! who sleeps.

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
use st_core::connection::{Connection, Update};
use st_core::queue;
use st_core::record::{RECORD_BYTES, Record};

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::memory::Windows;

/// Bytes of the stream that are taken at a time.
const PIECE: usize = 16 * RECORD_BYTES;

/// The end of a connection, as far as it is known: none; the peer has broken the protocol; the peer
/// has said that it ends; SCIF has said that it is over.
const LIVE: u8 = 0;
const BROKEN: u8 = 1;
const ENDED: u8 = 2;
const LOST: u8 = 3;

/// How long a call waits for room in the stream.
const ROOM_TIME: Duration = Duration::from_secs(10);

/// Most records about sessions that a peer may send before one is taken.
const MOST_TOLD: usize = 4;

/// The number of the next connection of this program.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// One end of a connection.
pub struct Shared {
    /// Tells positions in the memory of different peers apart.
    pub number: u32,
    /// Unmapped before the connection ends.
    peer_window: Mapping,
    pub endpoint: Endpoint,
    /// Its window has gone with the connection when this goes.
    own_window: Memory,
    pub is_local: bool,
    gathers: bool,
    inbox: Mutex<Inbox>,
    /// The rest of a record that did not fit.
    outbox: Mutex<Vec<u8>>,
    /// For each channel, its ends while they are not attached.
    parked: Mutex<Vec<Parked>>,
    /// [`LIVE`], or why no call goes on.
    over: AtomicU8,
    idle_poll: IdlePoll,
}

/// The queue ends of a channel that nobody uses.
#[derive(Debug)]
struct Parked {
    sender: Option<queue::Sender>,
    receiver: Option<queue::Receiver>,
    /// Handles of the channel that live.
    users: u32,
}

struct Inbox {
    connection: Connection,
    sleepers: Vec<SleeperSlot>,
    /// The peer's records about sessions that were not taken yet.
    told: Vec<Update>,
    /// Here, as a buffer on the stack would be cleared for each look.
    buffer: [u8; PIECE],
}

/// A thread that may sleep until something is new.
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
                told: Vec::new(),
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

    /// Looks at or changes what is known of the connection.
    pub fn with_connection<T>(&self, action: impl FnOnce(&mut Connection) -> T) -> T {
        action(&mut self.inbox.lock().connection)
    }

    /// Stores into the peer's memory are drained where they may arrive out of order.
    #[inline]
    pub fn drain(&self) {
        if self.gathers {
            hal::mem::drain_writes();
        }
    }

    /// Loads a word of the peer's memory: everything stored there before has arrived then.
    ///
    /// # Errors
    /// None: it can be read.
    pub fn flush(&self) -> Result<()> {
        self.drain();
        self.peer_window.load_acquire_u64(0)?;
        Ok(())
    }

    /// Whether records may have arrived, or the connection may have ended: a look at own memory.
    #[inline]
    pub fn may_be_readable(&self) -> bool {
        self.endpoint.may_be_readable()
    }

    /// Fails at the end of the connection, without a look at the peer's memory: for calls that
    /// store there. The loss of the peer's node shows when the driver has noticed it.
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

    /// Fails when the peer has said that it ends, or has broken the protocol.
    ///
    /// # Errors
    /// As [`check_sending`](Self::check_sending).
    #[inline]
    pub fn check_over(&self) -> Result<()> {
        match self.over.load(Ordering::Relaxed) {
            LIVE => Ok(()),
            _ => Err(self.reason()),
        }
    }

    /// Fails at the end of the connection.
    ///
    /// # Errors
    /// `Broken`, `Ended`, `ENODEV`.
    pub fn check(&self) -> Result<()> {
        match self.is_live() {
            true => Ok(()),
            false => Err(self.reason()),
        }
    }

    /// Whether the connection has not ended; takes no records.
    pub fn is_live(&self) -> bool {
        self.endpoint.is_live() && self.over.load(Ordering::Relaxed) == LIVE
    }

    /// Why the connection is at its end.
    #[cold]
    pub fn reason(&self) -> Error {
        match self.over.load(Ordering::Relaxed) {
            BROKEN => return Error::Broken,
            ENDED => return Error::Ended,
            _ => {}
        }
        // The stream may still hold records, which are of no use any more.
        let mut bytes = [0; PIECE];
        for _ in 0..256 * 1024 / PIECE + 1 {
            match self.endpoint.recv(&mut bytes, RecvFlags::empty()) {
                Err(error) => return error.into(),
                Ok(0) => break,
                Ok(_) => {}
            }
        }
        Error::Ended
    }

    /// Ends the connection because the peer breaks the protocol.
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
            // Calls that only store would not notice it by themselves.
            self.over.store(LOST, Ordering::Relaxed);
        }
        error
    }

    /// The error of a queue operation: the connection ends with it.
    #[cold]
    pub fn queue_error<E>(&self, _: queue::QueueError<E>) -> Error {
        self.end()
    }

    /// Closes the connection; the own queue window with what has arrived. `None`: others use the
    /// connection still.
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

    /// Takes the records that have arrived, and wakes whom they concern but not `reader`; whether
    /// there were any.
    ///
    /// # Errors
    /// `Broken`, and those of the end.
    #[inline]
    pub fn take_records(&self, reader: Option<u64>) -> Result<bool> {
        self.take_into(&mut self.inbox.lock(), reader, true)
    }

    /// As [`take_records`](Self::take_records), before a sleep in the driver, which tells of its
    /// death: where nothing is there, a look at own memory is all.
    ///
    /// # Errors
    /// As there.
    pub fn take_records_that_are_there(&self) -> Result<bool> {
        self.take_into(&mut self.inbox.lock(), None, false)
    }

    /// `asks`: when nothing is there any more, the driver is asked now and then whether it lives.
    fn take_into(&self, inbox: &mut Inbox, reader: Option<u64>, asks: bool) -> Result<bool> {
        let mut any = false;
        loop {
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
            let (endpoint, over) = (&self.endpoint, &self.over);
            let bytes = inbox.buffer.get(..count).unwrap_or(&[]);
            let told = &mut inbox.told;
            let taken = inbox.connection.receive(bytes, |update| match update {
                // Where it cannot be mapped, transfers go through the driver.
                Update::Announced(_, region) => {
                    let _ = endpoint.prepare_window(region.offset, region.length);
                }
                Update::TakenBack(_, region) => endpoint.forget_window(region.offset),
                Update::Ended => over.store(ENDED, Ordering::Relaxed),
                Update::Wake(_) => {}
                // A peer that keeps to the protocol has said no more by now.
                Update::Session(..) | Update::NoSession(..) if told.len() == MOST_TOLD => {}
                Update::Session(..) | Update::NoSession(..) => told.push(update),
            });
            inbox.wake(reader);
            taken.map_err(|_| self.end())?;
        }
    }

    /// The peer's records about sessions, the oldest first.
    pub fn take_told(&self) -> Vec<Update> {
        core::mem::take(&mut self.inbox.lock().told)
    }

    /// Notes that a thread is going to sleep, and takes the records that have arrived; whether
    /// there were any. Whoever takes records from now on rings the thread's bell.
    ///
    /// # Errors
    /// As [`take_records`](Self::take_records).
    pub fn fall_asleep(&self, id: u64) -> Result<bool> {
        let mut inbox = self.inbox.lock();
        if let Some(slot) = inbox.sleepers.iter_mut().find(|slot| slot.id == id) {
            slot.sleeps = true;
        }
        self.take_into(&mut inbox, Some(id), true)
    }

    /// Sleeps shortly until records have come since the mark was made, the connection ends, or a
    /// word changes; whether any of them is seen. Nothing is asked of the driver.
    pub fn sleep_shortly(&self, mark: Arrived, word: Watched) -> bool {
        if !self.idle_poll.may_pay() {
            return false;
        }
        let Some([bytes, state]) = self.endpoint.watched(mark) else {
            return true;
        };
        self.idle_poll.sleep(&[word, bytes, state]) == Ended::Changed
    }

    /// Sleeps in the driver until records have come since the mark was made, whoever takes them, or
    /// the connection ends; it may return earlier. `false`: the driver lets no more requests wait.
    ///
    /// # Errors
    /// Those of the end.
    pub fn sleep_past(&self, mark: Arrived) -> Result<bool> {
        match self.endpoint.wait_past(mark) {
            Ok(()) => Ok(true),
            Err(scif::Error::Scif(Errno::NoMemory)) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Notes that a thread may sleep; `bell` is what wakes it.
    pub fn add_sleeper(&self, id: u64, bell: &Arc<Fd>) {
        let slot = SleeperSlot {
            id,
            sleeps: false,
            bell: bell.clone(),
        };
        self.inbox.lock().sleepers.push(slot);
    }

    /// Takes [`add_sleeper`](Self::add_sleeper) back.
    pub fn remove_sleeper(&self, id: u64) {
        self.inbox.lock().sleepers.retain(|slot| slot.id != id);
    }

    /// Sends a record, behind all that did not fit before. Waits for room for [`ROOM_TIME`]: a peer
    /// that makes no call takes nothing out of the stream. `false`: only a part of it has gone, and
    /// the rest goes with a later record.
    ///
    /// # Errors
    /// `TimedOut`: nothing of the record was sent. Those of the end.
    pub fn send(&self, record: &Record) -> Result<bool> {
        // Two programs that do nothing but map would otherwise leave each other no room.
        if self.may_be_readable() {
            self.take_records(None)?;
        }
        let mut is_begun = self.try_send(record)?;
        if is_begun && self.outbox.lock().is_empty() {
            return Ok(true);
        }
        let deadline = Deadline::after(ROOM_TIME)?;
        loop {
            self.take_records(None)?;
            match deadline.left() {
                Err(Error::TimedOut) if is_begun => return Ok(false),
                left => {
                    let both = Readiness::IN | Readiness::OUT;
                    poll(&mut [PollEntry::new(&self.endpoint, both)], left?)?;
                }
            }
            is_begun = is_begun || self.try_send(record)?;
            if is_begun && self.send_rest(&mut self.outbox.lock())? {
                return Ok(true);
            }
        }
    }

    /// Sends a record if there is room for some of it; the rest goes before all that follows.
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

    /// Sends what did not fit before; whether that is all.
    fn send_rest(&self, outbox: &mut Vec<u8>) -> Result<bool> {
        if !outbox.is_empty() {
            let sent = self.endpoint.send(outbox, SendFlags::empty())?;
            outbox.drain(..sent);
        }
        Ok(outbox.is_empty())
    }

    /// Sends a record without waiting, or with what follows: for records that take back what the
    /// peer was told, of which there are never more than channels.
    ///
    /// # Errors
    /// Those of the end.
    pub fn post(&self, record: &Record) -> Result<()> {
        if !self.try_send(record)? {
            self.outbox.lock().extend_from_slice(&record.encode());
        }
        Ok(())
    }

    /// Wakes the peer, which sleeps on a channel. A stream without room is full of what wakes it
    /// anyway; the error of a connection that has ended is the next call's.
    #[cold]
    pub fn wake_peer(&self, channel: u32) {
        self.say(&Record::Wake { channel });
    }

    /// Tells the peer that nothing comes any more: it need not wait for the end of SCIF's
    /// connection, which comes when this end has no memory of the peer mapped.
    pub fn say_end(&self) {
        self.say(&Record::Disconnect);
    }

    /// Sends a record if there is room.
    fn say(&self, record: &Record) {
        // The error of a connection that has ended is the next call's.
        let _ = self.try_send(record);
    }

    /// Takes the ends of a channel.
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

    /// Notes that a user of a channel has gone; gives back the end that it had.
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
    /// Rings the bells of all that sleep, but not the reader's.
    fn wake(&mut self, reader: Option<u64>) {
        for slot in &mut self.sleepers {
            if Some(slot.id) != reader && core::mem::take(&mut slot.sleeps) {
                // It fails when the bell has rung so often that the thread is awake.
                let _ = slot.bell.write(&[1]);
            }
        }
    }
}
