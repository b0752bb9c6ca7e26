//! Bypass clients of a connection: the control page that they share, and the places of the rings.

use alloc::vec::Vec;

use scif_abi::Error;
use scif_abi::bypass::{
    CONTROL_BYTES, Part, STATE_CONNECTED, STATE_DISCONNECTED, STATE_ENDED, STATE_FINISHED,
};
use scif_abi::flags::Readiness;

use crate::base::context::Context;
use crate::base::ids::ConnectionId;
use crate::base::memory::{Memory, Place};
use crate::base::table::Key;
use crate::connection::notify::Notify;
use crate::connection::{Connection, Connections, Phase};
use crate::queue_pair::control_page::ControlPage;
use crate::queue_pair::rings::{RingError, Rings};

impl Connections {
    /// Adds a client of a connected connection, and makes its control page if there is none.
    /// Returns the number that the client stores into lock words, the present epoch, and the sizes
    /// in bytes of our ring and of the peer's.
    ///
    /// # Errors
    /// `ENOTCONN`. `EOPNOTSUPP`: the peer's rings have no pages of their own. `ENOMEM`.
    pub(crate) fn open_client(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
        copy_routines: [u8; 4],
    ) -> Result<(u32, u32, [u32; 2]), Error> {
        let connection = self.table.get_mut(id).ok_or(Error::NotConnected)?;
        // The peer may have finished sending already.
        let state = connection.client_state();
        let rings = connection.rings.as_mut().ok_or(Error::NotConnected)?;
        if connection.control_page.is_none() {
            if !rings.have_own_pages(mem) {
                return Err(Error::NotSupported);
            }
            let page = ControlPage::new(mem, copy_routines, state).ok_or(Error::NoMemory)?;
            rings.share(mem, page.address());
            connection.control_page = Some(page);
            cx.stats.pages += 1;
        }
        let page = connection.control_page.as_mut();
        let page = page.ok_or(Error::NotConnected)?;
        let ring_bytes = [connection.block.ring_bytes(), rings.peer_ring_bytes()];
        let client = (page.open_handle(), page.epoch(), ring_bytes);
        self.note_shared(cx, id);
        Ok(client)
    }

    /// Notes that clients of a connection may map the rings, including the peer's. Within a node
    /// the peer's ring is in the other end's block.
    fn note_shared(&mut self, cx: &Context, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        connection.was_shared = true;
        if connection.node() == cx.config.node {
            let other = ConnectionId::from_number(connection.remote);
            if let Some(other) = self.table.get_mut(other) {
                other.was_shared = true;
            }
        }
    }

    /// Removes a client, perhaps one that was killed. Frees its locks, and sends notifications
    /// that it may not have sent. Returns whether it was the last client; with that one the
    /// control page goes.
    ///
    /// # Errors
    /// The client has broken the rings.
    pub(crate) fn close_client(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
        number: u32,
    ) -> (bool, Result<(), RingError>) {
        let is_connected = self.is_connected(id);
        if is_connected {
            // The client may have died between moving bytes and notifying the peer, or between
            // taking a notification and passing it on.
            self.add_notification(id, Readiness::IN | Readiness::OUT, Notify::Always);
        }
        let Some(connection) = self.table.get_mut(id) else {
            return (false, Ok(()));
        };
        let mut outcome = Ok(());
        if let Some(rings) = &mut connection.rings {
            outcome = rings.release(mem, number, is_connected);
        }
        let close = |page: &mut ControlPage| page.close_handle(mem, number);
        let Some(page) = connection.control_page.take_if(close) else {
            return (false, outcome);
        };
        if let Some(rings) = &mut connection.rings {
            outcome = outcome.and(rings.unshare(mem));
        }
        connection.count_moved(cx);
        page.free(mem);
        cx.stats.pages -= 1;
        self.count_half_closed(id);
        (true, outcome)
    }

    /// Whether a connection is connected.
    pub(crate) fn is_connected(&self, id: ConnectionId) -> bool {
        let connection = self.table.get(id);
        connection.is_some_and(|connection| connection.phase == Phase::Connected)
    }

    /// The place and the size in bytes of a part of a connection that clients map.
    ///
    /// # Errors
    /// `EBADF`: there are no clients. `ECONNRESET`: the connection is over.
    pub(crate) fn part(&self, id: ConnectionId, part: Part) -> Result<(Place, usize), Error> {
        let connection = self.table.get(id).ok_or(Error::BadDescriptor)?;
        let page = connection.control_page.as_ref();
        let page = page.ok_or(Error::BadDescriptor)?;
        let rings = connection.rings.as_ref();
        let peer = rings.filter(|_| connection.phase == Phase::Connected);
        let place = match part {
            Part::Control => return Ok((Place::Own(page.address()), CONTROL_BYTES)),
            Part::Own => Some(Place::Own(connection.block.address())),
            Part::PeerQueuePair => peer.map(Rings::peer_place),
            Part::PeerRing => peer.map(Rings::peer_ring_place),
        };
        let rings = rings.ok_or(Error::ConnectionReset)?;
        let bytes = part.bytes(connection.block.ring_bytes(), rings.peer_ring_bytes());
        Ok((place.ok_or(Error::ConnectionReset)?, bytes))
    }

    /// The present epoch for the clients of a connection.
    pub(crate) fn epoch(&self, id: ConnectionId) -> Option<u32> {
        let page = self.table.get(id)?.control_page.as_ref();
        page.map(ControlPage::epoch)
    }

    /// Begins a new epoch for the clients of a connection. If `wakes`, wakes the callers of its
    /// endpoint. `false`: there are no clients.
    pub(crate) fn advance_epoch(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
        wakes: bool,
    ) -> bool {
        let Some(connection) = self.table.get_mut(id) else {
            return false;
        };
        let Some(page) = &mut connection.control_page else {
            return false;
        };
        page.advance(mem);
        if let Some(endpoint) = connection.endpoint.filter(|_| wakes) {
            cx.events.changed(endpoint);
        }
        true
    }

    /// Whether no client of a connection copies to or from a window that it looked up in an old
    /// epoch.
    pub(crate) fn is_quiet(&mut self, mem: &mut dyn Memory, id: ConnectionId) -> bool {
        let page = self.table.get_mut(id).and_then(|c| c.control_page.as_mut());
        page.is_none_or(|page| page.is_idle(mem))
    }

    /// Whether clients of a connection count copies as under way.
    pub(crate) fn is_busy(&self, mem: &dyn Memory, id: ConnectionId) -> bool {
        let page = self.table.get(id).and_then(|c| c.control_page.as_ref());
        page.is_some_and(|page| page.is_busy(mem))
    }

    /// Notes that a connection's state may have changed, to be published to its clients.
    pub(crate) fn state_changed(&mut self, id: ConnectionId) {
        if self.table.get(id).is_some_and(Connection::is_mapped) {
            self.state_changes.push(id);
        }
    }

    /// Shows the clients of a connection whether transfers or signals are under way.
    pub(crate) fn show_transfers(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        are_under_way: bool,
    ) {
        let page = self.table.get_mut(id).and_then(|c| c.control_page.as_mut());
        if let Some(page) = page {
            page.show_transfers(mem, are_under_way);
        }
    }

    /// Publishes changes of state to clients.
    pub(crate) fn publish_states(&mut self, mem: &mut dyn Memory) {
        while let Some(id) = self.state_changes.pop() {
            if let Some(connection) = self.table.get_mut(id) {
                let state = connection.client_state();
                if let Some(page) = &mut connection.control_page {
                    page.publish_state(mem, state);
                }
            }
        }
    }

    /// Updates the counts of bytes moved, also by clients, and of bytes queued. Returns the
    /// connections whose rings are broken.
    pub(crate) fn refresh(&mut self, mem: &mut dyn Memory, cx: &mut Context) -> Vec<ConnectionId> {
        let connected = self
            .table
            .iter()
            .filter(|(_, c)| c.phase == Phase::Connected);
        let mut ids: Vec<ConnectionId> = connected.map(|(id, _)| id).collect();
        ids.retain(|id| {
            let connection = self.table.get_mut(*id);
            connection.is_some_and(|connection| connection.refresh(mem, cx).is_err())
        });
        ids
    }
}

impl Connection {
    /// Whether clients are shown that transfers are under way; `None` without clients.
    pub(crate) fn shows_transfers(&self) -> Option<bool> {
        let page = self.control_page.as_ref();
        page.map(ControlPage::shows_transfers)
    }

    /// The connection's state as clients see it.
    fn client_state(&self) -> u32 {
        if self.endpoint.is_none() || self.rings.is_none() {
            STATE_ENDED
        } else if self.phase == Phase::Connected && self.receives_no_more {
            STATE_FINISHED
        } else if self.phase == Phase::Connected {
            STATE_CONNECTED
        } else {
            STATE_DISCONNECTED
        }
    }

    fn refresh(&mut self, mem: &mut dyn Memory, cx: &mut Context) -> Result<(), RingError> {
        let is_shared = self.is_mapped();
        let Some(rings) = &mut self.rings else {
            return Ok(());
        };
        if is_shared {
            rings.refresh(mem)?;
        }
        self.queued = rings.queued(mem)?;
        if is_shared {
            self.count_moved(cx);
        }
        Ok(())
    }

    /// Counts the bytes that clients have moved, as far as this engine has seen.
    fn count_moved(&mut self, cx: &mut Context) {
        let node = self.node();
        if let Some(rings) = &mut self.rings {
            let [sent, received] = rings.take_uncounted();
            cx.count_stream(node, sent, received);
        }
    }
}
