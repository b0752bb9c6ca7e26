//! register and unregister: the owner's side of a window, from the request to the last use.

use alloc::vec::Vec;

use scif_abi::flags::{MapFlags, Protection};
use scif_abi::limits::AUTOMATIC_OFFSETS;
use scif_abi::message::NodeMessage;
use scif_abi::window::WindowFill;
use scif_abi::{Error, NodeId};

use crate::base::context::Ends;
use crate::base::event::Event;
use crate::base::ids::{ConnectionId, EndpointId, RemoteWindowId, Ticket, WindowId};
use crate::base::memory::{Locality, Memory};
use crate::base::pages::{Chunks, PAGE, Pages};
use crate::base::quota::Resource;
use crate::base::table::Key;
use crate::call::PendingOn;
use crate::connection::Phase;
use crate::endpoint::EndpointState;
use crate::engine::Engine;
use crate::flow::quiesce::Ending;
use crate::window::{Slot, Window, WindowState, page_list, range_end};

impl Engine {
    /// `scif_register`: makes a window of `pages` at `offset`, or where there is room when
    /// `MapFlags::FIXED` is not set. The ticket's value is the offset. When this fails the pages
    /// are not kept; once there is a ticket, `Event::Unpin` gives them back: when registering
    /// fails after all, or the window is unregistered or its endpoint closed, and nobody uses it
    /// any more.
    ///
    /// # Errors
    /// In this order. `EINVAL`: unknown flags, `protection` empty or unknown, no pages, offset
    /// negative, unaligned (FIXED) or so high that the window would end beyond 2^63 - 1.
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`: the state of the endpoint. `ENOMEM`: a window cannot be
    /// that large. `EADDRINUSE`: FIXED, and a page is registered. `ENOMEM`: no offsets or windows
    /// left, or the user or process has too many. `EAGAIN`: its limit on pinned pages. By the
    /// ticket: `ENOMEM`: the peer has no memory for it; `ENOTCONN`: it refuses; `ECONNRESET`: it
    /// has gone.
    pub fn register(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        pages: Pages,
        offset: i64,
        protection: u32,
        flags: u32,
    ) -> Result<Ticket, Error> {
        let flags = MapFlags::from_bits(flags).ok_or(Error::InvalidArgument)?;
        let protection = Protection::from_bits(protection).ok_or(Error::InvalidArgument)?;
        if flags.contains(MapFlags::KERNEL) || protection.is_empty() || offset < 0 {
            return Err(Error::InvalidArgument);
        }
        let chunks = Chunks::own(&pages.runs).ok_or(Error::InvalidArgument)?;
        let is_fixed = flags.contains(MapFlags::FIXED);
        if is_fixed {
            check_range(offset, chunks.bytes())?;
        }
        let connection = self.verify(id)?;
        if !page_list::is_size_allowed(chunks.pages()) {
            return Err(Error::NoMemory);
        }
        let offset = if is_fixed {
            self.reserve(mem, id, connection, offset, chunks.bytes())?;
            offset
        } else {
            self.choose_offset(connection, chunks.bytes())?
        };
        self.add_window(id, connection, pages, chunks, offset, protection)
    }

    /// The connection of an endpoint, if it is connected to a node that is there.
    ///
    /// # Errors
    /// `ECONNRESET`: disconnected. `ENOTCONN`: any other state. `ENODEV`: the node is lost.
    pub(crate) fn verify(&self, id: EndpointId) -> Result<ConnectionId, Error> {
        let endpoint = self.endpoints.get(id)?;
        match (endpoint.state(), endpoint.connection()) {
            (EndpointState::Connected, Some(_))
                if !self.nodes.is_online(&self.cx, endpoint.peer().node()) =>
            {
                Err(Error::NoDevice)
            }
            (EndpointState::Connected, Some(connection)) => Ok(connection),
            (EndpointState::Disconnected, _) => Err(Error::ConnectionReset),
            _ => Err(Error::NotConnected),
        }
    }

    /// Makes sure that a range of the own space is free. Windows that only wait for the peer's word
    /// may have been given free by a message that nobody has looked at yet.
    fn reserve(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        connection: ConnectionId,
        offset: i64,
        bytes: u64,
    ) -> Result<(), Error> {
        let in_use = |engine: &Engine, wanted: &dyn Fn(WindowState) -> bool| {
            let end = range_end(offset, bytes).unwrap_or(i64::MAX);
            let connection = engine.connections.get(connection);
            connection.is_some_and(|c| {
                let windows = c.local_space.overlapping(offset, end);
                let mut windows = windows.filter_map(|(_, slot)| engine.windows.local.get(slot.id));
                windows.any(|window| wanted(window.state))
            })
        };
        if !in_use(self, &|_| true) {
            return Ok(());
        }
        let is_ending = |state| matches!(state, WindowState::Unregistering | WindowState::Used);
        if in_use(self, &is_ending) {
            let node = self.endpoints.get(id)?.peer().node();
            self.look_for_messages(mem, node);
            // Whatever they said.
            self.verify(id)?;
        }
        if in_use(self, &|_| true) {
            return Err(Error::AddressInUse);
        }
        Ok(())
    }

    /// Handles what `node` has sent already.
    fn look_for_messages(&mut self, mem: &mut dyn Memory, node: NodeId) {
        self.send_pending_replies();
        if node == self.cx.config.node {
            self.handle_loopback(mem);
        } else {
            self.drain(mem, node);
        }
    }

    /// A free range for a window without a fixed offset: behind the one chosen last, from the start
    /// when the end is reached.
    fn choose_offset(&mut self, id: ConnectionId, bytes: u64) -> Result<i64, Error> {
        let connection = self.connections.get_mut(id).ok_or(Error::NotConnected)?;
        let range = AUTOMATIC_OFFSETS;
        let mut offset = connection.next_offset.max(range.start);
        let mut is_second_round = offset == range.start;
        // Ends: every round passes at least one window, and there are two rounds.
        loop {
            let end = range_end(offset, bytes).filter(|end| *end <= range.end);
            let Some(end) = end else {
                if is_second_round {
                    return Err(Error::NoMemory);
                }
                (offset, is_second_round) = (range.start, true);
                continue;
            };
            let Some((start, slot)) = connection.local_space.overlapping(offset, end).last() else {
                connection.next_offset = end;
                return Ok(offset);
            };
            offset = start.saturating_add_unsigned(slot.bytes);
        }
    }

    /// Adds the window and asks the peer for a structure to describe it in.
    fn add_window(
        &mut self,
        endpoint: EndpointId,
        id: ConnectionId,
        pages: Pages,
        chunks: Chunks,
        offset: i64,
        protection: Protection,
    ) -> Result<Ticket, Error> {
        let owner = self.endpoints.get(endpoint)?.owner();
        let connection = self.connections.get(id).ok_or(Error::NotConnected)?;
        let (count, bytes) = (chunks.pages(), chunks.bytes());
        let window = Window {
            connection: Some(id),
            ends: Ends {
                local: connection.local,
                peer: connection.peer,
            },
            peer: connection.remote,
            owner,
            pin: pages.pin,
            is_charged: pages.is_charged,
            offset,
            protection,
            chunks,
            state: WindowState::Requested,
            remote: 0,
            is_cancelled: false,
            jobs: 0,
            call: None,
            departing: None,
            asked_at: self.cx.now,
        };
        let (ends, peer) = (window.ends, window.peer);
        let charged_pages = if pages.is_charged { count } else { 0 };
        self.cx.quotas.charge(owner, Resource::Windows, 1)?;
        let charged = self.cx.quotas.charge(owner, Resource::Pages, charged_pages);
        charged.inspect_err(|_| self.cx.quotas.discharge(owner, Resource::Windows, 1))?;
        let added = self.windows.local.insert(window).ok_or(Error::NoMemory);
        let added = added.and_then(|window| {
            let pending_on = PendingOn::Register(window);
            let call = self.calls.add(&mut self.cx, endpoint, id, pending_on);
            call.map(|call| (window, call)).inspect_err(|_| {
                self.windows.local.remove(window);
            })
        });
        let (window, call) = added.inspect_err(|_| {
            self.cx.quotas.discharge(owner, Resource::Windows, 1);
            self.cx
                .quotas
                .discharge(owner, Resource::Pages, charged_pages);
        })?;
        if let Some(window) = self.windows.local.get_mut(window) {
            window.call = Some(call);
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection
                .local_space
                .insert(offset, Slot { id: window, bytes });
        }
        let body = NodeMessage::AllocRequest {
            peer,
            pages: count,
            waiter: window.number(),
        };
        self.cx.expect_response();
        self.cx.post(ends, body);
        Ok(call)
    }

    /// `scif_unregister`: ends the windows in `offset..offset + length`; all of them or none. The
    /// ticket is done (0) when each is gone, or the peer says that it is still in use, or says
    /// nothing for [`ANSWER_TIMEOUT_NS`](scif_abi::limits::ANSWER_TIMEOUT_NS): then it goes later.
    ///
    /// # Errors
    /// `EINVAL`: offset negative or unaligned, length 0 or unaligned, beyond the last offset.
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`. `EINVAL`: part of a window. `ENXIO`: not all of it is
    /// registered.
    pub fn unregister(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        offset: i64,
        length: u64,
    ) -> Result<Ticket, Error> {
        check_range(offset, length)?;
        let connection = self.verify(id)?;
        let windows = self.whole_windows(connection, offset, length)?;
        let pending_on = PendingOn::Windows(windows.len());
        let call = self.calls.add(&mut self.cx, id, connection, pending_on)?;
        for window in windows {
            if let Some(window) = self.windows.local.get_mut(window) {
                window.call = Some(call);
            }
            self.begin_unregister(mem, window);
        }
        Ok(call)
    }

    /// The windows that fill a range exactly.
    fn whole_windows(
        &self,
        id: ConnectionId,
        offset: i64,
        length: u64,
    ) -> Result<Vec<WindowId>, Error> {
        let connection = self.connections.get(id).ok_or(Error::NotConnected)?;
        let end = range_end(offset, length).ok_or(Error::InvalidArgument)?;
        let (mut found, mut covered) = (Vec::new(), 0);
        for (start, slot) in connection.local_space.overlapping(offset, end) {
            let window = self.windows.local.get(slot.id);
            if window.is_none_or(|window| window.state != WindowState::Live) {
                continue;
            }
            if start < offset || start.saturating_add_unsigned(slot.bytes) > end {
                return Err(Error::InvalidArgument);
            }
            found.push(slot.id);
            covered += slot.bytes;
        }
        if covered != length {
            return Err(Error::NoSuchAddress);
        }
        Ok(found)
    }

    /// A registered window ends. The peer is told when no client of ours copies to or from it.
    fn begin_unregister(&mut self, mem: &mut dyn Memory, id: WindowId) {
        let Some(window) = self.windows.local.get_mut(id) else {
            return;
        };
        window.state = WindowState::Unregistering;
        window.asked_at = self.cx.now;
        let connection = window.connection;
        self.cx.expect_response();
        if self.quiesce(mem, connection, Ending::Local(id)) {
            self.send_unregister(id);
        }
    }

    /// Tells the peer that a window ends.
    pub(crate) fn send_unregister(&mut self, id: WindowId) {
        let window = self.windows.local.get(id);
        let Some(window) = window.filter(|w| w.state == WindowState::Unregistering) else {
            // Its node was lost meanwhile.
            return;
        };
        let body = NodeMessage::Unregister {
            user_window: window.remote,
            owner_window: id.number(),
        };
        let ends = window.ends;
        self.cx.post(ends, body);
    }

    /// A window that nobody wants any more ends as soon as it can.
    pub(crate) fn cancel_window(&mut self, mem: &mut dyn Memory, id: WindowId) {
        let Some(window) = self.windows.local.get_mut(id) else {
            return;
        };
        window.is_cancelled = true;
        window.call = None;
        if window.state == WindowState::Live {
            self.begin_unregister(mem, id);
        }
    }

    /// Frees a window that the peer and our own jobs have done with.
    pub(crate) fn free_window_if_gone(&mut self, id: WindowId) {
        let gone = |window: &Window| window.state == WindowState::Gone && window.jobs == 0;
        if !self.windows.local.get(id).is_some_and(gone) {
            return;
        }
        let Some(window) = self.windows.local.remove(id) else {
            return;
        };
        let connection = window.connection;
        if let Some(connection) = connection.and_then(|id| self.connections.get_mut(id)) {
            connection.local_space.remove(window.offset);
        }
        self.cx.quotas.discharge(window.owner, Resource::Windows, 1);
        if window.is_charged {
            let pages = window.chunks.pages();
            self.cx
                .quotas
                .discharge(window.owner, Resource::Pages, pages);
        }
        self.cx.events.push(Event::Unpin(window.pin));
        if let Some(call) = window.call {
            self.calls.count_window(&mut self.cx, call);
        }
        if let Some(endpoint) = window.departing {
            self.end_departure(endpoint);
        }
    }

    /// The peer will not touch a window any more.
    fn end_window(&mut self, id: WindowId) {
        if let Some(window) = self.windows.local.get_mut(id) {
            window.state = WindowState::Gone;
            self.free_window_if_gone(id);
        }
    }

    /// Ends a window that could not be registered.
    fn fail_window(&mut self, id: WindowId, error: Error) {
        if let Some(window) = self.windows.local.get_mut(id)
            && let Some(call) = window.call.take()
        {
            self.calls.complete(&mut self.cx, call, Err(error));
        }
        self.end_window(id);
    }

    /// The window `id` if it is registered with node `from` and in one of `states`.
    fn expect_window(
        &mut self,
        from: NodeId,
        id: WindowId,
        states: &[WindowState],
    ) -> Option<&mut Window> {
        let window = self.windows.local.get_mut(id);
        let window = window.filter(|w| w.ends.peer.node() == from && states.contains(&w.state));
        if window.is_none() {
            self.cx.stats.stale_ids += 1;
        }
        window
    }

    /// ALLOC_GNT: the structure is there. Fills it in and announces the window.
    pub(crate) fn on_alloc_grant(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        user_window: u64,
        address: u64,
        waiter: u64,
    ) {
        let from = ends.peer.node();
        let locality = self.cx.locality(from);
        let id = WindowId::from_number(waiter);
        let Some(window) = self.expect_window(from, id, &[WindowState::Requested]) else {
            return self.give_back(ends, 0, user_window, waiter);
        };
        let (ends, peer, connection) = (window.ends, window.peer, window.connection);
        let fill = WindowFill {
            chunks: window.chunks.len() as u32,
            protection: window.protection.bits(),
            offset: window.offset,
            endpoint: peer,
            owner_window: waiter,
        };
        window.remote = user_window;
        let is_connected = connection
            .and_then(|id| self.connections.get(id))
            .is_some_and(|connection| connection.phase == Phase::Connected);
        let window = self.windows.local.get(id);
        let Some(window) = window.filter(|window| is_connected && !window.is_cancelled) else {
            self.give_back(ends, peer, user_window, waiter);
            return self.fail_window(id, Error::ConnectionReset);
        };
        let lent = self
            .windows
            .page_list(RemoteWindowId::from_number(user_window))
            .filter(|_| locality == Locality::Own);
        if page_list::fill(mem, locality, lent, address, &fill, &window.chunks).is_err() {
            self.cx.stats.bad_windows += 1;
            self.give_back(ends, peer, user_window, waiter);
            return self.fail_window(id, Error::NoMemory);
        }
        if let Some(window) = self.windows.local.get_mut(id) {
            window.state = WindowState::Announced;
            window.asked_at = self.cx.now;
        }
        let body = NodeMessage::Register {
            peer,
            user_window,
            owner_window: waiter,
        };
        self.cx.post(ends, body);
    }

    /// FREE_VIRT: gives back a structure that was granted.
    fn give_back(&mut self, ends: Ends, peer: u64, user_window: u64, owner_window: u64) {
        let body = NodeMessage::FreeVirtual {
            peer,
            user_window,
            owner_window,
            kind: u64::from(NodeMessage::REGISTER),
        };
        self.cx.post(ends, body);
    }

    /// ALLOC_REJ.
    pub(crate) fn on_alloc_reject(&mut self, from: NodeId, id: WindowId) {
        if self
            .expect_window(from, id, &[WindowState::Requested])
            .is_some()
        {
            self.fail_window(id, Error::NoMemory);
        }
    }

    /// REGISTER_ACK.
    pub(crate) fn on_register_ack(&mut self, mem: &mut dyn Memory, from: NodeId, id: WindowId) {
        let Some(window) = self.expect_window(from, id, &[WindowState::Announced]) else {
            return;
        };
        window.state = WindowState::Live;
        if window.is_cancelled {
            return self.begin_unregister(mem, id);
        }
        let offset = window.offset.cast_unsigned();
        if let Some(call) = window.call.take() {
            self.calls.complete(&mut self.cx, call, Ok(offset));
        }
    }

    /// REGISTER_NACK: the peer has taken the structure back.
    pub(crate) fn on_register_nack(&mut self, from: NodeId, id: WindowId) {
        if self
            .expect_window(from, id, &[WindowState::Announced])
            .is_some()
        {
            self.fail_window(id, Error::NotConnected);
        }
    }

    /// UNREGISTER_ACK or MUNMAP: nothing at the peer's end uses the window any more.
    pub(crate) fn on_window_unused(&mut self, from: NodeId, id: WindowId) {
        let states = [WindowState::Unregistering, WindowState::Used];
        if self.expect_window(from, id, &states).is_some() {
            self.end_window(id);
        }
    }

    /// UNREGISTER_NACK: something does; MUNMAP will follow. The documents keep the offsets of a
    /// window as long as a program has it mapped; what a library keeps mapped is no matter of
    /// programs.
    pub(crate) fn on_window_used(&mut self, from: NodeId, id: WindowId, is_offset_free: bool) {
        let states = [WindowState::Unregistering];
        let Some(window) = self.expect_window(from, id, &states) else {
            return;
        };
        let offset = window.offset;
        let connection = window.connection.take_if(|_| is_offset_free);
        if let Some(connection) = connection.and_then(|id| self.connections.get_mut(id)) {
            connection.local_space.remove(offset);
        }
        self.count_as_used(id);
    }

    /// A window that ends is still used by the peer: who waits for its end is told so.
    pub(crate) fn count_as_used(&mut self, id: WindowId) {
        let Some(window) = self.windows.local.get_mut(id) else {
            return;
        };
        window.state = WindowState::Used;
        let (call, departing) = (window.call.take(), window.departing.take());
        if let Some(call) = call {
            self.calls.count_window(&mut self.cx, call);
        }
        if let Some(endpoint) = departing {
            self.end_departure(endpoint);
        }
    }

    /// Node `node` can no longer touch our memory: its windows are over.
    pub(crate) fn end_windows_with(&mut self, node: NodeId) {
        let with_node = |(_, window): &(WindowId, &Window)| window.ends.peer.node() == node;
        let ids: Vec<WindowId> = self
            .windows
            .local
            .iter()
            .filter(with_node)
            .map(|(id, _)| id)
            .collect();
        for id in ids {
            self.end_window(id);
        }
    }
}

/// Checks a range of whole pages given by a caller.
///
/// # Errors
/// `EINVAL`: not whole pages, empty, negative, or beyond the last offset.
pub(crate) fn check_range(offset: i64, length: u64) -> Result<(), Error> {
    let is_whole = offset.cast_unsigned().is_multiple_of(PAGE) && length.is_multiple_of(PAGE);
    if !is_whole || length == 0 || range_end(offset, length).is_none() {
        return Err(Error::InvalidArgument);
    }
    Ok(())
}
