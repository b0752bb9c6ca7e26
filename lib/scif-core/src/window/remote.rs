//! Remote windows: the peer's registered memory as this end knows it, and the structures that are
//! granted to peers for their page lists.

use alloc::vec::Vec;

use scif_abi::flags::Protection;
use scif_abi::limits::{MAX_GRANTED_PAGES, MAX_PEER_CHUNKS, MAX_WINDOWS};
use scif_abi::message::NodeMessage;
use scif_abi::{NodeId, PortId};

use crate::base::context::{Context, Ends, Identity};
use crate::base::ids::{ConnectionId, RemoteWindowId, WindowId};
use crate::base::memory::Memory;
use crate::base::table::Key;
use crate::window::Windows;
use crate::window::core::WindowCore;
use crate::window::page_list::{PageListBuffer, is_size_allowed, page_list_pages};
use crate::window::space::{Slot, range_end};

/// A window of a peer, or the structure granted to a peer that is about to register one. Both have
/// the same id on the wire.
#[derive(Debug)]
pub(super) enum Remote {
    Granted(PageListBuffer),
    Window(RemoteWindow),
}

/// The message that the owner of a remote window waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingReply {
    /// None: the window is registered.
    None,
    /// UNREGISTER_ACK.
    UnregisterAck,
    /// MUNMAP, because UNREGISTER was answered by "still in use".
    Munmap,
}

/// A row of `mappings`: a window of a peer that is mapped or used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingInfo {
    /// The window.
    pub window: RemoteWindowId,
    /// This end of the connection by which the window was registered.
    pub local: PortId,
    /// The owner of the window.
    pub peer: PortId,
    /// The offset in the peer's registered address space.
    pub offset: i64,
    /// How many pages the window has.
    pub pages: u64,
    /// The rights to the window.
    pub protection: Protection,
    /// The user who opened this end, unless it is closed.
    pub user: Option<u32>,
    /// Whether the owner has not unregistered the window.
    pub is_registered: bool,
    /// Pages that are mapped or referred to by get_pages; a page mapped twice counts twice.
    pub mapped_pages: u64,
    /// How many own copies use the window.
    pub jobs: u32,
}

/// A window of a peer.
#[derive(Debug)]
pub(crate) struct RemoteWindow {
    /// The window is in its connection's remote space until it is being unregistered or our end is
    /// closed.
    pub(super) core: WindowCore,
    /// The connection whose clients copy to and from the window, even after our end was closed.
    through: ConnectionId,
    /// The id that the owner gave its end.
    owner: u64,
    /// The id that the owner gave the window.
    owner_window: u64,
    pending_reply: PendingReply,
    /// Whether clients may still copy to or from the window themselves, so that the owner has no
    /// answer yet.
    is_quiescing: bool,
    /// Pages that are mapped or referred to by get_pages; a page mapped twice counts twice.
    pub(super) mapped: u64,
    /// How many of these libraries have mapped for copies, without their programs knowing.
    pub(super) cached: u64,
}

impl RemoteWindow {
    /// Whether programs, or their libraries, have pages of the window mapped.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped > 0
    }

    /// The row of `mappings` for it on node `own`.
    pub(super) fn info(&self, id: RemoteWindowId, own: NodeId, user: Option<u32>) -> MappingInfo {
        let core = &self.core;
        MappingInfo {
            window: id,
            user,
            local: PortId::new(own, core.ends.local),
            peer: core.ends.peer,
            offset: core.offset,
            pages: core.chunks.pages(),
            protection: core.protection,
            is_registered: self.pending_reply == PendingReply::None,
            mapped_pages: self.mapped,
            jobs: core.jobs,
        }
    }

    /// Whether the owner waits for a reply that can be sent now. The reply is that the window is
    /// not used any more, or, at first, that it is still mapped. The latter is sent when copies
    /// have ended, which is soon.
    pub(super) fn can_reply(&self) -> bool {
        let is_wanted = self.pending_reply == PendingReply::None || self.is_quiescing;
        let is_answer = self.pending_reply == PendingReply::UnregisterAck;
        !is_wanted && self.core.jobs == 0 && (self.mapped == 0 || is_answer)
    }

    /// Whether the window is registered, or else not found by offset.
    pub(super) fn is_found_rightly(&self) -> bool {
        self.core.connection.is_none() || self.pending_reply == PendingReply::None
    }
}

// Structures granted to peers.
impl Windows {
    /// Grants `node` a structure for a window of `pages` pages. Returns its id and bus address.
    /// `None`: no memory, or a limit is reached.
    pub(crate) fn grant(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        node: NodeId,
        pages: u64,
    ) -> Option<(RemoteWindowId, u64)> {
        let is_full = self.remote.is_full();
        let usage = self.peer_usage(node);
        if !is_size_allowed(pages)
            || is_full
            || usage.windows >= MAX_WINDOWS
            || usage.granted_pages + page_list_pages(pages) as usize > MAX_GRANTED_PAGES
        {
            return None;
        }
        let page_list = PageListBuffer::new(mem, cx.locality(node), pages)?;
        let granted = page_list.granted_pages();
        let Some(address) = page_list.exported(mem) else {
            page_list.free(mem);
            return None;
        };
        let id = self.remote.insert(Remote::Granted(page_list))?;
        let usage = self.peer_usage(node);
        usage.windows += 1;
        usage.granted_pages += granted;
        cx.stats.pages += granted;
        Some((id, address))
    }

    /// The granted structure with this id.
    pub(crate) fn page_list(&self, id: RemoteWindowId) -> Option<&PageListBuffer> {
        match self.remote.get(id) {
            Some(Remote::Granted(page_list)) => Some(page_list),
            _ => None,
        }
    }

    /// All granted structures.
    #[cfg(test)]
    pub(crate) fn granted(&self) -> impl Iterator<Item = RemoteWindowId> {
        let all = self.remote.iter();
        let granted = all.filter(|(_, remote)| matches!(remote, Remote::Granted(_)));
        granted.map(|(id, _)| id)
    }

    /// The structure `id`, if it is granted to `node`.
    fn page_list_of(
        &self,
        cx: &Context,
        node: NodeId,
        id: RemoteWindowId,
    ) -> Option<&PageListBuffer> {
        let own = cx.config.node;
        self.page_list(id).filter(|list| list.node(own) == node)
    }

    /// Frees the pages of a structure that is not needed any more.
    fn free_page_list(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        node: NodeId,
        page_list: PageListBuffer,
    ) {
        let granted = page_list.granted_pages();
        let usage = self.peer_usage(node);
        usage.granted_pages = usage.granted_pages.saturating_sub(granted);
        cx.stats.pages -= granted;
        page_list.free(mem);
    }

    /// Takes the structure `id` back from `node`: there will be no window. `false`: `node` has no
    /// such structure.
    pub(crate) fn take_back(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        node: NodeId,
        id: RemoteWindowId,
    ) -> bool {
        if self.page_list_of(cx, node, id).is_none() {
            return false;
        }
        if let Some(Remote::Granted(page_list)) = self.remote.remove(id) {
            let usage = self.peer_usage(node);
            usage.windows = usage.windows.saturating_sub(1);
            self.free_page_list(mem, cx, node, page_list);
        }
        true
    }

    /// Frees everything that was granted to `node`, which can no longer write to our memory.
    pub(crate) fn take_all_back(&mut self, mem: &mut dyn Memory, cx: &mut Context, node: NodeId) {
        let own = cx.config.node;
        let is_its = |remote: &Remote| match remote {
            Remote::Granted(page_list) => page_list.node(own) == node,
            Remote::Window(_) => false,
        };
        let granted = self.remote.iter().filter(|(_, remote)| is_its(remote));
        for id in granted.map(|(id, _)| id).collect::<Vec<_>>() {
            self.take_back(mem, cx, node, id);
        }
    }
}

// Registering.
impl Windows {
    /// Adds the window that the peer of `connection` has described in structure `id`. `false`: the
    /// description is invalid, or a limit is reached.
    pub(crate) fn add_remote(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        connection: Identity,
        id: RemoteWindowId,
        owner_window: u64,
    ) -> bool {
        let Some(window) = self.read_window(mem, cx, connection, id, owner_window) else {
            return false;
        };
        let node = window.core.node();
        self.peer_usage(node).chunks += window.core.chunks.len();
        let bytes = window.core.chunks.bytes();
        let spaces = self.spaces.entry(connection.id).or_default();
        spaces.remote.insert(window.core.offset, Slot { id, bytes });
        if let Some(entry) = self.remote.get_mut(id)
            && let Remote::Granted(page_list) = core::mem::replace(entry, Remote::Window(window))
        {
            self.free_page_list(mem, cx, node, page_list);
        }
        true
    }

    fn read_window(
        &mut self,
        mem: &dyn Memory,
        cx: &mut Context,
        connection: Identity,
        id: RemoteWindowId,
        owner_window: u64,
    ) -> Option<RemoteWindow> {
        let node = connection.ends.peer.node();
        let announced = self.page_list_of(cx, node, id)?.read(mem)?;
        let (offset, protection, chunks) = announced;
        if node == cx.config.node {
            // This node wrote the description: if it differs, a program has changed it.
            let described = (offset, protection, &chunks);
            if !self.is_described(WindowId::from_number(owner_window), described) {
                return None;
            }
        }
        let end = range_end(offset, chunks.bytes())?;
        let space = self.spaces.get(&connection.id).map(|spaces| &spaces.remote);
        let is_free = space.is_none_or(|space| space.overlapping(offset, end).next().is_none());
        let all_chunks = self.peer_usage(node).chunks + chunks.len();
        (is_free && all_chunks <= MAX_PEER_CHUNKS).then_some(RemoteWindow {
            core: WindowCore {
                connection: Some(connection.id),
                ends: connection.ends,
                offset,
                protection,
                chunks,
                jobs: 0,
            },
            through: connection.id,
            owner: connection.remote,
            owner_window,
            pending_reply: PendingReply::None,
            is_quiescing: false,
            mapped: 0,
            cached: 0,
        })
    }
}

// Unregistering.
impl Windows {
    /// Begins to end a window that its owner unregisters: nothing new may use it. Returns the
    /// connection whose clients may still copy to or from it. `None`: there is nothing to wait
    /// for.
    pub(crate) fn end_remote(
        &mut self,
        cx: &mut Context,
        ends: Ends,
        id: RemoteWindowId,
        owner_window: u64,
    ) -> Option<ConnectionId> {
        let node = ends.peer.node();
        let window = self.remote_mut(id);
        let window = window.filter(|w| w.core.node() == node && w.owner_window == owner_window);
        let Some(window) = window else {
            // The window is unknown, or no longer known, so it is not used.
            cx.stats.stale_ids += 1;
            let owner = 0;
            let body = NodeMessage::UnregisterAck {
                owner,
                owner_window,
            };
            cx.post(ends, body);
            return None;
        };
        if window.pending_reply != PendingReply::None {
            cx.stats.unexpected_messages += 1;
            return None;
        }
        window.pending_reply = PendingReply::UnregisterAck;
        window.is_quiescing = true;
        let (offset, through) = (window.core.offset, window.through);
        let connection = window.core.connection.take();
        self.free_remote_offset(connection, offset);
        Some(through)
    }

    fn free_remote_offset(&mut self, connection: Option<ConnectionId>, offset: i64) {
        if let Some(spaces) = connection.and_then(|id| self.spaces.get_mut(&id)) {
            spaces.remote.remove(offset);
        }
    }

    /// Answers an UNREGISTER, now that the copies of clients have ended. If there are own jobs,
    /// they delay the answer.
    pub(crate) fn answer_unregister(&mut self, cx: &mut Context, id: RemoteWindowId) {
        if let Some(window) = self.remote_mut(id) {
            window.is_quiescing = false;
            if window.can_reply() {
                self.send_reply(cx, id);
            }
        }
    }

    /// Replies to the owner that its window is not used any more, or that only mappings use it,
    /// which may last long.
    fn send_reply(&mut self, cx: &mut Context, id: RemoteWindowId) {
        let Some(window) = self.remote_mut(id) else {
            return;
        };
        let (ends, owner, owner_window) = (window.core.ends, window.owner, window.owner_window);
        let body = match window.pending_reply {
            _ if window.mapped > 0 => {
                window.pending_reply = PendingReply::Munmap;
                let is_offset_free = u64::from(window.mapped == window.cached);
                let body = NodeMessage::UnregisterNack {
                    owner,
                    owner_window,
                    is_offset_free,
                };
                return cx.post(ends, body);
            }
            PendingReply::Munmap => NodeMessage::Munmap { owner_window },
            PendingReply::None | PendingReply::UnregisterAck => NodeMessage::UnregisterAck {
                owner,
                owner_window,
            },
        };
        self.forget_remote(id);
        cx.post(ends, body);
    }

    /// Replies to the owners of windows whose uses have ended.
    pub(crate) fn send_pending_replies(&mut self, cx: &mut Context) {
        while let Some(id) = self.ended.pop() {
            if self.remote_window(id).is_some_and(RemoteWindow::can_reply) {
                self.send_reply(cx, id);
            }
        }
    }

    /// Whether `send_pending_replies` would send any.
    pub(crate) fn has_pending_replies(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Removes a window of a peer from all tables.
    fn forget_remote(&mut self, id: RemoteWindowId) {
        let Some(Remote::Window(window)) = self.remote.remove(id) else {
            return;
        };
        let node = window.core.node();
        self.note_orphan(id, node, window.mapped);
        let usage = self.peer_usage(node);
        usage.windows = usage.windows.saturating_sub(1);
        usage.chunks = usage.chunks.saturating_sub(window.core.chunks.len());
        self.free_remote_offset(window.core.connection, window.core.offset);
    }

    /// Takes a window out of its connection, because our end is closed. The window stays until its
    /// owner unregisters it.
    pub(super) fn leave_remote(&mut self, id: RemoteWindowId) {
        if let Some(window) = self.remote_mut(id) {
            window.core.connection = None;
        }
    }

    /// Forgets the windows of a node that is lost. Mappings of them reach no memory, and the owner
    /// gets no reply.
    pub(crate) fn forget_windows_of(&mut self, node: NodeId) {
        let windows = self
            .remote_windows()
            .filter(|(_, window)| window.core.node() == node);
        for id in windows.map(|(id, _)| id).collect::<Vec<_>>() {
            self.forget_remote(id);
        }
    }

    /// Notes that an own job begins to use the window.
    pub(crate) fn hold_remote(&mut self, id: RemoteWindowId) {
        if let Some(window) = self.remote_mut(id) {
            window.core.jobs += 1;
        }
    }

    /// Subtracts pages and own jobs that use the window no longer. If its owner waits for a reply,
    /// it is sent later.
    pub(crate) fn release_remote(&mut self, id: RemoteWindowId, pages: u64, jobs: u32) {
        if let Some(window) = self.remote_mut(id) {
            window.mapped = window.mapped.saturating_sub(pages);
            window.core.jobs = window.core.jobs.saturating_sub(jobs);
            if window.can_reply() {
                self.ended.push(id);
            }
        } else {
            self.release_orphan(id, pages);
        }
    }
}
