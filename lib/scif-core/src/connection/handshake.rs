//! How connections begin and end: their phases, queue pairs and time-outs.

use scif_abi::Error;
use scif_abi::limits::{
    ANSWER_TIMEOUT_NS, CONNECT_TIMEOUT_NS, HANDSHAKE_TIMEOUT_NS, MAX_UNANSWERED,
};

use crate::base::context::{Context, Ends};
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::base::owner::Owner;
use crate::base::quota::Resource;
use crate::base::timers::Timer;
use crate::connection::notify::Notifications;
use crate::connection::{Connection, Connections, Moved, Phase};
use crate::queue_pair::block::{Block, RemoteQueuePair};
use crate::queue_pair::rings::{Queued, Rings};
use scif_abi::flags::Readiness;

// How they begin.
impl Connections {
    /// Adds a connection of `endpoint`, whose owner is `owner`, with a queue pair of its own.
    fn add(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        phase: Phase,
        (endpoint, owner): (EndpointId, Owner),
        ends: Ends,
    ) -> Result<ConnectionId, Error> {
        let node = ends.peer.node();
        let half_closed = self.half_closed.get(&node).copied().unwrap_or(0);
        if self.table.is_full() || half_closed >= MAX_UNANSWERED {
            return Err(Error::NoMemory);
        }
        let most = self.ring_budget.share(owner.user, &cx.config);
        let block = Block::allocate_at_most(mem, cx.locality(node), most).ok_or(Error::NoMemory)?;
        let connection = Connection {
            ends,
            phase,
            endpoint: Some(endpoint),
            user: owner.user,
            requested_by: None,
            remote: 0,
            block,
            rings: None,
            notify: Notifications::default(),
            awaits_credit: false,
            polled_from: None,
            moved: Moved::default(),
            queued: Queued::default(),
            control_page: None,
            was_shared: false,
            stored: None,
            waiting: Readiness::empty(),
            failed_locks: 0,
            is_finished: false,
            receives_no_more: false,
            owes_ack: false,
        };
        let Some(id) = self.table.insert(connection) else {
            block.recycle(mem, Some(0));
            return Err(Error::NoMemory);
        };
        cx.stats.pages += block.pages();
        cx.stats.ring_pages += block.ring_pages();
        self.ring_budget.take(owner.user, block.ring_bytes());
        Ok(id)
    }

    /// Adds a connection that `endpoint` requests, charged to `owner`. Returns the connection and
    /// the bus address of its queue pair.
    ///
    /// # Errors
    /// `ENOMEM`, also when the owner has too many unanswered requests.
    pub(crate) fn request(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        endpoint: EndpointId,
        ends: Ends,
        owner: Owner,
    ) -> Result<(ConnectionId, u64), Error> {
        cx.quotas.charge(owner, Resource::Connects, 1)?;
        let added = self.add(mem, cx, Phase::Requested, (endpoint, owner), ends);
        let id = added.inspect_err(|_| cx.quotas.discharge(owner, Resource::Connects, 1))?;
        if let Some(connection) = self.table.get_mut(id) {
            connection.requested_by = Some(owner);
        }
        self.set_deadline(cx, id, CONNECT_TIMEOUT_NS);
        Ok((id, self.exported(id)))
    }

    /// Adds a connection for an endpoint and its owner, granted to the connector with this id and
    /// queue pair. Returns the connection and the bus address of its queue pair.
    ///
    /// # Errors
    /// `ENOMEM`. `ENODEV`: the connector's memory cannot be reached.
    pub(crate) fn grant(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        endpoint: (EndpointId, Owner),
        ends: Ends,
        (connector, remote): (u64, &RemoteQueuePair),
        is_armable: bool,
    ) -> Result<(ConnectionId, u64), Error> {
        let id = self.add(mem, cx, Phase::Granted, endpoint, ends)?;
        if remote.clear_indices(mem).is_err() {
            self.free(mem, cx, id);
            return Err(Error::NoDevice);
        }
        if let Some(connection) = self.table.get_mut(id) {
            connection.remote = connector;
            connection.rings = Some(Rings::new(&connection.block, remote, is_armable));
        }
        self.set_deadline(cx, id, HANDSHAKE_TIMEOUT_NS);
        Ok((id, self.exported(id)))
    }

    fn exported(&self, id: ConnectionId) -> u64 {
        self.table.get(id).map_or(0, |c| c.block.exported())
    }

    /// The queue pair of the other end of a connection within the node, if it is at `address`.
    pub(crate) fn queue_pair_at(&self, id: ConnectionId, address: u64) -> Option<RemoteQueuePair> {
        let block = &self.table.get(id)?.block;
        (block.exported() == address).then(|| RemoteQueuePair::own(block))
    }

    /// Notes that `acceptor`, whose queue pair is `remote`, has granted the request `id`.
    pub(crate) fn establish(
        &mut self,
        cx: &mut Context,
        id: ConnectionId,
        acceptor: u64,
        remote: &RemoteQueuePair,
        is_armable: bool,
    ) {
        cx.timers.clear(Timer::Handshake(id));
        if let Some(connection) = self.table.get_mut(id) {
            connection.remote = acceptor;
            connection.phase = Phase::Connected;
            connection.rings = Some(Rings::new(&connection.block, remote, is_armable));
            if let Some(owner) = connection.requested_by.take() {
                cx.quotas.discharge(owner, Resource::Connects, 1);
            }
            cx.stats.connected += 1;
        }
    }

    /// Notes that the connector has acknowledged grant `id`. Returns the endpoint that is
    /// connected now; `None` if it has gone meanwhile.
    pub(crate) fn acknowledged(
        &mut self,
        cx: &mut Context,
        id: ConnectionId,
    ) -> Option<EndpointId> {
        cx.timers.clear(Timer::Handshake(id));
        let connection = self.table.get_mut(id)?;
        let endpoint = connection.endpoint?;
        connection.phase = Phase::Connected;
        cx.stats.accepted += 1;
        Some(endpoint)
    }
}

// How they end.
impl Connections {
    /// Withdraws a request. `false`: it was no longer an open request.
    pub(crate) fn withdraw(&mut self, cx: &mut Context, id: ConnectionId) -> bool {
        cx.timers.clear(Timer::Handshake(id));
        let connection = self.table.get_mut(id);
        let requested = connection.filter(|c| c.phase == Phase::Requested);
        requested.is_some_and(|connection| {
            connection.phase = Phase::Withdrawn;
            true
        })
    }

    /// Takes the endpoint off a connection, if it has one.
    pub(crate) fn take_endpoint(&mut self, id: ConnectionId) -> Option<EndpointId> {
        let endpoint = self.table.get_mut(id)?.endpoint.take();
        // While clients have it mapped, the connection waits for them and not for the peer.
        if endpoint.is_some() {
            self.count_half_closed(id);
        }
        endpoint
    }

    /// Counts a connection as half-closed, if it is half-closed.
    pub(super) fn count_half_closed(&mut self, id: ConnectionId) {
        let connection = self.table.get(id);
        if let Some(connection) = connection.filter(|c| c.is_half_closed()) {
            *self.half_closed.entry(connection.node()).or_default() += 1;
        }
    }

    /// Ends a connection. `true`: send DISCNCT now, not when the last client has gone.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.table.get_mut(id) else {
            return false;
        };
        connection.notify.clear();
        connection.phase = match connection.is_mapped() {
            true => Phase::Draining,
            false => Phase::Closing,
        };
        connection.phase == Phase::Closing
    }

    /// Notes the peer's DISCNCT. Returns the phase until now, and whether to acknowledge now and
    /// not when the last client has gone.
    pub(crate) fn disconnected_by_peer(&mut self, id: ConnectionId) -> Option<(Phase, bool)> {
        let connection = self.table.get_mut(id)?;
        let (phase, is_mapped) = (connection.phase, connection.is_mapped());
        connection.owes_ack = is_mapped;
        if matches!(phase, Phase::Connected | Phase::Draining) {
            connection.phase = Phase::Disconnected;
            connection.notify.clear();
        }
        Some((phase, !is_mapped))
    }

    /// Notes the peer's report of its stores into our ring, which are over. `stored` is as in
    /// [`STORED`](scif_abi::message::Extensions::STORED).
    pub(crate) fn note_stored(&mut self, id: ConnectionId, stored: u64) {
        if let Some(connection) = self.table.get_mut(id) {
            let bytes = stored.checked_sub(1);
            connection.stored = bytes.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// Whether the peer's DISCNCT must still be acknowledged. Only the first call returns true.
    pub(crate) fn take_owed_ack(&mut self, id: ConnectionId) -> bool {
        let connection = self.table.get_mut(id);
        connection.is_some_and(|c| core::mem::take(&mut c.owes_ack))
    }

    /// Notes that nothing reaches the peer any more, and that whether it still writes is unknown.
    /// Returns the phase until now.
    pub(crate) fn sever(&mut self, cx: &mut Context, id: ConnectionId) -> Option<Phase> {
        cx.timers.clear(Timer::Handshake(id));
        let connection = self.table.get_mut(id)?;
        let phase = connection.phase;
        if phase != Phase::Disconnected {
            connection.phase = Phase::Severed;
        }
        connection.notify.clear();
        connection.owes_ack = false;
        self.state_changed(id);
        Some(phase)
    }

    /// Notes that the peer does not write to our memory any more.
    pub(crate) fn end(&mut self, mem: &mut dyn Memory, cx: &mut Context, id: ConnectionId) {
        cx.timers.clear(Timer::Handshake(id));
        if let Some(connection) = self.table.get_mut(id) {
            connection.phase = Phase::Disconnected;
            self.free_if_done(mem, cx, id);
        }
    }

    /// Frees a connection that neither the peer, nor an endpoint, nor a client needs.
    pub(crate) fn free_if_done(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
    ) {
        if self.table.get(id).is_some_and(Connection::is_done) {
            self.free(mem, cx, id);
        }
    }

    /// Frees a connection and its pages. The peer must not write to them any more.
    pub(crate) fn free(&mut self, mem: &mut dyn Memory, cx: &mut Context, id: ConnectionId) {
        cx.timers.clear(Timer::Handshake(id));
        let Some(connection) = self.table.remove(id) else {
            return;
        };
        if connection.is_half_closed()
            && let Some(count) = self.half_closed.get_mut(&connection.node())
        {
            *count = count.saturating_sub(1);
        }
        cx.stats.pages -= connection.block.pages();
        cx.stats.ring_pages -= connection.block.ring_pages();
        let ring_bytes = connection.block.ring_bytes();
        self.ring_budget.give_back(connection.user, ring_bytes);
        if let Some(owner) = connection.requested_by {
            cx.quotas.discharge(owner, Resource::Connects, 1);
        }
        match connection.was_shared {
            true => connection.block.free(mem),
            false => connection.block.recycle(mem, connection.stored),
        }
    }
}

// Time-outs.
impl Connections {
    fn set_deadline(&self, cx: &mut Context, id: ConnectionId, wait: u64) {
        if self.table.get(id).is_some() {
            cx.timers.set(Timer::Handshake(id), cx.after(wait));
        }
    }

    /// Starts the time-out of the final acknowledgement, which the peer's driver can send at once.
    pub(crate) fn expect_final_ack(&self, cx: &mut Context, id: ConnectionId) {
        self.set_deadline(cx, id, ANSWER_TIMEOUT_NS);
    }
}
