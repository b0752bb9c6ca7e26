//! The device, and what it can do.

use alloc::string::String;
use alloc::vec::Vec;

use scif::NodeId;
use verbs_core::address::{self, Gid};

use crate::daemon;
use crate::error::Result;
use crate::objects::Context;
use crate::worker::Worker;

/// A device: that of this node, the only one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// The node.
    pub node: NodeId,
}

/// The devices of this node.
///
/// # Errors
/// `ENODEV`: no daemon serves the scheme `infiniband`.
pub fn devices() -> Result<Vec<Device>> {
    let found = daemon::devices()?.into_iter();
    Ok(found.map(|(name, node)| Device { name, node }).collect())
}

impl Device {
    /// Its identifier, unique among all nodes.
    pub fn guid(&self) -> u64 {
        address::guid(address::lid(self.node))
    }

    /// Opens it. `start` has to start a thread that runs [`Worker::run`], which returns when the
    /// context ends: how threads are made differs between systems.
    ///
    /// # Errors
    /// Those of the scheme and of `start`.
    pub fn open(&self, start: impl FnOnce(Worker) -> Result<()>) -> Result<Context> {
        Context::open(start)
    }
}

/// The node that a global identifier names; `None`: it names no node.
pub fn node_of(gid: &Gid) -> Option<NodeId> {
    let [.., high, low] = *gid;
    let node = NodeId::from_be_bytes([high, low]);
    let is_its = node < NodeId::MAX && address::gid(address::lid(node)) == *gid;
    is_its.then_some(node)
}

#[cfg(test)]
mod tests {
    use verbs_core::address::{gid, lid};

    use super::node_of;

    #[test]
    fn global_identifiers_name_nodes() {
        for node in [0, 1, 127, 65534] {
            assert_eq!(node_of(&gid(lid(node))), Some(node));
        }
        let mut other = gid(3);
        other[0] = 0xff;
        assert_eq!(node_of(&other), None);
        assert_eq!((node_of(&[0; 16]), node_of(&[0xff; 16])), (None, None));
    }
}
