//! Connections whose own rings the driver polls, because programs sleep until bytes come.
//!
//! To be notified of bytes costs a peer's program a request to its driver, and the two drivers a
//! message. So a driver that is awake anyway polls the rings itself: the peer is not asked for
//! notifications, and only stores its bytes. Before the driver sleeps, it asks the peers.

use alloc::vec::Vec;

use scif_abi::flags::Readiness;

use crate::base::context::Context;
use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::base::rule::{Violation, rule};
use crate::base::table::Table;
use crate::base::timers::Timer;
use crate::connection::{Connection, Connections, Phase};
use crate::queue_pair::rings::RingError;

/// Most connections that are polled, because each poll reads all of them. The peers of further
/// ones are asked for notifications at once.
pub(crate) const MAX_POLLED: usize = 16;

/// The connections that are polled.
#[derive(Debug, Default)]
pub(super) struct Polled {
    /// Whether the driver polls now.
    is_polling: bool,
    /// Each of these has [`Connection::polled_from`] set.
    ids: Vec<ConnectionId>,
}

impl Polled {
    /// Polls a connection for bytes from now on or, if it cannot, asks the peer to notify us of
    /// them. Returns whether there are bytes now; `None` when clients are too busy to tell.
    ///
    /// # Errors
    /// The rings are broken.
    pub(super) fn await_bytes(
        &mut self,
        mem: &mut dyn Memory,
        cx: &Context,
        id: ConnectionId,
        connection: &mut Connection,
    ) -> Result<Option<bool>, RingError> {
        let is_polled = self.add(mem, cx, id, connection);
        match &mut connection.rings {
            // Bytes that came before this check do not count as new.
            Some(rings) if is_polled => rings.has_bytes(mem),
            Some(rings) => rings.arm_bytes(mem),
            None => Ok(Some(false)),
        }
    }

    /// Polls a connection for bytes that come from now on. Returns whether it can be polled.
    fn add(
        &mut self,
        mem: &mut dyn Memory,
        cx: &Context,
        id: ConnectionId,
        connection: &mut Connection,
    ) -> bool {
        // Within the node, the programs need this processor themselves.
        if !self.is_polling || connection.node() == cx.config.node {
            return false;
        }
        // Bytes that have come since then are new for the first caller.
        if connection.polled_from.is_some() {
            return true;
        }
        match &mut connection.rings {
            Some(rings) if self.ids.len() < MAX_POLLED => {
                connection.polled_from = Some(rings.written(mem));
                self.ids.push(id);
                true
            }
            _ => false,
        }
    }

    /// Checks that exactly the connections that are marked as polled are listed.
    ///
    /// # Errors
    /// The first connection for which this does not hold.
    pub(super) fn check(&self, table: &Table<ConnectionId, Connection>) -> Result<(), Violation> {
        for (id, connection) in table.iter() {
            let is_polled = self.ids.contains(&id);
            let says_so = connection.polled_from.is_some();
            rule(is_polled == says_so, "what is polled is listed", id)?;
        }
        rule(
            self.is_polling || self.ids.is_empty(),
            "a driver that does not poll has its peers notify it",
            self.ids.len() as u64,
        )
    }
}

impl Connections {
    /// Begins to poll: from now on the caller does.
    pub(crate) fn start_polling(&mut self) {
        self.polled.is_polling = true;
    }

    /// Whether bytes have come to some connection that is polled.
    pub(crate) fn any_polled(&mut self, mem: &mut dyn Memory) -> bool {
        let table = &mut self.table;
        (self.polled.ids.iter()).any(|id| table.get_mut(*id).is_some_and(|c| c.has_new_bytes(mem)))
    }

    /// Reports bytes that have come to polled connections, as a notification would. Returns the
    /// connections whose rings are broken.
    pub(crate) fn take_polled(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
    ) -> Vec<ConnectionId> {
        let (table, mut come) = (&mut self.table, Vec::new());
        self.polled.ids.retain(|id| {
            let Some(connection) = table.get_mut(*id) else {
                return false;
            };
            let is_new = connection.has_new_bytes(mem);
            // The end of those that are over was reported already.
            let stays = !is_new && connection.phase == Phase::Connected;
            if is_new {
                come.push(*id);
            }
            if !stays {
                connection.polled_from = None;
            }
            stays
        });
        come.retain(|id| self.notified(mem, cx, *id, Readiness::IN).is_err());
        come
    }

    /// Ends polling: asks the peers to notify us. Bytes that came meanwhile are left to the next
    /// iteration.
    pub(crate) fn stop_polling(&mut self, mem: &mut dyn Memory, cx: &mut Context) {
        self.polled.is_polling = false;
        for id in self.polled.ids.drain(..) {
            let Some(connection) = self.table.get_mut(id) else {
                continue;
            };
            let armed = match &mut connection.rings {
                Some(rings) if connection.phase == Phase::Connected => rings.arm_bytes(mem),
                _ => Ok(None),
            };
            // Checked after the peer was asked. The call that goes on finds out if the rings are
            // broken.
            if armed.is_err() || connection.has_new_bytes(mem) {
                cx.timers.set_earliest(Timer::RingRetry(id), cx.now);
            }
            connection.polled_from = None;
        }
    }
}

impl Connection {
    /// Whether bytes have come since polling began.
    fn has_new_bytes(&mut self, mem: &mut dyn Memory) -> bool {
        let rings = self
            .rings
            .as_mut()
            .filter(|_| self.phase == Phase::Connected);
        rings.is_some_and(|rings| Some(rings.written(mem)) != self.polled_from)
    }
}
