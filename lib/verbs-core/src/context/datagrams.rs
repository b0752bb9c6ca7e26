//! Datagrams of a context: address handles, lanes to any program, groups.

use alloc::vec::Vec;

use super::Context;
use crate::address::{AddressVector, FIRST_MULTICAST_LID, Gid, LanePeer, MULTICAST_QPN, is_group};
use crate::host::{Host, LaneId, Target};
use crate::objects::{AddressHandle, Destination, Lane, Route, Staged};
use crate::queue_pair::{Arrived, drop_bytes};
use crate::record::{DatagramPiece, Marks};
use crate::table::Id;
use crate::types::{Error, QpType, Result};

/// Most groups of a context.
pub const MAX_GROUPS: usize = 64;
/// Most of a context's queue pairs in a group.
pub const MAX_MEMBERS: usize = 64;
/// How long a datagram waits for a receive, in nanoseconds: a program that takes one completion at
/// a time posts its next receive while further datagrams arrive.
const HOLD_NS: u64 = 20_000_000;

impl Context {
    // ---- Address handles ----

    /// Makes an address handle.
    ///
    /// # Errors
    /// `NotFound`: there is no such domain. `Invalid`: the local identifier is 0, or a value is
    /// out of range. `NoMemory`.
    pub fn create_ah(&mut self, pd: Id, vector: AddressVector) -> Result<Id> {
        let domain = self.domains.get_mut(pd)?;
        let route = vector.global.unwrap_or_default();
        if vector.lid == 0 || vector.service_level > 15 || route.flow_label >> 20 != 0 {
            return Err(Error::Invalid);
        }
        let id = self.objects.handles.insert(AddressHandle { pd, vector })?;
        domain.users += 1;
        Ok(id)
    }

    /// Destroys an address handle. Datagrams that were posted with it are still sent.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn destroy_ah(&mut self, ah: Id) -> Result<()> {
        let handle = self.objects.handles.remove(ah)?;
        self.leave_domain(handle.pd);
        Ok(())
    }

    /// The destination that an address handle stands for.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn ah(&self, ah: Id) -> Result<&AddressVector> {
        Ok(&self.objects.handles.get(ah)?.vector)
    }

    // ---- Lanes ----

    /// Adds a new connection as a lane for datagrams only: its peer reaches no memory.
    ///
    /// # Errors
    /// `Invalid`: the number is in use.
    pub fn open_datagram_lane(&mut self, lane: LaneId) -> Result<()> {
        if self.objects.lanes.contains(lane) {
            return Err(Error::Invalid);
        }
        self.objects.lanes.insert(lane, Lane::new(None));
        Ok(())
    }

    /// Sets who is at the other end of a lane. Completions of datagrams report it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn set_lane_peer(&mut self, lane: LaneId, peer: LanePeer) -> Result<()> {
        let lane = self.objects.lanes.get_mut(lane).ok_or(Error::NotFound)?;
        lane.peer = peer;
        Ok(())
    }

    /// Sets the lane, of any kind, by which datagrams reach a destination until the lane ends.
    /// This answers [`Event::LaneWanted`](crate::Event::LaneWanted); after it, call
    /// [`progress`](Context::progress). `None`: the destination cannot be reached; the next
    /// datagram to it is dropped, and later ones ask again.
    ///
    /// # Errors
    /// `NotFound`: there is no such lane.
    pub fn route(&mut self, destination: Destination, lane: Option<LaneId>) -> Result<()> {
        let route = match lane {
            Some(lane) if !self.objects.lanes.contains(lane) => return Err(Error::NotFound),
            Some(lane) => Route::Lane(lane),
            None => Route::None,
        };
        self.objects.set_route(destination, route);
        Ok(())
    }

    /// Removes all routes over this lane: the next datagram to each destination asks for a route
    /// again.
    pub fn forget_routes(&mut self, lane: LaneId) {
        let routes = &mut self.objects.routes;
        routes.retain(|_, route| *route != Route::Lane(lane));
    }

    /// Whether any queue pair is a member of a group.
    pub fn has_groups(&self) -> bool {
        !self.objects.groups.is_empty()
    }

    // ---- Groups ----

    /// Makes a queue pair a member of a group. Repeating it changes nothing.
    ///
    /// # Errors
    /// `NotFound`: the queue pair. `Invalid`: its type, or the identifiers are not those of a
    /// group. `NoMemory`.
    pub fn attach_multicast(&mut self, number: u32, gid: Gid, lid: u16) -> Result<()> {
        let qp = self.qps.get(number).ok_or(Error::NotFound)?;
        let is_good = (FIRST_MULTICAST_LID..u16::MAX).contains(&lid);
        if qp.init.kind != QpType::Ud || !is_group(&gid) || !is_good {
            return Err(Error::Invalid);
        }
        let groups = &mut self.objects.groups;
        if groups.len() >= MAX_GROUPS && !groups.contains_key(&gid) {
            return Err(Error::NoMemory);
        }
        let members = groups.entry(gid).or_default();
        if members.len() >= MAX_MEMBERS && !members.contains(&number) {
            return Err(Error::NoMemory);
        }
        members.insert(number);
        Ok(())
    }

    /// Removes a queue pair from a group.
    ///
    /// # Errors
    /// `Invalid`: it is not a member.
    pub fn detach_multicast(&mut self, number: u32, gid: Gid) -> Result<()> {
        let groups = &mut self.objects.groups;
        let members = groups.get_mut(&gid).ok_or(Error::Invalid)?;
        if !members.remove(&number) {
            return Err(Error::Invalid);
        }
        if members.is_empty() {
            groups.remove(&gid);
        }
        Ok(())
    }

    /// Excludes a queue pair from receiving the datagrams to groups that it has sent itself.
    /// `lid`: the local identifier of its node's port.
    ///
    /// # Errors
    /// `NotFound`: the queue pair. `Invalid`: its type is not UD.
    pub fn drop_own(&mut self, number: u32, lid: u16) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        if qp.init.kind != QpType::Ud {
            return Err(Error::Invalid);
        }
        qp.drops_own = Some(lid);
        Ok(())
    }

    /// Whether a queue pair is a member of this group.
    pub fn is_member(&self, number: u32, gid: &Gid) -> bool {
        let members = self.objects.groups.get(gid);
        members.is_some_and(|members| members.contains(&number))
    }

    pub(super) fn is_in_group(&self, number: u32) -> bool {
        let mut groups = self.objects.groups.values();
        groups.any(|members| members.contains(&number))
    }

    /// Datagrams that were dropped because their key was not that of the receiver. The counter
    /// stays at its largest value.
    pub fn qkey_violations(&self) -> u32 {
        self.objects.qkey_violations
    }

    // ---- Receiving ----

    /// Whether a piece of a datagram stays on its lane, because its receiver is about to post a
    /// receive. The lane's other datagrams wait behind it. After a wait in vain, no datagram waits
    /// for this queue pair until it posts a receive again.
    pub(super) fn holds(&mut self, id: LaneId, piece: &DatagramPiece, now: u64) -> bool {
        let Some(lane) = self.objects.lanes.get_mut(id) else {
            return false;
        };
        let held_until = lane.held_until.take();
        if !piece.marks.contains(Marks::LAST) || piece.destination == MULTICAST_QPN {
            return false;
        }
        let Some(qp) = self.qps.get_mut(piece.destination) else {
            return false;
        };
        if !qp.awaits_receive(&self.objects, piece.qkey) {
            return false;
        }
        let until = held_until.unwrap_or(now.saturating_add(HOLD_NS));
        if now >= until {
            qp.give_up_receive();
            return false;
        }
        if let Some(lane) = self.objects.lanes.get_mut(id) {
            lane.held_until = Some(until);
        }
        true
    }

    /// Receives a piece of a datagram, whose bytes have arrived.
    pub(super) fn receive_datagram<H: Host>(
        &mut self,
        host: &mut H,
        id: LaneId,
        piece: &DatagramPiece,
    ) {
        let Some(lane) = self.objects.lanes.get_mut(id) else {
            return;
        };
        let slid = match lane.peer {
            LanePeer::Unknown => 0,
            LanePeer::Port(lid) => lid,
            LanePeer::Relay => piece.slid,
        };
        if piece.marks.contains(Marks::FIRST) {
            lane.staged = None;
        }
        let is_whole = piece.marks.contains(Marks::FIRST | Marks::LAST);
        if is_whole && piece.destination != MULTICAST_QPN {
            if !self.deliver(host, piece, slid, piece.destination, &Arrived::On(id)) {
                drop_bytes(host, id, piece.payload as usize);
            }
            return;
        }
        if let Some(staged) = stage(lane, host, id, piece) {
            let arrived = Arrived::Here(&staged.bytes);
            for number in self.receivers(&staged.first, slid) {
                self.deliver(host, &staged.first, slid, number, &arrived);
            }
        }
        self.fail_overrun();
    }

    /// The queue pairs that a datagram from the port `slid` is for.
    fn receivers(&self, piece: &DatagramPiece, slid: u16) -> Vec<u32> {
        if piece.destination != MULTICAST_QPN {
            return Vec::from([piece.destination]);
        }
        let group = piece.global.map(|route| route.gid);
        let members = group.and_then(|gid| self.objects.groups.get(&gid));
        let members = members.into_iter().flatten().copied();
        let is_own = |number: &u32| {
            let qp = self.qps.get(*number);
            *number == piece.source && qp.is_some_and(|qp| qp.drops_own == Some(slid))
        };
        members.filter(|number| !is_own(number)).collect()
    }

    /// Delivers a datagram to one queue pair, or drops it. Returns whether its bytes were taken
    /// from the lane.
    fn deliver<H: Host>(
        &mut self,
        host: &mut H,
        piece: &DatagramPiece,
        slid: u16,
        number: u32,
        from: &Arrived<'_>,
    ) -> bool {
        let objects = &mut self.objects;
        let Some(qp) = self.qps.get_mut(number) else {
            return false;
        };
        let taken = qp.takes_datagram(objects, piece.qkey)
            && qp.receive_datagram(objects, host, piece, slid, from);
        self.fail_overrun();
        taken
    }
}

/// Takes a piece off the lane. Returns the whole datagram after its last piece.
fn stage<H: Host>(
    lane: &mut Lane,
    host: &mut H,
    id: LaneId,
    piece: &DatagramPiece,
) -> Option<Staged> {
    let payload = piece.payload as usize;
    let is_first = piece.marks.contains(Marks::FIRST);
    let mut staged = match lane.staged.take() {
        _ if is_first => Staged {
            first: *piece,
            bytes: Vec::with_capacity(piece.total as usize),
        },
        Some(staged) if fits(&staged, piece) => staged,
        // Skips the rest of a datagram whose first piece is missing, or whose header has changed.
        _ => {
            drop_bytes(host, id, payload);
            return None;
        }
    };
    let from = staged.bytes.len();
    staged.bytes.resize(from + payload, 0);
    let rest = staged.bytes.get_mut(from..).unwrap_or_default();
    // It cannot fail: the bytes are not the program's.
    let _ = host.receive(id, Target::Bytes(rest));
    if !piece.marks.contains(Marks::LAST) {
        lane.staged = Some(staged);
        return None;
    }
    Some(staged).filter(|staged| staged.bytes.len() == staged.first.total as usize)
}

/// Whether a piece continues this datagram.
fn fits(staged: &Staged, piece: &DatagramPiece) -> bool {
    let Staged { first, bytes } = staged;
    let is_same = (first.destination, first.source, first.total)
        == (piece.destination, piece.source, piece.total);
    is_same && bytes.len() + piece.payload as usize <= first.total as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use crate::address::Datagram;
    use crate::demo::{self, Program};
    use crate::keys::Region;
    use crate::types::{Access, Opcode};
    use crate::work::{Capacity, Data, QpInit, Segment, SendRequest};

    /// A context with the queue pair 2, which can send datagrams, and its protection domain.
    fn with_queue_pair() -> (Context, Id) {
        let mut context = Context::new(1);
        let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(1).unwrap());
        let init = QpInit {
            kind: QpType::Ud,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            capacity: Capacity {
                send_wr: 1,
                ..Capacity::default()
            },
            signal_all: true,
        };
        context.create_qp(2, init).unwrap();
        let mut attributes = demo::attributes();
        attributes.qkey = 5;
        for (state, mask) in demo::ways(QpType::Ud) {
            attributes.state = state;
            context.modify_qp(2, &attributes, mask).unwrap();
        }
        (context, pd)
    }

    const LANE: LaneId = LaneId(7);

    /// Joins two programs by a lane for datagrams. Returns an address handle of the peer's port.
    fn join(context: &mut Context, pd: Id, program: &mut Program, peer: &mut Program) -> Id {
        program.join(LANE, peer, LANE);
        context.open_datagram_lane(LANE).unwrap();
        let vector = AddressVector {
            lid: 2,
            ..AddressVector::default()
        };
        context.create_ah(pd, vector).unwrap()
    }

    #[test]
    fn destinations_without_end_are_not_all_remembered() {
        let (mut context, pd) = with_queue_pair();
        let (mut program, mut peer) = (Program::new(8), Program::new(8));
        let ah = join(&mut context, pd, &mut program, &mut peer);
        for qpn in 0..20_000 {
            let mut request = SendRequest::new(1, Opcode::Send, Vec::new());
            request.datagram = Datagram { ah, qpn, qkey: 5 };
            context.post_send(2, request).unwrap();
            while context.progress(&mut program, 0).is_busy {}
            let destination = Destination { lid: 2, qpn };
            let asked = context.next_event();
            assert_eq!(asked, Some(Event::LaneWanted(destination)));
            context.route(destination, Some(LANE)).unwrap();
            context.progress(&mut program, 0);
            // The route was used.
            let arrived = peer.available(LANE, usize::MAX).bytes;
            assert_ne!(arrived, 0);
            peer.receive(LANE, Target::Nowhere(arrived)).unwrap();
            context.poll_cq(Id(0)).unwrap().unwrap();
            let routes = context.objects.routes.len();
            assert!(routes <= 10_000, "{routes}");
        }
    }

    /// The route is not needed any more: the lane that has its first piece gets the others.
    #[test]
    fn a_datagram_under_way_goes_on_when_routes_are_forgotten() {
        let (mut context, pd) = with_queue_pair();
        let (mut program, mut peer) = (Program::new(4096), Program::new(8));
        program.ring = 2100;
        let ah = join(&mut context, pd, &mut program, &mut peer);
        let mut request = SendRequest::new(1, Opcode::Send, Vec::new());
        let region = Region {
            pd,
            start: demo::BASE,
            length: 3000,
            iova: demo::BASE,
            access: Access::empty(),
        };
        let segment = Segment {
            address: demo::BASE,
            length: 3000,
            key: context.register(region).unwrap(),
        };
        request.data = Data::Segments([segment].to_vec());
        request.datagram = Datagram {
            ah,
            qpn: 9,
            qkey: 5,
        };
        context.post_send(2, request).unwrap();
        context.progress(&mut program, 0);
        let destination = Destination { lid: 2, qpn: 9 };
        assert_eq!(context.next_event(), Some(Event::LaneWanted(destination)));
        context.route(destination, Some(LANE)).unwrap();
        context.progress(&mut program, 0);
        let first = peer.available(LANE, usize::MAX).bytes;
        assert!((1..3000).contains(&first), "{first}");
        for qpn in 10..20_000 {
            let other = Destination { lid: 2, qpn };
            context.objects.set_route(other, Route::Lane(LANE));
        }
        peer.receive(LANE, Target::Nowhere(first)).unwrap();
        context.progress(&mut program, 0);
        let rest = peer.available(LANE, usize::MAX).bytes;
        assert!(first + rest > 3000, "{first} and {rest} bytes");
        assert!(context.poll_cq(Id(0)).unwrap().is_some());
    }

    #[test]
    fn the_counter_of_wrong_keys_stays_at_its_largest_value() {
        let (mut context, _) = with_queue_pair();
        context.objects.qkey_violations = u32::MAX - 1;
        for _ in 0..3 {
            let qp = context.qps.get_mut(2).unwrap();
            assert!(!qp.takes_datagram(&mut context.objects, 6));
            assert_eq!(context.qkey_violations(), u32::MAX);
        }
    }
}
