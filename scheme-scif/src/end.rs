//! Ends: of waits, of requests that are given up, of handles.

use scif_abi::PortId;
use scif_core::EndpointId;
use syscall::error::{ECANCELED, Error, Result};

use crate::handle::{HandleId, Kind};
use crate::scif::{Fabric, ROOT, Scif, Source, Waiting};

impl<F: Fabric, R: Copy + Ord> Scif<F, R> {
    /// Forgets what `request` has begun, apart from endpoints it may have made.
    pub(crate) fn end_wait(&mut self, request: R) {
        match self.waiting.remove(&request) {
            Some(Waiting::Accept {
                source: Source::Shared(port),
                ..
            }) => {
                self.leave_shared(port, request);
            }
            Some(Waiting::Accept {
                source: Source::Handle(id),
                ..
            }) => {
                if let Ok(endpoint) = self.endpoint(id).map(|endpoint| endpoint.id) {
                    self.lose_interest(endpoint, request);
                }
            }
            Some(Waiting::Connect { endpoint }) => self.lose_interest(endpoint, request),
            _ => {}
        }
    }

    fn lose_interest(&mut self, endpoint: EndpointId, request: R) {
        if let Some(interest) = self.interest.get_mut(&endpoint) {
            interest.requests.remove(&request);
        }
    }

    /// The caller of a waiting request gave it up: undoes what it has begun. A transfer that has
    /// moved bytes returns their count, so that nobody sends them again.
    ///
    /// # Errors
    /// `ECANCELED` when nothing had been moved.
    pub fn cancel(&mut self, request: R) -> Result<usize> {
        let mut moved = 0;
        match self.waiting.get(&request).copied() {
            Some(Waiting::Dial { endpoint }) => {
                self.waiting.remove(&request);
                self.drop_endpoint(endpoint);
            }
            Some(Waiting::Connect { endpoint }) => {
                self.engine.connect_cancel(&mut self.fabric, endpoint);
                self.end_wait(request);
            }
            Some(Waiting::Accept { granted, .. }) => {
                if let Some(endpoint) = granted {
                    self.drop_endpoint(endpoint);
                }
                self.end_wait(request);
            }
            Some(Waiting::Send { handle } | Waiting::Receive { handle }) => {
                moved = self.leave_lane(handle, request);
            }
            None => {}
        }
        if moved > 0 {
            Ok(moved)
        } else {
            Err(Error::new(ECANCELED))
        }
    }

    /// The last descriptor of a handle is gone. Its waiting requests have been cancelled before.
    pub fn close(&mut self, id: HandleId) {
        if id == ROOT {
            return;
        }
        let Some(handle) = self.handles.remove(&id) else {
            return;
        };
        let Kind::Endpoint(endpoint) = handle.kind else {
            return;
        };
        if endpoint.listening {
            self.close_listener(id, endpoint.id);
        }
        self.drop_endpoint(endpoint.id);
    }

    fn close_listener(&mut self, id: HandleId, endpoint: EndpointId) {
        let port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        self.listeners.remove(&port);
        if self
            .shared
            .get(&port)
            .is_some_and(|shared| shared.handle == Some(id))
        {
            // Those who wait at accept/<port> listen by themselves from now on.
            if let Some(shared) = self.shared.remove(&port) {
                self.changes.requests.extend(shared.opens);
            }
        }
        let stale: alloc::vec::Vec<u64> = self
            .unclaimed
            .iter()
            .filter(|(_, unclaimed)| unclaimed.listener == id)
            .map(|(&claim, _)| claim)
            .collect();
        for claim in stale {
            if let Some(unclaimed) = self.unclaimed.remove(&claim) {
                self.drop_endpoint(unclaimed.endpoint);
            }
        }
    }
}
