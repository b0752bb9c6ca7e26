//! Departures: what an endpoint that was closed leaves under way, until none of it is.
//!
//! Closing takes effect at once. Copies that had begun run on, and so do those of the peer to and
//! from the endpoint's windows, until the peer says that it has let go of these. `scif_close`
//! returns only then; who cannot wait (the daemon, when a process dies) does not.

use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::engine::Engine;

impl Engine {
    /// Whether anything of a closed endpoint is still under way: copies of its own, copies of its
    /// clients, or a window of it that the peer may read or write by a copy. Windows that the peer
    /// has mapped do not count once its copies have ended. [`Event::Departed`] says when this has
    /// become false.
    ///
    /// It does so in the time that the copies take, and
    /// [`ANSWER_TIMEOUT_NS`](scif_abi::limits::ANSWER_TIMEOUT_NS) for a peer that does not answer.
    pub fn is_departing(&self, id: EndpointId) -> bool {
        self.cx.is_departing(id)
    }

    /// The peer has closed its end: all windows of ours end.
    pub(crate) fn cancel_windows(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        // Somebody may wait for the end of those that end already.
        for window in self.windows.not_ending(id) {
            self.cancel_window(mem, window);
        }
    }

    /// The endpoint is closed: all its windows end, and nobody finds them by offset.
    pub(crate) fn cancel_all_windows(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        endpoint: EndpointId,
    ) {
        for window in self.windows.leave_spaces(&mut self.cx, id, endpoint) {
            self.cancel_window(mem, window);
        }
    }
}
