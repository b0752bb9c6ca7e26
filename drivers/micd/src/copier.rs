//! What copies for transfers: the engine of the peer's function where it has one, else the CPU.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::RefCell;

use scif_abi::NodeId;
use scif_core::{CopyEngine, CpuEngine, Descriptor, Memory, Place, SubmitError, Submitted};

type Shared = Rc<RefCell<dyn CopyEngine>>;

/// All copy engines of a node.
pub struct Copier {
    engines: BTreeMap<NodeId, Shared>,
    /// The engine of each channel that has used one: all else on it must keep its order.
    channels: BTreeMap<u64, Shared>,
}

impl Copier {
    /// The engines by the node whose memory they reach.
    pub fn new(engines: impl Iterator<Item = (NodeId, Shared)>) -> Self {
        Self {
            engines: engines.collect(),
            channels: BTreeMap::new(),
        }
    }
}

/// The other node whose memory a descriptor touches.
fn peer(descriptor: &Descriptor) -> Option<NodeId> {
    let node = |place: &Place| match *place {
        Place::Own(_) => None,
        Place::Peer(node, _) => Some(node),
    };
    match descriptor {
        Descriptor::Copy { from, to, .. } => node(from).or(node(to)),
        Descriptor::Store { to, .. } => node(to),
    }
}

impl CopyEngine for Copier {
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

    fn max_bytes(&self, node: NodeId) -> u32 {
        match self.engines.get(&node) {
            Some(engine) => engine.borrow().max_bytes(node),
            None => CpuEngine.max_bytes(node),
        }
    }

    fn is_cpu(&self, node: NodeId) -> bool {
        self.engines
            .get(&node)
            .is_none_or(|engine| engine.borrow().is_cpu(node))
    }
}
