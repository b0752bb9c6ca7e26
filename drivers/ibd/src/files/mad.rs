//! The text files about management datagrams.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use mad_core::agents::Owner;
use mad_core::fabric::{Fabric, Place};
use mad_core::node::Node;
use verbs_abi::mad::ABI_VERSION;

use super::Viewer;
use crate::device::Device;
use crate::identity::{DEVICE, guid_text};

/// The version of the user MAD interface.
pub fn abi_version(_: &Device, _: Viewer) -> String {
    format!("{ABI_VERSION}\n")
}

/// The device of `umad0` and `issm0`.
pub fn ibdev(_: &Device, _: Viewer) -> String {
    format!("{DEVICE}\n")
}

/// The port of `umad0` and `issm0`.
pub fn port(_: &Device, _: Viewer) -> String {
    "1\n".to_string()
}

/// The capabilities of the port.
pub fn capabilities(device: &Device, _: Viewer) -> String {
    let capabilities = device.mads.node().map_or(0, Node::capabilities);
    format!("{capabilities:#010x}\n")
}

/// The table of agents: those of the viewer's files, or all agents for root.
pub fn agents(device: &Device, viewer: Viewer) -> String {
    let mut text = "file agent pid uid qpn class version oui methods rmpp waiting\n".to_string();
    let Some(node) = device.mads.node() else {
        return text;
    };
    for (number, user) in device.mads.users() {
        if viewer.uid != 0 && viewer.uid != user.owner.uid {
            continue;
        }
        let waiting = node.descriptor(number).map_or(0, |of| of.waiting());
        for (id, agent) in node.port().agents().iter() {
            if agent.owner != Owner::User(number) {
                continue;
            }
            let of = &agent.registration;
            let [a, b, c] = of.oui;
            let rmpp = match (of.rmpp_version, of.user_rmpp) {
                (_, true) => "user",
                (0, false) => "-",
                (_, false) => "kernel",
            };
            text += &format!(
                "{number} {:#x} {} {} {} {:#04x} {} {a:02x}{b:02x}{c:02x} {:#x} {rmpp} {waiting}\n",
                id.0,
                user.owner.pid,
                user.owner.uid,
                of.qpn,
                of.class,
                of.class_version,
                of.methods,
            );
        }
    }
    text
}

/// A link of the switch, as the table shows it.
struct Link {
    port: u8,
    node: u16,
    is_up: bool,
}

fn links(fabric: &Fabric) -> Vec<Link> {
    let link = |port: u8| {
        let node = u16::from(port - 1);
        let is_up = fabric.is_online(node);
        Link { port, node, is_up }
    };
    (1..=fabric.ports()).map(link).collect()
}

const RATE: &str = "4X-EDR";

/// The fabric as a table: the links of the switch, the state and rate of each, and the node at its
/// other end. The node's own port also has its counters.
pub fn fabric(device: &Device, _: Viewer) -> String {
    let mut text = "switch_port state rate node lid guid sent received sent_bytes received_bytes \
                    discarded\n"
        .to_string();
    let Some(node) = device.mads.node() else {
        return text;
    };
    for link in links(node.fabric()) {
        let (state, rate) = if link.is_up {
            ("ACTIVE", RATE)
        } else {
            ("DOWN", "-")
        };
        text += &format!("{} {state} {rate} {} ", link.port, link.node);
        text += &match link.is_up {
            true => format!(
                "{:#x} {}",
                Place::Node(link.node).lid(),
                guid_text(link.node)
            ),
            false => "- -".to_string(),
        };
        // Only the other ports know their traffic: a tool asks them for it by datagrams.
        text += &match link.node == node.fabric().own() {
            true => {
                let of = node.traffic();
                format!(
                    " {} {} {} {} {}\n",
                    of.sent_packets,
                    of.received_packets,
                    of.sent_bytes,
                    of.received_bytes,
                    of.discarded,
                )
            }
            false => " - - - - -\n".to_string(),
        };
    }
    text
}
