//! The records of the database, which are made from the topology for each request, and the
//! selection of those that match.

use alloc::vec;
use alloc::vec::Vec;
use verbs_core::address::gid;

use super::refusal;
use crate::attributes::{Field, fields, get, put};
use crate::fabric::{Fabric, MANAGER, NODE_PORT, Place, switch_port};
use crate::mad::status;
use crate::sma;

/// The number of the attribute NodeRecord, as below of the others.
pub const NODE: u16 = 0x11;
/// PortInfoRecord.
pub const PORT_INFO: u16 = 0x12;
/// SMInfoRecord.
pub const SM_INFO: u16 = 0x18;
/// LinkRecord.
pub const LINK: u16 = 0x20;
/// GUIDInfoRecord.
pub const GUID_INFO: u16 = 0x30;
/// P_KeyTableRecord.
pub const PKEY_TABLE: u16 = 0x33;
/// PathRecord.
pub const PATH: u16 = 0x35;
/// MCMemberRecord.
pub const MCMEMBER: u16 = 0x38;
/// InformInfoRecord.
pub const INFORM_INFO: u16 = 0xf3;

/// A record; its length is a multiple of eight bytes.
pub type Record = Vec<u8>;

/// A component of a record: its bit in the mask, and its field.
type Component = (u32, Field);

/// The selector "exactly", 2 in the upper two bits, in values of [`PATH`] and [`MCMEMBER`].
const EXACTLY: u8 = 2 << 6;
/// How long a packet may live, as a code: 4.096 µs × 2^18.
const LIFE_TIME: u8 = 18;

const NODE_COMPONENTS: &[Component] = &[
    (0, (0, 16)),
    (2, (32, 8)),
    (3, (40, 8)),
    (4, (48, 8)),
    (5, (56, 8)),
    (6, (64, 64)),
    (7, (128, 64)),
    (8, (192, 64)),
    (9, (256, 16)),
    (10, (272, 16)),
    (11, (288, 32)),
    (12, (320, 8)),
    (13, (328, 24)),
    (14, (352, 64)),
    (14, (416, 64)),
    (14, (480, 64)),
    (14, (544, 64)),
    (14, (608, 64)),
    (14, (672, 64)),
    (14, (736, 64)),
    (14, (800, 64)),
];

/// The component that can be queried bit by bit.
const CAPABILITIES: Component = (7, (192, 32));

const PORT_COMPONENTS: &[Component] = &[
    (0, (0, 16)),
    (1, (16, 8)),
    (4, (96, 64)),
    (5, (160, 16)),
    (6, (176, 16)),
    CAPABILITIES,
    (10, (256, 8)),
    (11, (264, 8)),
    (12, (272, 8)),
    (13, (280, 8)),
    (14, (288, 4)),
    (15, (292, 4)),
    (16, (296, 4)),
    (17, (300, 4)),
];

const SM_COMPONENTS: &[Component] = &[
    (0, (0, 16)),
    (2, (32, 64)),
    (3, (96, 64)),
    (4, (160, 32)),
    (5, (192, 4)),
    (6, (196, 4)),
];

const LINK_COMPONENTS: &[Component] = &[(0, (0, 16)), (1, (16, 8)), (2, (24, 8)), (3, (32, 16))];
const GUID_COMPONENTS: &[Component] = &[(0, (0, 16)), (1, (16, 8))];
const PKEY_COMPONENTS: &[Component] = &[(0, (0, 16)), (1, (16, 16)), (2, (32, 8))];

/// Fields of PathRecord.
pub mod path {
    use super::fields;

    fields! {
        DLID: 320, 16;
        SLID: 336, 16;
        REVERSIBLE: 392, 1;
        PATHS: 393, 7;
        PKEY: 400, 16;
        MTU: 432, 8;
        RATE: 440, 8;
        LIFE: 448, 8;
    }
    /// The destination, in two halves.
    pub const DGID: [crate::attributes::Field; 2] = [(64, 64), (128, 64)];
    /// The source, in two halves.
    pub const SGID: [crate::attributes::Field; 2] = [(192, 64), (256, 64)];
}

const PATH_COMPONENTS: &[Component] = &[
    (2, path::DGID[0]),
    (2, path::DGID[1]),
    (3, path::SGID[0]),
    (3, path::SGID[1]),
    (4, path::DLID),
    (5, path::SLID),
    (6, (352, 1)),
    (8, (356, 20)),
    (9, (376, 8)),
    (10, (384, 8)),
    (15, (428, 4)),
];
/// Components of a path that are not only compared: requirements.
const PATH_WISHES: u64 = 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 0x3f << 16;

/// Fields of MCMemberRecord.
pub mod member {
    use super::fields;

    fields! {
        QKEY: 256, 32;
        MLID: 288, 16;
        MTU: 304, 8;
        TRAFFIC_CLASS: 312, 8;
        PKEY: 320, 16;
        RATE: 336, 8;
        LIFE: 344, 8;
        SERVICE_LEVEL: 352, 4;
        FLOW_LABEL: 356, 20;
        HOP_LIMIT: 376, 8;
        SCOPE: 384, 4;
        JOIN_STATE: 388, 4;
        PROXY_JOIN: 392, 1;
    }
    /// The group, in two halves.
    pub const MGID: [crate::attributes::Field; 2] = [(0, 64), (64, 64)];
    /// The member, in two halves.
    pub const PORT_GID: [crate::attributes::Field; 2] = [(128, 64), (192, 64)];
    /// Bytes of a record.
    pub const BYTES: usize = 56;
}

const MEMBER_COMPONENTS: &[Component] = &[
    (0, member::MGID[0]),
    (0, member::MGID[1]),
    (1, member::PORT_GID[0]),
    (1, member::PORT_GID[1]),
    (2, member::QKEY),
    (3, member::MLID),
    (6, member::TRAFFIC_CLASS),
    (7, member::PKEY),
    (12, member::SERVICE_LEVEL),
    (13, member::FLOW_LABEL),
    (14, member::HOP_LIMIT),
    (15, member::SCOPE),
    (16, member::JOIN_STATE),
];
/// Components of a membership that are requirements for MTU, rate and life time.
const MEMBER_WISHES: u64 = 0x3f0 & !0xc0 | 3 << 8 | 3 << 10;

const INFORM_COMPONENTS: &[Component] = &[(0, (0, 64)), (0, (64, 64)), (1, (128, 16))];

/// A request for records.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The attribute.
    pub attribute: u16,
    /// The attribute's modifier.
    pub modifier: u32,
    /// The components that have to match.
    pub mask: u64,
    /// The record with which records are compared.
    pub data: &'a [u8],
    /// Capabilities of the manager's port.
    pub capabilities: u32,
}

impl Query<'_> {
    /// Whether a component is in the mask.
    pub fn has(&self, bit: u32) -> bool {
        self.mask >> bit & 1 != 0
    }

    /// The value of a field in the record of the request.
    pub fn value(&self, field: Field) -> u64 {
        get(self.data, field)
    }

    /// The records that match.
    ///
    /// # Errors
    /// `INVALID`: the mask has components that cannot be compared.
    pub fn select(&self, attribute: u16, records: Vec<Record>) -> Result<Vec<Record>, u16> {
        let (components, wishes): (&[Component], u64) = match attribute {
            NODE => (NODE_COMPONENTS, 1 << 1),
            PORT_INFO => (PORT_COMPONENTS, 1 << 2),
            SM_INFO => (SM_COMPONENTS, 1 << 1),
            LINK => (LINK_COMPONENTS, 0),
            GUID_INFO => (GUID_COMPONENTS, 0),
            PKEY_TABLE => (PKEY_COMPONENTS, 0),
            PATH => (PATH_COMPONENTS, PATH_WISHES),
            MCMEMBER => (MEMBER_COMPONENTS, MEMBER_WISHES),
            _ => (INFORM_COMPONENTS, 0),
        };
        let known = components
            .iter()
            .fold(wishes, |mask, (bit, _)| mask | 1 << bit);
        if self.mask & !known != 0 {
            return Err(refusal::INVALID);
        }
        let asked = components.iter().filter(|(bit, _)| self.has(*bit));
        let asked: Vec<Component> = asked.copied().collect();
        // PortInfoRecord with the highest bit of the modifier: all of these capabilities.
        let by_bit = attribute == PORT_INFO && self.modifier >> 31 != 0;
        let matches = |record: &Record| {
            asked.iter().all(|component| {
                let (wanted, found) = (self.value(component.1), get(record, component.1));
                match by_bit && *component == CAPABILITIES {
                    true => found & wanted == wanted,
                    false => found == wanted,
                }
            })
        };
        Ok(records.into_iter().filter(matches).collect())
    }

    /// The records of the topology that match.
    ///
    /// # Errors
    /// `INVALID`, as in [`select`](Self::select). `ATTRIBUTE_UNKNOWN`.
    pub fn topology(&self, fabric: &Fabric) -> Result<Vec<Record>, u16> {
        let records = match self.attribute {
            NODE => nodes(fabric),
            PORT_INFO => ports(fabric, self.capabilities),
            LINK => links(fabric),
            GUID_INFO => places(fabric).map(guid_info).collect(),
            PKEY_TABLE => pkey_tables(fabric),
            PATH if !self.is_path_possible() => Vec::new(),
            PATH => paths(fabric, self),
            _ => return Err(status::ATTRIBUTE_UNKNOWN),
        };
        self.select(self.attribute, records)
    }

    /// Whether all paths meet the requirements of the request.
    fn is_path_possible(&self) -> bool {
        let pkey = self.value(path::PKEY) & 0x7fff == u64::from(sma::PKEY & 0x7fff);
        let mtu = self.fits(16, path::MTU, sma::MTU_4096);
        let rate = self.fits(18, path::RATE, sma::RATE_100);
        let life = self.fits(20, path::LIFE, LIFE_TIME);
        (pkey || !self.has(13)) && mtu && rate && life
    }

    /// Whether a value meets the selector, component `bit`, and the requested value, the next
    /// component.
    pub fn fits(&self, bit: u32, field: Field, value: u8) -> bool {
        if !self.has(bit) || !self.has(bit + 1) {
            return !self.has(bit + 1) || self.has(bit) || self.value(field) & 0x3f == value.into();
        }
        let asked = self.value(field);
        let (selector, wanted) = (asked >> 6, (asked & 0x3f) as u8);
        match selector {
            0 => value > wanted,
            1 => value < wanted,
            2 => value == wanted,
            // The largest or the smallest value that exists.
            _ => true,
        }
    }
}

/// A record of `bytes` bytes that begins with a local identifier.
fn record(bytes: usize, lid: u16) -> Record {
    let mut record = vec![0; bytes];
    put(&mut record, (0, 16), lid.into());
    record
}

/// The end ports: those of the nodes that are online, and that of the switch.
fn places(fabric: &Fabric) -> impl Iterator<Item = Place> + '_ {
    fabric.nodes().map(Place::Node).chain([Place::Switch])
}

fn nodes(fabric: &Fabric) -> Vec<Record> {
    let node = |place: Place| {
        let mut record = record(112, place.lid());
        let local = if place == Place::Switch { 0 } else { NODE_PORT };
        record[4..44].copy_from_slice(&sma::node_info(fabric, place, local)[..40]);
        record[44..108].copy_from_slice(&sma::node_description(place));
        record
    };
    places(fabric).map(node).collect()
}

fn ports(fabric: &Fabric, capabilities: u32) -> Vec<Record> {
    let of_place = |place: Place| {
        let ports = match place {
            Place::Switch => 0..=fabric.ports(),
            Place::Node(_) => NODE_PORT..=NODE_PORT,
        };
        ports.map(move |port| (place, port))
    };
    let port = |(place, port): (Place, u8)| {
        let info = sma::port_info(fabric, place, port, port)?;
        let mut record = record(72, place.lid());
        record[2] = port;
        record[4..68].copy_from_slice(&info);
        if place == Place::Node(MANAGER) {
            put(&mut record, CAPABILITIES.1, capabilities.into());
        }
        Some(record)
    };
    places(fabric).flat_map(of_place).filter_map(port).collect()
}

/// The record of the manager.
pub fn sm_info(info: &[u8]) -> Record {
    let mut record = record(32, Place::Node(MANAGER).lid());
    record[4..25].copy_from_slice(&info[..21]);
    record
}

fn links(fabric: &Fabric) -> Vec<Record> {
    let link = |from: Place, out: u8, to: Place, entered: u8| {
        let mut record = record(8, from.lid());
        (record[2], record[3]) = (out, entered);
        put(&mut record, (32, 16), to.lid().into());
        record
    };
    let both = |node: u16| {
        let (place, port) = (Place::Node(node), switch_port(node));
        let up = link(place, NODE_PORT, Place::Switch, port);
        [up, link(Place::Switch, port, place, NODE_PORT)]
    };
    fabric.nodes().flat_map(both).collect()
}

fn guid_info(place: Place) -> Record {
    let mut record = record(72, place.lid());
    record[8..].copy_from_slice(&sma::guid_info(place));
    record
}

fn pkey_tables(fabric: &Fabric) -> Vec<Record> {
    let table = |place: Place| {
        let mut record = record(72, place.lid());
        record[4] = if place == Place::Switch { 0 } else { NODE_PORT };
        record[8..].copy_from_slice(&sma::pkey_table());
        record
    };
    places(fabric).map(table).collect()
}

/// The paths between the places that the request names.
fn paths(fabric: &Fabric, query: &Query<'_>) -> Vec<Record> {
    let named = |lid: u32, lid_field: Field, gid_bit: u32, gid_field: Field| {
        let is_it = move |place: &Place| {
            let by_lid = !query.has(lid) || query.value(lid_field) == place.lid().into();
            // The half of the identifier that differs between ports.
            by_lid && (!query.has(gid_bit) || query.value(gid_field) == place.guid())
        };
        places(fabric).filter(is_it).collect::<Vec<_>>()
    };
    let sources = named(5, path::SLID, 3, path::SGID[1]);
    let destinations = named(4, path::DLID, 2, path::DGID[1]);
    let pairs = sources
        .iter()
        .flat_map(|from| destinations.iter().map(move |to| (*from, *to)));
    pairs.map(|(from, to)| path_record(from, to)).collect()
}

fn path_record(from: Place, to: Place) -> Record {
    let mut record = vec![0; 64];
    record[8..24].copy_from_slice(&gid(to.lid()));
    record[24..40].copy_from_slice(&gid(from.lid()));
    for (field, value) in [
        (path::DLID, to.lid().into()),
        (path::SLID, from.lid().into()),
        (path::REVERSIBLE, 1),
        (path::PATHS, 1),
        (path::PKEY, sma::PKEY.into()),
        (path::MTU, (EXACTLY | sma::MTU_4096).into()),
        (path::RATE, (EXACTLY | sma::RATE_100).into()),
        (path::LIFE, (EXACTLY | LIFE_TIME).into()),
    ] {
        put(&mut record, field, value);
    }
    record
}

/// The code of "exactly" for a value.
pub fn exactly(value: u8) -> u64 {
    (EXACTLY | value).into()
}

/// The code of a packet's life time.
pub fn life_time() -> u64 {
    exactly(LIFE_TIME)
}
