//! Chooses the copy engine for a transfer: the DMA engine of the peer's function if it has one,
//! else the CPU.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::RefCell;

use scif_abi::NodeId;
use scif_core::{CopyEngine, CpuEngine, Descriptor, Memory, Place, SubmitError, Submitted};

type Shared = Rc<RefCell<dyn CopyEngine>>;

/// All copy engines of a node.
pub struct CopyRouter {
    engines: BTreeMap<NodeId, Shared>,
    /// The engine of each channel that has used one: later copies of the channel must keep their
    /// order.
    channels: BTreeMap<u64, Shared>,
}

impl CopyRouter {
    /// Takes the engines, each with the node whose memory it reaches.
    pub fn new(engines: impl Iterator<Item = (NodeId, Shared)>) -> Self {
        Self {
            engines: engines.collect(),
            channels: BTreeMap::new(),
        }
    }
}

/// The other node whose memory holds this place.
fn node_of(place: Place) -> Option<NodeId> {
    match place {
        Place::Own(_) => None,
        Place::Peer(node, _) => Some(node),
    }
}

/// The other node whose memory a descriptor touches.
fn peer(descriptor: &Descriptor) -> Option<NodeId> {
    match *descriptor {
        Descriptor::Copy { from, to, .. } => node_of(from).or(node_of(to)),
        Descriptor::Store { to, .. } => node_of(to),
    }
}

impl CopyEngine for CopyRouter {
    fn submit(
        &mut self,
        mem: &mut dyn Memory,
        channel: u64,
        descriptor: &Descriptor,
    ) -> Result<Submitted, SubmitError> {
        if let Some(engine) = self.channels.get(&channel) {
            return engine.borrow_mut().submit(mem, channel, descriptor);
        }
        let Some(engine) = peer(descriptor).and_then(|node| self.engines.get(&node)) else {
            return CpuEngine.submit(mem, channel, descriptor);
        };
        self.channels.insert(channel, engine.clone());
        engine.borrow_mut().submit(mem, channel, descriptor)
    }

    fn completed(&mut self, mem: &mut dyn Memory, channel: u64) -> u64 {
        match self.channels.get(&channel) {
            Some(engine) => engine.borrow_mut().completed(mem, channel),
            None => 0,
        }
    }

    fn forget(&mut self, channel: u64) {
        if let Some(engine) = self.channels.remove(&channel) {
            engine.borrow_mut().forget(channel);
        }
    }

    fn max_bytes(&self, from: Place, to: Place) -> u32 {
        let node = node_of(from).or(node_of(to));
        match node.and_then(|node| self.engines.get(&node)) {
            Some(engine) => engine.borrow().max_bytes(from, to),
            None => CpuEngine.max_bytes(from, to),
        }
    }

    fn is_cpu(&self, descriptor: &Descriptor) -> bool {
        let engine = peer(descriptor).and_then(|node| self.engines.get(&node));
        engine.is_none_or(|engine| engine.borrow().is_cpu(descriptor))
    }
}
