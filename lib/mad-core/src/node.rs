//! A node in the fabric: its port with the programs' descriptors, the built-in agents, and the
//! datagrams to and from other nodes.
//!
//! The system around it opens and closes descriptors, tells it which nodes are online, carries the
//! datagrams of [`Node::next_frame`] and passes those of other nodes to [`Node::receive`].

mod manager;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use verbs_abi::mad::{RegisterAgent, RegisterAgent2, USER_RMPP, request};
use zerocopy::{FromBytes, IntoBytes};

use crate::agents::{Owner, Registration};
use crate::attributes::attribute;
use crate::descriptor::{self, Descriptor};
use crate::descriptors::Descriptors;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, MANAGER, NODE_PORT, Place, switch_port};
use crate::frame::{self, FRAME_BYTES, Malformed};
use crate::mad::{BASE_VERSION, GSI_QKEY, Mad, PERMISSIVE_LID, class, method};
use crate::packet::Packet;
use crate::pma::{self, Traffic};
use crate::port::{Claimed, Delivery, Port};
use crate::sa::Administration;
use crate::sma::{self, DATA_BYTES, Effect, Knowledge};
use manager::Manager;

/// Bytes of a datagram on a link, with the headers of packet and transport and the checksums.
const PACKET_BYTES: u64 = 256 + 8 + 12 + 8 + 6;

/// What programs get as asynchronous events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The subnet manager asks programs to register again.
    ClientReregister,
}

/// What the agents of subnet management read of a node.
struct Known<'a> {
    has_sm_bit: bool,
    qkey_violations: u16,
    administration: Option<&'a Administration>,
}

impl Knowledge for Known<'_> {
    fn has_sm_bit(&self) -> bool {
        self.has_sm_bit
    }

    fn qkey_violations(&self) -> u16 {
        self.qkey_violations
    }

    fn sm_info(&self) -> Option<[u8; DATA_BYTES]> {
        self.administration.map(Administration::sm_info)
    }

    fn group_ports(&self, lid: u16, block: u32) -> u16 {
        self.administration
            .map_or(0, |of| of.groups.ports(lid, block))
    }
}

/// A node; see the module.
#[derive(Debug)]
pub struct Node {
    fabric: Fabric,
    port: Port,
    manager: Option<Manager>,
    descriptors: Descriptors,
    has_sm_bit: bool,
    qkey_violations: u16,
    counters: pma::Counters,
    /// The traffic besides management datagrams, and that of management datagrams.
    other_traffic: Traffic,
    own_traffic: Traffic,
    inbox: VecDeque<(Place, Packet)>,
    outbox: VecDeque<(u16, Packet)>,
    events: VecDeque<Event>,
    woken: BTreeSet<u64>,
}

impl Node {
    /// A node that knows no other node.
    pub fn new(own: u16) -> Node {
        let fabric = Fabric::new(own);
        let mut port = Port::new(fabric.own_place().lid());
        let manager = (own == MANAGER).then(|| Manager::new(&mut port)).flatten();
        Node {
            fabric,
            port,
            manager,
            descriptors: Descriptors::default(),
            has_sm_bit: false,
            qkey_violations: 0,
            counters: pma::Counters::default(),
            other_traffic: Traffic::default(),
            own_traffic: Traffic::default(),
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            woken: BTreeSet::new(),
        }
    }

    /// A node with another number, in the place of `before`, that knows no other node. Nothing is
    /// left of the descriptors of `before`, and none of the new ones gets a number of theirs.
    pub fn after(before: &Node, own: u16) -> Node {
        Node {
            descriptors: Descriptors::after(&before.descriptors),
            has_sm_bit: before.has_sm_bit,
            ..Node::new(own)
        }
    }

    /// The topology as this node knows it.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The node's port.
    pub fn port(&self) -> &Port {
        &self.port
    }

    // ---- What is around ----

    /// Notes that this node's port goes up or down.
    pub fn set_up(&mut self, is_up: bool, now: u64) {
        let gone: Vec<u16> = self.fabric.nodes().collect();
        if !self.fabric.set_up(is_up) {
            return;
        }
        let own = self.fabric.own();
        let others = gone.into_iter().filter(|node| !is_up && *node != own);
        for node in others.collect::<Vec<_>>() {
            self.node_changed(node, false, now);
        }
        self.run(now);
    }

    /// Notes that another node comes or goes.
    pub fn set_online(&mut self, node: u16, is_online: bool, now: u64) {
        if self.fabric.set_online(node, is_online) {
            self.node_changed(node, is_online, now);
            self.run(now);
        }
    }

    fn node_changed(&mut self, node: u16, is_online: bool, now: u64) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        for notice in manager.administration.node_changed(node, is_online) {
            self.report(&notice, now);
        }
    }

    /// Sets the traffic of the port besides management datagrams.
    pub fn set_traffic(&mut self, traffic: Traffic) {
        self.other_traffic = traffic;
    }

    /// All traffic of the port.
    pub fn traffic(&self) -> Traffic {
        let (one, other) = (&self.own_traffic, &self.other_traffic);
        Traffic {
            sent_bytes: one.sent_bytes.wrapping_add(other.sent_bytes),
            received_bytes: one.received_bytes.wrapping_add(other.received_bytes),
            sent_packets: one.sent_packets.wrapping_add(other.sent_packets),
            received_packets: one.received_packets.wrapping_add(other.received_packets),
            discarded: one.discarded.wrapping_add(other.discarded),
        }
    }

    /// The capabilities of the port (`cap_mask`).
    pub fn capabilities(&self) -> u32 {
        sma::capabilities(self.has_sm_bit)
    }

    /// Sets or clears the bit of a subnet manager, for `issm0`.
    pub fn set_sm_bit(&mut self, has_sm_bit: bool) {
        self.has_sm_bit = has_sm_bit;
    }

    // ---- Descriptors ----

    /// Opens a descriptor and returns its number.
    pub fn open(&mut self) -> u64 {
        self.descriptors.open()
    }

    /// Closes a descriptor: its agents and what waits to be read are dropped.
    pub fn close(&mut self, number: u64) {
        if let Some(descriptor) = self.descriptors.close(number) {
            for agent in descriptor.agents() {
                self.port.unregister(agent);
            }
        }
        self.woken.remove(&number);
    }

    /// The descriptor with this number.
    pub fn descriptor(&self, number: u64) -> Option<&Descriptor> {
        self.descriptors.get(number)
    }

    /// Executes a request of `ioctl`, whose structure is changed in place.
    ///
    /// # Errors
    /// `Unknown`: no such request. `Invalid`: the payload is shorter than the structure; a value
    /// is not possible; a method belongs to another agent. `NoMemory`: the descriptor has 32
    /// agents.
    pub fn control(&mut self, number: u64, asked: u64, payload: &mut [u8]) -> Result<()> {
        match asked {
            request::REGISTER_AGENT => {
                let (asked, _) =
                    RegisterAgent::read_from_prefix(payload).map_err(|_| Error::Invalid)?;
                let id = self.register(number, descriptor::registration(&asked), false)?;
                payload[..size_of::<u32>()].copy_from_slice(&id.to_ne_bytes());
            }
            request::REGISTER_AGENT2 => {
                let (mut asked, _) =
                    RegisterAgent2::read_from_prefix(payload).map_err(|_| Error::Invalid)?;
                let result = self.register2(number, &mut asked);
                payload[..size_of::<RegisterAgent2>()].copy_from_slice(asked.as_bytes());
                result?;
            }
            request::UNREGISTER_AGENT => {
                let (id, _) = u32::read_from_prefix(payload).map_err(|_| Error::Invalid)?;
                let agent = self.descriptors.get_mut(number)?.remove(id)?;
                self.port.unregister(agent);
            }
            request::ENABLE_PKEY => self.descriptors.get_mut(number)?.enable_pkey()?,
            _ => return Err(Error::Unknown),
        }
        Ok(())
    }

    fn register2(&mut self, number: u64, asked: &mut RegisterAgent2) -> Result<()> {
        if !matches!(asked.qpn, 0 | 1) {
            return Err(Error::Invalid);
        }
        if asked.flags & !USER_RMPP != 0 {
            asked.flags = USER_RMPP;
            return Err(Error::Invalid);
        }
        asked.id = self.register(number, descriptor::registration2(asked)?, true)?;
        Ok(())
    }

    fn register(&mut self, number: u64, asked: Registration, is_second: bool) -> Result<u32> {
        if !matches!(asked.qpn, 0 | 1) {
            return Err(Error::Invalid);
        }
        let id = self.descriptors.get_mut(number)?.free_number()?;
        let agent = self.port.register(Owner::User(number), asked)?;
        self.descriptors.get_mut(number)?.add(id, agent, is_second);
        Ok(id as u32)
    }

    /// Sends a message that a program has written, with one of its agents. Returns its length.
    ///
    /// # Errors
    /// `Invalid`: the length, the agent's number, an index, a route that the port does not send,
    /// or a send of the same transaction is not finished. `Io`: no such agent. `NoMemory`.
    pub fn write(&mut self, number: u64, bytes: &[u8], now: u64) -> Result<usize> {
        let descriptor = self.descriptors.get(number).ok_or(Error::Io)?;
        let mut request = descriptor.request(bytes)?;
        let mad = Mad::padded(&request.message);
        if mad.header.class == class::SUBNET_DIRECTED {
            let arrival = self.fabric.direct(request.to.lid, &mad.smp())?;
            // If the route leads nowhere, nobody answers, even if a port appears there later.
            let responder = arrival.map(|arrival| arrival.place.lid());
            request.responder = responder.unwrap_or(PERMISSIVE_LID);
        }
        self.port.send(request, now)?;
        self.run(now);
        Ok(bytes.len())
    }

    /// Stores the next message for a program that reads. Returns its length.
    ///
    /// # Errors
    /// Those of [`Descriptor::read`]. `Io`: no such descriptor.
    pub fn read(&mut self, number: u64, buffer: &mut [u8]) -> Result<usize> {
        self.descriptors.read(number, buffer)
    }

    /// The descriptors that have received something to read since the last call.
    pub fn take_woken(&mut self) -> BTreeSet<u64> {
        core::mem::take(&mut self.woken)
    }

    /// The next event for programs.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // ---- Time, and other nodes ----

    /// Does what is due. `now`: nanoseconds.
    pub fn progress(&mut self, now: u64) {
        self.port.progress(now);
        self.run(now);
    }

    /// When [`progress`](Self::progress) has something to do, in nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.port.deadline()
    }

    /// The next record to send, and the node whose daemon it is for.
    pub fn next_frame(&mut self) -> Option<(u16, [u8; FRAME_BYTES])> {
        let (node, packet) = self.outbox.pop_front()?;
        Some((node, frame::encode(&packet)))
    }

    /// Handles a record from the daemon of another node.
    ///
    /// # Errors
    /// The bytes are not a record.
    pub fn receive(
        &mut self,
        peer: u16,
        bytes: &[u8; FRAME_BYTES],
        now: u64,
    ) -> core::result::Result<(), Malformed> {
        let packet = frame::decode(bytes, peer, self.fabric.own())?;
        if let Some(place) = Place::of(packet.to.lid) {
            self.inbox.push_back((place, packet));
        }
        self.run(now);
        Ok(())
    }

    /// Counts a record that could not be sent.
    pub fn count_discarded(&mut self) {
        self.own_traffic.discarded += 1;
    }

    // ---- Carrying ----

    /// Handles what is in the queues until they are empty. They become empty because each built-in
    /// agent answers a request only once.
    fn run(&mut self, now: u64) {
        loop {
            if let Some(packet) = self.port.next_packet() {
                self.send(packet);
            } else if let Some((place, packet)) = self.inbox.pop_front() {
                self.arrive(place, &packet, now);
            } else if let Some(delivery) = self.port.next_delivery() {
                self.deliver(delivery, now);
            } else {
                break;
            }
        }
    }

    /// Sends a datagram from this node's port.
    fn send(&mut self, mut packet: Packet) {
        if packet.mad.header.class != class::SUBNET_DIRECTED {
            match self.fabric.is_up() {
                true => self.carry(packet),
                false => self.count_discarded(),
            }
            return;
        }
        let smp = packet.mad.smp();
        match self.fabric.direct(packet.to.lid, &smp) {
            Ok(Some(arrival)) => {
                packet.to.lid = arrival.place.lid();
                packet.mad = Mad::from_smp(arrival.smp);
                self.carry(packet);
            }
            _ => self.count_discarded(),
        }
    }

    /// Sends a datagram to its destination, which is known.
    fn carry(&mut self, packet: Packet) {
        let own = self.fabric.own();
        let place = Place::of(packet.to.lid);
        match place {
            Some(place) if place.daemon() == own => {
                self.count_sent();
                self.inbox.push_back((place, packet));
            }
            Some(place) if self.fabric.reaches(place) => {
                self.count_sent();
                self.outbox.push_back((place.daemon(), packet));
            }
            _ => self.count_discarded(),
        }
    }

    fn count_sent(&mut self) {
        self.own_traffic.sent_packets += 1;
        self.own_traffic.sent_bytes += PACKET_BYTES;
    }

    /// Handles a datagram at a place that this node answers for.
    fn arrive(&mut self, place: Place, packet: &Packet, now: u64) {
        if place == self.fabric.own_place() {
            self.own_traffic.received_packets += 1;
            self.own_traffic.received_bytes += PACKET_BYTES;
        }
        if packet.to.qpn == 1 && packet.to.qkey != GSI_QKEY {
            self.qkey_violations = self.qkey_violations.saturating_add(1);
            return;
        }
        if !is_valid(packet) {
            return;
        }
        if let Some(answer) = self.answer_at_once(place, packet) {
            self.carry(packet.answer(answer));
            return;
        }
        let is_port = place == self.fabric.own_place();
        let claimed = match is_port {
            true => self.port.receive(packet, now),
            false => Claimed::No,
        };
        if claimed == Claimed::No
            && let Some(answer) = sma::unmatched(&packet.mad)
        {
            self.carry(packet.answer(answer));
        }
    }

    /// The answer of the agents for subnet and performance management, if they have one.
    fn answer_at_once(&mut self, place: Place, packet: &Packet) -> Option<Mad> {
        let class = packet.mad.header.class;
        let is_port = place == self.fabric.own_place();
        if class::is_subnet(class) {
            let known = Known {
                has_sm_bit: self.has_sm_bit,
                qkey_violations: self.qkey_violations,
                administration: self.manager.as_ref().map(|of| &of.administration),
            };
            let entered = entered(place, packet);
            let (answer, effect) = sma::process(&self.fabric, &known, place, entered, &packet.mad)?;
            if effect == Effect::ClientReregister {
                self.events.push_back(Event::ClientReregister);
            }
            return Some(answer);
        }
        if class == class::PERFORMANCE && is_port {
            let traffic = self.traffic();
            return self.counters.process(NODE_PORT, &traffic, &packet.mad);
        }
        None
    }

    /// Delivers an event to an agent.
    fn deliver(&mut self, delivery: Delivery, now: u64) {
        let Owner::User(number) = delivery.owner else {
            self.manage(delivery, now);
            return;
        };
        let Delivery { agent, what, .. } = delivery;
        if self.descriptors.push(number, agent, what) {
            self.woken.insert(number);
        }
    }
}

/// The port by which a datagram has entered a place.
fn entered(place: Place, packet: &Packet) -> u8 {
    let smp = packet.mad.smp();
    let count = usize::from(smp.hop_count());
    let is_directed = smp.header.class == class::SUBNET_DIRECTED && count > 0;
    match (place, Place::of(packet.source)) {
        (Place::Node(_), _) => NODE_PORT,
        (Place::Switch, _) if is_directed => smp.return_path.get(count).copied().unwrap_or(0),
        (Place::Switch, Some(Place::Node(node))) => switch_port(node),
        (Place::Switch, _) => 0,
    }
}

/// Whether a datagram fits the queue pair that it goes to (`validate_mad`).
fn is_valid(packet: &Packet) -> bool {
    let header = &packet.mad.header;
    let is_known = header.base_version == BASE_VERSION;
    // Connection management has one method, except for its ClassPortInfo.
    let is_connection = header.class == class::COMMUNICATION
        && header.attribute.get() != attribute::CLASS_PORT_INFO
        && header.method != method::SEND;
    let belongs = class::is_subnet(header.class) == (packet.to.qpn == 0) && packet.to.qpn <= 1;
    is_known && belongs && !is_connection
}

#[cfg(test)]
mod tests;
