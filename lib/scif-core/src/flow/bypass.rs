//! Bypass clients: those that have the rings of a connection mapped and work on them themselves.
//!
//! The first bypass handle of a connection moves its positions into a control page, which we
//! share with the clients; the last one that closes brings them back. While there is a handle,
//! neither the control page nor our rings are freed, and the peer does not hear DISCNCT or
//! DISCNT_ACK, after which it may free its own. Clients are told by the control page that it is
//! over, and let go.
//!
//! What a client does there is not believed: positions only go forward, or the connection is reset.

use alloc::vec::Vec;

use scif_abi::bypass::{
    BYPASS_GATHERED, BypassRecord, CONTROL_BYTES, COPY_ROUTINES_OFFSET, FIRST_HANDLE, Part,
    RMA_BUSY_SLOTS, STATE_CONNECTED, STATE_OFFSET, rma_busy_offset, rma_busy_slot,
};
use scif_abi::flags::{Kicks, Readiness};
use scif_abi::limits::PAGE_BYTES;
use scif_abi::{Error, NodeId};
use scif_ring::Side;

use crate::base::config::Owner;
use crate::base::ids::{BypassId, ConnectionId, EndpointId};
use crate::base::memory::{Memory, Place};
use crate::base::quota::Resource;
use crate::connection::{Connection, Notify, Phase};
use crate::endpoint::EndpointState;
use crate::engine::Engine;

/// A bypass handle.
#[derive(Debug)]
pub(crate) struct BypassHandle {
    connection: ConnectionId,
    /// What it stores into lock words.
    number: u32,
    /// On whose account it is.
    owner: Owner,
    /// Pages of the peer's parts that its client has mapped.
    peer_pages: u64,
    /// The epoch its client was last told of: what it had mapped before may be of windows that have
    /// gone since.
    known_epoch: u32,
}

/// What a connection with bypass handles has besides.
#[derive(Debug)]
pub(crate) struct Bypass {
    /// Local address of the control page.
    pub(crate) page: u64,
    /// Handles that are open; at least one.
    handles: usize,
    /// How many of them count their copies in each of the control page's words.
    slots: [u32; RMA_BUSY_SLOTS],
    /// Number of the next one.
    next: u32,
    /// The epoch in the control page.
    pub(crate) epoch: u32,
}

impl Bypass {
    /// Local addresses of the words in which open handles count their copies.
    pub(crate) fn busy_words(&self) -> impl Iterator<Item = u64> {
        let used = (0..).zip(self.slots).filter(|(_, handles)| *handles > 0);
        used.map(|(slot, _)| self.page + rma_busy_offset(slot))
    }

    /// A handle is closed. Whatever copy it had under way is over, also that of a client that was
    /// killed; nobody else is going to count it off.
    fn forget(&mut self, mem: &mut dyn Memory, handle: u32) {
        self.handles = self.handles.saturating_sub(1);
        let slot = &mut self.slots[rma_busy_slot(handle)];
        *slot = slot.saturating_sub(1);
        if *slot == 0 {
            mem.store_index(self.page + rma_busy_offset(handle), 0);
        }
    }
}

/// What the control pages tell of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientHints {
    copy_routines: [u8; 4],
    gathers: bool,
}

impl Default for ClientHints {
    fn default() -> ClientHints {
        ClientHints {
            copy_routines: [0; 4],
            gathers: true,
        }
    }
}

impl Engine {
    /// Numbers of the fastest copy routines, in the order of
    /// [`COPY_ROUTINES_OFFSET`](scif_abi::bypass::COPY_ROUTINES_OFFSET); for handles opened later.
    pub fn set_copy_hints(&mut self, routines: [u8; 4]) {
        self.client_hints.copy_routines = routines;
    }

    /// Whether stores into peers' memory may be gathered on their way (true at first): clients
    /// drain them then before each index. For handles opened later.
    pub fn set_gathers(&mut self, gathers: bool) {
        self.client_hints.gathers = gathers;
    }

    /// Lets a client work on the rings of a connected endpoint itself: its handle, and what it has
    /// to know. The handle lives on when the endpoint is closed. Close it ([`close_bypass`]) when
    /// nothing of it is mapped any more; until then it counts for `owner`.
    ///
    /// # Errors
    /// `EBADF`. `ENOTCONN`: not connected. `EOPNOTSUPP`: the peer's rings have no pages of their
    /// own. `ENOMEM`, also when the owner has too many.
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
        if self.bypass_handles.is_full() {
            return Err(Error::NoMemory);
        }
        self.cx.quotas.check(owner, Resource::Bypass, 1)?;
        self.share_rings(mem, connection)?;
        let entry = self.connections.get_mut(connection);
        let entry = entry.ok_or(Error::NotConnected)?;
        let (Some(bypass), Some(rings)) = (&mut entry.bypass, &entry.rings) else {
            return Err(Error::NotConnected);
        };
        let is_gathered = self.client_hints.gathers && entry.peer.node() != self.cx.config.node;
        let record = BypassRecord {
            handle: bypass.next.into(),
            own_ring_bytes: entry.block.ring_bytes().into(),
            peer_ring_bytes: rings.peer_ring_bytes().into(),
            flags: match is_gathered {
                true => BYPASS_GATHERED,
                false => 0,
            }
            .into(),
            reserved: [0; 16],
        };
        let handle = BypassHandle {
            connection,
            number: bypass.next,
            owner,
            peer_pages: 0,
            known_epoch: bypass.epoch,
        };
        bypass.handles += 1;
        bypass.slots[rma_busy_slot(bypass.next)] += 1;
        bypass.next = bypass.next.checked_add(1).unwrap_or(FIRST_HANDLE);
        let id = self.bypass_handles.insert(handle).ok_or(Error::NoMemory)?;
        self.cx.quotas.charge(owner, Resource::Bypass, 1)?;
        Ok((id, record))
    }

    /// Makes the control page of a connection, unless it has one.
    fn share_rings(&mut self, mem: &mut dyn Memory, id: ConnectionId) -> Result<(), Error> {
        let client_hints = self.client_hints;
        let connection = self.connections.get_mut(id).ok_or(Error::NotConnected)?;
        let rings = connection.rings.as_mut().ok_or(Error::NotConnected)?;
        if connection.bypass.is_some() {
            return Ok(());
        }
        if !rings.have_own_pages(mem) {
            return Err(Error::NotSupported);
        }
        let page = mem.allocate(CONTROL_BYTES).ok_or(Error::NoMemory)?;
        mem.write(page + COPY_ROUTINES_OFFSET, &client_hints.copy_routines);
        rings.share(mem, page);
        mem.store_index(page + STATE_OFFSET, STATE_CONNECTED);
        connection.bypass = Some(Bypass {
            page,
            handles: 0,
            slots: [0; RMA_BUSY_SLOTS],
            next: FIRST_HANDLE,
            epoch: 0,
        });
        self.cx.stats.pages += 1;
        Ok(())
    }

    /// A bypass handle is closed, also that of a client that was killed; nothing of it is mapped
    /// any more. What it had locked is free, what it may not have told is told.
    pub fn close_bypass(&mut self, mem: &mut dyn Memory, id: BypassId) {
        let Some(handle) = self.bypass_handles.remove(id) else {
            return;
        };
        self.cx.quotas.discharge(handle.owner, Resource::Bypass, 1);
        let id = handle.connection;
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let is_connected = connection.phase == Phase::Connected;
        let mut outcome = Ok(());
        if let Some(rings) = &mut connection.rings {
            outcome = rings.release(mem, handle.number, is_connected);
        }
        if is_connected {
            // It may have died between moving bytes and telling so, or between being told, in the
            // place of all who wait here, and passing it on.
            connection.notify.sent = Notify::Always;
            connection.notify.received = Notify::Always;
            self.queue_notification(id);
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(bypass) = &mut connection.bypass else {
            return;
        };
        bypass.forget(mem, handle.number);
        let (is_last, page) = (bypass.handles == 0, bypass.page);
        if is_last {
            connection.bypass = None;
            if let Some(rings) = &mut connection.rings {
                outcome = outcome.and(rings.unshare(mem));
            }
            if connection.endpoint.is_none() {
                self.count_half_closed(id);
            }
            self.count_moved(id);
            self.end_all_quiescing(id);
            mem.free(page, CONTROL_BYTES);
            self.cx.stats.pages -= 1;
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

    /// Where a part of a bypass handle is, and its bytes.
    ///
    /// # Errors
    /// `EBADF`: no such handle. `ECONNRESET`: the connection is over, so the peer's parts, and the
    /// own rings of a connection that was reset, are no longer given out.
    pub fn bypass_place(&self, id: BypassId, part: Part) -> Result<(Place, usize), Error> {
        let handle = self.bypass_handles.get(id).ok_or(Error::BadDescriptor)?;
        let connection = self.connections.get(handle.connection);
        let connection = connection.ok_or(Error::BadDescriptor)?;
        let bypass = connection.bypass.as_ref().ok_or(Error::BadDescriptor)?;
        let rings = connection.rings.as_ref();
        let is_connected = connection.phase == Phase::Connected;
        let place = match part {
            Part::Control => return Ok((Place::Own(bypass.page), CONTROL_BYTES)),
            Part::Own => Some(Place::Own(connection.block.address())),
            Part::PeerQueuePair => rings.filter(|_| is_connected).map(|r| r.peer_place()),
            Part::PeerRing => rings.filter(|_| is_connected).map(|r| r.peer_ring_place()),
        };
        let rings = rings.ok_or(Error::ConnectionReset)?;
        let bytes = part.bytes(connection.block.ring_bytes(), rings.peer_ring_bytes());
        Ok((place.ok_or(Error::ConnectionReset)?, bytes))
    }

    /// A client has mapped pages of a part that is the peer's: a node that leaves waits until they
    /// are unmapped ([`unmap_bypass`](Self::unmap_bypass)) or the handle is closed.
    pub fn map_bypass(&mut self, id: BypassId, pages: u64) {
        if let Some(handle) = self.bypass_handles.get_mut(id) {
            handle.peer_pages = handle.peer_pages.saturating_add(pages);
        }
    }

    /// Such pages are unmapped.
    pub fn unmap_bypass(&mut self, id: BypassId, pages: u64) {
        if let Some(handle) = self.bypass_handles.get_mut(id) {
            handle.peer_pages = handle.peer_pages.saturating_sub(pages);
        }
    }

    /// Tells the peer to look, as a client asks that has found its word armed. Does nothing when
    /// the peer has gone.
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
        if let Some(connection) = self.connections.get_mut(id) {
            if kicks.contains(Kicks::BYTES) {
                connection.notify.sent = Notify::Always;
            }
            if kicks.contains(Kicks::ROOM) {
                connection.notify.received = Notify::Always;
            }
            if !kicks.is_empty() {
                self.queue_notification(id);
            }
        }
        Ok(())
    }

    /// Whether windows have gone, or the connection has changed, since this was last asked of the
    /// handle: its client may have mapped what it is to let go of.
    pub fn epoch_changed(&mut self, id: BypassId) -> bool {
        let Some(handle) = self.bypass_handles.get_mut(id) else {
            return false;
        };
        let connection = self.connections.get(handle.connection);
        let Some(bypass) = connection.and_then(|connection| connection.bypass.as_ref()) else {
            return false;
        };
        core::mem::replace(&mut handle.known_epoch, bypass.epoch) != bypass.epoch
    }

    /// As [`poll`](Engine::poll), of `events` only (and HUP, ERR, NVAL), for who is about to wait:
    /// whatever is not reported now comes with `Event::Changed`.
    pub fn arm(&mut self, mem: &mut dyn Memory, id: EndpointId, events: Readiness) -> Readiness {
        // Polling arms for what it does not find.
        let always = Readiness::HUP | Readiness::ERR | Readiness::NVAL;
        self.poll(mem, id) & (events | always)
    }

    /// What somebody wants to hear of by `Event::Changed` each time it comes, however long, even
    /// while clients work on the rings: a subscription. (A call that waits once needs only
    /// [`arm`](Engine::arm), or to have got 0 from `send` or `recv`.) Replaces what was set before.
    /// What is there already is to be asked for, by [`poll`](Engine::poll).
    pub fn set_waiting(&mut self, mem: &mut dyn Memory, id: EndpointId, events: Readiness) {
        let connection = self.endpoints.get(id).ok().and_then(|e| e.connection());
        let Some(id) = connection else {
            return;
        };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let new = events & !connection.waiting;
        connection.waiting = events;
        if connection.phase != Phase::Connected || new.is_empty() {
            return;
        }
        if connection.is_mapped() {
            self.on_notification(mem, id, new);
        } else if connection.arm(mem, new).is_err() {
            self.reset_connection(id);
        }
    }

    /// A transfer that takes several calls begins (`holds`) or ends: from its first byte to its end
    /// no client's bytes come between its own. Costs nothing where no client is.
    pub fn hold_ring(&mut self, mem: &mut dyn Memory, id: EndpointId, side: Side, holds: bool) {
        let connection = self.endpoints.get(id).ok().and_then(|e| e.connection());
        let connection = connection.and_then(|id| self.connections.get_mut(id));
        if let Some(rings) = connection.and_then(|connection| connection.rings.as_mut()) {
            rings.hold(mem, side, holds);
        }
    }

    /// Looks how much clients have moved themselves, for [`connections`](Engine::connections) and
    /// [`stats`](Engine::stats).
    pub fn refresh(&mut self, mem: &mut dyn Memory) {
        let connected = |(id, connection): (ConnectionId, &Connection)| {
            (connection.phase == Phase::Connected).then_some(id)
        };
        let ids: Vec<ConnectionId> = self.connections.iter().filter_map(connected).collect();
        for id in ids {
            let Some(connection) = self.connections.get_mut(id) else {
                continue;
            };
            let Some(rings) = connection.rings.as_mut() else {
                continue;
            };
            let is_shared = connection.bypass.is_some();
            let seen = if is_shared {
                rings.refresh(mem)
            } else {
                Ok(())
            };
            match seen.and_then(|()| rings.queued(mem)) {
                Ok(queued) => connection.queued = queued,
                Err(_) => self.reset_connection(id),
            }
            if is_shared {
                self.count_moved(id);
            }
        }
    }

    /// Counts what clients of a connection have moved, as far as we have seen.
    fn count_moved(&mut self, id: ConnectionId) {
        let connection = self.connections.get_mut(id);
        if let Some(rings) = connection.and_then(|connection| connection.rings.as_mut()) {
            let [sent, received] = rings.take_uncounted();
            // Their word: it may be any number.
            self.cx.stats.bytes_sent = self.cx.stats.bytes_sent.wrapping_add(sent);
            self.cx.stats.bytes_received = self.cx.stats.bytes_received.wrapping_add(received);
        }
    }

    /// Whether clients have parts of `node` mapped now, or copy to or from windows there.
    pub(crate) fn is_touched_by_clients(&self, mem: &dyn Memory, node: NodeId) -> bool {
        self.bypass_handles.iter().any(|(_, handle)| {
            let connection = self.connections.get(handle.connection);
            let Some(connection) = connection.filter(|c| c.peer.node() == node) else {
                return false;
            };
            let mut busy = connection.bypass.iter().flat_map(Bypass::busy_words);
            handle.peer_pages > 0 || busy.any(|word| mem.load_index(word) != 0)
        })
    }

    /// Whether clients may have memory of `node` mapped to work on rings there, or had it when the
    /// node was lost.
    pub(crate) fn is_worked_on(&self, node: NodeId) -> bool {
        let mut connections = self
            .bypass_handles
            .iter()
            .filter_map(|(_, handle)| self.connections.get(handle.connection));
        connections.any(|connection| connection.peer.node() == node)
    }
}

/// Whether an address is the first of a page.
pub(crate) fn is_page(address: u64) -> bool {
    address.is_multiple_of(PAGE_BYTES as u64)
}
