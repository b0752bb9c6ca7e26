//! The device, and what it can do.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use scif::NodeId;

use crate::error::Result;
use crate::objects::Context;
use crate::worker::Worker;

/// The upper half of all GUIDs: a locally administered company number, and `KI`.
const GUID: u64 = 0x0253_4b49_0000_0000;
/// The upper half of a GID that is valid on the own link only.
const LINK_LOCAL: u64 = 0xfe80_0000_0000_0000;

/// A device: the own node's, of which there is one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// The node.
    pub node: NodeId,
}

/// The devices of the own node.
///
/// # Errors
/// Those of the scheme: there is no driver.
pub fn devices() -> Result<Vec<Device>> {
    let node = scif::nodes()?.own;
    Ok(vec![Device {
        name: String::from("scif0"),
        node,
    }])
}

impl Device {
    /// Its number in the world.
    pub fn guid(&self) -> u64 {
        guid(self.node)
    }

    /// Opens it. `start` gives a thread to the context, which runs [`Worker::run`] until the
    /// context goes: how threads are made differs between systems.
    ///
    /// # Errors
    /// Those of the scheme and of `start`.
    pub fn open(&self, start: impl FnOnce(Worker) -> Result<()>) -> Result<Context> {
        Context::open(start)
    }
}

/// The number of a node's device in the world.
pub fn guid(node: NodeId) -> u64 {
    GUID | u64::from(node)
}

/// The local identifier of a node.
pub fn lid(node: NodeId) -> u16 {
    node + 1
}

/// The global identifier of a node's port.
pub fn gid(node: NodeId) -> [u8; 16] {
    let halves = [LINK_LOCAL.to_be_bytes(), guid(node).to_be_bytes()];
    let mut gid = [0; 16];
    for (to, from) in gid.iter_mut().zip(halves.as_flattened()) {
        *to = *from;
    }
    gid
}

/// The node of a global identifier; `None`: it is of no node.
pub fn node_of(gid: &[u8; 16]) -> Option<NodeId> {
    let halves: Vec<u64> = gid
        .as_chunks::<8>()
        .0
        .iter()
        .map(|half| u64::from_be_bytes(*half))
        .collect();
    match halves[..] {
        [LINK_LOCAL, number] if number & !0xffff == GUID => Some(number as NodeId),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{gid, node_of};

    #[test]
    fn global_identifiers_name_nodes() {
        for node in [0, 1, 127, 65534] {
            assert_eq!(node_of(&gid(node)), Some(node));
        }
        let mut other = gid(3);
        other[0] = 0xff;
        assert_eq!(node_of(&other), None);
        assert_eq!(node_of(&[0; 16]), None);
        let first = [
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x53, 0x4b, 0x49, 0, 0, 0, 3,
        ];
        assert_eq!(gid(3), first);
    }
}
