//! The topology: one switch, to which each node is connected by a port.
//!
//! Port k + 1 of the switch leads to the only port of node k. The switch has no machine of its
//! own: the daemon of node 0 answers for it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use verbs_core::address::{guid, lid, node};

use crate::error::{Error, Result};
use crate::mad::{PERMISSIVE_LID, Smp};

/// The local identifier of the switch.
pub const SWITCH_LID: u16 = 0x100;
/// The node that answers for the switch, and has the subnet manager.
pub const MANAGER: u16 = 0;
/// The number of the port of each node.
pub const NODE_PORT: u8 = 1;
/// The fewest ports that the switch has.
const LEAST_PORTS: u8 = 8;
/// Most hops of a directed route.
const MAX_HOPS: u8 = 63;
/// The highest number of a node: its port of the switch has a number of one byte.
const MAX_NODE: u16 = 253;

/// A place in the fabric that datagrams can go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The port of a node.
    Node(u16),
    /// The switch, at its port 0.
    Switch,
}

impl Place {
    /// The place with this local identifier, online or not.
    pub fn of(lid: u16) -> Option<Place> {
        match lid {
            SWITCH_LID => Some(Place::Switch),
            lid => {
                let node = node(lid).filter(|node| *node <= MAX_NODE);
                node.map(Place::Node)
            }
        }
    }

    /// Its local identifier.
    pub fn lid(self) -> u16 {
        match self {
            Place::Node(node) => lid(node),
            Place::Switch => SWITCH_LID,
        }
    }

    /// Its identifier, unique among all nodes.
    pub fn guid(self) -> u64 {
        guid(self.lid())
    }

    /// Its name, as NodeDescription shows it.
    pub fn name(self) -> String {
        match self {
            Place::Node(node) => format!("skiff node {node}"),
            Place::Switch => String::from("skiff switch"),
        }
    }

    /// The node whose daemon answers for it.
    pub fn daemon(self) -> u16 {
        match self {
            Place::Node(node) => node,
            Place::Switch => MANAGER,
        }
    }
}

/// The port of the switch that leads to a node.
pub fn switch_port(node: u16) -> u8 {
    lid(node.min(MAX_NODE)) as u8
}

/// Where a datagram of a directed route has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The place.
    pub place: Place,
    /// The datagram in the form that it has there.
    pub smp: Smp,
}

/// The topology as a node knows it.
#[derive(Clone, Debug)]
pub struct Fabric {
    own: u16,
    /// Whether this node's port is connected to anything.
    is_up: bool,
    /// The other nodes that are online.
    online: BTreeSet<u16>,
    /// The number of the switch's ports, which never falls.
    ports: u8,
}

impl Fabric {
    /// The topology of a node that knows no other node, and whose port is down.
    pub fn new(own: u16) -> Fabric {
        Fabric {
            own,
            is_up: false,
            online: BTreeSet::new(),
            ports: LEAST_PORTS.max(switch_port(own)),
        }
    }

    /// The number of this node.
    pub fn own(&self) -> u16 {
        self.own
    }

    /// The place of this node's port.
    pub fn own_place(&self) -> Place {
        Place::Node(self.own)
    }

    /// Whether this node's port is up.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Notes that this node's port goes up or down. Returns whether that is a change. While it is
    /// down, no other node is online.
    pub fn set_up(&mut self, is_up: bool) -> bool {
        if !is_up {
            self.online.clear();
        }
        core::mem::replace(&mut self.is_up, is_up) != is_up
    }

    /// Notes that another node comes or goes. Returns whether that is a change.
    pub fn set_online(&mut self, node: u16, is_online: bool) -> bool {
        if node == self.own || node > MAX_NODE {
            return false;
        }
        match is_online {
            true => {
                self.ports = self.ports.max(switch_port(node));
                self.online.insert(node)
            }
            false => self.online.remove(&node),
        }
    }

    /// All nodes that are online, with this one, in order.
    pub fn nodes(&self) -> impl Iterator<Item = u16> + '_ {
        let own = self.is_up.then_some(self.own);
        let mut nodes = self.online.clone();
        nodes.extend(own);
        nodes.into_iter()
    }

    /// Whether a node is online.
    pub fn is_online(&self, node: u16) -> bool {
        match node == self.own {
            true => self.is_up,
            false => self.online.contains(&node),
        }
    }

    /// The number of the switch's ports, besides port 0.
    pub fn ports(&self) -> u8 {
        self.ports
    }

    /// The node at a port of the switch, if it is online.
    pub fn node_at(&self, port: u8) -> Option<u16> {
        let node = u16::from(port.checked_sub(1)?);
        self.is_online(node).then_some(node)
    }

    /// Whether datagrams from this node reach a place.
    pub fn reaches(&self, place: Place) -> bool {
        self.is_up && self.is_online(place.daemon())
    }

    /// The other end of a port's link, and the port by which the link enters it.
    fn next(&self, place: Place, out: u8) -> Option<(Place, u8)> {
        match place {
            Place::Node(node) => {
                let is_there = out == NODE_PORT && self.is_online(node);
                let is_there = is_there && self.reaches(Place::Switch);
                is_there.then_some((Place::Switch, switch_port(node)))
            }
            Place::Switch => self.node_at(out).map(|node| (Place::Node(node), NODE_PORT)),
        }
    }

    /// Where a datagram of a directed route, sent from this node's port to `lid`, ends; `None`: it
    /// is lost on its way.
    ///
    /// # Errors
    /// `Invalid`: no port would send it.
    pub fn direct(&self, lid: u16, smp: &Smp) -> Result<Option<Arrival>> {
        let count = smp.hop_count();
        if count > MAX_HOPS || smp.directed_destination.get() != PERMISSIVE_LID {
            return Err(Error::Invalid);
        }
        // The directed route may begin at the place of a local identifier.
        let start = match smp.directed_source.get() {
            PERMISSIVE_LID => Some(self.own_place()),
            _ => Place::of(lid).filter(|place| self.reaches(*place)),
        };
        let Some(start) = start else {
            return Ok(None);
        };
        match smp.is_returning() {
            false => self.forth(start, smp),
            true => self.back(start, smp),
        }
    }

    fn forth(&self, start: Place, smp: &Smp) -> Result<Option<Arrival>> {
        let count = smp.hop_count();
        let leaves_badly =
            count > 0 && start == self.own_place() && smp.initial_path[1] != NODE_PORT;
        if smp.hop_pointer() != 0 || leaves_badly {
            return Err(Error::Invalid);
        }
        let mut arrival = Arrival {
            place: start,
            smp: *smp,
        };
        for hop in 1..=usize::from(count) {
            let is_switch = arrival.place == Place::Switch;
            // A node's port does not forward what it receives.
            if hop > 1 && !is_switch {
                return Ok(None);
            }
            let Some((place, entered)) = self.next(arrival.place, smp.initial_path[hop]) else {
                return Ok(None);
            };
            arrival.place = place;
            arrival.smp.return_path[hop] = entered;
        }
        arrival.smp.header.hops[0] = count + 1;
        Ok(Some(arrival))
    }

    fn back(&self, start: Place, smp: &Smp) -> Result<Option<Arrival>> {
        let count = smp.hop_count();
        if smp.hop_pointer() != count + 1 {
            return Err(Error::Invalid);
        }
        let mut place = start;
        for hop in (1..=usize::from(count)).rev() {
            let Some((next, _)) = self.next(place, smp.return_path[hop]) else {
                return Ok(None);
            };
            place = next;
        }
        let mut smp = *smp;
        smp.header.hops[0] = 0;
        Ok(Some(Arrival { place, smp }))
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Fabric, Place, SWITCH_LID};
    use crate::error::Error;
    use crate::mad::{Mad, PERMISSIVE_LID, Smp, status};

    /// Node 1, with nodes 0 and 3.
    fn fabric() -> Fabric {
        let mut fabric = Fabric::new(1);
        assert!(fabric.set_up(true) && !fabric.set_up(true));
        assert!(fabric.set_online(0, true) && fabric.set_online(3, true));
        fabric
    }

    fn smp(path: &[u8]) -> Smp {
        let mut smp = Mad::padded(&[1, 0x81, 1, 1]).smp();
        smp.directed_source = PERMISSIVE_LID.into();
        smp.directed_destination = PERMISSIVE_LID.into();
        smp.header.hops = [0, path.len() as u8];
        smp.initial_path[1..=path.len()].copy_from_slice(path);
        smp
    }

    fn place(path: &[u8]) -> Result<Option<Place>, Error> {
        let arrived = fabric().direct(PERMISSIVE_LID, &smp(path))?;
        Ok(arrived.map(|arrival| arrival.place))
    }

    #[test]
    fn a_route_goes_from_port_to_port() {
        assert_eq!(place(&[]), Ok(Some(Place::Node(1))));
        assert_eq!(place(&[1]), Ok(Some(Place::Switch)));
        assert_eq!(place(&[1, 1]), Ok(Some(Place::Node(0))));
        assert_eq!(place(&[1, 2]), Ok(Some(Place::Node(1))));
        assert_eq!(place(&[1, 4]), Ok(Some(Place::Node(3))));
    }

    #[test]
    fn routes_that_lead_nowhere_lose_the_datagram() {
        for path in [&[1, 0][..], &[1, 3], &[1, 200], &[1, 1, 1], &[1, 1, 1, 1]] {
            assert_eq!(place(path), Ok(None), "{path:?}");
        }
        let mut down = fabric();
        down.set_up(false);
        assert_eq!(down.direct(PERMISSIVE_LID, &smp(&[1])), Ok(None));
        assert!(down.direct(PERMISSIVE_LID, &smp(&[])).unwrap().is_some());
    }

    #[test]
    fn routes_that_no_port_sends_are_refused() {
        assert_eq!(place(&[2]), Err(Error::Invalid));
        assert_eq!(place(&[0]), Err(Error::Invalid));
        for change in [
            |smp: &mut Smp| smp.header.hops = [1, 1],
            |smp: &mut Smp| smp.header.hops = [0, 64],
            |smp: &mut Smp| smp.header.hops = [0, 255],
            |smp: &mut Smp| smp.directed_destination = 1.into(),
        ] {
            let mut smp = smp(&[1]);
            change(&mut smp);
            let sent = fabric().direct(PERMISSIVE_LID, &smp);
            assert_eq!(sent, Err(Error::Invalid));
        }
    }

    #[test]
    fn the_return_path_leads_back() {
        let fabric = fabric();
        let Ok(Some(Arrival { place, mut smp })) = fabric.direct(PERMISSIVE_LID, &smp(&[1, 4]))
        else {
            panic!("it arrives");
        };
        assert_eq!((place, smp.hop_pointer()), (Place::Node(3), 3));
        assert_eq!(smp.return_path[1..3], [2, 1]);
        smp.header.status = status::DIRECTION.into();
        let mut there = Fabric::new(3);
        there.set_up(true);
        there.set_online(0, true);
        there.set_online(1, true);
        let back = there.direct(PERMISSIVE_LID, &smp).unwrap().unwrap();
        assert_eq!((back.place, back.smp.hop_pointer()), (Place::Node(1), 0));
        smp.header.hops[0] = 1;
        assert_eq!(there.direct(PERMISSIVE_LID, &smp), Err(Error::Invalid));
    }

    #[test]
    fn a_route_may_begin_at_a_local_identifier() {
        let mut smp = smp(&[4]);
        smp.directed_source = 2.into();
        let arrived = fabric().direct(SWITCH_LID, &smp).unwrap().unwrap();
        assert_eq!(arrived.place, Place::Node(3));
        assert_eq!(fabric().direct(9, &smp), Ok(None));
    }

    #[test]
    fn places_have_their_identifiers() {
        for place in [Place::Node(0), Place::Node(128), Place::Switch] {
            assert_eq!(Place::of(place.lid()), Some(place));
        }
        for lid in [0, 0xff, 0x101, 0xc000, 0xffff] {
            assert_eq!(Place::of(lid), None, "{lid}");
        }
        assert_eq!(Place::Node(3).guid(), 0x0253_4b49_0000_0003);
    }

    #[test]
    fn the_switch_keeps_its_ports() {
        let mut fabric = fabric();
        assert_eq!(fabric.ports(), 8);
        fabric.set_online(11, true);
        fabric.set_online(11, false);
        assert_eq!((fabric.ports(), fabric.node_at(12)), (12, None));
        assert_eq!(fabric.nodes().collect::<alloc::vec::Vec<_>>(), [0, 1, 3]);
    }
}
