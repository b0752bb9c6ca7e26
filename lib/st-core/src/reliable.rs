//! Level 2: sessions, whose transfers survive the loss of a connection or of a driver.
//!
//! A *session* belongs to one channel and both directions of it. Each end keeps what it has pushed
//! until the peer's program has taken it. When the connection is lost, the session waits for
//! another one. There each end quotes the session's key and the number of transfers that its
//! program has taken in all; the peer drops those and sends the others again. So each transfer
//! reaches the peer's program once and in order, however often connections are lost.
//!
//! ```text
//! client                                          server
//! │ State(key, taken, is new) ──────────────────► │ finds the session, or makes it if it is new
//! │ ◄──────────────── State(key, taken)           │ drops what was taken: open   (or NoSession)
//! │ drops what was taken: open                    │
//! ```
//!
//! # Levels
//! A transfer is named by a [`Token`] and reaches three [`Level`]s: *local*, *delivered*, *taken*.
//! [`Session::status`] gives the one that a transfer has certainly reached, also after the session
//! has ended. At most [`Options::kept`] transfers are kept; a push beyond that fails at once.
//!
//! # Data
//! A transfer is a header, and may have data that is put before it. Data is kept as long as its
//! header, because it may have to be put again; a peer's program does not look at it before it has
//! taken the header. There is no data without a header here: the peer's program could see it
//! twice.
//!
//! # Time
//! Times are nanoseconds of any clock that never goes back; calls that may have to wait return
//! until when. A session that has no connection for [`Options::reconnect_timeout`] is over.

mod receiving;
mod transfer;

use alloc::collections::VecDeque;

pub use self::transfer::{Data, Level, Mark, Token};

use self::transfer::Transfer;
use crate::queue::{Descriptor, Layout, QueueError, QueueMemory, Receiver, Sender};
use crate::record::SessionState;

/// The options of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Transfers that may be kept, at least 1.
    pub kept: usize,
    /// Nanoseconds after which a session without a connection is over.
    pub reconnect_timeout: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            kept: 64,
            reconnect_timeout: 30_000_000_000,
        }
    }
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It was without a connection for too long.
    Expired,
    /// The peer does not know it, because its program has restarted.
    Unknown,
    /// The peer has broken the protocol.
    Broken,
    /// The program has ended it.
    Ended,
    /// The peer's program has ended it.
    EndedByPeer,
}

/// Why a transfer was not pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// As many transfers as may be kept wait for the peer.
    Full,
    /// The session is over.
    Over(Over),
}

/// Why a connection was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<E> {
    /// The session is over.
    Over(Over),
    /// The peer's window cannot be reached: the connection is [lost](Session::lost).
    Memory(E),
}

/// The result of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advanced<P> {
    /// Headers that were sent.
    pub sent: usize,
    /// The peer sleeps until something is sent: wake it.
    pub wake: bool,
    /// The number of a transfer whose data could not be put, and why. It and all later ones wait.
    pub held: Option<(u64, P)>,
}

/// The result of a look at a transfer that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It has reached the level.
    Reached,
    /// It has not: look again when something arrives, and at this time at the latest.
    Until(Option<u64>),
    /// The deadline has passed.
    TimedOut,
    /// It never will, because the session is over.
    Over(Over),
}

/// The state of a session's connection.
#[derive(Debug)]
enum Phase {
    /// There is no connection.
    Apart,
    /// There is a connection on which the peer has not sent its state yet.
    Quoted {
        channel: u32,
        own: Layout,
        peer: Layout,
    },
    /// There is a connection on which both ends have sent their state.
    Open(Sender),
    /// The session is over.
    Over(Over),
}

/// One end of a session.
#[derive(Debug)]
pub struct Session<D> {
    key: u64,
    options: Options,
    phase: Phase,
    /// Since when there is no connection on which the peer has sent its state.
    apart_since: Option<u64>,
    /// The peer has sent its state once, so it knows the session.
    is_known: bool,
    /// Transfers that the peer is not known to have taken, the oldest first.
    kept: VecDeque<Transfer<D>>,
    /// The number of the next transfer.
    next: u64,
    /// Transfers that the peer is known to have taken.
    acknowledged: u64,
    /// Transfers of `kept` that were sent on this connection.
    sent: usize,
    /// Transfers of `kept` that the peer may have taken: they were sent since it last sent its
    /// state.
    exposed: usize,
    /// The queue in which transfers arrive; it stays when its connection is lost.
    receiver: Option<Receiver>,
    /// Transfers that this end's program has taken.
    received: u64,
}

impl<D> Session<D> {
    /// The client's end of a new session. The key is a random number, not 0, which no other
    /// program can guess.
    pub fn new(key: u64, options: Options, now: u64) -> Session<D> {
        Session {
            key,
            options,
            phase: Phase::Apart,
            apart_since: Some(now),
            is_known: false,
            kept: VecDeque::new(),
            next: 0,
            acknowledged: 0,
            sent: 0,
            exposed: 0,
            receiver: None,
            received: 0,
        }
    }

    /// The server's end of the session that a peer's first message asks for, if that is a new one;
    /// `None`: answer that there is no such session. [`connect`](Session::connect) and
    /// [`answer`](Session::answer) come next.
    pub fn accept(state: SessionState, options: Options, now: u64) -> Option<Session<D>> {
        let is_good = state.is_new && state.taken == 0 && state.key != 0;
        is_good.then(|| Session::new(state.key, options, now))
    }

    /// The session's key.
    pub const fn key(&self) -> u64 {
        self.key
    }

    /// Why the session is over, if it is.
    pub const fn over(&self) -> Option<Over> {
        match self.phase {
            Phase::Over(over) => Some(over),
            _ => None,
        }
    }

    /// Whether there is a connection on which both ends have sent their state.
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    fn check(&self) -> Result<(), Over> {
        self.over().map_or(Ok(()), Err)
    }

    fn end_with(&mut self, over: Over) -> Over {
        self.phase = Phase::Over(over);
        over
    }

    /// Ends the session, because the peer has broken the protocol.
    pub fn break_off(&mut self) -> Over {
        match self.over() {
            Some(over) => over,
            None => self.end_with(Over::Broken),
        }
    }

    /// Ends the session. What has arrived can still be [received](Session::receive).
    pub fn end(&mut self) {
        if self.over().is_none() {
            self.end_with(Over::Ended);
        }
    }

    // ---- Connections ----

    /// Begins a new connection, with the layouts of both queue windows, which are empty. Returns
    /// the state to send to the peer. A former connection is lost by this: what its queue still
    /// holds will be sent again.
    ///
    /// # Errors
    /// The session is over.
    pub fn connect(
        &mut self,
        channel: u32,
        own: Layout,
        peer: Layout,
        now: u64,
    ) -> Result<SessionState, Over> {
        self.lost(now);
        self.expire(now);
        self.check()?;
        // From here on the returned state is true: nothing is taken out of the former queue.
        self.receiver = None;
        self.phase = Phase::Quoted { channel, own, peer };
        Ok(SessionState {
            key: self.key,
            taken: self.received,
            is_new: !self.is_known,
        })
    }

    /// Handles the state that the peer sends at the beginning of a connection. Transfers that it
    /// has taken are dropped, all others will be sent again. Without a connection nothing changes.
    ///
    /// # Errors
    /// The session is over, perhaps because of this call: `Broken` if the peer's state is
    /// impossible, or the second one on a connection.
    pub fn answer(&mut self, state: SessionState) -> Result<(), Over> {
        self.check()?;
        let (channel, own, peer) = match self.phase {
            Phase::Quoted { channel, own, peer } => (channel, own, peer),
            // The last record of a connection that is known to be lost.
            Phase::Apart => return Ok(()),
            Phase::Open(_) | Phase::Over(_) => return Err(self.end_with(Over::Broken)),
        };
        let dropped = state.taken.checked_sub(self.acknowledged);
        let dropped = dropped.filter(|dropped| *dropped <= self.exposed as u64);
        // A peer to which the session is new has sent and taken nothing.
        let is_possible = !state.is_new || (self.received == 0 && state.taken == 0);
        let Some(dropped) = dropped.filter(|_| is_possible && state.key == self.key) else {
            return Err(self.end_with(Over::Broken));
        };
        // At most `exposed`, which is a count of `kept`.
        self.kept.drain(..dropped as usize);
        self.acknowledged = state.taken;
        (self.sent, self.exposed) = (0, 0);
        self.is_known = true;
        self.apart_since = None;
        self.receiver = Some(Receiver::new(own, channel));
        self.phase = Phase::Open(Sender::new(peer, channel));
        Ok(())
    }

    /// Handles the peer's answer that it does not know the session, or no longer knows it.
    pub fn refuse(&mut self) -> Over {
        match self.phase {
            Phase::Over(over) => over,
            Phase::Open(_) => self.end_with(Over::EndedByPeer),
            Phase::Apart | Phase::Quoted { .. } => self.end_with(Over::Unknown),
        }
    }

    /// Notes that the connection is lost. Until there is another one, what has arrived in this
    /// end's queue window can be received, if that memory still exists.
    pub fn lost(&mut self, now: u64) {
        if self.over().is_none() {
            self.phase = Phase::Apart;
            self.apart_since.get_or_insert(now);
            self.sent = 0;
        }
    }

    /// Ends the session if it has been without a connection for too long. To be called at the time
    /// that [`expires`](Session::expires) returns, or at any time.
    pub fn expire(&mut self, now: u64) {
        if self.over().is_none() && self.expires().is_some_and(|time| time <= now) {
            self.end_with(Over::Expired);
        }
    }

    /// When the session is over unless there is another connection.
    pub fn expires(&self) -> Option<u64> {
        let since = self.apart_since.filter(|_| self.over().is_none())?;
        Some(since.saturating_add(self.options.reconnect_timeout))
    }

    // ---- Sending ----

    /// Keeps a transfer, to be sent by [`advance`](Session::advance).
    ///
    /// # Errors
    /// All of [`PushError`].
    pub fn push(&mut self, descriptor: Descriptor, data: Data<D>) -> Result<Token, PushError> {
        self.check().map_err(PushError::Over)?;
        if self.kept.len() >= self.options.kept.max(1) {
            return Err(PushError::Full);
        }
        let number = self.next;
        self.next += 1;
        self.kept.push_back(Transfer {
            number,
            descriptor,
            data,
            end: 0,
            is_delivered: false,
        });
        Ok(Token { number })
    }

    /// Sends what is kept and was not sent on this connection, as far as there is room. `put`
    /// copies a transfer's data into the peer's memory, completely before it returns. Does nothing
    /// without a connection.
    ///
    /// # Errors
    /// All of [`Fault`].
    pub fn advance<M: QueueMemory, P>(
        &mut self,
        mem: &mut M,
        mut put: impl FnMut(&mut M, &D) -> Result<(), P>,
    ) -> Result<Advanced<P>, Fault<M::Error>> {
        self.check().map_err(Fault::Over)?;
        let mut advanced = Advanced {
            sent: 0,
            wake: false,
            held: None,
        };
        let ended = self.send_due(mem, &mut put, &mut advanced);
        ended.map_err(|error| self.fault(error))?;
        self.drop_taken();
        Ok(advanced)
    }

    fn send_due<M: QueueMemory, P>(
        &mut self,
        mem: &mut M,
        put: &mut impl FnMut(&mut M, &D) -> Result<(), P>,
        advanced: &mut Advanced<P>,
    ) -> Result<(), QueueError<M::Error>> {
        let Phase::Open(sender) = &mut self.phase else {
            return Ok(());
        };
        while let Some(transfer) = self.kept.get_mut(self.sent) {
            // Room comes before data, and data before the header: no data moves whose header has
            // no place.
            if sender.room(mem)? < transfer.descriptor.kind().slots() {
                break;
            }
            if let Some(data) = transfer.data.get()
                && let Err(error) = put(mem, data)
            {
                advanced.held = Some((transfer.number, error));
                break;
            }
            // Also if the send fails: how much of it has arrived is not known.
            self.exposed = self.exposed.max(self.sent + 1);
            let Some(sent) = sender.send(mem, &transfer.descriptor)? else {
                break;
            };
            transfer.end = sender.pushed();
            advanced.wake |= sent.wake;
            self.sent += 1;
            advanced.sent += 1;
        }
        Ok(())
    }

    /// Looks what the peer has taken.
    ///
    /// # Errors
    /// `Over`.
    pub fn look<M: QueueMemory>(&mut self, mem: &M) -> Result<(), Fault<M::Error>> {
        self.check().map_err(Fault::Over)?;
        if let Phase::Open(sender) = &mut self.phase {
            let room = sender.room(mem);
            room.map_err(|error| self.fault(error))?;
            self.drop_taken();
        }
        Ok(())
    }

    /// Asks the peer to wake this end when it takes something, and looks once more. Returns the
    /// slots that can be filled, 0 without a connection. A caller that waits for room, or for a
    /// transfer to be taken, may sleep after this if it still has to wait.
    ///
    /// # Errors
    /// All of [`Fault`].
    pub fn arm_taken<M: QueueMemory>(&mut self, mem: &mut M) -> Result<u64, Fault<M::Error>> {
        self.check().map_err(Fault::Over)?;
        let Phase::Open(sender) = &mut self.phase else {
            return Ok(0);
        };
        let room = sender.arm(mem);
        let room = room.map_err(|error| self.fault(error))?;
        self.drop_taken();
        Ok(room)
    }

    /// Whether there are transfers that were not sent on this connection.
    pub fn is_behind(&self) -> bool {
        self.sent < self.kept.len()
    }

    /// Whether a transfer was sent on this connection, or is taken.
    pub fn is_sent(&self, token: &Token) -> bool {
        token.number < self.mark().below
    }

    /// Drops what the peer has taken on this connection.
    fn drop_taken(&mut self) {
        let Phase::Open(sender) = &self.phase else {
            return;
        };
        let taken = sender.taken();
        while self.sent > 0 && self.kept.front().is_some_and(|first| first.end <= taken) {
            self.kept.pop_front();
            self.acknowledged += 1;
            self.sent -= 1;
            self.exposed -= 1;
        }
    }

    /// The transfers that have been sent up to now, for a fence. When a fence that began after
    /// this call has shown that all stores have arrived, and the connection is alive, call
    /// [`delivered`](Session::delivered).
    pub fn mark(&self) -> Mark {
        let first_unsent = self.kept.get(self.sent);
        Mark {
            below: first_unsent.map_or(self.next, |transfer| transfer.number),
        }
    }

    /// Notes that everything that had been sent when the mark was made is in the peer's memory.
    pub fn delivered(&mut self, mark: Mark) {
        let kept = self.kept.iter_mut();
        for transfer in kept.take_while(|transfer| transfer.number < mark.below) {
            transfer.is_delivered = true;
        }
    }

    /// The level that a transfer has certainly reached, also after the session has ended.
    pub fn status(&self, token: &Token) -> Option<Level> {
        let place = self
            .kept
            .binary_search_by_key(&token.number, |transfer| transfer.number);
        let transfer = place.ok().and_then(|place| self.kept.get(place));
        match transfer {
            None => Some(Level::Taken),
            Some(transfer) if matches!(transfer.data, Data::InPlace(_)) => None,
            Some(transfer) if transfer.is_delivered => Some(Level::Delivered),
            Some(_) => Some(Level::Local),
        }
    }

    /// Whether a transfer has reached a level, or how long to wait for it.
    pub fn wait(&mut self, token: &Token, level: Level, now: u64, deadline: Option<u64>) -> Wait {
        self.expire(now);
        if self.status(token).is_some_and(|reached| reached >= level) {
            return Wait::Reached;
        }
        match self.over() {
            Some(over) => Wait::Over(over),
            None if deadline.is_some_and(|deadline| deadline <= now) => Wait::TimedOut,
            None => {
                let times = [deadline, self.expires()];
                Wait::Until(times.into_iter().flatten().min())
            }
        }
    }

    /// Drops a transfer that the peer cannot have seen, with its data.
    ///
    /// # Errors
    /// The token, if the transfer was sent: the peer may have taken it.
    pub fn cancel(&mut self, token: Token) -> Result<Data<D>, Token> {
        let place = self
            .kept
            .binary_search_by_key(&token.number, |transfer| transfer.number);
        match place {
            Ok(place) if place >= self.exposed => match self.kept.remove(place) {
                Some(transfer) => Ok(transfer.data),
                None => Err(token),
            },
            _ => Err(token),
        }
    }

    /// The number of transfers that are kept.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Handles the failure of a queue: the connection or the session ends.
    fn fault<E>(&mut self, error: QueueError<E>) -> Fault<E> {
        match error {
            QueueError::Memory(error) => {
                // The position in the peer's queue is no longer known.
                if self.over().is_none() {
                    self.phase = Phase::Apart;
                    self.sent = 0;
                }
                Fault::Memory(error)
            }
            QueueError::Broken => {
                self.receiver = None;
                Fault::Over(match self.over() {
                    Some(over) => over,
                    None => self.end_with(Over::Broken),
                })
            }
        }
    }
}
