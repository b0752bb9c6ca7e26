//! What clients that work on their own are told by their control pages, and what has to wait for
//! them: windows that end while they copy, rings that they hold locked.

use scif_abi::bypass::{
    EPOCH_OFFSET, STATE_CONNECTED, STATE_DISCONNECTED, STATE_ENDED, STATE_OFFSET,
};
use scif_abi::limits::{CLIENT_COPY_NS, CLIENT_LOOK_NS, CLIENT_RETRY_DOUBLINGS, CLIENT_RETRY_NS};
use scif_abi::trace::What;
use scif_ring::validity::{self, ValidityMemory};

use crate::bypass::Direct;
use crate::connection::{Connection, ConnectionId, Phase};
use crate::endpoint::EndpointId;
use crate::engine::Engine;
use crate::mapping::RemoteWindowId;
use crate::memory::Memory;
use crate::window::WindowId;

/// A window that ends, and waits for copies of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settling {
    connection: ConnectionId,
    what: Ending,
    /// For how long (ns) it still waits, of the time in which we watch.
    left: u64,
}

/// What ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A window of the peer, which waits for our answer.
    Remote(RemoteWindowId),
    /// An own one, of which the peer has not been told.
    Own(WindowId),
    /// An endpoint that was closed.
    Endpoint(EndpointId),
}

/// The words of a control page.
struct Page<'a> {
    mem: &'a mut dyn Memory,
    direct: &'a mut Direct,
}

impl ValidityMemory for Page<'_> {
    fn epoch(&self) -> u32 {
        // Ours, not what a client may have made of it.
        self.direct.epoch
    }

    fn set_epoch(&mut self, epoch: u32) {
        self.direct.epoch = epoch;
        self.mem.store_index(self.direct.page + EPOCH_OFFSET, epoch);
        self.mem.full_fence();
    }

    fn busy(&self) -> u32 {
        let words = self.direct.busy_words();
        let busy = words.map(|word| self.mem.load_index(word));
        // They may be any numbers.
        busy.fold(0, u32::saturating_add)
    }

    // Only clients copy.
    fn add_busy(&mut self) {}

    fn remove_busy(&mut self) {}
}

impl Connection {
    /// What clients are to know of it.
    fn direct_state(&self) -> u32 {
        if self.endpoint.is_none() || self.rings.is_none() {
            STATE_ENDED
        } else if self.phase == Phase::Connected {
            STATE_CONNECTED
        } else {
            STATE_DISCONNECTED
        }
    }

    /// The control page, if there are clients.
    fn page<'a>(&'a mut self, mem: &'a mut dyn Memory) -> Option<Page<'a>> {
        let direct = self.direct.as_mut()?;
        Some(Page { mem, direct })
    }
}

impl Engine {
    /// A connection's state may have changed: its clients, if any, are told soon.
    pub(crate) fn restate(&mut self, id: ConnectionId) {
        if self
            .connections
            .get(id.0)
            .is_some_and(Connection::is_mapped)
        {
            self.restated.push(id);
        }
    }

    /// Tells clients of changes of state.
    pub(crate) fn tell_states(&mut self, mem: &mut dyn Memory) {
        while let Some(id) = self.restated.pop() {
            let Some(connection) = self.connections.get_mut(id.0) else {
                continue;
            };
            let state = connection.direct_state();
            if let Some(mut page) = connection.page(mem) {
                let word = page.direct.page + STATE_OFFSET;
                page.mem.store_index(word, state);
                validity::advance(&mut page);
            }
        }
    }

    /// A window of a connection ends: no client begins a copy to or from it any more. True: none
    /// is under way either. Otherwise [`end_settled`](Self::end_settled) is called later.
    pub(crate) fn settle(
        &mut self,
        mem: &mut dyn Memory,
        connection: Option<ConnectionId>,
        what: Ending,
    ) -> bool {
        let Some(id) = connection else {
            return true;
        };
        let Some(connection) = self.connections.get_mut(id.0) else {
            return true;
        };
        let endpoint = connection.endpoint;
        let Some(mut page) = connection.page(mem) else {
            return true;
        };
        validity::advance(&mut page);
        // While earlier windows of it wait, this one does: a look for each of thousands would cost.
        let waits = self
            .settling
            .last()
            .is_some_and(|last| last.connection == id);
        let is_idle = !waits && validity::is_idle(&page);
        // A client that sleeps has the window mapped perhaps; it is to let go of it.
        if let Some(endpoint) = endpoint {
            self.announce(endpoint);
        }
        if is_idle {
            return true;
        }
        if self.settling.is_empty() {
            self.settle_at = self.now.saturating_add(CLIENT_RETRY_NS);
            self.settled_at = self.now;
        }
        self.settling.push(Settling {
            connection: id,
            what,
            left: CLIENT_COPY_NS,
        });
        false
    }

    /// Whether no client of a connection copies.
    fn has_no_copies(&mut self, mem: &mut dyn Memory, id: ConnectionId) -> bool {
        let connection = self.connections.get_mut(id.0);
        let page = connection.and_then(|connection| connection.page(mem));
        page.is_none_or(|page| validity::is_idle(&page))
    }

    /// Nobody copies to or from this window any more, or has had time enough to end.
    fn end_settled(&mut self, mem: &mut dyn Memory, what: Ending) {
        match what {
            Ending::Remote(id) => self.answer_unregister(mem, id),
            Ending::Own(id) => self.tell_unregister(mem, id),
            Ending::Endpoint(id) => self.end_departure(id),
        }
    }

    /// The last client of a connection is gone.
    pub(crate) fn settle_all(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        if self.settling.is_empty() {
            return;
        }
        let is_its = |settling: &mut Settling| settling.connection == id;
        let ended: alloc::vec::Vec<Settling> = self.settling.extract_if(.., is_its).collect();
        for settling in ended {
            self.end_settled(mem, settling.what);
        }
    }

    /// A client has locked a ring that somebody waits for: whoever does shall try again soon, and
    /// ever later while the ring stays locked.
    pub(crate) fn retry_locked(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id.0)
            && !connection.is_blocked
        {
            let doublings = connection.locked_looks.min(CLIENT_RETRY_DOUBLINGS);
            connection.locked_looks = connection.locked_looks.saturating_add(1);
            self.retry_in(id, CLIENT_RETRY_NS << doublings);
        }
    }

    /// Clients move so much at this moment that one cannot say what is there: whoever asked shall
    /// ask again soon.
    pub(crate) fn retry_soon(&mut self, id: ConnectionId) {
        self.retry_in(id, CLIENT_RETRY_NS);
    }

    fn retry_in(&mut self, id: ConnectionId, wait: u64) {
        if let Some(connection) = self.connections.get_mut(id.0)
            && !connection.is_blocked
        {
            connection.is_blocked = true;
            self.blocked.insert((self.now.saturating_add(wait), id));
        }
    }

    /// When clients are to be looked at again.
    pub(crate) fn next_client_deadline(&self) -> Option<u64> {
        let blocked = self.blocked.first().map(|(until, _)| *until);
        let settling = (!self.settling.is_empty()).then_some(self.settle_at);
        blocked.into_iter().chain(settling).min()
    }

    /// Looks again at what waits for clients.
    pub(crate) fn tick_clients(&mut self, mem: &mut dyn Memory) {
        while let Some((until, id)) = self.blocked.first().copied() {
            if until > self.now {
                break;
            }
            self.blocked.pop_first();
            let Some(connection) = self.connections.get_mut(id.0) else {
                continue;
            };
            connection.is_blocked = false;
            if let Some(endpoint) = connection.endpoint {
                self.announce(endpoint);
            }
        }
        if !self.settling.is_empty() && self.settle_at <= self.now {
            self.settle_at = self.now.saturating_add(CLIENT_RETRY_NS);
            let watched = (self.now - self.settled_at).min(CLIENT_LOOK_NS);
            self.settled_at = self.now;
            // One look for all windows of a connection, which mostly come together.
            let mut looked = None;
            for mut settling in core::mem::take(&mut self.settling) {
                let id = settling.connection;
                let is_idle = match looked {
                    Some((connection, is_idle)) if connection == id => is_idle,
                    _ => self.has_no_copies(mem, id),
                };
                looked = Some((id, is_idle));
                if !is_idle {
                    settling.left = settling.left.saturating_sub(watched);
                    if settling.left > 0 {
                        self.settling.push(settling);
                        continue;
                    }
                    self.stats.stuck_copies += 1;
                    let count = self.stats.stuck_copies;
                    // It may happen as often as somebody likes; ever more rarely is enough.
                    if count.is_power_of_two() {
                        log::warn!(
                            "a client's copy does not end: its window goes ({count} so far)"
                        );
                    }
                    self.trace(What::CopyStuck, self.config.node, 0);
                }
                self.end_settled(mem, settling.what);
            }
        }
    }
}
