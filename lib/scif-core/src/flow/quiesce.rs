//! What clients that work on their own are told by their control pages, and what has to wait for
//! them: windows that end while they copy, rings that they hold locked.

use crate::base::ids::{ConnectionId, EndpointId, RemoteWindowId, WindowId};
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::{Connection, Phase};
use crate::engine::Engine;
use crate::flow::bypass::Bypass;
use crate::window::remote::RemoteWindow;
use scif_abi::bypass::{
    EPOCH_OFFSET, STATE_CONNECTED, STATE_DISCONNECTED, STATE_ENDED, STATE_OFFSET,
};
use scif_abi::limits::{CLIENT_COPY_NS, CLIENT_LOOK_NS, CLIENT_RETRY_DOUBLINGS, CLIENT_RETRY_NS};
use scif_abi::trace::What;
use scif_ring::validity::{self, ValidityMemory};

/// A window that ends, and waits for copies of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quiescing {
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
    Local(WindowId),
    /// An endpoint that was closed.
    Endpoint(EndpointId),
}

/// The words of a control page.
struct Page<'a> {
    mem: &'a mut dyn Memory,
    bypass: &'a mut Bypass,
}

impl ValidityMemory for Page<'_> {
    fn epoch(&self) -> u32 {
        // Ours, not what a client may have made of it.
        self.bypass.epoch
    }

    fn set_epoch(&mut self, epoch: u32) {
        self.bypass.epoch = epoch;
        self.mem.store_index(self.bypass.page + EPOCH_OFFSET, epoch);
        self.mem.full_fence();
    }

    fn busy(&self) -> u32 {
        let words = self.bypass.busy_words();
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
    fn bypass_state(&self) -> u32 {
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
        let bypass = self.bypass.as_mut()?;
        Some(Page { mem, bypass })
    }
}

impl Engine {
    /// A connection's state may have changed: its clients, if any, are told soon.
    pub(crate) fn publish_state(&mut self, id: ConnectionId) {
        if self.connections.get(id).is_some_and(Connection::is_mapped) {
            self.state_changes.push(id);
        }
    }

    /// Tells clients of changes of state.
    pub(crate) fn publish_states(&mut self, mem: &mut dyn Memory) {
        while let Some(id) = self.state_changes.pop() {
            let Some(connection) = self.connections.get_mut(id) else {
                continue;
            };
            let state = connection.bypass_state();
            if let Some(mut page) = connection.page(mem) {
                let word = page.bypass.page + STATE_OFFSET;
                page.mem.store_index(word, state);
                validity::advance(&mut page);
            }
        }
    }

    /// A window of a connection ends: no client begins a copy to or from it any more. True: none
    /// is under way either. Otherwise [`on_quiesced`](Self::on_quiesced) is called later.
    pub(crate) fn quiesce(
        &mut self,
        mem: &mut dyn Memory,
        connection: Option<ConnectionId>,
        what: Ending,
    ) -> bool {
        let Some(id) = connection else {
            return true;
        };
        let Some(connection) = self.connections.get_mut(id) else {
            return true;
        };
        let endpoint = connection.endpoint;
        let Some(mut page) = connection.page(mem) else {
            return true;
        };
        validity::advance(&mut page);
        // While earlier windows of it wait, this one does: a look for each of thousands would cost.
        let pending_on = self
            .quiescing
            .last()
            .is_some_and(|last| last.connection == id);
        let is_idle = !pending_on && validity::is_idle(&page);
        // A client that sleeps has the window mapped perhaps; it is to let go of it.
        let is_mapped = match what {
            Ending::Remote(id) => self.windows.remote(id).is_some_and(RemoteWindow::is_mapped),
            Ending::Local(_) | Ending::Endpoint(_) => true,
        };
        if let Some(endpoint) = endpoint
            && is_mapped
        {
            self.cx.events.changed(endpoint);
        }
        if is_idle {
            return true;
        }
        if self.quiescing.is_empty() {
            let at = self.cx.after(CLIENT_RETRY_NS);
            self.cx.timers.set(Timer::Quiesce, at);
            self.quiesce_checked_at = self.cx.now;
        }
        self.quiescing.push(Quiescing {
            connection: id,
            what,
            left: CLIENT_COPY_NS,
        });
        false
    }

    /// Whether no client of a connection copies.
    fn has_no_copies(&mut self, mem: &mut dyn Memory, id: ConnectionId) -> bool {
        let connection = self.connections.get_mut(id);
        let page = connection.and_then(|connection| connection.page(mem));
        page.is_none_or(|page| validity::is_idle(&page))
    }

    /// Nobody copies to or from this window any more, or has had time enough to end.
    fn on_quiesced(&mut self, what: Ending) {
        match what {
            Ending::Remote(id) => self.windows.answer_unregister(&mut self.cx, id),
            Ending::Local(id) => self.windows.send_unregister(&mut self.cx, id),
            Ending::Endpoint(id) => self.cx.end_departure(id),
        }
    }

    /// The last client of a connection is gone.
    pub(crate) fn end_all_quiescing(&mut self, id: ConnectionId) {
        if self.quiescing.is_empty() {
            return;
        }
        let is_its = |quiescing: &mut Quiescing| quiescing.connection == id;
        let ended: alloc::vec::Vec<Quiescing> = self.quiescing.extract_if(.., is_its).collect();
        for quiescing in ended {
            self.on_quiesced(quiescing.what);
        }
    }

    /// A client has locked a ring that somebody waits for: whoever does shall try again soon, and
    /// ever later while the ring stays locked.
    pub(crate) fn retry_ring(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && self.cx.timers.get(Timer::RingRetry(id)).is_none()
        {
            let doublings = connection.failed_locks.min(CLIENT_RETRY_DOUBLINGS);
            connection.failed_locks = connection.failed_locks.saturating_add(1);
            self.retry_ring_in(id, CLIENT_RETRY_NS << doublings);
        }
    }

    /// Clients move so much at this moment that one cannot say what is there: whoever asked shall
    /// ask again soon.
    pub(crate) fn retry_ring_soon(&mut self, id: ConnectionId) {
        self.retry_ring_in(id, CLIENT_RETRY_NS);
    }

    fn retry_ring_in(&mut self, id: ConnectionId, wait: u64) {
        let timer = Timer::RingRetry(id);
        if self.cx.timers.get(timer).is_none() {
            let at = self.cx.after(wait);
            self.cx.timers.set(timer, at);
        }
    }

    /// A ring that a client had locked is to be tried again, by whoever waits for it.
    pub(crate) fn on_ring_retry(&mut self, id: ConnectionId) {
        let connection = self.connections.get(id);
        if let Some(endpoint) = connection.and_then(|connection| connection.endpoint) {
            self.cx.events.changed(endpoint);
        }
    }

    /// Looks again whether clients still copy to or from windows that end.
    pub(crate) fn check_quiescing(&mut self, mem: &mut dyn Memory) {
        let watched = (self.cx.now - self.quiesce_checked_at).min(CLIENT_LOOK_NS);
        self.quiesce_checked_at = self.cx.now;
        // One look for all windows of a connection, which mostly come together.
        let mut looked = None;
        for mut quiescing in core::mem::take(&mut self.quiescing) {
            let id = quiescing.connection;
            let is_idle = match looked {
                Some((connection, is_idle)) if connection == id => is_idle,
                _ => self.has_no_copies(mem, id),
            };
            looked = Some((id, is_idle));
            if !is_idle {
                quiescing.left = quiescing.left.saturating_sub(watched);
                if quiescing.left > 0 {
                    self.quiescing.push(quiescing);
                    continue;
                }
                self.cx.stats.stuck_copies += 1;
                let count = self.cx.stats.stuck_copies;
                // It may happen as often as somebody likes; ever more rarely is enough.
                if count.is_power_of_two() {
                    log::warn!("a client's copy does not end: its window goes ({count} so far)");
                }
                self.cx.trace(What::CopyStuck, self.cx.config.node, 0);
            }
            self.on_quiesced(quiescing.what);
        }
        if !self.quiescing.is_empty() {
            let at = self.cx.after(CLIENT_RETRY_NS);
            self.cx.timers.set_earliest(Timer::Quiesce, at);
        }
    }
}
