//! The user's side of a window: granting the structure, copying the page list, and the last reply
//! when the owner unregisters.

use scif_abi::NodeId;
use scif_abi::message::NodeMessage;
use scif_abi::trace::What;

use crate::base::context::Ends;
use crate::base::ids::RemoteWindowId;
use crate::base::memory::Memory;
use crate::base::table::Key;
use crate::bypass::Ending;
use crate::connection::Phase;
use crate::engine::Engine;

impl Engine {
    /// ALLOC_REQ: grants a structure for a window of `pages` pages.
    pub(crate) fn on_alloc_request(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        pages: u64,
        waiter: u64,
    ) {
        let granted = (self.windows).grant(mem, &mut self.cx, ends.peer.node(), pages);
        let body = match granted {
            Some((id, address)) => NodeMessage::AllocGrant {
                user_window: id.number(),
                address,
                waiter,
            },
            None => {
                self.refused_window(ends, pages);
                NodeMessage::AllocReject { waiter }
            }
        };
        self.cx.post(ends, body);
    }

    fn refused_window(&mut self, ends: Ends, pages: u64) {
        self.cx.stats.refused_windows += 1;
        self.cx.trace_ends(What::WindowRefused, ends, pages);
    }

    /// REGISTER: adds the window that the owner has described. Answered in any case.
    pub(crate) fn on_register(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        peer: u64,
        (user_window, owner_window): (u64, u64),
    ) {
        let node = ends.peer.node();
        let id = RemoteWindowId::from_number(user_window);
        let connection = self.connection_in(node, peer, &[Phase::Connected]);
        let connection = connection.and_then(|id| self.connections.identity(id));
        let is_added = connection.is_some_and(|connection| {
            let (windows, cx) = (&mut self.windows, &mut self.cx);
            windows.add_remote(mem, cx, connection, id, owner_window)
        });
        let body = if is_added {
            NodeMessage::RegisterAck {
                peer,
                user_window,
                owner_window,
            }
        } else {
            self.refused_window(ends, 0);
            let is_its = self.windows.take_back(mem, &mut self.cx, node, id);
            // A message counts once, whichever of its ids is stale.
            self.cx.stats.stale_ids += u64::from(connection.is_some() && !is_its);
            NodeMessage::RegisterNack {
                peer,
                user_window,
                owner_window,
            }
        };
        self.cx.post(ends, body);
    }

    /// FREE_VIRT: the owner gives back a structure that it will not fill in.
    pub(crate) fn on_free_virtual(&mut self, mem: &mut dyn Memory, from: NodeId, user_window: u64) {
        let id = RemoteWindowId::from_number(user_window);
        let is_its = self.windows.take_back(mem, &mut self.cx, from, id);
        self.cx.stats.stale_ids += u64::from(!is_its);
    }

    /// UNREGISTER: no new use of the window from now on. Answered when no copy uses the window any
    /// more: either it is not used, or it is mapped, which may last long.
    pub(crate) fn on_unregister(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        (user_window, owner_window): (u64, u64),
    ) {
        let id = RemoteWindowId::from_number(user_window);
        let through = (self.windows).end_remote(&mut self.cx, ends, id, owner_window);
        if through.is_some() && self.quiesce(mem, through, Ending::Remote(id)) {
            self.windows.answer_unregister(&mut self.cx, id);
        }
    }
}
