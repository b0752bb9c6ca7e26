//! Names of nodes as programs ask for them: those of `/etc/hosts` first, then the own host name and
//! those that every node has ([`address`]).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use crate::{address, hosts, node};

/// The administrator's names.
fn hosts() -> String {
    skiff_libc::configuration("hosts")
}

/// The address that a name means, numbers included, on a node of this number.
pub fn resolve(name: &str, own: u16) -> Option<u32> {
    if let Some(host) = address::parse(name) {
        return Some(host);
    }
    let known = hosts::address_of(&hosts(), name).or_else(|| address::by_name(name, own));
    known.or_else(|| (skiff_libc::host_name() == name).then(|| address::of_node(own)))
}

/// The name of an address, if it is one of a node's or has been given one.
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
