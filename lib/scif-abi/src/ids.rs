//! Nodes, ports and port ids: the addresses of the SCIF network.

use core::fmt;

use syscall_derive::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::{HOST_NODE, MAX_NODE, PRIVILEGED_PORT_END};

/// The number of a node: 0 is the host, `n` is card `n - 1`.
pub type NodeId = u16;

/// Returns the number of a node by its name: `host`, or `card3` and `node3` for node 3.
pub fn node_by_name(name: &str) -> Option<NodeId> {
    if name == "host" {
        return Some(HOST_NODE);
    }
    let card = name.strip_prefix("card");
    let number = card.or_else(|| name.strip_prefix("node"))?;
    // Otherwise a node would have names like `card01`, too.
    let is_plain = number == "0" || !number.starts_with('0');
    let is_digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let node = number.parse().ok().filter(|_| is_plain && is_digits)?;
    (node <= MAX_NODE).then_some(node)
}

/// The number of a port on one node. 0 means "none" or "any".
pub type Port = u16;
/// A port on a node, `struct scif_port_id` of the SCIF header: node first, 4 bytes, little endian.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
    Layout,
)]
#[layout(size = 4, align = 1)]
#[repr(C)]
pub struct PortId {
    #[layout(offset = 0)]
    node: zerocopy::little_endian::U16,
    #[layout(offset = 2)]
    port: zerocopy::little_endian::U16,
}

impl PortId {
    /// The port `port` of node `node`.
    pub fn new(node: NodeId, port: Port) -> PortId {
        PortId {
            node: node.into(),
            port: port.into(),
        }
    }

    /// The node.
    pub fn node(self) -> NodeId {
        self.node.get()
    }

    /// The port on that node.
    pub fn port(self) -> Port {
        self.port.get()
    }

    /// Whether only root binds this port, so that a peer at it acts for root of its node.
    pub fn is_of_root(self) -> bool {
        (1..PRIVILEGED_PORT_END).contains(&self.port())
    }
}

impl fmt::Debug for PortId {
    /// As [`fmt::Display`], for people to read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PortId {
    /// `node/port`, the spelling of the scheme's paths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node(), self.port())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{PortId, node_by_name};
    use std::format;

    #[test]
    fn a_port_id_is_printed_as_in_paths() {
        let peer = PortId::new(1, 2050);
        assert_eq!(format!("{peer} {:?}", Some(peer)), "1/2050 Some(1/2050)");
    }

    #[test]
    fn nodes_have_numbers_by_several_names() {
        let names = [
            ("host", 0),
            ("node0", 0),
            ("card2", 2),
            ("node2", 2),
            ("node128", 128),
        ];
        for (name, number) in names {
            assert_eq!(node_by_name(name), Some(number), "{name}");
        }
        for odd in [
            "",
            "2",
            "card",
            "host1",
            "mic0",
            "card-1",
            "card+1",
            "card01",
            "node129",
            "node65536",
            "node card1",
        ] {
            assert_eq!(node_by_name(odd), None, "{odd}");
        }
    }

    #[test]
    fn roots_ports_have_an_end() {
        let is = |port| PortId::new(1, port).is_of_root();
        assert!(!is(0) && is(1) && is(1023) && !is(1024) && !is(u16::MAX));
    }
}
