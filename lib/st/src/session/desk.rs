//! The desk of a server: one listener, which gets the connections for all its sessions.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use hal::lock::Mutex;
use scif::Port;
use st_core::connection::Update;
use st_core::record::{Record, SessionState};

use super::CHANNEL;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::listener::Listener;
use crate::options::Options;
use crate::shared::Shared;

/// How long a client may take to name its session.
const NAMING_TIME: Duration = Duration::from_secs(10);
/// Most connections that are accepted, or fail, in one look.
const MOST_AT_ONCE: usize = 64;

/// A connection for a session.
pub struct Arrival {
    pub shared: Arc<Shared>,
    /// The peer's record about the session.
    pub state: Option<SessionState>,
}

/// The listener of a server, and the connections that wait for their sessions.
pub struct Desk {
    pub options: Options,
    inside: Mutex<Inside>,
}

struct Inside {
    /// `None` while there is no driver.
    listener: Option<Listener>,
    port: Port,
    /// Whether the program may still accept new sessions.
    is_open: bool,
    /// Connections whose clients have not named a session yet, the oldest first.
    unnamed: Vec<(Arc<Shared>, Deadline)>,
    /// New sessions that the program has not accepted.
    new: VecDeque<(Arc<Shared>, SessionState)>,
    /// The keys of sessions that exist, each with its next connection if that has arrived.
    known: BTreeMap<u64, Option<Arrival>>,
}

impl Desk {
    /// Listens with these options.
    ///
    /// # Errors
    /// Those of [`Listener::with_options`].
    pub fn new(options: &Options) -> Result<Self> {
        let listener = Listener::with_options(options)?;
        let port = listener.port()?;
        Ok(Self {
            options: *options,
            inside: Mutex::new(Inside {
                listener: Some(listener),
                port,
                is_open: true,
                unnamed: Vec::new(),
                new: VecDeque::new(),
                known: BTreeMap::new(),
            }),
        })
    }

    /// The port, which stays the same when the driver restarts.
    pub fn port(&self) -> Port {
        self.inside.lock().port
    }

    /// The descriptors on which something may arrive.
    pub fn descriptors(&self) -> Vec<usize> {
        let inside = self.inside.lock();
        let listener = inside.listener.iter().flat_map(Listener::descriptors);
        let unnamed = inside.unnamed.iter();
        let unnamed = unnamed.map(|(shared, _)| shared.endpoint.fd());
        listener.chain(unnamed).collect()
    }

    /// The next new session, whose key is known from now on.
    ///
    /// # Errors
    /// Those of reading the clock.
    pub fn next(&self) -> Result<Option<(Arc<Shared>, SessionState)>> {
        let mut inside = self.inside.lock();
        inside.serve(&self.options)?;
        let next = inside.new.pop_front();
        if let Some((_, state)) = &next {
            inside.known.insert(state.key, None);
        }
        Ok(next)
    }

    /// The new connection of a session, if there is one.
    ///
    /// # Errors
    /// Those of reading the clock.
    pub fn look_for(&self, key: u64) -> Result<Option<Arrival>> {
        let mut inside = self.inside.lock();
        inside.serve(&self.options)?;
        Ok(inside.known.get_mut(&key).and_then(Option::take))
    }

    /// Refuses the sessions that the program has not accepted, and all new ones from now on. Those
    /// that exist are still resumed.
    pub fn close(&self) {
        let mut inside = self.inside.lock();
        inside.is_open = false;
        for (shared, state) in core::mem::take(&mut inside.new) {
            refuse(&shared, state);
        }
    }

    /// Forgets a session that has ended.
    pub fn forget(&self, key: u64) {
        self.inside.lock().known.remove(&key);
    }
}

impl Inside {
    /// Accepts and receives what has arrived, without waiting.
    fn serve(&mut self, options: &Options) -> Result<()> {
        if self.listener.is_none() {
            // The driver may not be back yet.
            self.listener = Listener::with_options(&options.port(self.port)).ok();
        }
        let deadline = Deadline::after(NAMING_TIME)?;
        let backlog = options.waiting_clients();
        for _ in 0..MOST_AT_ONCE {
            let Some(listener) = &self.listener else {
                break;
            };
            match listener.try_accept() {
                Ok(Some(link)) => {
                    self.unnamed.push((link.shared, deadline));
                    if self.unnamed.len() > backlog {
                        self.name_all(backlog);
                    }
                    // Clients that name no session must not keep out those that resume one.
                    if self.unnamed.len() > backlog {
                        self.unnamed.remove(0);
                    }
                }
                Ok(None) => break,
                Err(_) if listener.port().is_err() => self.listener = None,
                // The client has gone, or has other options.
                Err(_) => {}
            }
        }
        // The others wait for the program, which has no use for a client that has gone.
        self.new
            .retain(|(shared, _)| shared.take_records(None).is_ok() && shared.is_live());
        self.name_all(backlog);
        Ok(())
    }

    /// Receives what the clients have sent, and assigns the connections that have a name by now.
    fn name_all(&mut self, backlog: usize) {
        let mut index = 0;
        while let Some((shared, deadline)) = self.unnamed.get(index) {
            let taken = shared.take_records(None);
            let updates = shared.take_session_updates();
            match updates.first() {
                None if taken.is_ok() && deadline.left() != Err(Error::TimedOut) => index += 1,
                Some(Update::Session(CHANNEL, state)) => {
                    let state = *state;
                    let (shared, _) = self.unnamed.remove(index);
                    self.name(shared, state, backlog);
                }
                _ => drop(self.unnamed.remove(index)),
            }
        }
    }

    /// Assigns a connection to the session that its client has named. If as many new sessions wait
    /// as may, another one is closed, and its client connects again.
    fn name(&mut self, shared: Arc<Shared>, state: SessionState, backlog: usize) {
        // A later connection replaces an earlier one.
        self.new.retain(|(_, other)| other.key != state.key);
        match self.known.get_mut(&state.key) {
            Some(next) => {
                *next = Some(Arrival {
                    shared,
                    state: Some(state),
                });
            }
            None if state.is_new && self.is_open => {
                if self.new.len() < backlog {
                    self.new.push_back((shared, state));
                }
            }
            None => refuse(&shared, state),
        }
    }
}

/// Tells a client that there is no such session.
fn refuse(shared: &Shared, state: SessionState) {
    let (channel, key) = (CHANNEL, state.key);
    // A client that cannot be notified has gone.
    let _ = shared.post(&Record::NoSession { channel, key });
}
