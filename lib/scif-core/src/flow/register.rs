//! register and unregister: the owner's side of a window, from the request to the last use.

use scif_abi::flags::{MapFlags, Protection};
use scif_abi::{Error, NodeId};

use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, EndpointId, Ticket, WindowId};
use crate::base::memory::Memory;
use crate::base::pages::{Chunks, Pages};
use crate::base::quota::Resource;
use crate::base::table::Key;
use crate::bypass::Ending;
use crate::call::PendingOn;
use crate::endpoint::EndpointState;
use crate::engine::Engine;
use crate::window::core::WindowCore;
use crate::window::local::{Window, WindowState, give_back};
use crate::window::page_list;
use crate::window::space::check_range;

impl Engine {
    /// `scif_register`: makes a window of `pages` at `offset`, or where there is room if
    /// `MapFlags::FIXED` is not set. The ticket's value is the offset. If this call fails, the
    /// pages are not kept. Once there is a ticket, `Event::Unpin` gives them back: when
    /// registering fails after all, or when the window is unregistered or its endpoint closed, and
    /// its last use has ended.
    ///
    /// # Errors
    /// In this order. `EINVAL`: unknown flags, `protection` empty or unknown, no pages, offset
    /// negative, unaligned (FIXED) or so high that the window would end beyond 2^63 - 1.
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`: the state of the endpoint. `ENOMEM`: a window cannot be
    /// that large, or the user or process has too many. `EAGAIN`: the limit of the user or process
    /// on pinned pages. `EADDRINUSE`: FIXED, and a page is registered. `ENOMEM`: no offsets or
    /// windows left. By the ticket: `ENOMEM`: the peer has no memory for the window; `ENOTCONN`:
    /// the peer refuses; `ECONNRESET`: the peer has gone.
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
        let connection = self.online_connection(id)?;
        if !page_list::is_size_allowed(chunks.pages()) {
            return Err(Error::NoMemory);
        }
        let range = (offset, chunks.bytes());
        if is_fixed {
            self.free_range(mem, id, connection, range)?;
        }
        let owner = self.endpoints.get(id)?.owner();
        let charged = if pages.is_charged { chunks.pages() } else { 0 };
        self.cx.quotas.check(owner, Resource::Windows, 1)?;
        self.cx.quotas.check(owner, Resource::Pages, charged)?;
        let offset = match is_fixed {
            false => self.windows.choose_offset(connection, chunks.bytes())?,
            true if self.windows.is_in_use(connection, range, |_| true) => {
                return Err(Error::AddressInUse);
            }
            true => offset,
        };
        self.add_window(id, connection, &pages, chunks, offset, protection)
    }

    /// The connection of an endpoint, if it is connected to a node that is online.
    ///
    /// # Errors
    /// `ECONNRESET`: disconnected. `ENOTCONN`: any other state. `ENODEV`: the node is lost.
    pub(crate) fn online_connection(&self, id: EndpointId) -> Result<ConnectionId, Error> {
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

    /// Looks for messages that are still unread in the ring, if they may end windows in a range of
    /// the local space.
    fn free_range(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        connection: ConnectionId,
        range: (i64, u64),
    ) -> Result<(), Error> {
        let is_asked = |state| matches!(state, WindowState::Unregistering | WindowState::Used);
        if self.windows.is_in_use(connection, range, is_asked) {
            let node = self.endpoints.get(id)?.peer().node();
            self.look_for_messages(mem, node);
            // The messages may have ended the connection.
            self.online_connection(id)?;
        }
        Ok(())
    }

    /// Handles what `node` has already sent.
    fn look_for_messages(&mut self, mem: &mut dyn Memory, node: NodeId) {
        self.windows.send_pending_replies(&mut self.cx);
        if node == self.cx.config.node {
            self.handle_loopback(mem);
        } else {
            self.drain(mem, node);
        }
    }

    /// Adds the window and asks the peer for a structure in which to describe it.
    fn add_window(
        &mut self,
        endpoint: EndpointId,
        id: ConnectionId,
        pages: &Pages,
        chunks: Chunks,
        offset: i64,
        protection: Protection,
    ) -> Result<Ticket, Error> {
        let owner = self.endpoints.get(endpoint)?.owner();
        let connection = self.connections.identity(id).ok_or(Error::NotConnected)?;
        let window = Window::new(connection, owner, pages, chunks, offset, protection);
        let window = self.windows.add_local(&mut self.cx, window)?;
        let pending_on = PendingOn::Register(window);
        let call = self.calls.add(&mut self.cx, endpoint, id, pending_on);
        let call = call.inspect_err(|_| {
            self.windows.remove_local(&mut self.cx, window);
        })?;
        self.windows.set_call(window, call);
        self.cx.expect_response();
        self.windows.send_alloc_request(&mut self.cx, window);
        Ok(call)
    }

    /// `scif_unregister`: ends the windows in `offset..offset + length`; all of them or none. The
    /// ticket is done (0) when each window is gone or counts as still in use, which it does if the
    /// peer reports that or does not answer within
    /// [`ANSWER_TIMEOUT_NS`](scif_abi::limits::ANSWER_TIMEOUT_NS). A window in use goes later.
    ///
    /// # Errors
    /// `EINVAL`: offset negative or unaligned, length 0 or unaligned, beyond the last offset.
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`. `EINVAL`: only a part of a window. `ENXIO`: not all of
    /// the range is registered.
    pub fn unregister(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        offset: i64,
        length: u64,
    ) -> Result<Ticket, Error> {
        check_range(offset, length)?;
        let connection = self.online_connection(id)?;
        let windows = (self.windows).whole_windows(connection, offset, length)?;
        let pending_on = PendingOn::Windows(windows.len());
        let call = self.calls.add(&mut self.cx, id, connection, pending_on)?;
        for window in windows {
            self.windows.set_call(window, call);
            self.begin_unregister(mem, window);
        }
        Ok(call)
    }

    /// Begins to end a registered window. The peer gets UNREGISTER when no client of ours copies
    /// to or from the window.
    fn begin_unregister(&mut self, mem: &mut dyn Memory, id: WindowId) {
        let connection = self.windows.begin_unregister(id);
        if self.quiesce(mem, connection, Ending::Local(id)) {
            self.windows.send_unregister(&mut self.cx, id);
        }
    }

    /// Gives a window up: it ends as soon as it can.
    pub(crate) fn cancel_window(&mut self, mem: &mut dyn Memory, id: WindowId) {
        if self.windows.cancel_local(id) {
            self.begin_unregister(mem, id);
        }
    }

    /// Ends a window that the peer does not use any more.
    pub(crate) fn end_window(&mut self, id: WindowId) {
        if let Some(call) = self.windows.end_local(&mut self.cx, id) {
            self.calls.count_window(&mut self.cx, call);
        }
    }

    /// Ends a window that could not be registered.
    fn fail_window(&mut self, id: WindowId, error: Error) {
        if let Some(call) = self.windows.take_call(id) {
            self.calls.complete(&mut self.cx, call, Err(error));
        }
        self.end_window(id);
    }

    /// ALLOC_GNT: the peer grants a structure (`granted` is the peer's id and the bus address).
    /// Fills it in and sends REGISTER.
    pub(crate) fn on_alloc_grant(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        granted: (u64, u64),
        waiter: u64,
    ) {
        let id = WindowId::from_number(waiter);
        let (windows, cx) = (&mut self.windows, &mut self.cx);
        if !windows.expect_local(cx, ends.peer.node(), id, &[WindowState::Requested]) {
            return give_back(cx, ends, 0, granted.0, waiter);
        }
        let connection = windows.local(id).and_then(WindowCore::connection);
        let is_connected = connection.is_some_and(|id| self.connections.is_connected(id));
        let announced = windows.announce(mem, cx, id, granted, is_connected);
        if let Err(error) = announced {
            self.fail_window(id, error);
        }
    }

    /// ALLOC_REJ: the peer has no memory for our window `waiter`.
    pub(crate) fn on_alloc_reject(&mut self, from: NodeId, waiter: u64) {
        let id = WindowId::from_number(waiter);
        self.on_register_failure(from, id, WindowState::Requested, Error::NoMemory);
    }

    /// REGISTER_NACK: the peer refuses our window.
    pub(crate) fn on_register_nack(&mut self, from: NodeId, owner_window: u64) {
        let id = WindowId::from_number(owner_window);
        self.on_register_failure(from, id, WindowState::Announced, Error::NotConnected);
    }

    /// REGISTER_ACK: the peer has acknowledged our window.
    pub(crate) fn on_register_ack(
        &mut self,
        mem: &mut dyn Memory,
        from: NodeId,
        owner_window: u64,
    ) {
        let id = WindowId::from_number(owner_window);
        let states = [WindowState::Announced];
        if !self.windows.expect_local(&mut self.cx, from, id, &states) {
            return;
        }
        match self.windows.registered(id) {
            Some((Some(call), offset)) => {
                let offset = offset.cast_unsigned();
                self.calls.complete(&mut self.cx, call, Ok(offset));
            }
            Some((None, _)) => {}
            None => self.begin_unregister(mem, id),
        }
    }

    /// Ends a window in `state` that cannot be registered.
    fn on_register_failure(
        &mut self,
        from: NodeId,
        id: WindowId,
        state: WindowState,
        error: Error,
    ) {
        if self.windows.expect_local(&mut self.cx, from, id, &[state]) {
            self.fail_window(id, error);
        }
    }

    /// UNREGISTER_ACK or MUNMAP: nothing at the peer's end uses the window any more.
    pub(crate) fn on_window_unused(&mut self, from: NodeId, owner_window: u64) {
        let id = WindowId::from_number(owner_window);
        let states = [WindowState::Unregistering, WindowState::Used];
        if self.windows.expect_local(&mut self.cx, from, id, &states) {
            self.end_window(id);
        }
    }

    /// UNREGISTER_NACK: the peer's end still uses the window; MUNMAP will follow. The documents
    /// keep the offsets of a window as long as a program has it mapped; a mapping that only a
    /// library knows of does not count.
    pub(crate) fn on_window_used(&mut self, from: NodeId, owner_window: u64, is_offset_free: bool) {
        let id = WindowId::from_number(owner_window);
        let states = [WindowState::Unregistering];
        if self.windows.expect_local(&mut self.cx, from, id, &states) {
            if is_offset_free {
                self.windows.free_offset_of(id);
            }
            self.count_as_used(id);
        }
    }

    /// Notes that the peer still uses a window that ends. Calls no longer wait for its end.
    pub(crate) fn count_as_used(&mut self, id: WindowId) {
        if let Some(call) = self.windows.keep_used(&mut self.cx, id) {
            self.calls.count_window(&mut self.cx, call);
        }
    }
}
