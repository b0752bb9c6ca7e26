//! Subscribers to notices, and the notices that they get.

use alloc::vec::Vec;
use verbs_core::address::{Gid, gid};

use super::records::{Query, Record};
use super::{Answer, CLASS_VERSION, refusal};
use crate::attributes::{Field, attribute, get, put};
use crate::fabric::{MANAGER, Place};
use crate::mad::{BASE_VERSION, Header, SaHeader, class, method};
use crate::packet::{Destination, Packet};
use zerocopy::IntoBytes;

/// Most subscriptions of all ports, and of one, so that none takes all of them.
const MAX_SUBSCRIPTIONS: usize = 1024;
const MAX_OF_PORT: usize = 64;
/// Bytes of InformInfo.
const INFORM_BYTES: usize = 36;
/// Bytes of a notice with the identifier of its issuer.
pub const NOTICE_BYTES: usize = 80;
/// Stands for all traps and for all types.
const ALL: u64 = 0xffff;

const IS_GENERIC: Field = (176, 8);
const SUBSCRIBE: Field = (184, 8);
const TRAP_TYPE: Field = (192, 16);
const TRAP: Field = (208, 16);
const QPN: Field = (224, 24);

/// Fields of Notice.
mod notice {
    use crate::attributes::Field;

    pub const IS_GENERIC: Field = (0, 1);
    pub const TYPE: Field = (1, 7);
    pub const PRODUCER: Field = (8, 24);
    pub const TRAP: Field = (32, 16);
    pub const ISSUER_LID: Field = (48, 16);
    /// In the traps about nodes that come and go: where the global identifier begins.
    pub const GID_BYTE: usize = 16;
}

/// A notice of an event in the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice(pub [u8; NOTICE_BYTES]);

impl Notice {
    /// The notice that a port has come into service (trap 64) or has gone (trap 65).
    pub fn of_node(place: Place, is_online: bool) -> Notice {
        /// The type is informational; the producer is a class manager.
        const INFORMATIONAL: u64 = 4;
        const CLASS_MANAGER: u64 = 4;
        let mut data = [0; NOTICE_BYTES];
        for (field, value) in [
            (notice::IS_GENERIC, 1),
            (notice::TYPE, INFORMATIONAL),
            (notice::PRODUCER, CLASS_MANAGER),
            (notice::TRAP, if is_online { 64 } else { 65 }),
            (notice::ISSUER_LID, Place::Node(MANAGER).lid().into()),
        ] {
            put(&mut data, field, value);
        }
        data[notice::GID_BYTE..][..16].copy_from_slice(&gid(place.lid()));
        data[64..].copy_from_slice(&gid(Place::Node(MANAGER).lid()));
        Notice(data)
    }

    /// The notice in a trap from the port `lid`.
    pub fn of_trap(lid: u16, data: &[u8; 64]) -> Notice {
        let mut bytes = [0; NOTICE_BYTES];
        bytes[..64].copy_from_slice(data);
        bytes[64..].copy_from_slice(&gid(lid));
        Notice(bytes)
    }

    /// The message that reports the notice to a subscriber.
    pub fn report(&self) -> Vec<u8> {
        let header = SaHeader {
            header: Header {
                base_version: BASE_VERSION,
                class: class::SUBNET_ADMINISTRATION,
                class_version: CLASS_VERSION,
                method: method::REPORT,
                attribute: attribute::NOTICE.into(),
                ..Header::default()
            },
            ..SaHeader::default()
        };
        [header.as_bytes(), &self.0].concat()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Subscription {
    place: Place,
    to: Destination,
    inform: [u8; INFORM_BYTES],
}

impl Subscription {
    fn wants(&self, notice: &Notice) -> bool {
        let generic = get(&self.inform, IS_GENERIC) != 0;
        let is_generic = get(&notice.0, notice::IS_GENERIC) != 0;
        let kind = get(&self.inform, TRAP_TYPE);
        let trap = get(&self.inform, TRAP);
        generic == is_generic
            && (kind == ALL || kind == get(&notice.0, notice::TYPE))
            && (trap == ALL || trap == get(&notice.0, notice::TRAP))
    }

    /// Whether it is the same subscription of the same subscriber.
    fn is_same(&self, other: &Subscription) -> bool {
        let fields = [IS_GENERIC, TRAP_TYPE, TRAP, QPN];
        let same = |field| get(&self.inform, field) == get(&other.inform, field);
        self.place == other.place && self.to.qpn == other.to.qpn && fields.into_iter().all(same)
    }
}

/// All subscriptions.
#[derive(Clone, Debug, Default)]
pub struct Subscribers {
    subscriptions: Vec<Subscription>,
}

impl Subscribers {
    /// Set of InformInfo: begins or ends a subscription.
    ///
    /// # Errors
    /// `DENIED`: the sender has no port here. `NO_RESOURCES`: there are too many subscriptions, of
    /// the port or of all. `INVALID`: there is none to end, or it is to be neither begun nor
    /// ended.
    pub fn set(&mut self, from: &Packet, query: &Query<'_>) -> Answer {
        let place = Place::of(from.source).ok_or(refusal::DENIED)?;
        let inform: [u8; INFORM_BYTES] = core::array::from_fn(|at| query.data[at]);
        let subscription = Subscription {
            place,
            to: from.back(),
            inform,
        };
        let known = self.subscriptions.iter();
        let known = known.clone().position(|of| of.is_same(&subscription));
        let own = self.subscriptions.iter().filter(|of| of.place == place);
        let is_full = own.count() >= MAX_OF_PORT || self.subscriptions.len() >= MAX_SUBSCRIPTIONS;
        match (get(&inform, SUBSCRIBE), known) {
            (0, Some(at)) => {
                self.subscriptions.remove(at);
            }
            (1, Some(at)) => self.subscriptions[at] = subscription,
            (1, None) if is_full => return Err(refusal::NO_RESOURCES),
            (1, None) => self.subscriptions.push(subscription),
            // There is no subscription to end, or the value is neither 0 nor 1.
            _ => return Err(refusal::INVALID),
        }
        let mut record = inform.to_vec();
        record.resize(INFORM_BYTES.next_multiple_of(8), 0);
        Ok(Vec::from([record]))
    }

    /// The subscribers of a notice.
    pub fn of(&self, notice: &Notice) -> Vec<Destination> {
        let wants = self.subscriptions.iter().filter(|of| of.wants(notice));
        wants.map(|of| of.to).collect()
    }

    /// InformInfoRecords.
    pub fn records(&self) -> Vec<Record> {
        let record = |(number, of): (usize, &Subscription)| {
            let subscriber: Gid = gid(of.place.lid());
            let mut record = Vec::from(subscriber);
            record.resize(64, 0);
            put(&mut record, (128, 16), number as u64);
            record[24..24 + INFORM_BYTES].copy_from_slice(&of.inform);
            record
        };
        self.subscriptions.iter().enumerate().map(record).collect()
    }

    /// Removes the subscriptions of a port that has gone.
    pub fn forget(&mut self, place: Place) {
        self.subscriptions.retain(|of| of.place != place);
    }
}
