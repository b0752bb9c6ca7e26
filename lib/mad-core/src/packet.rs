//! A datagram with its addresses, as it travels between ports.

use verbs_core::address::GlobalRoute;

use crate::mad::Mad;

/// Where a datagram goes, as its sender has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// Local identifier of the port.
    pub lid: u16,
    /// Queue pair: 0 or 1.
    pub qpn: u32,
    /// Key of the queue pair, of queue pair 1.
    pub qkey: u32,
    /// Service level: 0 to 15.
    pub service_level: u8,
    /// The global route, if it has one.
    pub global: Option<GlobalRoute>,
}

/// A datagram with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Local identifier of the port that it comes from.
    pub source: u16,
    /// Queue pair that it comes from.
    pub source_qpn: u32,
    /// Where it goes.
    pub to: Destination,
    /// The datagram.
    pub mad: Mad,
}

impl Packet {
    /// The destination of an answer.
    pub fn back(&self) -> Destination {
        let global = self.to.global.map(|route| GlobalRoute {
            gid: verbs_core::address::gid(self.source),
            ..route
        });
        Destination {
            lid: self.source,
            qpn: self.source_qpn,
            qkey: crate::mad::GSI_QKEY,
            service_level: self.to.service_level,
            global,
        }
    }

    /// The packet that answers this one.
    pub fn answer(&self, mad: Mad) -> Packet {
        Packet {
            source: self.to.lid,
            source_qpn: self.to.qpn,
            to: self.back(),
            mad,
        }
    }
}
