//! Departures: what an endpoint that was closed leaves under way, until none of it is.
//!
//! Closing takes effect at once. Copies that had begun run on, and so do those of the peer to and
//! from the endpoint's windows, until the peer says that it has let go of these. `scif_close`
//! returns only then; who cannot wait (the daemon, when a process dies) does not.

use alloc::vec::Vec;

use crate::base::event::Event;
use crate::base::ids::{ConnectionId, EndpointId, WindowId};
use crate::base::memory::Memory;
use crate::engine::Engine;
use crate::window::{Window, WindowState};

impl Engine {
    /// Whether anything of a closed endpoint is still under way: copies of its own, copies of its
    /// clients, or a window of it that the peer may read or write by a copy. Windows that the peer
    /// has mapped do not count once its copies have ended. [`Event::Departed`] says when this has
    /// become false.
    ///
    /// It does so in the time that the copies take, and
    /// [`ANSWER_TIMEOUT_NS`](scif_abi::limits::ANSWER_TIMEOUT_NS) for a peer that does not answer.
    pub fn is_departing(&self, id: EndpointId) -> bool {
        self.departures.contains_key(&id)
    }

    /// One thing more of a closed endpoint is under way.
    pub(crate) fn begin_departure(&mut self, id: EndpointId) {
        *self.departures.entry(id).or_default() += 1;
    }

    /// One thing of a closed endpoint has ended.
    pub(crate) fn end_departure(&mut self, id: EndpointId) {
        let Some(left) = self.departures.get_mut(&id) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.departures.remove(&id);
            self.cx.events.push(Event::Departed(id));
        }
    }

    /// The peer has closed its end: all windows of ours end.
    pub(crate) fn cancel_windows(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let ids: Vec<WindowId> = connection
            .local_space
            .iter()
            .map(|(_, slot)| slot.id)
            .collect();
        for id in ids {
            let window = self.windows.local.get(id);
            let is_ending = |window: &Window| {
                use WindowState::{Gone, Unregistering, Used};
                matches!(window.state, Unregistering | Used | Gone)
            };
            // Somebody may wait for the end of those that end already.
            if !window.is_none_or(is_ending) {
                self.cancel_window(mem, id);
            }
        }
    }

    /// The endpoint is closed: all its windows end, and nobody finds them by offset.
    pub(crate) fn cancel_all_windows(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        endpoint: EndpointId,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let ids: Vec<WindowId> = connection.local_space.take().collect();
        for id in ids {
            if let Some(window) = self.windows.local.get_mut(id) {
                window.connection = None;
                // The peer's copies have ended when it says that a window is only mapped.
                if window.state != WindowState::Used {
                    window.departing = Some(endpoint);
                    self.begin_departure(endpoint);
                }
            }
            self.cancel_window(mem, id);
        }
    }
}
