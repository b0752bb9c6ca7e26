//! The agents of subnet management: that of each node's port and, on node 0, that of the switch.
//! They answer Get and Set of the attributes that they have.
//!
//! Set changes nothing: state, identifiers and tables follow from the topology, and the answer
//! contains the present values.

use crate::attributes::{attribute, capability, get, node_info, port_info, put, switch_info};
use crate::fabric::{Fabric, NODE_PORT, Place, SWITCH_LID};
use crate::mad::{Mad, class, method, status};

/// Version of the class.
const CLASS_VERSION: u8 = 1;
/// Bytes of an attribute.
pub const DATA_BYTES: usize = 64;
/// The prefix of global identifiers.
const GID_PREFIX: u64 = 0xfe80 << 48;
/// The only partition key.
pub const PKEY: u16 = 0xffff;
/// Packets of 4096 bytes, as a code.
pub const MTU_4096: u8 = 5;
/// 100 Gbit/s, as a code of records.
pub const RATE_100: u8 = 16;
/// Entries of the switch's table of local identifiers.
const LINEAR_ENTRIES: u16 = 1024;
/// Entries of the switch's table of groups.
pub const GROUP_ENTRIES: u16 = 64;
/// The port number of an entry that leads nowhere.
const NO_PORT: u8 = 0xff;
/// The first identifier of a group.
pub const FIRST_GROUP: u16 = 0xc000;

/// What the agents read besides the topology.
pub trait Knowledge {
    /// Whether a subnet manager of a program has taken this node's port.
    fn has_sm_bit(&self) -> bool;
    /// Datagrams whose key was not that of the queue pair.
    fn qkey_violations(&self) -> u16;
    /// The contents of SMInfo, if the port has a manager.
    fn sm_info(&self) -> Option<[u8; DATA_BYTES]>;
    /// Which of 16 ports of the switch have members of the group: bit p for port 16 × block + p.
    fn group_ports(&self, lid: u16, block: u32) -> u16;
}

/// What a request causes besides its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Programs are asked to register with subnet administration again.
    ClientReregister,
}

/// NodeDescription of a place.
pub fn node_description(place: Place) -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    let name = place.name();
    data[..name.len()].copy_from_slice(name.as_bytes());
    data
}

/// NodeInfo of a place that a datagram has entered by a port.
pub fn node_info(fabric: &Fabric, place: Place, entered: u8) -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    let is_switch = place == Place::Switch;
    let ports = if is_switch { fabric.ports() } else { 1 };
    for (field, value) in [
        (node_info::BASE_VERSION, 1),
        (node_info::CLASS_VERSION, 1),
        (node_info::NODE_TYPE, if is_switch { 2 } else { 1 }),
        (node_info::PORTS, ports.into()),
        (node_info::SYSTEM_GUID, Place::Node(0).guid()),
        (node_info::NODE_GUID, place.guid()),
        (node_info::PORT_GUID, place.guid()),
        (node_info::PARTITIONS, 1),
        (node_info::LOCAL_PORT, entered.into()),
    ] {
        put(&mut data, field, value);
    }
    data
}

/// The capabilities of a port.
pub fn capabilities(has_sm_bit: bool) -> u32 {
    let sm = if has_sm_bit { capability::IS_SM } else { 0 };
    capability::ALWAYS | sm
}

/// PortInfo of a port of a place that a datagram has entered by a port; `None`: there is no such
/// port.
pub fn port_info(fabric: &Fabric, place: Place, port: u8, entered: u8) -> Option<[u8; DATA_BYTES]> {
    let is_external = place == Place::Switch && port != 0;
    let exists = match place {
        Place::Node(_) => port == NODE_PORT,
        Place::Switch => port <= fabric.ports(),
    };
    if !exists {
        return None;
    }
    let is_active = match (place, is_external) {
        (Place::Switch, true) => fabric.node_at(port).is_some(),
        (Place::Switch, false) => true,
        (Place::Node(node), _) => fabric.is_online(node),
    };
    let (state, physical) = if is_active { (4, 5) } else { (1, 2) };
    let mut data = [0; DATA_BYTES];
    for (field, value) in [
        (port_info::LOCAL_PORT, entered.into()),
        (port_info::WIDTH_ENABLED, 2),
        (port_info::WIDTH_SUPPORTED, 2),
        (port_info::WIDTH_ACTIVE, 2),
        // 2.5, 5 and 10 Gbit/s for each lane; beyond that 25.
        (port_info::SPEED_SUPPORTED, 7),
        (port_info::SPEED_ACTIVE, 4),
        (port_info::SPEED_ENABLED, 7),
        (port_info::EXTENDED_SUPPORTED, 2),
        (port_info::EXTENDED_ACTIVE, if is_active { 2 } else { 0 }),
        (port_info::EXTENDED_ENABLED, 2),
        (port_info::STATE, state),
        (port_info::PHYSICAL_STATE, physical),
        (port_info::DOWN_DEFAULT, 2),
        (port_info::NEIGHBOUR_MTU, MTU_4096.into()),
        (port_info::MTU_CAPABILITY, MTU_4096.into()),
        (port_info::VL_CAPABILITY, 1),
        (port_info::OPERATIONAL_VLS, 1),
        (port_info::VL_HIGH_CAPACITY, 1),
        (port_info::VL_LOW_CAPACITY, 1),
    ] {
        put(&mut data, field, value);
    }
    if !is_external {
        for (field, value) in [
            (port_info::GID_PREFIX, GID_PREFIX),
            (port_info::LID, place.lid().into()),
            (port_info::SM_LID, Place::Node(0).lid().into()),
            (port_info::CAPABILITIES, capabilities(false).into()),
            (port_info::GUID_CAPABILITY, 1),
            (port_info::SUBNET_TIMEOUT, 18),
            (port_info::RESPONSE_TIME, 18),
        ] {
            put(&mut data, field, value);
        }
    }
    Some(data)
}

/// GUIDInfo of a place: block 0 has its only identifier.
pub fn guid_info(place: Place) -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    data[..8].copy_from_slice(&place.guid().to_be_bytes());
    data
}

/// P_KeyTable: block 0 has the only key.
pub fn pkey_table() -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    data[..2].copy_from_slice(&PKEY.to_be_bytes());
    data
}

/// SwitchInfo of the switch.
pub fn switch_info() -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    for (field, value) in [
        (switch_info::LINEAR_CAPACITY, LINEAR_ENTRIES.into()),
        (switch_info::MULTICAST_CAPACITY, GROUP_ENTRIES.into()),
        (switch_info::LINEAR_TOP, SWITCH_LID.into()),
        (switch_info::LIFE_TIME, 18),
        (switch_info::PARTITION_CAPACITY, 1),
        (
            switch_info::MULTICAST_TOP,
            u64::from(FIRST_GROUP + GROUP_ENTRIES - 1),
        ),
    ] {
        put(&mut data, field, value);
    }
    data
}

/// A block of 64 entries of the switch's table of local identifiers.
pub fn linear_block(fabric: &Fabric, block: u16) -> Option<[u8; DATA_BYTES]> {
    if block >= LINEAR_ENTRIES / DATA_BYTES as u16 {
        return None;
    }
    let mut data = [NO_PORT; DATA_BYTES];
    for (lid, entry) in (block * DATA_BYTES as u16..).zip(&mut data) {
        match Place::of(lid) {
            Some(Place::Switch) => *entry = 0,
            Some(Place::Node(_)) if lid <= fabric.ports().into() => *entry = lid as u8,
            _ => {}
        }
    }
    Some(data)
}

/// Groups in a block of the switch's table of groups.
const GROUPS_PER_BLOCK: u16 = 32;

/// A block of the switch's table of groups: 16 ports of 32 groups.
fn group_block(known: &dyn Knowledge, modifier: u32) -> Option<[u8; DATA_BYTES]> {
    let (block, position) = (modifier & 0x1ff, modifier >> 28);
    if block >= u32::from(GROUP_ENTRIES / GROUPS_PER_BLOCK) {
        return None;
    }
    let mut data = [0; DATA_BYTES];
    let first = FIRST_GROUP + block as u16 * GROUPS_PER_BLOCK;
    for (lid, entry) in (first..).zip(data.chunks_exact_mut(2)) {
        entry.copy_from_slice(&known.group_ports(lid, position).to_be_bytes());
    }
    Some(data)
}

/// A request for an attribute, and the place where it has arrived.
struct Asked<'a> {
    fabric: &'a Fabric,
    known: &'a dyn Knowledge,
    place: Place,
    entered: u8,
    modifier: u32,
}

impl Asked<'_> {
    /// The port that the modifier names; 0 stands for the port of arrival.
    fn port(&self) -> u8 {
        match (self.place, self.modifier as u8) {
            (Place::Node(_), 0) => NODE_PORT,
            (_, port) => port,
        }
    }

    fn port_info(&self) -> Option<[u8; DATA_BYTES]> {
        let mut data = port_info(self.fabric, self.place, self.port(), self.entered)?;
        if self.place == self.fabric.own_place() {
            let capabilities = capabilities(self.known.has_sm_bit());
            put(&mut data, port_info::CAPABILITIES, capabilities.into());
            let violations = self.known.qkey_violations();
            put(&mut data, port_info::QKEY_VIOLATIONS, violations.into());
        }
        Some(data)
    }

    /// The attribute with this number; `Ok(None)`: its modifier names nothing.
    ///
    /// # Errors
    /// There is no such attribute here.
    fn attribute(&self, number: u16) -> Result<Option<[u8; DATA_BYTES]>, ()> {
        let is_first = |data| (self.modifier & 0xffff == 0).then_some(data);
        Ok(match (number, self.place) {
            (attribute::NODE_DESCRIPTION, place) => Some(node_description(place)),
            (attribute::NODE_INFO, place) => Some(node_info(self.fabric, place, self.entered)),
            (attribute::GUID_INFO, place) => is_first(guid_info(place)),
            (attribute::PORT_INFO, _) => self.port_info(),
            (attribute::PKEY_TABLE, _) => is_first(pkey_table()),
            (attribute::SL_TO_VL, _) => Some([0; DATA_BYTES]),
            (attribute::VL_ARBITRATION, _) => {
                // Blocks 1 and 2 are the table of low priority, 3 and 4 that of high priority:
                // the only entry of each is lane 0.
                let block = self.modifier >> 16;
                let mut data = [0; DATA_BYTES];
                data[1] = u8::from(block % 2 == 1);
                matches!(block, 1..=4).then_some(data)
            }
            (attribute::SWITCH_INFO, Place::Switch) => Some(switch_info()),
            (attribute::LINEAR_FORWARDING, Place::Switch) => {
                let block = u16::try_from(self.modifier).ok();
                block.and_then(|block| linear_block(self.fabric, block))
            }
            (attribute::MULTICAST_FORWARDING, Place::Switch) => {
                group_block(self.known, self.modifier)
            }
            (attribute::SM_INFO, Place::Node(_)) => Some(self.known.sm_info().ok_or(())?),
            _ => return Err(()),
        })
    }
}

/// Answers a request that has entered a place by a port, if the agent there has the attribute.
pub fn process(
    fabric: &Fabric,
    known: &dyn Knowledge,
    place: Place,
    entered: u8,
    mad: &Mad,
) -> Option<(Mad, Effect)> {
    let asked = mad.smp();
    let header = &mad.header;
    if !matches!(header.method, method::GET | method::SET) {
        return None;
    }
    let request = Asked {
        fabric,
        known,
        place,
        entered,
        modifier: header.modifier.get(),
    };
    let mut answer = asked;
    answer.header.method = method::GET_RESPONSE;
    let (status, data) = match request.attribute(header.attribute.get()) {
        _ if header.class_version != CLASS_VERSION => (status::BAD_VERSION, None),
        Ok(Some(data)) => (0, Some(data)),
        Ok(None) => (status::BAD_VALUE, None),
        Err(()) => return None,
    };
    answer.data = data.unwrap_or(asked.data);
    let is_set = header.method == method::SET && data.is_some();
    let is_port = header.attribute.get() == attribute::PORT_INFO;
    let wants = get(&asked.data, port_info::CLIENT_REREGISTER) != 0;
    let effect = match is_set && is_port && wants && place == fabric.own_place() {
        true => Effect::ClientReregister,
        false => Effect::None,
    };
    answer.header.status = status.into();
    Some((returning(answer), effect))
}

/// The answer in the form in which it arrives: one of a directed route has gone all the way back.
fn returning(mut answer: crate::mad::Smp) -> Mad {
    if answer.header.class == class::SUBNET_DIRECTED {
        let with_direction = answer.header.status.get() | status::DIRECTION;
        answer.header.status = with_direction.into();
        answer.header.hops[0] = 0;
    }
    Mad::from_smp(answer)
}

/// The answer to a request that no agent has claimed.
pub fn unmatched(mad: &Mad) -> Option<Mad> {
    if !matches!(mad.header.method, method::GET | method::SET) {
        return None;
    }
    let mut smp = mad.smp();
    smp.header.method = method::GET_RESPONSE;
    smp.header.status = status::ATTRIBUTE_UNKNOWN.into();
    Some(returning(smp))
}

#[cfg(test)]
mod tests {
    use super::{DATA_BYTES, Effect, Knowledge, process, unmatched};
    use crate::attributes::{attribute, get, node_info, port_info, put, switch_info};
    use crate::fabric::{Fabric, Place};
    use crate::mad::{Mad, Smp, method, status};

    struct Known;

    impl Knowledge for Known {
        fn has_sm_bit(&self) -> bool {
            true
        }
        fn qkey_violations(&self) -> u16 {
            7
        }
        fn sm_info(&self) -> Option<[u8; DATA_BYTES]> {
            None
        }
        fn group_ports(&self, lid: u16, block: u32) -> u16 {
            match (lid, block) {
                (0xc001, 0) => 1,
                (0xc001, 1) => 3,
                _ => 0,
            }
        }
    }

    fn fabric() -> Fabric {
        let mut fabric = Fabric::new(0);
        fabric.set_up(true);
        fabric.set_online(2, true);
        fabric
    }

    fn ask(place: Place, method: u8, number: u16, modifier: u32) -> Option<(Smp, Effect)> {
        let mut mad = Mad::padded(&[1, 1, 1, method]);
        mad.header.attribute = number.into();
        mad.header.modifier = modifier.into();
        let mut smp = mad.smp();
        put(&mut smp.data, port_info::CLIENT_REREGISTER, 1);
        let mad = Mad::from_smp(smp);
        let (answer, effect) = process(&fabric(), &Known, place, 3, &mad)?;
        assert_eq!(answer.header.method, method::GET_RESPONSE);
        Some((answer.smp(), effect))
    }

    fn data(place: Place, number: u16, modifier: u32) -> [u8; DATA_BYTES] {
        let (smp, _) = ask(place, method::GET, number, modifier).expect("it is known");
        assert_eq!(smp.header.status.get(), 0, "{number:#x} {modifier:#x}");
        smp.data
    }

    #[test]
    fn a_node_says_what_it_is() {
        let info = data(Place::Node(0), attribute::NODE_INFO, 0);
        assert_eq!(
            (
                get(&info, node_info::NODE_TYPE),
                get(&info, node_info::PORTS)
            ),
            (1, 1)
        );
        assert_eq!(get(&info, node_info::LOCAL_PORT), 3);
        let text = data(Place::Node(0), attribute::NODE_DESCRIPTION, 0);
        assert_eq!(&text[..13], b"skiff node 0\0");
        let port = data(Place::Node(0), attribute::PORT_INFO, 1);
        assert_eq!(port, data(Place::Node(0), attribute::PORT_INFO, 0));
        assert_eq!(
            (get(&port, port_info::LID), get(&port, port_info::STATE)),
            (1, 4)
        );
        assert_eq!(get(&port, port_info::CAPABILITIES) & 2, 2);
        assert_eq!(get(&port, port_info::QKEY_VIOLATIONS), 7);
        let keys = data(Place::Node(0), attribute::PKEY_TABLE, 0);
        assert_eq!(keys[..4], [0xff, 0xff, 0, 0]);
        let guids = data(Place::Node(0), attribute::GUID_INFO, 0);
        assert_eq!(guids[..9], [2, 0x53, 0x4b, 0x49, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_switch_has_a_port_for_each_node() {
        let info = data(Place::Switch, attribute::NODE_INFO, 0);
        assert_eq!(
            (
                get(&info, node_info::NODE_TYPE),
                get(&info, node_info::PORTS)
            ),
            (2, 8)
        );
        for (port, state, physical) in [(0, 4, 5), (1, 4, 5), (2, 1, 2), (3, 4, 5), (8, 1, 2)] {
            let info = data(Place::Switch, attribute::PORT_INFO, port);
            let found = (
                get(&info, port_info::STATE),
                get(&info, port_info::PHYSICAL_STATE),
            );
            assert_eq!(found, (state, physical), "{port}");
            assert_eq!(get(&info, port_info::LID) == 0x100, port == 0);
        }
        let port = data(Place::Node(0), attribute::PORT_INFO, 1);
        let entries = (
            get(&port, port_info::VL_LOW_CAPACITY),
            get(&port, port_info::VL_HIGH_CAPACITY),
        );
        assert_eq!(entries, (1, 1));
        for (block, weight) in [(1, 1), (2, 0), (3, 1), (4, 0)] {
            let table = data(Place::Node(0), attribute::VL_ARBITRATION, block << 16 | 1);
            assert_eq!(table[..2], [0, weight], "{block}");
        }
        let table = data(Place::Switch, attribute::LINEAR_FORWARDING, 0);
        assert_eq!(table[..10], [255, 1, 2, 3, 4, 5, 6, 7, 8, 255]);
        assert_eq!(
            data(Place::Switch, attribute::LINEAR_FORWARDING, 4)[..2],
            [0, 255]
        );
        let top = data(Place::Switch, attribute::SWITCH_INFO, 0);
        assert_eq!(get(&top, switch_info::LINEAR_TOP), 0x100);
        let groups = data(Place::Switch, attribute::MULTICAST_FORWARDING, 0);
        assert_eq!(groups[..6], [0, 0, 0, 1, 0, 0]);
        let groups = data(Place::Switch, attribute::MULTICAST_FORWARDING, 1 << 28);
        assert_eq!(groups[..6], [0, 0, 0, 3, 0, 0]);
    }

    #[test]
    fn modifiers_that_name_nothing_are_bad_values() {
        for (place, number, modifier) in [
            (Place::Node(0), attribute::PORT_INFO, 2),
            (Place::Node(0), attribute::GUID_INFO, 1),
            (Place::Node(0), attribute::PKEY_TABLE, 1),
            (Place::Node(0), attribute::VL_ARBITRATION, 0),
            (Place::Switch, attribute::PORT_INFO, 9),
            (Place::Switch, attribute::LINEAR_FORWARDING, 16),
            (Place::Switch, attribute::MULTICAST_FORWARDING, 2),
        ] {
            let (smp, _) = ask(place, method::GET, number, modifier).unwrap();
            assert_eq!(smp.header.status.get(), status::BAD_VALUE, "{number:#x}");
        }
    }

    #[test]
    fn what_is_not_known_is_left_to_others() {
        assert_eq!(
            ask(Place::Node(0), method::GET, attribute::SWITCH_INFO, 0),
            None
        );
        assert_eq!(
            ask(Place::Node(0), method::GET, attribute::SM_INFO, 0),
            None
        );
        assert_eq!(ask(Place::Node(0), method::GET, 0xff00, 0), None);
        assert_eq!(
            ask(Place::Node(0), method::TRAP, attribute::NODE_INFO, 0),
            None
        );
        let mad = Mad::padded(&[1, 0x81, 1, method::SET]);
        let answer = unmatched(&mad).unwrap();
        assert_eq!(answer.header.status.get(), 0x800c);
        assert_eq!(unmatched(&Mad::padded(&[1, 1, 1, method::TRAP])), None);
    }

    #[test]
    fn set_changes_nothing_but_may_ask_for_registering_anew() {
        let (smp, effect) = ask(Place::Node(0), method::SET, attribute::PORT_INFO, 1).unwrap();
        assert_eq!(effect, Effect::ClientReregister);
        assert_eq!(get(&smp.data, port_info::CLIENT_REREGISTER), 0);
        let (_, effect) = ask(Place::Node(0), method::GET, attribute::PORT_INFO, 1).unwrap();
        assert_eq!(effect, Effect::None);
        let (_, effect) = ask(Place::Switch, method::SET, attribute::PORT_INFO, 1).unwrap();
        assert_eq!(effect, Effect::None);
    }
}
