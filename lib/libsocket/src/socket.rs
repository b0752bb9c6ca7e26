//! Sockets, and the table that finds them by descriptor.
//!
//! A socket is the file of a SCIF endpoint together with the state that sockets have and endpoints
//! do not, which this module keeps. Descriptors made by `dup` share it. When a program has
//! inherited the descriptor of an endpoint, its first call of a socket function makes a new socket
//! for it.
//!
//! Calls use a descriptor of the socket's own. Another thread may close the program's descriptor
//! during a call, and its number may name another file before the call has ended.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libscif::table;
use runtime::fd::Reserved;
use runtime::sync::Mutex;
use runtime::time::Instant;
use scif::raw;
use scif_abi::PortId;
use scif_abi::flags::Readiness;
use skiff_libc::descriptor;
use syscall::error::{EALREADY, EBADF, EINPROGRESS, EISCONN, ENOTCONN, ENOTSOCK};
use syscall::flag::{F_GETFL, O_NONBLOCK};

use crate::greeting::Greeting;
use crate::local::PORTS;
use crate::options::Options;
use crate::owners::Owners;
use crate::paths::Paths;
use crate::settled::Settled;
use crate::transfers::{self, Established, Transfers};
use crate::{Result, errors};

/// What a socket is used for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Phase {
    /// Nothing yet.
    #[default]
    Fresh,
    /// `connect` to this port has begun at this time, and its result has not been taken.
    Connecting(PortId, Instant),
    /// It is connected, or was once.
    Connected,
    /// It accepts connections.
    Listening,
}

/// The part of a socket's state that changes in its life.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Its use.
    pub phase: Phase,
    /// The address given to `bind`; `None` before that.
    pub bound: Option<u32>,
    /// Of a connection: it was made by 127.0.0.1, which is the address of both ends.
    pub is_local: bool,
    /// Its family is `AF_UNIX`: it is an end of `socketpair`, or has a path.
    pub is_unix: bool,
    /// Of a listener: how many connections may wait.
    pub backlog: usize,
    /// `SO_ERROR`: the error of a `connect` that did not wait; 0 if there is none.
    pub error: i32,
    /// `shutdown` has ended receiving.
    pub is_read_shut: bool,
    /// `shutdown` has ended sending.
    pub is_write_shut: bool,
    /// It has the bypass, and its connection belongs to the parent of this process.
    pub is_foreign: bool,
    /// This process has closed its last descriptor.
    pub is_closed: bool,
    /// All other processes that had it have done so, too: the connection ends when all is sent.
    pub is_over: bool,
}

/// No descriptor.
const NONE: usize = usize::MAX;

/// A descriptor that programs do not see; [`NONE`] once it was given up.
struct Hidden(AtomicUsize);

/// All hidden descriptors, except those that the bypass uses as well.
pub static HIDDEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The reserved number of a socket's own descriptor. Reserving it before a connection is accepted
/// ensures that no number is missing afterwards, when the connection would be lost.
pub struct Place(Reserved);

impl Place {
    /// Reserves one.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new() -> Result<Self> {
        Reserved::new().map(Self).map_err(|error| error.errno)
    }
}

impl Hidden {
    /// Copies a descriptor.
    fn new(place: Place, index: usize) -> Result<Self> {
        let number = place.0.dup(index).map_err(|error| error.errno)?;
        HIDDEN.lock().push(number);
        Ok(Self(AtomicUsize::new(number)))
    }

    fn number(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Closes it, although others have it still.
    fn give_up(&self) {
        let number = self.0.swap(NONE, Ordering::Relaxed);
        table::forget(number);
        // The descriptor is closed even on an error.
        let _ = runtime::fd::close(number);
    }

    fn forget(&self, hidden: &mut Vec<usize>) {
        let number = self.number();
        hidden.retain(|other| *other != number);
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if self.number() == NONE {
            return;
        }
        table::forget(self.number());
        // Under the lock, so that the child of a fork finds both changes or neither.
        let mut hidden = HIDDEN.lock();
        self.forget(&mut hidden);
        // The descriptor is closed even on an error.
        let _ = runtime::fd::close(self.number());
    }
}

/// A socket.
pub struct Socket {
    file: Hidden,
    state: Mutex<State>,
    /// The processes that share it.
    pub owners: Owners,
    /// The descriptors of this process that share it.
    descriptors: AtomicUsize,
    /// `O_NONBLOCK`.
    is_nonblocking: AtomicBool,
    /// Its options.
    pub options: Mutex<Options>,
    /// The paths in its addresses.
    pub paths: Mutex<Paths>,
    /// Bytes that `MSG_PEEK` has taken from the ring and no receive has taken yet.
    pub peeked: Mutex<Vec<u8>>,
    /// Whether `MSG_PEEK` was ever used.
    pub has_peeked: AtomicBool,
    /// Number of threads that receive from the ring past `peeked`.
    pub receiving: AtomicUsize,
    /// A call has reported the peer's end to the program, or should have by now.
    pub knows_end: AtomicBool,
    /// The state of a socket of Scheduled Transfers.
    pub transfers: Option<Mutex<Transfers>>,
    /// Of a listener of Scheduled Transfers: connections in set-up, the oldest first.
    pub greetings: Mutex<Vec<Greeting>>,
    /// A thread is setting up the connection, or has done so.
    is_establishing: AtomicBool,
    /// Wakes other threads when the set-up has ended; made once a thread waits for that.
    settled: Mutex<Option<Settled>>,
}

impl Socket {
    /// Makes a socket for the endpoint behind a descriptor.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn new(place: Place, index: usize) -> Result<Self> {
        Ok(Self {
            file: Hidden::new(place, index)?,
            state: Mutex::default(),
            owners: Owners::default(),
            descriptors: AtomicUsize::new(0),
            is_nonblocking: AtomicBool::new(false),
            options: Mutex::default(),
            paths: Mutex::default(),
            peeked: Mutex::default(),
            has_peeked: AtomicBool::new(false),
            knows_end: AtomicBool::new(false),
            receiving: AtomicUsize::new(0),
            transfers: None,
            greetings: Mutex::default(),
            is_establishing: AtomicBool::new(false),
            settled: Mutex::default(),
        })
    }

    /// Makes it a socket of Scheduled Transfers.
    pub fn with_transfers(self, transfers: Transfers) -> Self {
        Self {
            transfers: Some(Mutex::new(transfers)),
            ..self
        }
    }

    /// Makes it the end of an existing connection.
    pub fn connected(self, options: Options) -> Self {
        self.update(|state| state.phase = Phase::Connected);
        *self.options.lock() = options;
        self
    }

    /// The descriptor that calls use.
    pub fn number(&self) -> usize {
        self.file.number()
    }

    /// Returns a copy of the current state.
    pub fn state(&self) -> State {
        *self.state.lock()
    }

    /// Changes the state.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
    }

    /// Whether calls return `EAGAIN` instead of waiting (`O_NONBLOCK`).
    pub fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::Relaxed)
    }

    /// Sets [`is_nonblocking`](Self::is_nonblocking).
    pub fn set_nonblocking(&self, set: bool) {
        self.is_nonblocking.store(set, Ordering::Relaxed);
    }

    /// Takes the result of a `connect` that did not wait, if it has ended. This changes the phase;
    /// a failure becomes the socket's error.
    pub fn collect(&self, number: usize) {
        let Phase::Connecting(to, since) = self.state().phase else {
            return;
        };
        let is_over = raw::readiness(number, Readiness::OUT.bits())
            .is_ok_and(|ready| ready & (Readiness::OUT | Readiness::HUP).bits() != 0);
        if !is_over {
            return;
        }
        let result = match raw::connect(number, to) {
            Ok(_) | Err(EISCONN) => match self.establish(number) {
                // Another thread sets up the connection and signals the end.
                None => return,
                Some(result) => result,
            },
            Err(EINPROGRESS) => return,
            Err(error) => Err(errors::connect(error, since.elapsed())),
        };
        self.update(|state| match result {
            // Another thread has taken the result.
            _ if state.phase != Phase::Connecting(to, since) => {}
            Ok(()) => state.phase = Phase::Connected,
            Err(error) => {
                state.phase = Phase::Fresh;
                state.error = error;
            }
        });
        // After the change, so that a thread that begins to wait later finds it.
        if let Some(settled) = &*self.settled.lock() {
            settled.say();
        }
    }

    /// Returns a descriptor that becomes readable when the thread that sets up the connection has
    /// finished; `None` if no thread is doing so.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn settled(&self) -> Result<Option<usize>> {
        let mut settled = self.settled.lock();
        let is_establishing = self.is_establishing.load(Ordering::SeqCst);
        if !is_establishing || !matches!(self.state().phase, Phase::Connecting(..)) {
            return Ok(None);
        }
        if settled.is_none() {
            *settled = Some(Settled::new()?);
        }
        Ok(settled.as_ref().map(Settled::descriptor))
    }

    /// Does what follows a SCIF connect: the set-up of Scheduled Transfers, which takes a round
    /// trip to a server that has accepted. Returns `None` if another thread does it, and
    /// `ENOTCONN` if another process does.
    pub fn establish(&self, number: usize) -> Option<Result<()>> {
        let Some(transfers) = &self.transfers else {
            return Some(Ok(()));
        };
        if self.is_establishing.swap(true, Ordering::SeqCst) {
            return None;
        }
        if !self.owners.begin_set_up() {
            return Some(Err(ENOTCONN));
        }
        let chosen = transfers.lock().inherited();
        let established = transfers::establish(number, &chosen);
        Some(established.map(|established| self.set_established(established)))
    }

    /// Whether a thread has begun to set up the connection.
    pub fn is_establishing(&self) -> bool {
        self.is_establishing.load(Ordering::SeqCst)
    }

    /// Records the set-up of a connection of Scheduled Transfers.
    pub fn set_established(&self, established: Established) {
        if let Some(transfers) = &self.transfers {
            if established.link.is_some() {
                self.file.forget(&mut HIDDEN.lock());
            }
            transfers.lock().set_established(established);
        }
    }

    /// Ends the endpoint, although threads in calls and the bypass keep its file open. Nothing is
    /// left to do if the endpoint has already gone.
    pub fn end_endpoint(&self) {
        table::forget(self.number());
        let _ = raw::shutdown(self.number());
    }

    /// Keeps other threads from the socket until [`open`](Self::open). Takes the locks in the
    /// order in which calls nest them.
    pub fn hold(&self) {
        core::mem::forget(self.greetings.lock());
        core::mem::forget(self.peeked.lock());
        core::mem::forget(self.options.lock());
        core::mem::forget(self.paths.lock());
        if let Some(transfers) = &self.transfers {
            core::mem::forget(transfers.lock());
        }
        core::mem::forget(self.settled.lock());
        core::mem::forget(self.state.lock());
    }

    /// Unlocks what [`hold`](Self::hold) locked.
    ///
    /// # Safety
    /// The socket was held, in this process or in the parent of the fork that made this one.
    pub unsafe fn open(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.state.force_unlock();
            self.settled.force_unlock();
            if let Some(transfers) = &self.transfers {
                transfers.force_unlock();
            }
            self.paths.force_unlock();
            self.options.force_unlock();
            self.peeked.force_unlock();
            self.greetings.force_unlock();
        }
    }

    /// Corrects the state in the child of a fork. The parent's threads do not run here, and the
    /// parent sends what it has not sent yet. A connection with the bypass belongs to the parent
    /// alone.
    pub fn forked(&self) {
        self.receiving.store(0, Ordering::Relaxed);
        self.is_establishing.store(false, Ordering::Relaxed);
        let Some(transfers) = &self.transfers else {
            return;
        };
        let mut transfers = transfers.lock();
        transfers.unsent.clear();
        if transfers.has_link() {
            self.owners.disown();
        }
        // The program's handles have references to this socket, and would keep its file open.
        if transfers.give_up_link() {
            self.update(|state| state.is_foreign = true);
            self.file.give_up();
        }
    }

    /// Whether the connection has the bypass.
    pub fn has_link(&self) -> bool {
        let transfers = self.transfers.as_ref();
        transfers.is_some_and(|transfers| transfers.lock().has_link())
    }

    /// Counts one descriptor less, and returns whether it was the last.
    fn drop_descriptor(&self) -> bool {
        self.descriptors.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Returns the state of a socket that can transfer data.
    ///
    /// # Errors
    /// The error of a `connect` that has failed, once; `ENOTCONN`; `EALREADY` while it connects.
    pub fn transferring(&self, number: usize) -> Result<State> {
        self.collect(number);
        let state = self.state();
        match state.phase {
            Phase::Connected => Ok(state),
            Phase::Connecting(..) => Err(EALREADY),
            _ => Err(match self.take_error() {
                0 => ENOTCONN,
                error => error,
            }),
        }
    }

    /// Takes the error that no call has reported yet; 0 if there is none.
    pub fn take_error(&self) -> i32 {
        core::mem::take(&mut self.state.lock().error)
    }
}

/// Sockets by their descriptors.
pub type Table = Vec<Option<Arc<Socket>>>;

/// The sockets of this process.
pub static TABLE: Mutex<Table> = Mutex::new(Vec::new());

/// Finds the socket of a descriptor, and the descriptor that calls on it use.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`.
pub fn find(number: c_int) -> Result<(usize, Arc<Socket>)> {
    let index = usize::try_from(number).map_err(|_| EBADF)?;
    if let Some(Some(socket)) = TABLE.lock().get(index) {
        return Ok((socket.number(), Arc::clone(socket)));
    }
    adopt(number, index).map(|socket| (socket.number(), socket))
}

/// Makes a socket for an endpoint that another program or `scif_open` made.
fn adopt(number: c_int, index: usize) -> Result<Arc<Socket>> {
    let turn = descriptor::turn(index).map_err(|error| error.errno)?;
    let flags = runtime::fd::fcntl(index, F_GETFL, 0).map_err(|_| EBADF)?;
    let is_endpoint =
        descriptor::is_scif(number).map_err(|error| error.errno)? && raw::local(index).is_ok();
    if !is_endpoint {
        return Err(ENOTSOCK);
    }
    let mut socket = Socket::new(Place::new()?, index)?;
    if let Ok(peer) = raw::peer(index) {
        let is_unix = is_unix(index, peer);
        socket.update(|state| state.is_unix = is_unix);
        socket = socket.connected(Options::default());
    }
    socket.set_nonblocking(flags & O_NONBLOCK != 0);
    let socket = Arc::new(socket);
    let mut table = TABLE.lock();
    // A close that began before finds no socket, and the number may already name another file. A
    // close that begins now finds this socket.
    if !descriptor::is_turn(index, turn) {
        return Err(EBADF);
    }
    // Another thread may have made a socket meanwhile, and may already keep state in it.
    if let Some(Some(other)) = table.get(index) {
        return Ok(Arc::clone(other));
    }
    insert_in(&mut table, index, Arc::clone(&socket));
    Ok(socket)
}

/// Whether a connection that another program made is of the family `AF_UNIX`: both ends are on this
/// node, and the one that listened has a port of that family.
fn is_unix(index: usize, peer: PortId) -> bool {
    raw::local(index).is_ok_and(|own| {
        let ports = [own.port(), peer.port()];
        own.node() == peer.node() && ports.iter().any(|port| PORTS.contains(port))
    })
}

/// Records the socket of a descriptor. Returns its former socket if this was its last descriptor.
pub fn insert(index: usize, socket: Arc<Socket>) -> Option<Arc<Socket>> {
    insert_in(&mut TABLE.lock(), index, socket)
}

/// Changes the descriptor counts under the table's lock, so that the child of a fork finds them
/// consistent.
fn insert_in(table: &mut Table, index: usize, socket: Arc<Socket>) -> Option<Arc<Socket>> {
    socket.descriptors.fetch_add(1, Ordering::Relaxed);
    if index >= table.len() {
        table.resize(index + 1, None);
    }
    descriptor::set_socket(index);
    let former = table[index].replace(socket);
    former.filter(|former| former.drop_descriptor())
}

/// Opens a descriptor for a new endpoint of the system, and records its socket.
pub fn opened(index: usize, socket: Socket, close_on_exec: bool) -> c_int {
    let number = descriptor::opened(index, close_on_exec);
    insert(index, Arc::new(socket));
    number
}

/// Returns the number after the highest descriptor that may be in the table.
pub fn numbers() -> usize {
    TABLE.lock().len()
}

/// What a descriptor was before it was removed from the table.
pub enum Taken {
    /// No socket.
    Nothing,
    /// One of several descriptors of a socket.
    Copy,
    /// The last descriptor of a socket.
    Last(Arc<Socket>),
}

/// Removes a descriptor from the table.
pub fn take(index: usize) -> Taken {
    let mut table = TABLE.lock();
    let Some(socket) = table.get_mut(index).and_then(Option::take) else {
        return Taken::Nothing;
    };
    descriptor::clear_socket(index);
    match socket.drop_descriptor() {
        true => Taken::Last(socket),
        false => Taken::Copy,
    }
}
