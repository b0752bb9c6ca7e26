//! Multicast groups: their members, and their local identifiers.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use verbs_core::address::{Gid, gid, is_group};

use super::records::{Query, Record, exactly, life_time, member};
use super::{Answer, refusal};
use crate::attributes::{get, put};
use crate::fabric::{Fabric, Place, switch_port};
use crate::sma::{FIRST_GROUP, GROUP_ENTRIES, MTU_4096, PKEY, RATE_100};

/// Most groups that exist by a request of one port, so that none takes all identifiers.
const MAX_OF_PORT: usize = 16;

/// Bits of components of a membership.
mod component {
    pub const MGID: u32 = 0;
    pub const PORT_GID: u32 = 1;
    pub const QKEY: u32 = 2;
    pub const MTU_SELECTOR: u32 = 4;
    pub const TRAFFIC_CLASS: u32 = 6;
    pub const PKEY: u32 = 7;
    pub const RATE_SELECTOR: u32 = 8;
    pub const SERVICE_LEVEL: u32 = 12;
    pub const FLOW_LABEL: u32 = 13;
    pub const JOIN_STATE: u32 = 16;
}

/// The components that a request must have to create a group.
const NEEDED_TO_CREATE: u64 = 1 << component::QKEY
    | 1 << component::TRAFFIC_CLASS
    | 1 << component::PKEY
    | 1 << component::SERVICE_LEVEL
    | 1 << component::FLOW_LABEL;

/// The first eight bytes of the identifiers that the manager makes.
const MADE: [u8; 8] = [0xff, 0x12, 0xa0, 0x1b, 0, 0, 0, 0];
/// The join state of a full member. Others only send, or do not keep the group alive.
const FULL_MEMBER: u64 = 1;

/// A port in a group.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// Its join states.
    state: u64,
    /// Another port has joined for it (ProxyJoin), so others may change the membership.
    is_proxy: bool,
    /// The local identifier of the port that has joined last.
    joined_by: u16,
}

#[derive(Clone, Debug)]
struct Group {
    lid: u16,
    /// The record of the group, without a member.
    record: Record,
    members: BTreeMap<Place, Member>,
    /// It exists without members, too.
    is_permanent: bool,
    /// The local identifier of the port that has created it; 0 if none has.
    creator: u16,
}

/// All groups.
#[derive(Clone, Debug)]
pub struct Groups {
    groups: BTreeMap<Gid, Group>,
    made: u64,
}

impl Default for Groups {
    /// The broadcast group of IP over InfiniBand always exists, as with other managers.
    fn default() -> Groups {
        const BROADCAST: Gid = [
            0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        const QKEY: u64 = 0x0b1b;
        let mut record = blank(&BROADCAST, FIRST_GROUP);
        put(&mut record, member::QKEY, QKEY);
        put(&mut record, member::SCOPE, 2);
        let group = Group {
            lid: FIRST_GROUP,
            record,
            members: BTreeMap::new(),
            is_permanent: true,
            creator: 0,
        };
        Groups {
            groups: BTreeMap::from([(BROADCAST, group)]),
            made: 0,
        }
    }
}

/// The record of a group, with the values that all groups have.
fn blank(mgid: &Gid, lid: u16) -> Record {
    let mut record = vec![0; member::BYTES];
    record[..16].copy_from_slice(mgid);
    for (field, value) in [
        (member::MLID, lid.into()),
        (member::MTU, exactly(MTU_4096)),
        (member::PKEY, PKEY.into()),
        (member::RATE, exactly(RATE_100)),
        (member::LIFE, life_time()),
    ] {
        put(&mut record, field, value);
    }
    record
}

/// The port that a request names as the member.
///
/// # Errors
/// `TOO_FEW_COMPONENTS`. `BAD_GID`: no port that is online has this identifier.
fn named_port(fabric: &Fabric, query: &Query<'_>) -> Result<Place, u16> {
    if !query.has(component::PORT_GID) || !query.has(component::JOIN_STATE) {
        return Err(refusal::TOO_FEW_COMPONENTS);
    }
    let named: Gid = core::array::from_fn(|at| query.data[16 + at]);
    let mut ports = fabric.nodes().map(Place::Node).chain([Place::Switch]);
    let port = ports.find(|place| gid(place.lid()) == named);
    port.ok_or(refusal::BAD_GID)
}

/// Checks that a port may change a membership: its own, or one that was made for another port,
/// because all ports are of one partition.
///
/// # Errors
/// `DENIED`: the other port has joined itself.
fn may_change(member: Option<&Member>, port: Place, from: u16) -> Result<(), u16> {
    let is_own = Place::of(from) == Some(port);
    match member {
        Some(member) if !member.is_proxy && !is_own => Err(refusal::DENIED),
        _ => Ok(()),
    }
}

impl Groups {
    /// A record for each member, and one for each group that has none.
    pub fn records(&self) -> Vec<Record> {
        let of_group = |group: &Group| {
            let with =
                |(place, member): (&Place, &Member)| member_record(&group.record, *place, *member);
            let mut records: Vec<Record> = group.members.iter().map(with).collect();
            if records.is_empty() {
                records.push(group.record.clone());
            }
            records
        };
        self.groups.values().flat_map(of_group).collect()
    }

    /// Which of 16 ports of the switch lead to members of a group: bit p for port 16 × block + p.
    pub fn ports(&self, lid: u16, block: u32) -> u16 {
        let group = self.groups.values().find(|group| group.lid == lid);
        let members = group.into_iter().flat_map(|group| group.members.keys());
        members.fold(0, |ports, place| {
            let port = match place {
                Place::Switch => 0,
                Place::Node(node) => u32::from(switch_port(*node)),
            };
            match port / 16 == block {
                true => ports | 1 << (port % 16),
                false => ports,
            }
        })
    }

    /// Set of a membership: joins a group, which is created if it does not exist.
    ///
    /// # Errors
    /// `TOO_FEW_COMPONENTS`: the member, its join state or what a new group needs is missing.
    /// `BAD_GID`: no such port is online, or the group has no group's identifier. `INVALID`: no
    /// join state, or properties that the group does not or cannot have. `DENIED`: the port has
    /// joined itself. `NO_RESOURCES`: too many groups.
    pub fn join(&mut self, fabric: &Fabric, from: u16, query: &Query<'_>) -> Answer {
        let place = named_port(fabric, query)?;
        let state = query.value(member::JOIN_STATE);
        let mgid: Gid = core::array::from_fn(|at| query.data[at]);
        let is_named = query.has(component::MGID) && mgid != [0; 16];
        if state == 0 {
            return Err(refusal::INVALID);
        }
        if is_named && !is_group(&mgid) {
            return Err(refusal::BAD_GID);
        }
        let known = self.groups.get(&mgid).filter(|_| is_named);
        let member = known.and_then(|group| group.members.get(&place));
        may_change(member, place, from)?;
        let mgid = match known {
            Some(group) => {
                check_same(group, query)?;
                mgid
            }
            None => self.create(is_named.then_some(mgid), from, state, query)?,
        };
        let group = self.groups.get_mut(&mgid).ok_or(refusal::INVALID)?;
        let member = group.members.entry(place).or_default();
        member.state |= state;
        member.is_proxy = Place::of(from) != Some(place);
        member.joined_by = from;
        let member = *member;
        Ok(Vec::from([member_record(&group.record, place, member)]))
    }

    /// Creates a group for the port `from`.
    fn create(
        &mut self,
        mgid: Option<Gid>,
        from: u16,
        state: u64,
        query: &Query<'_>,
    ) -> Result<Gid, u16> {
        if query.mask & NEEDED_TO_CREATE != NEEDED_TO_CREATE {
            return Err(refusal::TOO_FEW_COMPONENTS);
        }
        if state & FULL_MEMBER == 0 || !can_be_had(query, MTU_4096, RATE_100) {
            return Err(refusal::INVALID);
        }
        if query.value(member::PKEY) & 0x7fff != u64::from(PKEY & 0x7fff) {
            return Err(refusal::INVALID);
        }
        let own = self.groups.values().filter(|group| group.creator == from);
        if own.count() >= MAX_OF_PORT {
            return Err(refusal::NO_RESOURCES);
        }
        let mut lids = FIRST_GROUP..FIRST_GROUP + GROUP_ENTRIES;
        let is_free = |lid: &u16| self.groups.values().all(|group| group.lid != *lid);
        let lid = lids.find(is_free).ok_or(refusal::NO_RESOURCES)?;
        let mgid = mgid.unwrap_or_else(|| {
            self.made += 1;
            let mut made = [0; 16];
            made[..8].copy_from_slice(&MADE);
            made[8..].copy_from_slice(&self.made.to_be_bytes());
            made
        });
        let mut record = blank(&mgid, lid);
        for field in [
            member::QKEY,
            member::TRAFFIC_CLASS,
            member::PKEY,
            member::SERVICE_LEVEL,
            member::FLOW_LABEL,
            member::HOP_LIMIT,
            member::SCOPE,
        ] {
            put(&mut record, field, query.value(field));
        }
        let group = Group {
            lid,
            record,
            members: BTreeMap::new(),
            is_permanent: false,
            creator: from,
        };
        self.groups.insert(mgid, group);
        Ok(mgid)
    }

    /// Delete of a membership: leaves join states of a group, which ends with its last member.
    ///
    /// # Errors
    /// `TOO_FEW_COMPONENTS`: the member or the join state is missing. `BAD_GID`: no such port is
    /// online. `INVALID`: it is not in the group in this state. `DENIED`: the port has joined
    /// itself.
    pub fn leave(&mut self, fabric: &Fabric, from: u16, query: &Query<'_>) -> Answer {
        let place = named_port(fabric, query)?;
        let mgid: Gid = core::array::from_fn(|at| query.data[at]);
        let group = self.groups.get_mut(&mgid).ok_or(refusal::INVALID)?;
        let member = group.members.get_mut(&place).ok_or(refusal::INVALID)?;
        may_change(Some(member), place, from)?;
        let left = member.state & query.value(member::JOIN_STATE);
        if left == 0 {
            return Err(refusal::INVALID);
        }
        member.state &= !left;
        let remaining = *member;
        let record = member_record(&group.record, place, remaining);
        if remaining.state == 0 {
            group.members.remove(&place);
        }
        self.remove_empty();
        Ok(Vec::from([record]))
    }

    /// Removes the memberships of a port that has gone, and those that it has made for the switch,
    /// which never goes.
    pub fn forget(&mut self, place: Place) {
        for group in self.groups.values_mut() {
            group.members.retain(|port, member| {
                let is_of_switch = *port == Place::Switch && member.joined_by == place.lid();
                *port != place && !is_of_switch
            });
        }
        self.remove_empty();
    }

    fn remove_empty(&mut self) {
        self.groups
            .retain(|_, group| group.is_permanent || !group.members.is_empty());
    }
}

/// Checks that a request to join agrees with the properties of the group.
fn check_same(group: &Group, query: &Query<'_>) -> Result<(), u16> {
    let same = |bit: u32, field| !query.has(bit) || query.value(field) == get(&group.record, field);
    let pkey = query.value(member::PKEY) ^ get(&group.record, member::PKEY);
    let is_same = same(component::QKEY, member::QKEY)
        && same(component::TRAFFIC_CLASS, member::TRAFFIC_CLASS)
        && same(component::SERVICE_LEVEL, member::SERVICE_LEVEL)
        && same(component::FLOW_LABEL, member::FLOW_LABEL)
        && (!query.has(component::PKEY) || pkey & 0x7fff == 0)
        && can_be_had(query, MTU_4096, RATE_100);
    if is_same {
        Ok(())
    } else {
        Err(refusal::INVALID)
    }
}

fn can_be_had(query: &Query<'_>, mtu: u8, rate: u8) -> bool {
    query.fits(component::MTU_SELECTOR, member::MTU, mtu)
        && query.fits(component::RATE_SELECTOR, member::RATE, rate)
}

fn member_record(group: &Record, place: Place, of: Member) -> Record {
    let mut record = group.clone();
    record[16..32].copy_from_slice(&gid(place.lid()));
    put(&mut record, member::JOIN_STATE, of.state);
    put(&mut record, member::PROXY_JOIN, of.is_proxy.into());
    record
}
