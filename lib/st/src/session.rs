//! Level 2: sessions, which outlive their connections.

mod attempt;
mod desk;
mod listener;
mod waiting;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use scif::{Memory, RmaFlags, View, Waiting};
use st_core::connection::Update;
use st_core::queue::{Descriptor, Kind};
use st_core::record::Record;
use st_core::reliable::{self, Data, Fault, Over, PushError};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use self::listener::SessionListener;
pub use st_core::reliable::{Level, Token};

use self::attempt::Attempt;
use self::desk::{Arrival, Desk};
use self::waiting::Want;
use crate::deadline::{Deadline, now};
use crate::error::{Error, Result};
use crate::listener::connect;
use crate::memory::OwnWindow;
use crate::options::Options;
use crate::region::Registered;
use crate::sender::message;
use crate::shared::Shared;
use crate::wait::Sleeper;
use crate::{MAX_HEADER_BYTES, PortId};

/// The only channel of a session's connections.
const CHANNEL: u32 = 0;
/// Headers that are pulled one after the other before the connection gets attention.
const TURNS: u32 = 16;

/// One end of a session (level 2): headers in both directions, and data that is put, which survive
/// the loss of a connection or of a driver.
///
/// An end keeps each transfer until the peer's program has pulled it. When the connection is lost,
/// the client makes another one, for which the server [listens](SessionListener), and what was not
/// pulled is sent again: each header arrives once and in order.
///
/// A session has no thread of its own. Calls that wait make and resume connections and send what
/// is kept; a program that does something else for long has to call [`try_pull`](Self::try_pull)
/// now and then.
///
/// ```no_run
/// # use st::{Deadline, Level, Options, PortId, Result, Session, SessionListener};
/// # fn server() -> Result<()> {
/// let mut session = SessionListener::bind(2052)?.accept()?;
/// let number: u64 = session.pull()?;
/// # drop(number);
/// # Ok(()) }
/// # fn client() -> Result<()> {
/// let mut session = Session::connect(PortId::new(1, 2052), &Options::new())?;
/// let token = session.push(&7_u64)?;
/// session.wait(&token, Level::Taken, Deadline::after_ms(5000)?)?;
/// # Ok(()) }
/// ```
///
/// Dropping an end tells the peer, whose calls then fail with [`Error::Ended`] after the headers
/// that have arrived. What the peer has not received by then is lost, unless
/// [`finish`](Self::finish) was called before.
pub struct Session {
    engine: reliable::Session<Block>,
    /// The connection in use.
    shared: Option<Arc<Shared>>,
    /// If there is none: the queue window of the last connection, which may hold headers.
    rest: Option<Memory>,
    /// Dropped before the memory.
    registered: Option<Registered>,
    memory: Option<Memory>,
    /// The length of the peer's memory, once the peer has announced it.
    peer_bytes: Option<u64>,
    way: Reconnect,
    sleeper: Sleeper,
    waiting: Waiting,
    kept: usize,
    turns: u32,
}

/// Data for a place in the peer's memory.
struct Block {
    ahead: u64,
    bytes: Vec<u8>,
}

/// How a session gets its next connection.
enum Reconnect {
    /// The client connects.
    Client(Box<Attempt>),
    /// The server waits for the client.
    Server(Arc<Desk>),
}

impl Session {
    /// Begins a session with a program that [listens](SessionListener) for sessions: waits until
    /// it has accepted.
    ///
    /// # Errors
    /// Those of [`connect`]; `Expired`.
    pub fn connect(to: PortId, options: &Options) -> Result<Self> {
        let options = options.channels(CHANNEL + 1);
        let link = connect(to, &options)?;
        let engine = reliable::Session::new(key(), options.session(), nanoseconds()?);
        let way = Reconnect::Client(Box::new(Attempt::new(to, &options)?));
        let mut session = Self::new(engine, way, &options)?;
        session.enter(Arrival {
            shared: link.shared,
            state: None,
        })?;
        session.wait_for(&Want::Open, Deadline::Never)?;
        Ok(session)
    }

    fn new(engine: reliable::Session<Block>, way: Reconnect, options: &Options) -> Result<Self> {
        Ok(Self {
            engine,
            shared: None,
            rest: None,
            registered: None,
            memory: None,
            peer_bytes: None,
            way,
            sleeper: Sleeper::new()?,
            waiting: options.waiting,
            kept: options.session().kept,
            turns: 0,
        })
    }

    /// Sends a header; waits while the session keeps [as many](Options::kept) transfers as it may.
    ///
    /// # Errors
    /// Those of the session's end: `Ended`, `Expired`, `Forgotten`, `Broken`.
    pub fn push<T: IntoBytes + Immutable>(&mut self, header: &T) -> Result<Token> {
        self.push_until(header, Deadline::Never)
    }

    /// Sends a header as [`push`](Self::push) does; waits at most until the deadline.
    ///
    /// # Errors
    /// Those of [`push`](Self::push). `WouldBlock`, `TimedOut`: the header will not be sent.
    pub fn push_until<T: IntoBytes + Immutable>(
        &mut self,
        header: &T,
        deadline: Deadline,
    ) -> Result<Token> {
        self.wait_for(&Want::Room, deadline)?;
        self.keep(&message(header), Data::Nothing)
    }

    /// Puts a copy of the data `ahead` bytes behind the beginning of the peer's memory, then sends
    /// a header: a program that pulls it finds the data there. Waits until the peer has
    /// [mapped](Self::map) memory, and for room.
    ///
    /// If the connection is lost before the header was pulled, the data is put again. A place may
    /// be used again once the peer's program has pulled the header and looked at the data: when it
    /// has answered, or when a later header is [taken](Level::Taken).
    ///
    /// # Errors
    /// Those of [`push`](Self::push); `Outside`.
    pub fn put_with<T: IntoBytes + Immutable>(
        &mut self,
        data: &[u8],
        ahead: u64,
        header: &T,
    ) -> Result<Token> {
        self.put_with_until(data, ahead, header, Deadline::Never)
    }

    /// Puts data and sends a header as [`put_with`](Self::put_with) does; waits at most until the
    /// deadline.
    ///
    /// # Errors
    /// Those of [`put_with`](Self::put_with). `WouldBlock`, `TimedOut`: nothing will be put or
    /// sent.
    pub fn put_with_until<T: IntoBytes + Immutable>(
        &mut self,
        data: &[u8],
        ahead: u64,
        header: &T,
        deadline: Deadline,
    ) -> Result<Token> {
        self.wait_for(&Want::Remote, deadline)?;
        let end = ahead.checked_add(data.len() as u64);
        if end > self.peer_bytes || end.is_none() {
            return Err(Error::Outside);
        }
        self.wait_for(&Want::Room, deadline)?;
        let bytes = data.to_vec();
        self.keep(&message(header), Data::Copied(Block { ahead, bytes }))
    }

    fn keep(&mut self, message: &[u8], data: Data<Block>) -> Result<Token> {
        let descriptor = Descriptor::new(Kind::Message, message);
        let pushed = self.engine.push(descriptor, data);
        let token = pushed.map_err(|error| match error {
            PushError::Full => Error::WouldBlock,
            PushError::Over(over) => over.into(),
        })?;
        let went = match self.is_live() {
            true => self.send(),
            false => self.step(false),
        };
        // It is kept and will be sent, so it must not be pushed again. What prevents that now,
        // such as a lack of descriptors for another connection, fails the next call that waits.
        match went {
            Err(end) if self.engine.over().is_some() => Err(end),
            _ => Ok(token),
        }
    }

    /// Receives a header; waits until there is one.
    ///
    /// # Errors
    /// `Invalid`: the peer's header is of another kind. Those of [`push`](Self::push), after the
    /// last header that has arrived.
    pub fn pull<T: FromBytes>(&mut self) -> Result<T> {
        self.pull_until(Deadline::Never)
    }

    /// Receives a header if there is one.
    ///
    /// # Errors
    /// Those of [`pull`](Self::pull).
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
    pub fn pull_until<T: FromBytes>(&mut self, deadline: Deadline) -> Result<T> {
        const {
            assert!(
                size_of::<T>() <= MAX_HEADER_BYTES,
                "a header has at most 32 bytes"
            )
        };
        self.turns += 1;
        if self.turns >= TURNS {
            self.turns = 0;
            // Headers that have arrived come before the end.
            let _ = self.step(false);
        }
        loop {
            if let Some(descriptor) = self.receive()? {
                let bytes = descriptor.bytes().get(..size_of::<T>());
                let header = bytes.and_then(|bytes| T::read_from_bytes(bytes).ok());
                return header.ok_or(Error::Invalid);
            }
            self.wait_for(&Want::Header, deadline)?;
        }
    }

    fn receive(&mut self) -> Result<Option<Descriptor>> {
        let received = match (&self.shared, &self.rest) {
            (Some(shared), _) => {
                let received = self.engine.receive(&mut shared.windows()?);
                if let Ok(Some((_, true))) = received {
                    shared.wake_peer(CHANNEL);
                }
                received
            }
            (None, Some(rest)) => self.engine.receive(&mut OwnWindow::new(rest)?),
            (None, None) => return self.check().map(|()| None),
        };
        match received.map_err(fault)? {
            Some((descriptor, _)) if descriptor.kind() != Kind::Message => {
                Err(self.engine.break_off().into())
            }
            received => Ok(received.map(|(descriptor, _)| descriptor)),
        }
    }

    /// Lets the peer put data into this memory for as long as the session lives.
    ///
    /// # Errors
    /// `Busy`: there is memory already. Those of registering memory, such as `EAGAIN` for the limit
    /// on pinned pages: the session has no memory then, and goes on. Those of [`push`](Self::push).
    pub fn map(&mut self, memory: Memory) -> Result<&View> {
        self.check()?;
        if self.memory.is_some() {
            return Err(Error::Busy);
        }
        if let Some(shared) = &self.shared {
            match Registered::new(shared, CHANNEL, memory.range(), 0) {
                Ok(registered) => self.registered = Some(registered),
                // The next connection gets it when it begins.
                Err(error) if error.is_end() => self.give_up()?,
                Err(error) => return Err(error),
            }
        }
        Ok(self.memory.insert(memory))
    }

    /// The memory that was [mapped](Self::map).
    pub fn memory(&self) -> Option<&View> {
        self.memory.as_deref()
    }

    /// Waits until a transfer has reached a level.
    ///
    /// # Errors
    /// `WouldBlock`, `TimedOut`. Those of [`push`](Self::push). [`status`](Self::status) tells how
    /// far the transfer has come.
    pub fn wait(&mut self, token: &Token, level: Level, deadline: Deadline) -> Result<()> {
        self.wait_for(&Want::Level(token, level), deadline)
    }

    /// The level that a transfer has certainly reached, also after the session has ended.
    pub fn status(&self, token: &Token) -> Level {
        // Its data was copied, so it is local at once.
        self.engine.status(token).unwrap_or(Level::Local)
    }

    /// Takes back a transfer that the peer cannot have seen.
    ///
    /// # Errors
    /// The token, if the transfer was sent.
    pub fn cancel(&mut self, token: Token) -> Result<(), Token> {
        self.engine.cancel(token).map(drop)
    }

    /// Waits until the peer's program has taken everything that was pushed.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub fn finish(&mut self, deadline: Deadline) -> Result<()> {
        self.wait_for(&Want::Taken, deadline)
    }

    /// The number of transfers that the peer's program is not known to have taken.
    pub fn unfinished(&self) -> usize {
        self.engine.kept()
    }

    /// Whether there is a connection on which both ends have sent their state.
    pub fn is_connected(&self) -> bool {
        self.shared.is_some() && self.engine.is_open()
    }

    /// Gives up the present connection, as if it had been lost: for tests, and for programs that
    /// know more about the route than the driver.
    ///
    /// # Errors
    /// Those of reading the clock.
    pub fn disconnect(&mut self) -> Result<()> {
        self.give_up()
    }

    /// Sets how calls wait from now on.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    fn check(&self) -> Result<()> {
        self.engine.over().map_or(Ok(()), |over| Err(over.into()))
    }

    // ---- Connections ----

    /// Switches to a new connection.
    fn enter(&mut self, arrival: Arrival) -> Result<()> {
        let Arrival { shared, state } = arrival;
        let agreed = shared.with_connection(|connection| *connection.agreed());
        let own_state = self
            .engine
            .connect(CHANNEL, agreed.own, agreed.peer, nanoseconds()?)?;
        self.close();
        self.rest = None;
        self.sleeper.watch(&shared)?;
        let sent = shared.send(&Record::State {
            channel: CHANNEL,
            state: own_state,
        });
        let map = |memory: &Memory| Registered::new(&shared, CHANNEL, memory.range(), 0);
        let registered = match sent {
            Ok(_) => self.memory.as_ref().map(map).transpose(),
            // The connection was lost at once.
            Err(_) => Err(Error::Ended),
        };
        self.shared = Some(shared);
        match registered {
            Ok(registered) => self.registered = registered,
            Err(error) => {
                self.give_up()?;
                // The caller learns why the memory cannot be had; its next call tries again.
                return if error.is_end() { Ok(()) } else { Err(error) };
            }
        }
        match state {
            Some(state) => Ok(self.engine.answer(state)?),
            None => Ok(()),
        }
    }

    /// Closes the connection, so that the peer notices its end.
    fn close(&mut self) {
        self.registered = None;
        if let Some(shared) = self.shared.take() {
            shared.remove_sleeper(self.sleeper.id);
            self.rest = Shared::close(shared);
        }
    }

    /// Gives up the connection, which is lost or of no use. What its queue holds can still be
    /// pulled.
    fn give_up(&mut self) -> Result<()> {
        self.close();
        self.engine.lost(nanoseconds()?);
        Ok(())
    }

    /// Does what can be done without waiting: takes the peer's records, sends what is kept, makes
    /// a new connection. `wide`: looks for a new one even if the present one seems to be alive.
    fn step(&mut self, wide: bool) -> Result<()> {
        self.engine.expire(nanoseconds()?);
        self.check()?;
        if let Some(shared) = self.shared.clone() {
            let taken = shared.take_records(Some(self.sleeper.id));
            for update in shared.take_session_updates() {
                self.hear(&shared, update)?;
            }
            let is_live = shared.is_live();
            // Dropped first, so that a connection that is given up is closed.
            drop(shared);
            match taken {
                Ok(_) if is_live => self.send()?,
                Err(Error::Broken) => return Err(self.engine.break_off().into()),
                // The next step takes the last records.
                Ok(_) => {}
                Err(_) => self.give_up()?,
            }
        }
        let is_apart = self.shared.is_none();
        let arrival = match &mut self.way {
            Reconnect::Client(attempt) if is_apart => attempt.advance()?,
            Reconnect::Server(desk) if is_apart || wide => desk.look_for(self.engine.key())?,
            _ => None,
        };
        match arrival {
            Some(arrival) => self.enter(arrival),
            None => Ok(()),
        }
    }

    /// Whether there is a connection that has not ended.
    fn is_live(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.is_live())
    }

    fn hear(&mut self, shared: &Shared, update: Update) -> Result<()> {
        match update {
            Update::Session(_, state) => Ok(self.engine.answer(state)?),
            Update::NoSession(_, key) if key == self.engine.key() => {
                // Transfers that the peer took before it ended count as taken.
                let looked = self.engine.look(&shared.windows()?);
                looked.map_err(fault)?;
                Err(self.engine.refuse().into())
            }
            _ => Err(self.engine.break_off().into()),
        }
    }

    /// Sends what is kept, as far as there is room.
    fn send(&mut self) -> Result<()> {
        let Some(shared) = &self.shared else {
            return Ok(());
        };
        let mut windows = shared.windows()?;
        let put = |_: &mut _, block: &Block| put(shared, block);
        let sent = self.engine.advance(&mut windows, put).map_err(fault)?;
        if sent.wake {
            shared.wake_peer(CHANNEL);
        }
        match sent.held {
            // The peer has yet to map its memory on this connection.
            None | Some((_, Error::WouldBlock)) => Ok(()),
            // Its memory is shorter than it was.
            Some((_, Error::Outside)) => Err(self.engine.break_off().into()),
            // The next step finds the end, and the peer's records before it.
            Some(_) if !shared.is_live() => Ok(()),
            Some(_) => self.give_up(),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Reconnect::Server(desk) = &self.way {
            desk.forget(self.engine.key());
        }
        let Some(shared) = self.shared.as_ref().filter(|_| self.is_connected()) else {
            return;
        };
        if self.engine.over().is_none() {
            let (channel, key) = (CHANNEL, self.engine.key());
            // A peer that cannot be notified finds out by itself.
            let _ = shared.post(&Record::NoSession { channel, key });
        }
        shared.remove_sleeper(self.sleeper.id);
    }
}

/// Copies data into the peer's memory. The copy is complete on return.
fn put(shared: &Shared, block: &Block) -> Result<()> {
    let region = shared.with_connection(|connection| connection.announced(CHANNEL).region())?;
    let end = block.ahead.checked_add(block.bytes.len() as u64);
    if end.is_none_or(|end| end > region.length) {
        return Err(Error::Outside);
    }
    if !block.bytes.is_empty() {
        let offset = region.offset.wrapping_add_unsigned(block.ahead);
        let bytes = block.bytes.as_slice().into();
        shared
            .endpoint
            .vwrite_source(bytes, offset, RmaFlags::SYNC)?;
        shared.drain();
    }
    Ok(())
}

/// A random number that is not 0.
fn key() -> u64 {
    hal::random::word().max(1)
}

/// The monotonic time in nanoseconds.
fn nanoseconds() -> Result<u64> {
    Ok(u64::try_from(now()?.as_nanos()).unwrap_or(u64::MAX))
}

/// The error of a queue; mapped windows can always be reached.
fn fault<E>(fault: Fault<E>) -> Error {
    match fault {
        Fault::Over(over) => over.into(),
        Fault::Memory(_) => Error::from(Over::Broken),
    }
}

#[cfg(test)]
mod tests {
    use st_core::record::SessionState;
    use syscall::error::{EAGAIN, ENODEV};

    use super::*;
    use crate::played::Driver;

    /// A session that a client of the played peer has begun.
    fn accepted(driver: &Driver) -> Session {
        let options = Options::new().channels(CHANNEL + 1);
        let state = SessionState {
            key: 7,
            is_new: true,
            taken: 0,
        };
        let engine = reliable::Session::accept(state, options.session(), 0);
        let desk = Desk::new(&options).expect("a desk");
        let way = Reconnect::Server(Arc::new(desk));
        let session = Session::new(engine.expect("a new session"), way, &options);
        let mut session = session.expect("a session");
        let arrival = Arrival {
            shared: driver.connection(&options),
            state: Some(state),
        };
        session.enter(arrival).expect("a connection");
        session
    }

    fn memory() -> Memory {
        Memory::new(4096).expect("memory")
    }

    #[test]
    fn memory_that_cannot_be_registered_is_refused_and_the_connection_kept() {
        let driver = Driver::default();
        driver.play(|| {
            let mut session = accepted(&driver);
            driver.refusal.set(EAGAIN);
            let refused = session.map(memory()).map(drop);
            assert_eq!(refused.map_err(Error::errno), Err(EAGAIN));
            assert!(session.is_connected() && session.memory().is_none());
            driver.refusal.set(0);
            assert!(session.map(memory()).is_ok());
            assert!(session.is_connected());
        });
    }

    #[test]
    fn memory_for_a_connection_that_ends_is_for_the_next_one() {
        let driver = Driver::default();
        driver.play(|| {
            let mut session = accepted(&driver);
            driver.refusal.set(ENODEV);
            assert!(session.map(memory()).is_ok());
            assert!(!session.is_connected() && session.memory().is_some());
            // The next one cannot have it, which the caller learns.
            driver.refusal.set(EAGAIN);
            let arrival = || Arrival {
                shared: driver.connection(&Options::new().channels(CHANNEL + 1)),
                state: None,
            };
            let entered = session.enter(arrival());
            assert_eq!(entered.map_err(Error::errno), Err(EAGAIN));
            assert!(session.shared.is_none() && session.memory().is_some());
            driver.refusal.set(0);
            assert_eq!(session.enter(arrival()), Ok(()));
            assert!(session.shared.is_some() && session.registered.is_some());
        });
    }
}
