//! Departures: what an endpoint that was closed leaves under way, until none of it is.
//!
//! Closing takes effect at once. Copies that had begun run on, and so do those of the peer to and
//! from the endpoint's windows, until the peer says that it has let go of these. `scif_close`
//! returns only then; who cannot wait (the daemon, when a process dies) does not.

use crate::endpoint::EndpointId;
use crate::engine::Engine;
use crate::event::Event;

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
            self.events.push_back(Event::Departed(id));
        }
    }
}
