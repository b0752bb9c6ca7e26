//! Local windows: this end's registered memory, from the request to the last use.

use alloc::vec::Vec;

use scif_abi::flags::Protection;
use scif_abi::message::NodeMessage;
use scif_abi::window::WindowFill;
use scif_abi::{Error, NodeId, PortId};

use crate::base::context::{Context, Ends, Identity};
use crate::base::event::Event;
use crate::base::ids::{ConnectionId, EndpointId, RemoteWindowId, Ticket, WindowId};
use crate::base::memory::{Locality, Memory};
use crate::base::owner::Owner;
use crate::base::pages::{Chunks, Pages, PinId};
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::base::table::Key;
use crate::window::core::WindowCore;
use crate::window::space::Slot;
use crate::window::{Windows, page_list};

/// The state of a local window towards the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// ALLOC_REQ sent, not answered.
    Requested,
    /// REGISTER sent, not answered.
    Announced,
    /// Registered.
    Live,
    /// Clients still copy to or from the window, so the peer does not know yet. From here on
    /// nothing new may use the window.
    Quiescing,
    /// UNREGISTER sent, not answered.
    Unregistering,
    /// The peer still uses the window, and sends MUNMAP when that ends.
    Used,
    /// The peer has forgotten the window; own copies are still running.
    Gone,
}

impl WindowState {
    /// One word for the text files.
    pub fn name(self) -> &'static str {
        match self {
            WindowState::Requested | WindowState::Announced => "registering",
            WindowState::Live => "registered",
            WindowState::Quiescing | WindowState::Unregistering => "unregistering",
            WindowState::Used | WindowState::Gone => "used",
        }
    }

    /// Whether the window is ending.
    fn is_ending(self) -> bool {
        use WindowState::{Gone, Quiescing, Unregistering, Used};
        matches!(self, Quiescing | Unregistering | Used | Gone)
    }
}

/// A row of `windows`: registered memory of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowInfo {
    /// The endpoint that it was registered with, unless that is closed.
    pub endpoint: Option<EndpointId>,
    /// This end.
    pub local: PortId,
    /// The other end.
    pub peer: PortId,
    /// The offset in the endpoint's registered address space.
    pub offset: i64,
    /// How many pages it has.
    pub pages: u64,
    /// How many physically contiguous runs of pages it has.
    pub chunks: usize,
    /// The peer's rights to it.
    pub protection: Protection,
    /// How far registering or unregistering has come.
    pub state: WindowState,
    /// How many own copies use it.
    pub jobs: u32,
    /// The user to whom its pages are charged.
    pub user: u32,
}

/// A local window.
#[derive(Debug)]
pub(crate) struct Window {
    /// The window is in its connection's local space while that exists, and until its offsets are
    /// free for another window.
    pub(super) core: WindowCore,
    /// The id that the peer gave its end.
    peer: u64,
    /// The owner of the endpoint that registered it.
    owner: Owner,
    pin: PinId,
    is_charged: bool,
    state: WindowState,
    /// The id that the peer gave the window, once it has granted a structure.
    remote: u64,
    /// Whether the window was given up while it was being registered: then it ends once it is
    /// registered.
    is_cancelled: bool,
    /// The call that waits for the window.
    call: Option<Ticket>,
    /// The endpoint that was closed while the peer could read or write the window.
    departing: Option<EndpointId>,
    /// When (ns) the last message about the window was sent to the peer.
    asked_at: u64,
}

impl Window {
    /// A window that is about to be registered with the peer of `connection`.
    pub(crate) fn new(
        connection: Identity,
        owner: Owner,
        pages: &Pages,
        chunks: Chunks,
        offset: i64,
        protection: Protection,
    ) -> Window {
        Window {
            core: WindowCore {
                connection: Some(connection.id),
                ends: connection.ends,
                offset,
                protection,
                chunks,
                jobs: 0,
            },
            peer: connection.remote,
            owner,
            pin: pages.pin,
            is_charged: pages.is_charged,
            state: WindowState::Requested,
            remote: 0,
            is_cancelled: false,
            call: None,
            departing: None,
            asked_at: 0,
        }
    }

    /// The state of the window towards the peer.
    pub(super) fn state(&self) -> WindowState {
        self.state
    }

    /// The memory that the window is made of.
    pub(super) fn pin(&self) -> PinId {
        self.pin
    }

    /// Whether the window is registered.
    pub(super) fn is_live(&self) -> bool {
        self.state == WindowState::Live
    }

    /// How many of its pages count for its owner's limit.
    pub(super) fn charged_pages(&self) -> u64 {
        if self.is_charged {
            self.core.chunks.pages()
        } else {
            0
        }
    }

    /// The row of `windows` for it on node `own`.
    pub(super) fn info(&self, own: NodeId, endpoint: Option<EndpointId>) -> WindowInfo {
        let core = &self.core;
        WindowInfo {
            endpoint,
            local: PortId::new(own, core.ends.local),
            peer: core.ends.peer,
            offset: core.offset,
            pages: core.chunks.pages(),
            chunks: core.chunks.len(),
            protection: core.protection,
            state: self.state,
            jobs: core.jobs,
            user: self.owner.user,
        }
    }

    /// Checks the window's state.
    pub(super) fn check(&self, id: WindowId) -> Result<(), Violation> {
        rule(
            self.state != WindowState::Gone || self.core.jobs > 0,
            "a window that nothing uses is freed",
            id,
        )?;
        rule(
            !self.is_live() || self.core.connection.is_some(),
            "a registered window has an endpoint",
            id,
        )
    }
}

// Registering.
impl Windows {
    /// Adds a window to its space and charges it to its owner.
    ///
    /// # Errors
    /// `ENOMEM`: too many windows, here or of the owner. `EAGAIN`: the owner's limit on pages.
    pub(crate) fn add_local(
        &mut self,
        cx: &mut Context,
        mut window: Window,
    ) -> Result<WindowId, Error> {
        let (owner, pages) = (window.owner, window.charged_pages());
        let (connection, offset) = (window.core.connection, window.core.offset);
        let bytes = window.core.chunks.bytes();
        window.asked_at = cx.now;
        cx.quotas.charge(owner, Resource::Windows, 1)?;
        let charged = cx.quotas.charge(owner, Resource::Pages, pages);
        charged.inspect_err(|_| cx.quotas.discharge(owner, Resource::Windows, 1))?;
        let Some(id) = self.local.insert(window) else {
            cx.quotas.discharge(owner, Resource::Windows, 1);
            cx.quotas.discharge(owner, Resource::Pages, pages);
            return Err(Error::NoMemory);
        };
        if let Some(connection) = connection {
            let spaces = self.spaces.entry(connection).or_default();
            spaces.local.insert(offset, Slot { id, bytes });
        }
        Ok(id)
    }

    /// Removes a window from all tables. Does not unpin its pages.
    pub(crate) fn remove_local(&mut self, cx: &mut Context, id: WindowId) -> Option<Window> {
        let window = self.local.remove(id)?;
        self.free_offset(window.core.connection, window.core.offset);
        cx.quotas.discharge(window.owner, Resource::Windows, 1);
        let pages = window.charged_pages();
        cx.quotas.discharge(window.owner, Resource::Pages, pages);
        Some(window)
    }

    /// Notes that a call waits for the window from now on.
    pub(crate) fn set_call(&mut self, id: WindowId, call: Ticket) {
        if let Some(window) = self.local.get_mut(id) {
            window.call = Some(call);
        }
    }

    /// Removes the call that waits for the window and returns it.
    pub(crate) fn take_call(&mut self, id: WindowId) -> Option<Ticket> {
        self.local.get_mut(id)?.call.take()
    }

    /// Whether the window is registered with node `from` and in one of `states`.
    pub(crate) fn expect_local(
        &self,
        cx: &mut Context,
        from: NodeId,
        id: WindowId,
        states: &[WindowState],
    ) -> bool {
        let window = self.local.get(id);
        let is_it = window
            .is_some_and(|window| window.core.node() == from && states.contains(&window.state));
        cx.stats.stale_ids += u64::from(!is_it);
        is_it
    }

    /// Asks the peer for a structure in which to describe the window.
    pub(crate) fn send_alloc_request(&self, cx: &mut Context, id: WindowId) {
        if let Some(window) = self.local.get(id) {
            let body = NodeMessage::AllocRequest {
                peer: window.peer,
                pages: window.core.chunks.pages(),
                waiter: id.number(),
            };
            cx.post(window.core.ends, body);
        }
    }

    /// Describes the window in a structure that the peer has granted at bus address `address`.
    ///
    /// # Errors
    /// `ECONNRESET`: the window is not wanted any more, or `is_connected` is false. `ENOMEM`: the
    /// granted structure cannot be used. In both cases the structure is given back.
    pub(crate) fn announce(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: WindowId,
        (user_window, address): (u64, u64),
        is_connected: bool,
    ) -> Result<(), Error> {
        let window = self.local.get_mut(id).ok_or(Error::ConnectionReset)?;
        window.remote = user_window;
        let (ends, peer) = (window.core.ends, window.peer);
        if !is_connected || window.is_cancelled {
            give_back(cx, ends, peer, user_window, id.number());
            return Err(Error::ConnectionReset);
        }
        let fill = WindowFill {
            chunks: window.core.chunks.len() as u32,
            protection: window.core.protection.bits(),
            offset: window.core.offset,
            endpoint: peer,
            owner_window: id.number(),
        };
        let locality = cx.locality(ends.peer.node());
        let granted = self
            .page_list(RemoteWindowId::from_number(user_window))
            .filter(|_| locality == Locality::Own);
        let chunks = self.local(id).map(WindowCore::chunks);
        let chunks = chunks.ok_or(Error::ConnectionReset)?;
        if page_list::fill(mem, locality, granted, address, &fill, chunks).is_err() {
            cx.stats.bad_windows += 1;
            give_back(cx, ends, peer, user_window, id.number());
            return Err(Error::NoMemory);
        }
        if let Some(window) = self.local.get_mut(id) {
            window.state = WindowState::Announced;
            window.asked_at = cx.now;
        }
        let body = NodeMessage::Register {
            peer,
            user_window,
            owner_window: id.number(),
        };
        cx.post(ends, body);
        Ok(())
    }

    /// Notes that the peer has acknowledged the window. Returns the call that waits for it, and
    /// its offset. `None`: the window was given up meanwhile.
    pub(crate) fn registered(&mut self, id: WindowId) -> Option<(Option<Ticket>, i64)> {
        let window = self.local.get_mut(id)?;
        window.state = WindowState::Live;
        (!window.is_cancelled).then(|| (window.call.take(), window.core.offset))
    }
}

// Unregistering.
impl Windows {
    /// Begins to end a registered window: nothing new may use it. Returns the connection whose
    /// clients may still copy to or from it.
    pub(crate) fn begin_unregister(&mut self, id: WindowId) -> Option<ConnectionId> {
        let window = self.local.get_mut(id)?;
        window.state = WindowState::Quiescing;
        window.core.connection
    }

    /// Sends UNREGISTER, now that no client copies to or from the window. (Does nothing if the
    /// peer's node was lost meanwhile.)
    pub(crate) fn send_unregister(&mut self, cx: &mut Context, id: WindowId) {
        let window = self.local.get_mut(id);
        if let Some(window) = window.filter(|w| w.state == WindowState::Quiescing) {
            window.state = WindowState::Unregistering;
            window.asked_at = cx.now;
            let body = NodeMessage::Unregister {
                user_window: window.remote,
                owner_window: id.number(),
            };
            cx.expect_response();
            cx.post(window.core.ends, body);
        }
    }

    /// Gives a window up. `true`: it is registered, and can be ended at once.
    pub(crate) fn cancel_local(&mut self, id: WindowId) -> bool {
        let window = self.local.get_mut(id);
        window.is_some_and(|window| {
            window.is_cancelled = true;
            window.call = None;
            window.is_live()
        })
    }

    /// Ends a window that the peer does not use any more. Returns the unregister call that waits
    /// for it, if no own jobs use it either.
    pub(crate) fn end_local(&mut self, cx: &mut Context, id: WindowId) -> Option<Ticket> {
        self.local.get_mut(id)?.state = WindowState::Gone;
        self.free_if_gone(cx, id)
    }

    /// Frees a window that neither the peer nor own jobs use. Returns the call that waits for
    /// that.
    fn free_if_gone(&mut self, cx: &mut Context, id: WindowId) -> Option<Ticket> {
        let window = self.local.get(id)?;
        if window.state != WindowState::Gone || window.core.jobs > 0 {
            return None;
        }
        let window = self.remove_local(cx, id)?;
        cx.events.push(Event::Unpin(window.pin));
        if let Some(endpoint) = window.departing {
            cx.end_departure(endpoint);
        }
        window.call
    }

    /// Notes that an own job begins to use the window.
    pub(crate) fn hold_local(&mut self, id: WindowId) {
        if let Some(window) = self.local.get_mut(id) {
            window.core.jobs += 1;
        }
    }

    /// Notes that an own job has stopped using the window. Returns the unregister call that waits
    /// for the window, if the window ends now.
    pub(crate) fn release_local(&mut self, cx: &mut Context, id: WindowId) -> Option<Ticket> {
        let window = self.local.get_mut(id)?;
        window.core.jobs = window.core.jobs.saturating_sub(1);
        self.free_if_gone(cx, id)
    }

    /// Frees the offsets of a window that ends, while the peer has it mapped only in ways that its
    /// programs do not know of.
    pub(crate) fn free_offset_of(&mut self, id: WindowId) {
        if let Some(window) = self.local.get_mut(id) {
            let (connection, offset) = (window.core.connection.take(), window.core.offset);
            self.free_offset(connection, offset);
        }
    }

    /// Notes that the peer still uses a window that ends. Returns the call that waits for it.
    pub(crate) fn keep_used(&mut self, cx: &mut Context, id: WindowId) -> Option<Ticket> {
        let window = self.local.get_mut(id)?;
        window.state = WindowState::Used;
        if let Some(endpoint) = window.departing.take() {
            cx.end_departure(endpoint);
        }
        window.call.take()
    }

    /// The windows of a connection that are not ending.
    pub(crate) fn not_ending(&self, connection: ConnectionId) -> Vec<WindowId> {
        let spaces = self.spaces.get(&connection);
        let ids = spaces.into_iter().flat_map(|spaces| spaces.local.ids());
        let is_ending = |id: &WindowId| {
            let window = self.local.get(*id);
            window.is_none_or(|window| window.state.is_ending())
        };
        ids.filter(|id| !is_ending(id)).collect()
    }

    /// Drops the address spaces of a connection whose endpoint is closed: no window is found by
    /// offset any more. Returns the local windows, which the caller must end. `departs` says
    /// whether the peer will report when its copies have ended.
    pub(crate) fn leave_spaces(
        &mut self,
        cx: &mut Context,
        connection: ConnectionId,
        endpoint: EndpointId,
        departs: bool,
    ) -> Vec<WindowId> {
        let Some(mut spaces) = self.spaces.remove(&connection) else {
            return Vec::new();
        };
        for id in spaces.remote.take() {
            self.leave_remote(id);
        }
        let ids: Vec<WindowId> = spaces.local.take().collect();
        for id in &ids {
            if let Some(window) = self.local.get_mut(*id) {
                window.core.connection = None;
                // The peer's copies have ended when it reports that a window is only mapped.
                if departs && window.state != WindowState::Used {
                    window.departing = Some(endpoint);
                    cx.begin_departure(endpoint);
                }
            }
        }
        ids
    }

    /// Notes that a node will not report any more what it uses: closes do not wait for its
    /// windows, whose pages are kept.
    pub(crate) fn end_departures(&mut self, cx: &mut Context, node: NodeId) {
        for id in self.registered_with(node) {
            let departing = self.local.get_mut(id).map(|window| &mut window.departing);
            if let Some(endpoint) = departing.and_then(Option::take) {
                cx.end_departure(endpoint);
            }
        }
    }

    /// The windows that are registered with a node.
    pub(crate) fn registered_with(&self, node: NodeId) -> Vec<WindowId> {
        let windows = self.local.iter();
        let windows = windows.filter(|(_, window)| window.core.node() == node);
        windows.map(|(id, _)| id).collect()
    }

    /// Requests that peers can answer at once: the node, the message, and when (ns) it was sent.
    pub(crate) fn questions(&self) -> impl Iterator<Item = (NodeId, &'static str, u64)> {
        self.local.iter().filter_map(|(_, window)| {
            let question = match window.state {
                WindowState::Requested => "ALLOC_REQ",
                WindowState::Announced => "REGISTER",
                _ => return None,
            };
            Some((window.core.node(), question, window.asked_at))
        })
    }

    /// Windows whose UNREGISTER is not answered, and when (ns) it was sent.
    pub(crate) fn unregistering(&self) -> impl Iterator<Item = (WindowId, u64)> {
        let windows = self.local.iter();
        let windows = windows.filter(|(_, w)| w.state == WindowState::Unregistering);
        windows.map(|(id, window)| (id, window.asked_at))
    }

    /// Whether a page list that this node has sent to itself describes this window.
    pub(super) fn is_described(&self, id: WindowId, described: (i64, Protection, &Chunks)) -> bool {
        let window = self.local.get(id);
        window.is_some_and(|w| described == (w.core.offset, w.core.protection, &w.core.chunks))
    }
}

/// Sends FREE_VIRT: gives back a structure that was granted.
pub(crate) fn give_back(
    cx: &mut Context,
    ends: Ends,
    peer: u64,
    user_window: u64,
    owner_window: u64,
) {
    let body = NodeMessage::FreeVirtual {
        peer,
        user_window,
        owner_window,
        kind: u64::from(NodeMessage::REGISTER),
    };
    cx.post(ends, body);
}
