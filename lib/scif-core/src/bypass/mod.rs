//! Bypass handles: clients that have the rings of a connection mapped and work on them themselves.
//! Also windows and endpoints that end only when such clients have ended their copies.

use alloc::vec::Vec;

use scif_abi::Error;
use scif_abi::limits::{CLIENT_COPY_NS, CLIENT_LOOK_NS, CLIENT_RETRY_NS, MAX_BYPASS_HANDLES};
use scif_abi::trace::What;

use crate::base::context::Context;
use crate::base::ids::{BypassId, ConnectionId, EndpointId, RemoteWindowId, WindowId};
use crate::base::owner::Owner;
use crate::base::quota::Resource;
use crate::base::table::Table;
use crate::base::timers::Timer;

/// A bypass handle.
#[derive(Debug)]
struct BypassHandle {
    connection: ConnectionId,
    /// The value that the client stores into lock words.
    number: u32,
    /// The owner to whom the handle is charged.
    owner: Owner,
    /// How many pages of the peer's parts the client has mapped.
    peer_pages: u64,
    /// The epoch when the client last asked. What it had mapped before may be of windows that have
    /// ended since.
    known_epoch: u32,
}

/// A window or endpoint that ends once clients have ended their copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quiescing {
    connection: ConnectionId,
    what: Ending,
    /// How long (ns) it still waits. Time in which the clients were not checked does not count.
    left: u64,
}

/// A window or endpoint that is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A window of the peer, which waits for our answer.
    Remote(RemoteWindowId),
    /// An own window; the peer does not know yet that it ends.
    Local(WindowId),
    /// An endpoint that was closed.
    Endpoint(EndpointId),
}

/// All bypass handles of an engine.
pub(crate) struct Bypass {
    handles: Table<BypassId, BypassHandle>,
    /// Numbers of the fastest copy routines.
    copy_routines: [u8; 4],
    /// Whether stores into peers' memory may be gathered on their way.
    gathers: bool,
    /// The windows and endpoints that wait for copies of clients before they end.
    quiescing: Vec<Quiescing>,
    /// When (ns) the clients of `quiescing` were last checked.
    checked_at: u64,
}

impl Bypass {
    pub(crate) fn new() -> Bypass {
        Bypass {
            handles: Table::new(MAX_BYPASS_HANDLES),
            copy_routines: [0; 4],
            gathers: true,
            quiescing: Vec::new(),
            checked_at: 0,
        }
    }

    /// Sets the numbers of the fastest copy routines.
    pub(crate) fn set_copy_routines(&mut self, routines: [u8; 4]) {
        self.copy_routines = routines;
    }

    /// Sets whether stores into peers' memory may be gathered on their way.
    pub(crate) fn set_gathers(&mut self, gathers: bool) {
        self.gathers = gathers;
    }

    /// Hints to clients: the fastest copy routines, and whether stores into peers' memory may be
    /// gathered on their way.
    pub(crate) fn hints(&self) -> ([u8; 4], bool) {
        (self.copy_routines, self.gathers)
    }

    /// How many handles there are.
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Checks that one more handle can be opened and charged to `owner`.
    ///
    /// # Errors
    /// `ENOMEM`: too many.
    pub(crate) fn check_room(&self, cx: &Context, owner: Owner) -> Result<(), Error> {
        if self.handles.is_full() {
            return Err(Error::NoMemory);
        }
        cx.quotas.check(owner, Resource::Bypass, 1)
    }

    /// Opens a handle. `number` is what its client stores into lock words.
    ///
    /// # Errors
    /// Those of `check_room`.
    pub(crate) fn open(
        &mut self,
        cx: &mut Context,
        connection: ConnectionId,
        (number, epoch): (u32, u32),
        owner: Owner,
    ) -> Result<BypassId, Error> {
        let handle = BypassHandle {
            connection,
            number,
            owner,
            peer_pages: 0,
            known_epoch: epoch,
        };
        cx.quotas.charge(owner, Resource::Bypass, 1)?;
        self.handles.insert(handle).ok_or_else(|| {
            cx.quotas.discharge(owner, Resource::Bypass, 1);
            Error::NoMemory
        })
    }

    /// Closes a handle. Returns its connection and its number.
    pub(crate) fn close(&mut self, cx: &mut Context, id: BypassId) -> Option<(ConnectionId, u32)> {
        let handle = self.handles.remove(id)?;
        cx.quotas.discharge(handle.owner, Resource::Bypass, 1);
        Some((handle.connection, handle.number))
    }

    /// The connection of a handle.
    pub(crate) fn connection(&self, id: BypassId) -> Option<ConnectionId> {
        self.handles.get(id).map(|handle| handle.connection)
    }

    /// The connections of all handles, and whether the client has pages of the peer's parts
    /// mapped.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (ConnectionId, bool)> {
        let handles = self.handles.iter();
        handles.map(|(_, handle)| (handle.connection, handle.peer_pages > 0))
    }

    /// Notes that a client has mapped pages of one of the peer's parts.
    pub(crate) fn map(&mut self, id: BypassId, pages: u64) {
        if let Some(handle) = self.handles.get_mut(id) {
            handle.peer_pages = handle.peer_pages.saturating_add(pages);
        }
    }

    /// Notes that such pages are unmapped.
    pub(crate) fn unmap(&mut self, id: BypassId, pages: u64) {
        if let Some(handle) = self.handles.get_mut(id) {
            handle.peer_pages = handle.peer_pages.saturating_sub(pages);
        }
    }

    /// Whether the epoch of a handle's client has changed since the last call.
    pub(crate) fn epoch_changed(&mut self, id: BypassId, epoch: u32) -> bool {
        let handle = self.handles.get_mut(id);
        handle.is_some_and(|h| core::mem::replace(&mut h.known_epoch, epoch) != epoch)
    }
}

// Waiting for copies of clients.
impl Bypass {
    /// Whether the last window or endpoint that began to wait is of this connection.
    pub(crate) fn is_quiescing(&self, connection: ConnectionId) -> bool {
        let last = self.quiescing.last();
        last.is_some_and(|last| last.connection == connection)
    }

    /// Makes a window or endpoint wait until no client of the connection copies.
    pub(crate) fn quiesce(&mut self, cx: &mut Context, connection: ConnectionId, what: Ending) {
        if self.quiescing.is_empty() {
            cx.timers.set(Timer::Quiesce, cx.after(CLIENT_RETRY_NS));
            self.checked_at = cx.now;
        }
        self.quiescing.push(Quiescing {
            connection,
            what,
            left: CLIENT_COPY_NS,
        });
    }

    /// Removes and returns everything that waits for clients of a connection, whose last client is
    /// gone.
    pub(crate) fn quiesced_with(&mut self, connection: ConnectionId) -> Vec<Ending> {
        let is_its = |quiescing: &mut Quiescing| quiescing.connection == connection;
        let ended = self.quiescing.extract_if(.., is_its);
        ended.map(|quiescing| quiescing.what).collect()
    }

    /// Removes and returns what waits no longer: no client copies any more, as `is_quiet` tells,
    /// or the time is over.
    pub(crate) fn take_quiesced(
        &mut self,
        cx: &mut Context,
        mut is_quiet: impl FnMut(ConnectionId) -> bool,
    ) -> Vec<Ending> {
        let watched = (cx.now - self.checked_at).min(CLIENT_LOOK_NS);
        self.checked_at = cx.now;
        // One check for all windows of a connection, which are mostly consecutive.
        let mut looked = None;
        let is_over = |quiescing: &mut Quiescing| {
            let id = quiescing.connection;
            let is_quiet = match looked {
                Some((connection, is_quiet)) if connection == id => is_quiet,
                _ => is_quiet(id),
            };
            looked = Some((id, is_quiet));
            if is_quiet {
                return true;
            }
            quiescing.left = quiescing.left.saturating_sub(watched);
            if quiescing.left > 0 {
                return false;
            }
            cx.stats.stuck_copies += 1;
            let count = cx.stats.stuck_copies;
            // Logged ever more rarely: a client must not be able to flood the log.
            if count.is_power_of_two() {
                log::warn!("a client's copy does not end: its window goes ({count} so far)");
            }
            cx.trace(What::CopyStuck, cx.config.node, 0);
            true
        };
        let ended = self.quiescing.extract_if(.., is_over);
        let ended = ended.map(|quiescing| quiescing.what).collect();
        if !self.quiescing.is_empty() {
            let at = cx.after(CLIENT_RETRY_NS);
            cx.timers.set_earliest(Timer::Quiesce, at);
        }
        ended
    }
}
