//! Bypass clients: programs that have the rings of a connection mapped and work on them
//! themselves.
//!
//! The first bypass handle of a connection moves its positions into a control page, which we share
//! with the clients; the last one that closes moves them back. While there is a handle, neither
//! the control page nor our rings are freed. Nor are DISCNCT and DISCNT_ACK sent, after which the
//! peer may free its own. The control page shows clients that the connection is over, and they
//! close their handles.
//!
//! Clients are not trusted: a position that goes backwards resets the connection.

use scif_abi::bypass::{BYPASS_GATHERED, BypassRecord, Part};
use scif_abi::flags::{Kicks, Readiness};
use scif_abi::{Error, NodeId};
use scif_ring::Side;

use crate::base::ids::{BypassId, EndpointId};
use crate::base::memory::{Memory, Place};
use crate::base::owner::Owner;
use crate::connection::Connection;
use crate::endpoint::EndpointState;
use crate::engine::Engine;

impl Engine {
    /// Sets the numbers of the fastest copy routines, in the order of
    /// [`COPY_ROUTINES_OFFSET`](scif_abi::bypass::COPY_ROUTINES_OFFSET), for handles opened later.
    pub fn set_copy_hints(&mut self, routines: [u8; 4]) {
        self.bypass.set_copy_routines(routines);
    }

    /// Sets whether stores into peers' memory may be gathered on their way (true at first): then
    /// clients drain them before each index. For handles opened later.
    pub fn set_gathers(&mut self, gathers: bool) {
        self.bypass.set_gathers(gathers);
    }

    /// Lets a client work on the rings of a connected endpoint itself. Returns its handle and its
    /// record. The handle outlives the endpoint. Close it ([`close_bypass`]) when nothing of it is
    /// mapped any more; until then it is charged to `owner`.
    ///
    /// # Errors
    /// `EBADF`. `ENOTCONN`: not connected. `EOPNOTSUPP`: the peer's rings have no pages of their
    /// own. `ENOMEM`, also when the owner has too many handles.
    ///
    /// [`close_bypass`]: Engine::close_bypass
    pub fn open_bypass(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        owner: Owner,
    ) -> Result<(BypassId, BypassRecord), Error> {
        let endpoint = self.endpoints.get(id)?;
        let connection = match (endpoint.state(), endpoint.connection()) {
            (EndpointState::Connected, Some(connection)) => connection,
            _ => return Err(Error::NotConnected),
        };
        self.bypass.check_room(&self.cx, owner)?;
        let peer = endpoint.peer().node();
        let (routines, gathers) = self.bypass.hints();
        let client = (self.connections).open_client(mem, &mut self.cx, connection, routines)?;
        self.transfers.note_changed(connection);
        let (number, epoch, [own_ring_bytes, peer_ring_bytes]) = client;
        let is_gathered = gathers && peer != self.cx.config.node;
        let record = BypassRecord {
            handle: number.into(),
            own_ring_bytes: own_ring_bytes.into(),
            peer_ring_bytes: peer_ring_bytes.into(),
            flags: match is_gathered {
                true => BYPASS_GATHERED,
                false => 0,
            }
            .into(),
            reserved: [0; 16],
        };
        let id = (self.bypass).open(&mut self.cx, connection, (number, epoch), owner)?;
        Ok((id, record))
    }

    /// Closes a bypass handle, perhaps that of a client that was killed; nothing of it is mapped
    /// any more. Frees its locks, and sends notifications that it may not have sent.
    pub fn close_bypass(&mut self, mem: &mut dyn Memory, id: BypassId) {
        let Some((id, number)) = self.bypass.close(&mut self.cx, id) else {
            return;
        };
        let is_connected = self.connections.is_connected(id);
        let (is_last, outcome) = (self.connections).close_client(mem, &mut self.cx, id, number);
        if is_last {
            for what in self.bypass.quiesced_with(id) {
                self.on_quiesced(what);
            }
        }
        if outcome.is_err() && is_connected {
            self.reset_connection(id);
        } else if is_connected {
            self.on_notification(mem, id, Readiness::IN | Readiness::OUT);
        }
        if is_last {
            self.on_unmapped(mem, id);
        }
    }

    /// The place and the size in bytes of a part of a bypass handle.
    ///
    /// # Errors
    /// `EBADF`: no such handle. `ECONNRESET`: the connection is over, so neither the peer's parts
    /// nor the own rings of a connection that was reset are given out any more.
    pub fn bypass_place(&self, id: BypassId, part: Part) -> Result<(Place, usize), Error> {
        let connection = self.bypass.connection(id).ok_or(Error::BadDescriptor)?;
        self.connections.part(connection, part)
    }

    /// Notes that a client has mapped pages of one of the peer's parts: a node that leaves waits
    /// until they are unmapped ([`unmap_bypass`](Self::unmap_bypass)) or the handle is closed.
    pub fn map_bypass(&mut self, id: BypassId, pages: u64) {
        self.bypass.map(id, pages);
    }

    /// Notes that such pages are unmapped.
    pub fn unmap_bypass(&mut self, id: BypassId, pages: u64) {
        self.bypass.unmap(id, pages);
    }

    /// Notifies the peer for a client that has found the peer's words armed. Does nothing if the
    /// peer has gone.
    ///
    /// # Errors
    /// `EBADF`. `ENOTCONN`: neither connected nor disconnected.
    pub fn kick(&mut self, id: EndpointId, kicks: Kicks) -> Result<(), Error> {
        let endpoint = self.endpoints.get(id)?;
        let id = match (endpoint.state(), endpoint.connection()) {
            (EndpointState::Connected, Some(connection)) => connection,
            (EndpointState::Disconnected, _) => return Ok(()),
            _ => return Err(Error::NotConnected),
        };
        self.connections.kick(id, kicks);
        Ok(())
    }

    /// Whether windows have gone, or the connection has changed, since the last call for this
    /// handle: its client may have to unmap windows.
    pub fn epoch_changed(&mut self, id: BypassId) -> bool {
        let connection = self.bypass.connection(id);
        let epoch = connection.and_then(|connection| self.connections.epoch(connection));
        epoch.is_some_and(|epoch| self.bypass.epoch_changed(id, epoch))
    }

    /// As [`poll`](Engine::poll), for `events` only (and HUP, ERR, NVAL), for a caller that is
    /// about to wait. What is not reported now comes with an `Event::Changed`.
    pub fn arm(&mut self, mem: &mut dyn Memory, id: EndpointId, events: Readiness) -> Readiness {
        // Polling arms the peer for what it does not find.
        let always = Readiness::HUP | Readiness::ERR | Readiness::NVAL;
        self.poll(mem, id) & (events | always)
    }

    /// The peer's write index in the own ring of an endpoint, unchecked; `None` without rings. It
    /// changes with each byte that comes, whether the byte has been received or not.
    pub fn written(&mut self, mem: &mut dyn Memory, id: EndpointId) -> Option<u32> {
        let connection = self.endpoints.get(id).ok()?.connection()?;
        self.connections.written(mem, connection)
    }

    /// Subscribes to `events`: each time that they come there is an `Event::Changed`, even while
    /// clients work on the rings. (A call that waits once needs only [`arm`](Engine::arm), or a 0
    /// from `send` or `recv`.) Replaces what was set before. [`poll`](Engine::poll) reports what
    /// is there already.
    pub fn set_waiting(&mut self, mem: &mut dyn Memory, id: EndpointId, events: Readiness) {
        let connection = self.endpoints.get(id).ok().and_then(|e| e.connection());
        let Some(id) = connection else {
            return;
        };
        let subscribed = (self.connections).subscribe(mem, &mut self.cx, id, events);
        if subscribed.is_err() {
            self.reset_connection(id);
        }
    }

    /// Begins (`holds`) or ends a transfer that takes several calls. From its first byte to its
    /// end no client's bytes come between its own. Costs nothing if there is no client.
    pub fn hold_ring(&mut self, mem: &mut dyn Memory, id: EndpointId, side: Side, holds: bool) {
        let connection = self.endpoints.get(id).ok().and_then(|e| e.connection());
        if let Some(connection) = connection {
            self.connections.hold_ring(mem, connection, side, holds);
        }
    }

    /// Updates the counts of bytes that clients have moved themselves, for
    /// [`connections`](Engine::connections) and [`stats`](Engine::stats).
    pub fn refresh(&mut self, mem: &mut dyn Memory) {
        for id in self.connections.refresh(mem, &mut self.cx) {
            self.reset_connection(id);
        }
    }

    /// Whether clients have parts of `node` mapped now, or copy to or from windows there.
    pub(crate) fn is_touched_by_clients(&self, mem: &dyn Memory, node: NodeId) -> bool {
        self.bypass.uses().any(|(id, has_peer_pages)| {
            let connection = self.connections.get(id);
            connection.is_some_and(|connection| connection.node() == node)
                && (has_peer_pages || self.connections.is_busy(mem, id))
        })
    }

    /// Whether clients may have memory of `node` mapped to work on rings there, or had it mapped
    /// when the node was lost.
    pub(crate) fn is_worked_on(&self, node: NodeId) -> bool {
        let mut connections = self.bypass.uses().map(|(id, _)| id);
        connections.any(|id| self.connections.get(id).map(Connection::node) == Some(node))
    }
}
