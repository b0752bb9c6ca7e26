//! Addresses of ports and of the destinations of datagrams, and the header that tells a receiver
//! where a datagram comes from.
//!
//! Each node has one port. Its local identifier is the number of the node plus 1; its global
//! identifier contains that number too.

use crate::table::Id;

/// The first local identifier that names a group of receivers.
pub const FIRST_MULTICAST_LID: u16 = 0xc000;
/// The number of a queue pair that stands for all members of a group.
pub const MULTICAST_QPN: u32 = 0xff_ffff;
/// Bytes in front of a datagram in its receive: the size of the global route header.
pub const GRH_BYTES: usize = 40;
/// This bit in the key of a datagram stands for the key of the sending queue pair.
pub const OWN_QKEY: u32 = 1 << 31;

/// The prefix of the global identifiers of all ports.
const GID_PREFIX: u64 = 0xfe80 << 48;
/// The identifier of the port of node 0.
const FIRST_GUID: u64 = 0x0253_4b49_0000_0000;
/// The byte with which global identifiers of groups begin.
const MULTICAST_GID: u8 = 0xff;
/// The type of the header after the route header, by the number that the specification gives it.
const NEXT_HEADER: u8 = 0x1b;

/// A global identifier: of a port, or of a group of receivers.
pub type Gid = [u8; 16];

/// The local identifier of a node's port.
pub const fn lid(node: u16) -> u16 {
    node + 1
}

/// The node whose port has this local identifier.
pub const fn node(lid: u16) -> Option<u16> {
    match lid {
        FIRST_MULTICAST_LID.. => None,
        _ => lid.checked_sub(1),
    }
}

/// The identifier of the port with this local identifier, which is unique among all nodes.
pub const fn guid(lid: u16) -> u64 {
    FIRST_GUID + lid.wrapping_sub(1) as u64
}

/// The global identifier of the port with this local identifier.
pub const fn gid(lid: u16) -> Gid {
    let number = ((GID_PREFIX as u128) << 64) | guid(lid) as u128;
    number.to_be_bytes()
}

/// Whether a global identifier names a group of receivers.
pub const fn is_group(gid: &Gid) -> bool {
    gid[0] == MULTICAST_GID
}

/// The second byte of groups that stand for IP addresses: not well-known, of one link.
const LINK_GROUP: u8 = 0x12;
/// The partition key of all ports.
const PARTITION: u16 = 0xffff;

/// The group that stands for a multicast address of IPv4, as IP over InfiniBand maps it (RFC 4391,
/// section 4). `signature`: the protocol that uses the group.
pub const fn group_of_ipv4(address: u32, signature: u16) -> Gid {
    let number = (address & 0x0fff_ffff) as u128;
    (group_prefix(signature) | number).to_be_bytes()
}

/// The group that stands for a multicast address of IPv6, of which the last 80 bits count.
/// `signature`: the protocol that uses the group.
pub const fn group_of_ipv6(address: &[u8; 16], signature: u16) -> Gid {
    let number = u128::from_be_bytes(*address) & ((1 << 80) - 1);
    (group_prefix(signature) | number).to_be_bytes()
}

const fn group_prefix(signature: u16) -> u128 {
    let first = u16::from_be_bytes([MULTICAST_GID, LINK_GROUP]);
    (first as u128) << 112 | (signature as u128) << 96 | (PARTITION as u128) << 80
}

/// The local identifier of a group. Several groups may have the same one.
pub const fn group_lid(gid: &Gid) -> u16 {
    let number = u16::from_be_bytes([gid[14], gid[15]]) & !FIRST_MULTICAST_LID;
    match FIRST_MULTICAST_LID | number {
        // This one names all ports.
        u16::MAX => u16::MAX - 1,
        lid => lid,
    }
}

/// The route of a datagram, from its global route header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRoute {
    /// The destination.
    pub gid: Gid,
    /// The flow label: 20 bits.
    pub flow_label: u32,
    /// The traffic class.
    pub traffic_class: u8,
    /// The number of routers that the datagram may pass.
    pub hop_limit: u8,
}

/// The destination that an address handle stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// The local identifier of the destination's port, or of a group.
    pub lid: u16,
    /// The service level: 0 to 15.
    pub service_level: u8,
    /// The global route, if there is one.
    pub global: Option<GlobalRoute>,
}

/// Where one datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The address handle.
    pub ah: Id,
    /// The number of the destination's queue pair.
    pub qpn: u32,
    /// The key of the destination; with [`OWN_QKEY`] that of the sender.
    pub qkey: u32,
}

impl Default for Datagram {
    fn default() -> Datagram {
        Datagram {
            ah: Id(u32::MAX),
            qpn: 0,
            qkey: 0,
        }
    }
}

/// Who is at the other end of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LanePeer {
    /// It is not known.
    #[default]
    Unknown,
    /// A program on the node whose port has this local identifier.
    Port(u16),
    /// A part of the system that passes on datagrams of others, and says whose they are.
    Relay,
}

/// The global route header of a datagram of `bytes` bytes from the port `source`.
pub fn route_header(
    route: &GlobalRoute,
    source: u16,
    bytes: usize,
    has_immediate: bool,
) -> [u8; GRH_BYTES] {
    const VERSION: u32 = 6;
    /// What a packet has behind this header besides its data: the base and the datagram header,
    /// and the invariant checksum.
    const REST_BYTES: usize = 12 + 8 + 4;
    let immediate = 4 * usize::from(has_immediate);
    let length = REST_BYTES + immediate + bytes.next_multiple_of(4);
    let first = VERSION << 28 | u32::from(route.traffic_class) << 20 | route.flow_label & 0xf_ffff;
    let mut header = [0; GRH_BYTES];
    header[0..4].copy_from_slice(&first.to_be_bytes());
    header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    (header[6], header[7]) = (NEXT_HEADER, route.hop_limit);
    header[8..24].copy_from_slice(&gid(source));
    header[24..40].copy_from_slice(&route.gid);
    header
}

#[cfg(test)]
mod tests {
    use super::{
        FIRST_MULTICAST_LID, GlobalRoute, gid, group_lid, group_of_ipv4, group_of_ipv6, guid,
        is_group, lid, node, route_header,
    };

    #[test]
    fn ports_have_identifiers() {
        assert_eq!(
            (lid(0), node(1), node(0), node(0xc000)),
            (1, Some(0), None, None)
        );
        assert_eq!(
            (guid(3), gid(1)[..2] == [0xfe, 0x80]),
            (0x0253_4b49_0000_0002, true)
        );
        assert_eq!(gid(3)[8..], guid(3).to_be_bytes());
        assert!(!is_group(&gid(1)) && is_group(&[0xff; 16]));
    }

    #[test]
    fn addresses_of_groups_are_mapped() {
        let four = group_of_ipv4(0xef01_0203, 0x401b);
        assert_eq!(four[..6], [0xff, 0x12, 0x40, 0x1b, 0xff, 0xff]);
        assert_eq!(four[6..], [0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3]);
        let six = group_of_ipv6(&core::array::from_fn(|index| index as u8), 0x601b);
        assert_eq!(six[..6], [0xff, 0x12, 0x60, 0x1b, 0xff, 0xff]);
        assert_eq!(six[6..], [6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert!(is_group(&four) && is_group(&six));
        assert_eq!(group_lid(&four), FIRST_MULTICAST_LID | 0x0203);
        assert_eq!(group_lid(&[0xff; 16]), 0xfffe);
    }

    #[test]
    fn a_route_header_has_its_fields_where_they_belong() {
        let route = GlobalRoute {
            gid: [7; 16],
            flow_label: 0x1234_5678,
            traffic_class: 0xab,
            hop_limit: 9,
        };
        let header = route_header(&route, 2, 0x102, false);
        assert_eq!(header[..8], [0x6a, 0xb4, 0x56, 0x78, 1, 0x1c, 0x1b, 9]);
        let with_immediate = route_header(&route, 2, 0x104, true);
        assert_eq!(with_immediate[4..6], [1, 0x20]);
        assert_eq!((&header[8..24], &header[24..]), (&gid(2)[..], &[7; 16][..]));
    }
}
