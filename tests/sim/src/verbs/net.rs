//! The memory of programs and the lanes between them, with stores that are on their way for some
//! time.
//!
//! Bytes of a lane's stream arrive in order. A store into a window may overtake earlier stores,
//! and arrives before any bytes that are sent after it. Reading from the peer makes the reader's
//! own stores arrive. A program that dies stops between two stores. The end of a record may stay
//! with its sender until the lane is flushed, as it does when a ring is full.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use verbs_core::demo;
use verbs_core::host::{
    Available, Host, LaneId, NotMoved, NotThere, Peeked, Place, Source, Target,
};
use verbs_core::record::HEADER_BYTES;
use verbs_core::types::{Access, Atomic};

use super::Bug;
use crate::rng::Rng;

/// The address at which the memory of each program begins.
pub const BASE: u64 = 0x10_0000;
/// The program number of the system's end of a lane. It has no memory that others can reach.
pub const SYSTEM: usize = usize::MAX;
/// Most bytes that may be on their way on a lane: what fits into the smallest ring of a
/// connection.
const RING: usize = 4095;

enum Store {
    Bytes(Vec<u8>),
    Put(u64, u64, Vec<u8>),
    End,
}

/// One end of a lane.
struct Side {
    program: usize,
    coming: VecDeque<Store>,
    arrived: VecDeque<u8>,
    /// The end of a record that this side has sent, for which the ring had no room.
    unsent: Vec<u8>,
    has_ended: bool,
    windows: BTreeMap<u64, (Place, bool)>,
}

struct Link {
    sides: [Side; 2],
    windows: u64,
}

/// A program's memory, and when the program dies.
pub struct Memory {
    /// Its bytes.
    pub memory: demo::Memory,
    /// Most windows that the program can have, on all lanes together.
    pub most_windows: usize,
    /// Whether the program has died.
    pub is_dead: bool,
    /// The number of stores that the program makes before it dies.
    pub left: Option<u64>,
    /// Number of stores so far.
    pub stores: u64,
}

/// The memory of all programs and all lanes.
pub struct Net {
    /// The programs, by number.
    pub programs: Vec<Memory>,
    links: Vec<Link>,
    /// The source of randomness for the arrival of stores.
    pub rng: Rng,
    /// A planted bug, if any.
    pub bug: Option<Bug>,
    /// Whether a program may name windows that it does not have.
    pub is_hostile: bool,
    /// The rule that was broken, if any.
    pub fault: Option<String>,
}

/// The memory that one program reaches.
#[derive(Clone)]
pub struct Port {
    /// The memory of all programs and all lanes.
    pub net: Rc<RefCell<Net>>,
    /// The program's number.
    pub program: usize,
}

/// Returns the lane of a side of a link.
pub fn lane(link: usize, side: usize) -> LaneId {
    LaneId((link * 2 + side) as u32)
}

fn place_of(lane: LaneId) -> (usize, usize) {
    (lane.0 as usize / 2, lane.0 as usize % 2)
}

impl Net {
    /// Makes `programs` programs with `bytes` bytes of memory each.
    pub fn new(programs: usize, bytes: usize, seed: u64, bug: Option<Bug>) -> Net {
        let mut rng = Rng::new(seed);
        let mut memory = || Memory {
            memory: demo::Memory {
                base: BASE,
                bytes: vec![super::CANARY; bytes],
            },
            most_windows: match rng.one_in(3) {
                true => 1 + rng.below(3) as usize,
                false => usize::MAX,
            },
            is_dead: false,
            left: None,
            stores: 0,
        };
        let programs = (0..programs).map(|_| memory()).collect();
        Net {
            programs,
            links: Vec::new(),
            rng,
            bug,
            is_hostile: false,
            fault: None,
        }
    }

    /// Joins two programs. Returns the number of the link.
    pub fn join(&mut self, programs: [usize; 2]) -> usize {
        let sides = programs.map(|program| Side {
            program,
            coming: VecDeque::new(),
            arrived: VecDeque::new(),
            unsent: Vec::new(),
            has_ended: false,
            windows: BTreeMap::new(),
        });
        self.links.push(Link { sides, windows: 0 });
        self.links.len() - 1
    }

    /// Returns the number of links so far.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// Returns the number of windows.
    pub fn windows(&self) -> usize {
        let sides = self.links.iter().flat_map(|link| &link.sides);
        sides.map(|side| side.windows.len()).sum()
    }

    /// Returns the windows of the peer of a lane.
    pub fn peers_windows(&self, lane: LaneId) -> Vec<(u64, Place, bool)> {
        let (link, side) = place_of(lane);
        let windows = self.links[link].sides[1 - side].windows.iter();
        let tell = |(number, (place, writes)): (&u64, &(Place, bool))| (*number, *place, *writes);
        windows.map(tell).collect()
    }

    /// Returns whether a lane has ended at this side.
    pub fn has_ended(&self, lane: LaneId) -> bool {
        let (link, side) = place_of(lane);
        self.links[link].sides[side].has_ended
    }

    fn complain(&mut self, what: &str) {
        self.fault.get_or_insert(what.into());
    }

    /// Counts a store of a program that begins. Returns whether the program is alive.
    fn tick(&mut self, program: usize) -> bool {
        let memory = &mut self.programs[program];
        if memory.left == Some(0) && !memory.is_dead {
            self.kill(program, false);
        }
        let memory = &mut self.programs[program];
        if memory.is_dead {
            return false;
        }
        if let Some(left) = &mut memory.left {
            *left -= 1;
        }
        memory.stores += 1;
        true
    }

    /// Kills a program. If its node dies with it, some of its stores on their way are lost.
    pub fn kill(&mut self, program: usize, with_node: bool) {
        self.programs[program].is_dead = true;
        for link in 0..self.links.len() {
            for side in 0..2 {
                if self.links[link].sides[side].program != program {
                    continue;
                }
                let peer = &mut self.links[link].sides[1 - side];
                if with_node {
                    let kept = self.rng.below(peer.coming.len() as u64 + 1);
                    peer.coming.truncate(kept as usize);
                }
                peer.coming.push_back(Store::End);
                let own = &mut self.links[link].sides[side];
                own.has_ended = true;
                own.coming.clear();
                own.windows.clear();
            }
        }
    }

    /// Closes a program's end of a lane: what it has sent arrives.
    pub fn close(&mut self, lane: LaneId) {
        let (link, side) = place_of(lane);
        let own = &mut self.links[link].sides[side];
        if !own.has_ended || !own.windows.is_empty() {
            own.has_ended = true;
            own.windows.clear();
        }
        let rest = std::mem::take(&mut own.unsent);
        let peer = &mut self.links[link].sides[1 - side];
        peer.coming.extend([Store::Bytes(rest), Store::End]);
    }

    /// Ends a connection while both programs live.
    pub fn cut(&mut self, lane: LaneId) {
        let (link, _) = place_of(lane);
        for side in &mut self.links[link].sides {
            side.coming.push_back(Store::End);
        }
    }

    /// Takes the bytes that have arrived at the system's side. Returns them, and whether no more
    /// come.
    pub fn take(&mut self, lane: LaneId) -> (Vec<u8>, bool) {
        let (link, side) = place_of(lane);
        self.arrive(link, side, false);
        let own = &mut self.links[link].sides[side];
        (own.arrived.drain(..).collect(), own.has_ended)
    }

    /// Sends as many of the bytes that wait at the system's side as there is room for.
    pub fn give(&mut self, lane: LaneId, waiting: &mut Vec<u8>) {
        let (link, side) = place_of(lane);
        let count = self.ring_room(link, side).min(waiting.len());
        if count > 0 {
            let bytes = waiting.drain(..count).collect();
            let peer = &mut self.links[link].sides[1 - side];
            peer.coming.push_back(Store::Bytes(bytes));
        }
    }

    /// Returns the number of bytes for which a side's ring has room.
    fn ring_room(&self, link: usize, side: usize) -> usize {
        let peer = &self.links[link].sides[1 - side];
        let bytes = peer.coming.iter().map(|store| match store {
            Store::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        RING.saturating_sub(bytes.sum::<usize>() + peer.arrived.len())
    }

    /// Sends the rest of a record. Returns whether nothing is left.
    fn flush(&mut self, link: usize, side: usize) -> bool {
        let room = self.ring_room(link, side);
        let sides = &mut self.links[link].sides;
        let count = room.min(sides[side].unsent.len());
        if count > 0 {
            let bytes = sides[side].unsent.drain(..count).collect();
            sides[1 - side].coming.push_back(Store::Bytes(bytes));
        }
        sides[side].unsent.is_empty()
    }

    fn put_down(&mut self, link: usize, to: usize, store: Store) {
        let side = &mut self.links[link].sides[to];
        match store {
            Store::Bytes(bytes) => side.arrived.extend(bytes),
            Store::End => side.has_ended = true,
            Store::Put(window, offset, bytes) => {
                let Some((place, writes)) = side.windows.get(&window).copied() else {
                    return;
                };
                if offset as usize + bytes.len() > place.length || !writes {
                    return self.complain("a store outside of a window");
                }
                let program = side.program;
                let to = Place {
                    address: place.address + offset,
                    length: bytes.len(),
                    ..place
                };
                self.programs[program].memory.scatter(&[to], &bytes);
            }
        }
    }

    /// Lets some of the stores on their way to a side arrive, or all of them.
    fn arrive(&mut self, link: usize, to: usize, all: bool) {
        loop {
            let coming = &mut self.links[link].sides[to].coming;
            if coming.is_empty() || (!all && self.rng.one_in(3)) {
                return;
            }
            let early = self.rng.below(coming.len() as u64) as usize;
            // Only the first store in the queue may overtake, so that two stores to one place stay
            // in order.
            let first = coming
                .iter()
                .position(|store| matches!(store, Store::Put(..)));
            let overtakes = self.bug == Some(Bug::StoresOvertaken);
            let at = match first {
                Some(first) if !all && self.rng.one_in(2) => first,
                _ if overtakes && matches!(coming[early], Store::Bytes(_)) => early,
                _ => 0,
            };
            if let Some(store) = coming.remove(at) {
                self.put_down(link, to, store);
            }
        }
    }

    /// Lets everything on its way on a link arrive.
    pub fn bring_home(&mut self, link: usize) {
        for side in 0..2 {
            self.arrive(link, side, true);
        }
    }

    fn gather(&self, program: usize, from: Source<'_>) -> Vec<u8> {
        self.programs[program].memory.gather(from)
    }

    fn scatter(&mut self, program: usize, to: &[Place], bytes: &[u8]) {
        self.programs[program].memory.scatter(to, bytes);
    }

    /// Returns the number of windows of a program.
    pub fn windows_of(&self, program: usize) -> usize {
        let sides = self.links.iter().flat_map(|link| &link.sides);
        let own = sides.filter(|side| side.program == program);
        own.map(|side| side.windows.len()).sum()
    }

    /// The system checks each range of a window. Peers that keep to the rules stay inside.
    fn check_inside(&mut self, place: &Place, offset: u64, count: usize) -> Result<(), NotMoved> {
        let end = offset.saturating_add(count as u64);
        if end <= place.length as u64 {
            return Ok(());
        }
        if !self.is_hostile {
            self.complain("a copy outside of a window");
        }
        Err(NotMoved::NoWindow)
    }

    /// Returns the program and the place of a range of the peer's window.
    fn remote(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        length: usize,
    ) -> Result<(usize, Place), NotMoved> {
        let (link, side) = place_of(lane);
        self.arrive(link, 1 - side, true);
        if self.links[link].sides[side].has_ended {
            return Err(NotMoved::Ended);
        }
        let peer = &self.links[link].sides[1 - side];
        let (place, _) = *peer.windows.get(&window).ok_or(NotMoved::NoWindow)?;
        let program = peer.program;
        self.check_inside(&place, offset, length)?;
        let address = place.address + offset;
        let part = Place {
            address,
            length,
            ..place
        };
        Ok((program, part))
    }
}

impl Host for Port {
    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<(), NotThere> {
        let net = self.net.borrow();
        to.copy_from_slice(&net.gather(self.program, Source::Memory(&[from])));
        Ok(())
    }

    fn write(&mut self, to: Place, from: &[u8]) -> Result<(), NotThere> {
        self.net.borrow_mut().scatter(self.program, &[to], from);
        Ok(())
    }

    fn room(&mut self, lane: LaneId) -> usize {
        let (link, side) = place_of(lane);
        if self.net.borrow().has_ended(lane) || !self.flush(lane) {
            return 0;
        }
        let net = self.net.borrow();
        match net.programs[self.program].is_dead {
            true => 0,
            false => net.ring_room(link, side),
        }
    }

    fn send(
        &mut self,
        lane: LaneId,
        header: &[u8; HEADER_BYTES],
        payload: Source<'_>,
    ) -> Result<(), NotThere> {
        let room = self.room(lane);
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        let mut bytes = header.to_vec();
        bytes.extend(net.gather(self.program, payload));
        if !net.tick(self.program) {
            return Ok(());
        }
        if bytes.len() > room {
            net.complain("more was sent than there was room for");
        }
        let stays = match net.rng.one_in(8) {
            true => net.rng.below(bytes.len() as u64) as usize,
            false => 0,
        };
        let unsent = bytes.split_off(bytes.len() - stays);
        let sides = &mut net.links[link].sides;
        sides[side].unsent = unsent;
        sides[1 - side].coming.push_back(Store::Bytes(bytes));
        Ok(())
    }

    fn flush(&mut self, lane: LaneId) -> bool {
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        net.has_ended(lane) || net.programs[self.program].is_dead || net.flush(link, side)
    }

    fn may_send(&mut self, lane: LaneId) -> bool {
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        net.arrive(link, side, false);
        !net.links[link].sides[side].has_ended
    }

    fn available(&mut self, lane: LaneId, _wanted: usize) -> Available {
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        net.arrive(link, side, false);
        let own = &net.links[link].sides[side];
        Available {
            bytes: own.arrived.len(),
            has_ended: own.has_ended,
        }
    }

    fn peek(&mut self, lane: LaneId, header: &mut [u8; HEADER_BYTES]) -> Peeked {
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        net.arrive(link, side, false);
        // A host may not have the record at hand.
        if net.rng.one_in(4) {
            return Peeked::Unknown;
        }
        let own = &mut net.links[link].sides[side];
        let bytes = own.arrived.make_contiguous();
        match bytes.first_chunk() {
            Some(first) => {
                *header = *first;
                Peeked::Record(bytes.len())
            }
            None if bytes.is_empty() && !own.has_ended => Peeked::Nothing,
            None => Peeked::Unknown,
        }
    }

    fn receive(&mut self, lane: LaneId, target: Target<'_>) -> Result<(), NotThere> {
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        let count = match &target {
            Target::Bytes(bytes) => bytes.len(),
            Target::Memory(places) => places.iter().map(|place| place.length).sum(),
            Target::Nowhere(count) => *count,
        };
        let arrived = &mut net.links[link].sides[side].arrived;
        if count > arrived.len() {
            net.complain("more was received than is there");
            return Ok(());
        }
        let bytes: Vec<u8> = arrived.drain(..count).collect();
        match target {
            Target::Bytes(to) => to.copy_from_slice(&bytes),
            Target::Memory(places) => net.scatter(self.program, places, &bytes),
            Target::Nowhere(_) => {}
        }
        Ok(())
    }

    fn expose(&mut self, lane: LaneId, place: Place, access: Access) -> Result<u64, NotMoved> {
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        if !net.tick(self.program) {
            return Err(NotMoved::Ended);
        }
        if net.windows_of(self.program) >= net.programs[self.program].most_windows {
            return Err(NotMoved::NoWindow);
        }
        let link = &mut net.links[link];
        link.windows += 1;
        let number = link.windows;
        let writes = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        link.sides[side].windows.insert(number, (place, writes));
        Ok(number)
    }

    fn withdraw(&mut self, lane: LaneId, window: u64) {
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        // The system waits for copies that have begun.
        let coming = std::mem::take(&mut net.links[link].sides[side].coming);
        for store in coming {
            match store {
                Store::Put(of, ..) if of == window => net.put_down(link, side, store),
                _ => net.links[link].sides[side].coming.push_back(store),
            }
        }
        if net.bug != Some(Bug::WindowsStay) {
            net.links[link].sides[side].windows.remove(&window);
        }
    }

    fn put(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        from: Source<'_>,
    ) -> Result<(), NotMoved> {
        let (link, side) = place_of(lane);
        let mut net = self.net.borrow_mut();
        let bytes = net.gather(self.program, from);
        if !net.tick(self.program) || net.links[link].sides[side].has_ended {
            return Err(NotMoved::Ended);
        }
        let peer = &net.links[link].sides[1 - side];
        let (place, writes) = *peer.windows.get(&window).ok_or(NotMoved::NoWindow)?;
        net.check_inside(&place, offset, bytes.len())?;
        if !writes {
            return Err(NotMoved::NoWindow);
        }
        let peer = &mut net.links[link].sides[1 - side];
        peer.coming.push_back(Store::Put(window, offset, bytes));
        Ok(())
    }

    fn get(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        to: &[Place],
    ) -> Result<(), NotMoved> {
        let count = to.iter().map(|place| place.length).sum();
        let mut net = self.net.borrow_mut();
        let (program, place) = net.remote(lane, window, offset, count)?;
        let bytes = net.programs[program].memory.get(place).to_vec();
        net.scatter(self.program, to, &bytes);
        Ok(())
    }

    fn atomic(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        operation: Atomic,
    ) -> Result<u64, NotMoved> {
        let mut net = self.net.borrow_mut();
        if !net.tick(self.program) {
            return Err(NotMoved::Ended);
        }
        let (program, place) = net.remote(lane, window, offset, 8)?;
        // Every third link is on a bus without atomic operations.
        match lane.0 / 2 % 3 {
            0 => Err(NotMoved::NotSupported),
            _ => Ok(net.programs[program]
                .memory
                .atomic(place.address, operation)),
        }
    }

    fn atomic_own(&mut self, place: Place, operation: Atomic) -> Result<u64, NotThere> {
        let own = &mut self.net.borrow_mut().programs[self.program];
        Ok(own.memory.atomic(place.address, operation))
    }
}
