//! Subnet administration, on node 0: a database of nodes, ports, links and paths that datagrams
//! query, multicast groups, and subscribers to notices (InfiniBand specification volume 1, chapter
//! 15).

pub mod groups;
pub mod records;
pub mod subscribers;

use alloc::vec;
use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

use crate::attributes::{attribute, class_port_info, put, sm_info};
use crate::fabric::{Fabric, MANAGER, Place};
use crate::mad::{SaHeader, method, status};
use crate::packet::Packet;
use crate::rmpp::{self, flag};
use crate::sma::DATA_BYTES;
use groups::Groups;
use records::{Query, Record};
use subscribers::{NOTICE_BYTES, Notice, Subscribers};

/// Version of the class.
pub const CLASS_VERSION: u8 = 2;
/// Most bytes of an attribute in one datagram.
const DATA_ROOM: usize = 200;

/// Values of `status` of this class.
pub mod refusal {
    /// A table is full.
    pub const NO_RESOURCES: u16 = 0x0100;
    /// The request is wrong.
    pub const INVALID: u16 = 0x0200;
    /// No record matches.
    pub const NO_RECORDS: u16 = 0x0300;
    /// More than one record matches.
    pub const TOO_MANY: u16 = 0x0400;
    /// A global identifier is not possible.
    pub const BAD_GID: u16 = 0x0500;
    /// Components are missing.
    pub const TOO_FEW_COMPONENTS: u16 = 0x0600;
    /// The request is not allowed.
    pub const DENIED: u16 = 0x0700;
}

/// The result of a request: records, or a refusal.
type Answer = core::result::Result<Vec<Record>, u16>;

/// Subnet administration: groups and subscriptions. Other records are made from the topology.
#[derive(Clone, Debug, Default)]
pub struct Administration {
    /// Multicast groups.
    pub groups: Groups,
    /// Subscriptions to notices.
    pub subscribers: Subscribers,
    /// Requests that were answered: the count shows that the manager is alive.
    activity: u32,
}

impl Administration {
    /// SMInfo of the manager.
    pub fn sm_info(&self) -> [u8; DATA_BYTES] {
        let mut data = [0; DATA_BYTES];
        for (field, value) in [
            (sm_info::GUID, Place::Node(MANAGER).guid()),
            (sm_info::ACTIVITY, self.activity.into()),
            (sm_info::PRIORITY, 0),
            (sm_info::STATE, sm_info::MASTER),
        ] {
            put(&mut data, field, value);
        }
        data
    }

    /// Answers a request. `capabilities`: those of this node's port.
    pub fn answer(
        &mut self,
        fabric: &Fabric,
        capabilities: u32,
        from: &Packet,
        message: &[u8],
    ) -> Option<Vec<u8>> {
        let (asked, data) = SaHeader::read_from_prefix(message).ok()?;
        let mut padded = [0; DATA_ROOM];
        let length = data.len().min(DATA_ROOM);
        padded[..length].copy_from_slice(&data[..length]);
        self.activity = self.activity.wrapping_add(1);
        let query = Query {
            attribute: asked.header.attribute.get(),
            modifier: asked.header.modifier.get(),
            mask: asked.mask.get(),
            data: &padded,
            capabilities,
        };
        let is_table = asked.header.method == method::GET_TABLE;
        let answer = match asked.header.method {
            _ if asked.header.class_version != CLASS_VERSION => Err(status::BAD_VERSION),
            method::GET => self.get(fabric, &query).and_then(only_one),
            method::GET_TABLE => self.get(fabric, &query),
            method::SET => self.set(fabric, from, &query),
            method::DELETE => self.delete(fabric, from, &query),
            _ => Err(status::METHOD_UNKNOWN),
        };
        Some(response(&asked, is_table, &answer))
    }

    fn get(&self, fabric: &Fabric, query: &Query<'_>) -> Answer {
        match query.attribute {
            attribute::CLASS_PORT_INFO => Ok(Vec::from([class_port_info()])),
            // Notices are sent but not kept, so none can be asked for.
            attribute::NOTICE => Ok(Vec::from([vec![0; NOTICE_BYTES]])),
            records::MCMEMBER => query.select(records::MCMEMBER, self.groups.records()),
            records::INFORM_INFO => query.select(records::INFORM_INFO, self.subscribers.records()),
            records::SM_INFO => {
                let record = records::sm_info(&self.sm_info());
                query.select(records::SM_INFO, Vec::from([record]))
            }
            _ => query.topology(fabric),
        }
    }

    fn set(&mut self, fabric: &Fabric, from: &Packet, query: &Query<'_>) -> Answer {
        match query.attribute {
            records::MCMEMBER => self.groups.join(fabric, from.source, query),
            attribute::INFORM_INFO => self.subscribers.set(from, query),
            // It would remove one of the kept notices, and there are none.
            attribute::NOTICE => Ok(Vec::from([vec![0; NOTICE_BYTES]])),
            _ => Err(status::ATTRIBUTE_UNKNOWN),
        }
    }

    fn delete(&mut self, fabric: &Fabric, from: &Packet, query: &Query<'_>) -> Answer {
        match query.attribute {
            records::MCMEMBER => self.groups.leave(fabric, from.source, query),
            _ => Err(status::ATTRIBUTE_UNKNOWN),
        }
    }

    /// Notes that a node has come or gone. A node that has gone loses its memberships and
    /// subscriptions. Returns the notices for the subscribers.
    pub fn node_changed(&mut self, node: u16, is_online: bool) -> Vec<Notice> {
        let place = Place::Node(node);
        if !is_online {
            self.groups.forget(place);
            self.subscribers.forget(place);
        }
        Vec::from([Notice::of_node(place, is_online)])
    }
}

fn only_one(records: Vec<Record>) -> Answer {
    match records.len() {
        0 => Err(refusal::NO_RECORDS),
        1 => Ok(records),
        _ => Err(refusal::TOO_MANY),
    }
}

fn class_port_info() -> Record {
    /// Multicast exists, and PortInfo records can be selected by capabilities.
    const CAPABILITIES: u64 = 1 << 9 | 1 << 13;
    let mut record = vec![0; 72];
    for (field, value) in [
        (class_port_info::BASE_VERSION, 1),
        (class_port_info::CLASS_VERSION, CLASS_VERSION.into()),
        (class_port_info::CAPABILITIES, CAPABILITIES),
        (class_port_info::RESPONSE_TIME, 18),
    ] {
        put(&mut record, field, value);
    }
    record
}

/// The message that answers a request.
fn response(asked: &SaHeader, is_table: bool, answer: &Answer) -> Vec<u8> {
    let mut header = *asked;
    header.header.method = asked.header.method | method::RESPONSE;
    if asked.header.method == method::SET {
        header.header.method = method::GET_RESPONSE;
    }
    header.rmpp = Default::default();
    let none = Vec::new();
    let (status, records) = match answer {
        Ok(records) => (0, records),
        Err(status) => (*status, &none),
    };
    header.header.status = status.into();
    if is_table {
        header.rmpp.version = rmpp::VERSION;
        header.rmpp.flags = flag::ACTIVE;
    }
    let size = records.first().map_or(0, |record| record.len());
    header.attribute_offset = ((size / 8) as u16).into();
    let mut message = Vec::from(header.as_bytes());
    for record in records {
        message.extend_from_slice(record);
    }
    message
}

#[cfg(test)]
mod tests;
