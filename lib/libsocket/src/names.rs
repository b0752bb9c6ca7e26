//! Names of nodes: first those of `/etc/hosts`, then those that every node has ([`address`]), then
//! the own host name.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use crate::{address, hosts, node};

/// Returns the text of `/etc/hosts`.
fn hosts() -> String {
    skiff_libc::configuration("hosts")
}

/// Returns the address of a name, or of an address written in digits, on node `own`.
pub fn resolve(name: &str, own: u16) -> Option<u32> {
    if let Some(host) = address::parse(name) {
        return Some(host);
    }
    let known = hosts::address_of(&hosts(), name).or_else(|| address::by_name(name, own));
    known.or_else(|| (skiff_libc::host_name() == name).then(|| address::of_node(own)))
}

/// Returns the name of an address; `None` if it is no node's and `/etc/hosts` has no name for it.
pub fn name_of(host: u32) -> Option<String> {
    if let Some(name) = hosts::name_of(&hosts(), host) {
        return Some(name.to_owned());
    }
    if address::is_loopback(host) {
        return Some("localhost".to_owned());
    }
    match address::node_of(host, node::own()).filter(|_| host != address::ANY)? {
        0 => Some("host".to_owned()),
        node => Some(format!("node{node}")),
    }
}
