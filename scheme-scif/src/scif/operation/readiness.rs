//! Readiness: tells subscribers which transfers an endpoint can do without waiting.

use scif_abi::flags::Readiness;
use scif_core::EndpointState;
use syscall::error::Result;
use syscall::flag::EventFlags;

use crate::handle::Kind;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// Records the events that the subscribers of an endpoint wait for, so that each change is
    /// reported even if another program moves the bytes before.
    fn subscribe(&mut self, id: HandleId, wanted: EventFlags) -> Result<()> {
        let mut events = Readiness::empty();
        events.set(Readiness::IN, wanted.contains(EventFlags::EVENT_READ));
        events.set(Readiness::OUT, wanted.contains(EventFlags::EVENT_WRITE));
        let number = self.handles.endpoint_id(id)?;
        // Only a connection has rings. Set the events only when they differ: setting them counts
        // as a change.
        let connected = self.engine.state(number) == Some(EndpointState::Connected);
        let events = connected.then_some(events);
        if let Some(events) = self.handles.endpoint(id)?.subscribe(events) {
            self.engine.set_waiting(&mut self.memory, number, events);
        }
        Ok(())
    }

    /// The events of `wanted` for which a handle is ready now. From now on, subscribers are
    /// notified of `wanted`.
    pub fn ready(&mut self, id: HandleId, wanted: EventFlags) -> Result<EventFlags> {
        let endpoint = match self.handles.get(id)?.kind() {
            Kind::Endpoint(endpoint) => endpoint.id(),
            Kind::Peers(peers) if peers.is_empty() => return Ok(EventFlags::empty()),
            // Every operation fails at once.
            Kind::Closed => return Ok(wanted),
            _ => return Ok(wanted & EventFlags::EVENT_READ),
        };
        self.subscribe(id, wanted)?;
        let ready = self.engine.poll(&mut self.memory, endpoint);
        // After a hang-up, or in a state without transfers, a read or write ends at once.
        let ended = ready.intersects(Readiness::HUP | Readiness::ERR);
        let mut flags = EventFlags::empty();
        flags.set(
            EventFlags::EVENT_READ,
            ended || ready.contains(Readiness::IN),
        );
        flags.set(
            EventFlags::EVENT_WRITE,
            ended || ready.contains(Readiness::OUT),
        );
        Ok(flags & wanted)
    }
}
