//! `scif_client_register`: a driver that is notified of every node it could talk to.

use alloc::collections::BTreeSet;
use core::time::Duration;

use scif_abi::NodeId;
use syscall::error::EPERM;

use crate::error::{Error, Result};
use crate::events::{NodeEvent, NodeEvents};

/// What a driver does when nodes come and go: the callbacks of `struct scif_client`.
pub trait Client {
    /// Called when a node is there: connects to it can succeed. Called once for each node that is
    /// there already, this program's own node among them.
    fn probe(&mut self, peer: NodeId);

    /// Called when a node has gone, and all connections with it, or when the registration ends.
    fn remove(&mut self, peer: NodeId);
}

/// A registered [`Client`]. The callbacks run on the caller's thread, in
/// [`dispatch`](Self::dispatch), and so may make any SCIF call.
pub struct Registration {
    events: NodeEvents,
    present: Present,
}

impl Registration {
    /// `scif_client_register`. The first [`dispatch`](Self::dispatch) probes the nodes that are
    /// there.
    ///
    /// # Errors
    /// `EPERM` for all but root; those of opening the scheme.
    pub fn new() -> Result<Self> {
        if libredox::call::geteuid()? != 0 {
            return Err(Error::from_errno(EPERM));
        }
        Ok(Self {
            events: NodeEvents::open()?,
            present: Present::default(),
        })
    }

    /// The descriptor, for event queues: readable when [`dispatch`](Self::dispatch) has an event
    /// to report.
    pub fn fd(&self) -> usize {
        self.events.fd()
    }

    /// Calls `client` for each node that has come or gone since the last call. Never waits.
    ///
    /// # Errors
    /// Those of the scheme.
    pub fn dispatch(&mut self, client: &mut impl Client) -> Result<()> {
        while let Some(event) = self.events.next(Some(Duration::ZERO))? {
            self.present.apply(event, client);
        }
        Ok(())
    }

    /// `scif_client_unregister`: calls `client` to remove the nodes that are left.
    pub fn unregister(mut self, client: &mut impl Client) {
        self.present.end(client);
    }
}

/// The nodes that were probed and not removed.
#[derive(Debug, Default)]
struct Present(BTreeSet<NodeId>);

impl Present {
    /// Calls the client for an event that changes the set.
    fn apply(&mut self, event: NodeEvent, client: &mut impl Client) {
        match event {
            NodeEvent::Added(node) => {
                if self.0.insert(node) {
                    client.probe(node);
                }
            }
            NodeEvent::Removed(node) => {
                if self.0.remove(&node) {
                    client.remove(node);
                }
            }
        }
    }

    fn end(&mut self, client: &mut impl Client) {
        for node in core::mem::take(&mut self.0) {
            client.remove(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeEvent::{Added, Removed};

    #[derive(Default)]
    struct Log(Vec<i32>);

    impl Client for Log {
        fn probe(&mut self, peer: NodeId) {
            self.0.push(i32::from(peer));
        }
        fn remove(&mut self, peer: NodeId) {
            self.0.push(-i32::from(peer));
        }
    }

    #[test]
    fn probes_and_removes_alternate() {
        let mut log = Log::default();
        let mut present = Present::default();
        let events = [
            Added(1),
            Added(2),
            Added(1),
            Removed(3),
            Removed(1),
            Removed(1),
            Added(1),
        ];
        for event in events {
            present.apply(event, &mut log);
        }
        assert_eq!(log.0, [1, 2, -1, 1]);
        present.end(&mut log);
        present.end(&mut log);
        assert_eq!(log.0, [1, 2, -1, 1, -1, -2]);
    }
}
