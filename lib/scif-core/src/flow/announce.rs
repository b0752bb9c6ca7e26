//! The user's side of a window: lending the structure, taking over the page list, and the last word
//! when the owner unregisters.

use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::limits::{MAX_LENT_PAGES, MAX_PEER_CHUNKS, MAX_WINDOWS};
use scif_abi::message::NodeMessage;
use scif_abi::trace::What;

use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, RemoteWindowId, WindowId};
use crate::base::memory::{Locality, Memory};
use crate::base::table::Key;
use crate::connection::Phase;
use crate::engine::Engine;
use crate::flow::quiesce::Ending;
use crate::window::page_list::{PageListBuffer, is_size_allowed, page_list_pages};
use crate::window::{PendingReply, Remote, RemoteWindow, Slot, range_end};

impl RemoteWindow {
    /// Whether the owner waits for a word that can be said now: that the window is not used any
    /// more, or first that it is still mapped. Copies end soon, so that is said when they have.
    pub(crate) fn can_reply(&self) -> bool {
        let is_wanted = self.pending_reply == PendingReply::None || self.is_quiescing;
        let is_answer = self.pending_reply == PendingReply::UnregisterAck;
        !is_wanted && self.jobs == 0 && (self.mapped == 0 || is_answer)
    }
}

impl Engine {
    /// ALLOC_REQ: lends a structure for a window of so many pages.
    pub(crate) fn on_alloc_request(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        pages: u64,
        waiter: u64,
    ) {
        let body = match self.grant_page_list(mem, ends.peer.node(), pages) {
            Some((id, address)) => NodeMessage::AllocGrant {
                user_window: id.number(),
                address,
                waiter,
            },
            None => {
                self.cx.stats.refused_windows += 1;
                self.cx.trace_ends(What::WindowRefused, ends, pages);
                NodeMessage::AllocReject { waiter }
            }
        };
        self.cx.post(ends, body);
    }

    /// Lends a structure; its id and bus address.
    fn grant_page_list(
        &mut self,
        mem: &mut dyn Memory,
        node: NodeId,
        pages: u64,
    ) -> Option<(RemoteWindowId, u64)> {
        let peer_usage = self.windows.peer_usage(node);
        if !is_size_allowed(pages)
            || peer_usage.windows >= MAX_WINDOWS
            || peer_usage.granted_pages + page_list_pages(pages) as usize > MAX_LENT_PAGES
        {
            return None;
        }
        let page_list = PageListBuffer::new(mem, self.cx.locality(node), pages)?;
        let lent = page_list.granted_pages();
        let Some(address) = page_list.exported(mem) else {
            page_list.free(mem);
            return None;
        };
        let id = self.windows.remote.insert(Remote::Granted(page_list))?;
        let peer_usage = self.windows.peer_usage_mut(node);
        peer_usage.windows += 1;
        peer_usage.granted_pages += lent;
        self.cx.stats.pages += lent;
        Some((id, address))
    }

    /// The structure `id`, if it is lent to `node`.
    fn page_list(&mut self, node: NodeId, id: RemoteWindowId) -> Option<&PageListBuffer> {
        let locality = Locality::to(node, self.cx.config.node);
        match self.windows.remote.get(id) {
            Some(Remote::Granted(page_list)) if page_list.locality == locality => Some(page_list),
            _ => {
                self.cx.stats.stale_ids += 1;
                None
            }
        }
    }

    /// A loan is over: its pages are free again.
    fn free_page_list(&mut self, mem: &mut dyn Memory, node: NodeId, page_list: PageListBuffer) {
        let lent = page_list.granted_pages();
        let peer_usage = self.windows.peer_usage_mut(node);
        peer_usage.granted_pages = peer_usage.granted_pages.saturating_sub(lent);
        self.cx.stats.pages -= lent;
        page_list.free(mem);
    }

    /// Takes the structure `id` back from `node`: there will be no window.
    pub(crate) fn on_free_virtual(
        &mut self,
        mem: &mut dyn Memory,
        node: NodeId,
        id: RemoteWindowId,
    ) {
        if self.page_list(node, id).is_none() {
            return;
        }
        if let Some(Remote::Granted(page_list)) = self.windows.remote.remove(id) {
            let peer_usage = self.windows.peer_usage_mut(node);
            peer_usage.windows = peer_usage.windows.saturating_sub(1);
            self.free_page_list(mem, node, page_list);
        }
    }

    /// REGISTER: takes over what the owner has written. Answered in any case.
    pub(crate) fn on_register(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        peer: u64,
        user_window: u64,
        owner_window: u64,
    ) {
        let node = ends.peer.node();
        let id = RemoteWindowId::from_number(user_window);
        let window = self
            .expect(node, peer, &[Phase::Connected])
            .and_then(|connection| self.read_window(mem, connection, id, owner_window));
        let body = match window {
            Some(window) => {
                self.add_remote(mem, id, window);
                NodeMessage::RegisterAck {
                    peer,
                    user_window,
                    owner_window,
                }
            }
            None => {
                self.cx.stats.refused_windows += 1;
                self.cx.trace_ends(What::WindowRefused, ends, 0);
                self.on_free_virtual(mem, node, id);
                NodeMessage::RegisterNack {
                    peer,
                    user_window,
                    owner_window,
                }
            }
        };
        self.cx.post(ends, body);
    }

    /// The window that the owner has described in structure `id`; `None` when it makes no sense.
    fn read_window(
        &mut self,
        mem: &dyn Memory,
        connection: ConnectionId,
        id: RemoteWindowId,
        owner_window: u64,
    ) -> Option<RemoteWindow> {
        let (ends, owner) = {
            let connection = self.connections.get(connection)?;
            let (local, peer) = (connection.local, connection.peer);
            (Ends { local, peer }, connection.remote)
        };
        let node = ends.peer.node();
        let announced = self.page_list(node, id)?.read(mem)?;
        if node == self.cx.config.node {
            // We wrote it ourselves: what differs now is nonsense somebody else has stored.
            let own = self
                .windows
                .local
                .get(WindowId::from_number(owner_window))?;
            let written = (announced.offset, announced.protection, &announced.chunks);
            if written != (own.offset, own.protection, &own.chunks) {
                return None;
            }
        }
        let end = range_end(announced.offset, announced.chunks.bytes())?;
        let space = &self.connections.get(connection)?.remote_space;
        let is_free = space.overlapping(announced.offset, end).next().is_none();
        let chunks = self.windows.peer_usage(node).chunks + announced.chunks.len();
        (is_free && chunks <= MAX_PEER_CHUNKS).then_some(RemoteWindow {
            connection: Some(connection),
            through: connection,
            ends,
            owner,
            owner_window,
            offset: announced.offset,
            protection: announced.protection,
            chunks: announced.chunks,
            pending_reply: PendingReply::None,
            is_quiescing: false,
            mapped: 0,
            cached: 0,
            jobs: 0,
        })
    }

    /// Puts a window in the place of the structure it was described in.
    fn add_remote(&mut self, mem: &mut dyn Memory, id: RemoteWindowId, window: RemoteWindow) {
        let node = window.ends.peer.node();
        self.windows.peer_usage_mut(node).chunks += window.chunks.len();
        if let Some(connection) = window.connection
            && let Some(connection) = self.connections.get_mut(connection)
        {
            let bytes = window.chunks.bytes();
            let slot = Slot { id, bytes };
            connection.remote_space.insert(window.offset, slot);
        }
        if let Some(entry) = self.windows.remote.get_mut(id)
            && let Remote::Granted(page_list) = core::mem::replace(entry, Remote::Window(window))
        {
            self.free_page_list(mem, node, page_list);
        }
    }

    /// UNREGISTER: no new use from now on. Answered when nothing copies to or from the window any
    /// more: that it is not used, or that it is mapped, which may last.
    pub(crate) fn on_unregister(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        user_window: u64,
        owner_window: u64,
    ) {
        let node = ends.peer.node();
        let id = RemoteWindowId::from_number(user_window);
        let window = self.windows.remote_mut(id).filter(|window| {
            window.ends.peer.node() == node && window.owner_window == owner_window
        });
        let Some(window) = window else {
            // Not known (any more), so not used.
            self.cx.stats.stale_ids += 1;
            let owner = 0;
            let body = NodeMessage::UnregisterAck {
                owner,
                owner_window,
            };
            return self.cx.post(ends, body);
        };
        if window.pending_reply != PendingReply::None {
            self.cx.stats.unexpected_messages += 1;
            return;
        }
        window.pending_reply = PendingReply::UnregisterAck;
        window.is_quiescing = true;
        let (offset, connection) = (window.offset, window.connection.take());
        let through = window.through;
        if let Some(connection) = connection.and_then(|id| self.connections.get_mut(id)) {
            connection.remote_space.remove(offset);
        }
        if self.quiesce(mem, Some(through), Ending::Remote(id)) {
            self.answer_unregister(id);
        }
    }

    /// Answers an UNREGISTER, now that no client copies to or from the window on its own.
    pub(crate) fn answer_unregister(&mut self, id: RemoteWindowId) {
        let Some(window) = self.windows.remote_mut(id) else {
            return;
        };
        window.is_quiescing = false;
        if window.can_reply() {
            self.send_reply(id);
        }
    }

    /// Tells the owner that nothing uses its window any more, or that only mappings do: these last
    /// as long as their programs like.
    fn send_reply(&mut self, id: RemoteWindowId) {
        let Some(window) = self.windows.remote_mut(id) else {
            return;
        };
        if window.mapped == 0 {
            return self.send_last_reply(id);
        }
        window.pending_reply = PendingReply::Munmap;
        let is_offset_free = u64::from(window.mapped == window.cached);
        let (ends, owner, owner_window) = (window.ends, window.owner, window.owner_window);
        let body = NodeMessage::UnregisterNack {
            owner,
            owner_window,
            is_offset_free,
        };
        self.cx.post(ends, body);
    }

    /// Tells the owners of windows whose uses have ended.
    pub(crate) fn send_pending_replies(&mut self) {
        while let Some(id) = self.ended.pop() {
            if self.windows.remote(id).is_some_and(RemoteWindow::can_reply) {
                self.send_reply(id);
            }
        }
    }

    /// Tells the owner that its window is not used any more, and forgets it.
    fn send_last_reply(&mut self, id: RemoteWindowId) {
        let Some(window) = self.windows.remote(id) else {
            return;
        };
        let (ends, owner, owner_window) = (window.ends, window.owner, window.owner_window);
        let body = match window.pending_reply {
            PendingReply::Munmap => NodeMessage::Munmap { owner_window },
            PendingReply::None | PendingReply::UnregisterAck => NodeMessage::UnregisterAck {
                owner,
                owner_window,
            },
        };
        self.forget_remote(id);
        self.cx.post(ends, body);
    }

    /// Removes a window of a peer from all tables.
    fn forget_remote(&mut self, id: RemoteWindowId) {
        let Some(Remote::Window(window)) = self.windows.remote.remove(id) else {
            return;
        };
        let node = window.ends.peer.node();
        self.note_orphan(id, node, window.mapped);
        let peer_usage = self.windows.peer_usage_mut(node);
        peer_usage.windows = peer_usage.windows.saturating_sub(1);
        peer_usage.chunks = peer_usage.chunks.saturating_sub(window.chunks.len());
        let connection = window.connection;
        if let Some(connection) = connection.and_then(|id| self.connections.get_mut(id)) {
            connection.remote_space.remove(window.offset);
        }
    }

    /// Our end is closed: the peer's windows can no longer be found by offset. They stay until
    /// their owner unregisters them.
    pub(crate) fn leave_remote_space(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let ids: Vec<RemoteWindowId> = connection.remote_space.take().collect();
        for id in ids {
            if let Some(window) = self.windows.remote_mut(id) {
                window.connection = None;
            }
        }
    }

    /// Node `node` is lost: its windows are over. Mappings of them lead nowhere, and their end need
    /// not be told.
    pub(crate) fn forget_windows_of(&mut self, node: NodeId) {
        let is_of_node = |(_, remote): &(RemoteWindowId, &Remote)| match remote {
            Remote::Window(window) => window.ends.peer.node() == node,
            Remote::Granted(_) => false,
        };
        let of_node = self.windows.remote.iter().filter(is_of_node);
        let ids: Vec<RemoteWindowId> = of_node.map(|(id, _)| id).collect();
        for id in ids {
            self.forget_remote(id);
        }
    }

    /// Node `node` can no longer touch our memory: what was lent to it is free.
    pub(crate) fn free_page_lists_of(&mut self, mem: &mut dyn Memory, node: NodeId) {
        let locality = self.cx.locality(node);
        let is_lent = |remote: &Remote| match remote {
            Remote::Granted(page_list) => page_list.locality == locality,
            Remote::Window(_) => false,
        };
        let lent = self.windows.remote.iter().filter(|(_, r)| is_lent(r));
        let ids: Vec<RemoteWindowId> = lent.map(|(id, _)| id).collect();
        for id in ids {
            self.on_free_virtual(mem, node, id);
        }
    }
}
