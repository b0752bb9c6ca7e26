//! Events for the driver: endpoints that changed, doorbells to ring, nodes that came and went.

use alloc::collections::{BTreeSet, VecDeque};

use scif_abi::NodeId;

use crate::base::ids::EndpointId;
use crate::base::pages::PinId;

/// An event for the driver, which takes it with [`Engine::next_event`](crate::Engine::next_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This endpoint changed: retry the calls that wait on it, and poll it again. Changes of one
    /// endpoint merge into one event.
    Changed(EndpointId),
    /// This endpoint was closed, and its copies and windows have ended
    /// ([`Engine::is_departing`](crate::Engine::is_departing)).
    Departed(EndpointId),
    /// Ring this node's doorbell: there are messages in its ring. One event may stand for any
    /// number of messages.
    Ring(NodeId),
    /// This node is online; connects to it are possible.
    NodeUp(NodeId),
    /// This node is no longer online. Its connections are already reset.
    NodeDown(NodeId),
    /// This node broke the protocol, or its ring was stuck: nothing is sent to it or received from
    /// it any more (a `NodeDown` came before, if it was online). The driver must reset the link:
    /// it makes the peer stop writing to our memory, then calls
    /// [`Engine::link_down`](crate::Engine::link_down).
    LinkFailed(NodeId),
    /// One use of these pinned pages, by a window or by a transfer with pages of its own, is over:
    /// neither this node's engine nor the peer reads or writes them for that use any more.
    Unpin(PinId),
}

/// The queue of events for the driver.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    /// Endpoints whose `Changed` is in the queue.
    announced: BTreeSet<EndpointId>,
}

impl Events {
    /// Queues an event.
    pub(crate) fn push(&mut self, event: Event) {
        self.queue.push_back(event);
    }

    /// Queues `Changed` for an endpoint, unless it is queued already.
    pub(crate) fn changed(&mut self, id: EndpointId) {
        if self.announced.insert(id) {
            self.push(Event::Changed(id));
        }
    }

    /// Takes the next event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = self.queue.pop_front()?;
        if let Event::Changed(id) = &event {
            self.announced.remove(id);
        }
        Some(event)
    }
}
