//! Helpers for examples and tests: memory and lanes of several programs in one thread, whose
//! stores arrive at once; usual attributes of queue pairs, and their way to RTS.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::attributes::Attributes;
use crate::host::{Available, Host, LaneId, NotMoved, NotThere, Peeked, Place, Source, Target};
use crate::record::HEADER_BYTES;
use crate::types::{Access, Atomic, AttributeMask as M, QpState, QpType};

/// Where the memory of each program begins.
pub const BASE: u64 = 0x1_0000;

/// Attributes of a connected queue pair that waits for its peer's receives without end.
pub fn attributes() -> Attributes {
    Attributes {
        path_mtu: 5,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: 12,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        ..Attributes::default()
    }
}

/// The states from INIT to RTS, each with the attributes that the change to it must name.
pub fn ways(kind: QpType) -> [(QpState, M); 3] {
    let path = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    let answers = M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
    let retries = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
    let (last, rtr, rts) = match kind {
        QpType::Rc => (M::ACCESS_FLAGS, path | answers, retries),
        QpType::Uc => (M::ACCESS_FLAGS, path, M::empty()),
        QpType::Ud => (M::QKEY, M::empty(), M::empty()),
        QpType::XrcSend => (M::ACCESS_FLAGS, path, retries),
        QpType::XrcRecv => (M::ACCESS_FLAGS, path | answers, M::TIMEOUT),
    };
    [
        (QpState::Init, M::STATE | M::PKEY_INDEX | M::PORT | last),
        (QpState::Rtr, M::STATE | rtr),
        (QpState::Rts, M::STATE | M::SQ_PSN | rts),
    ]
}

/// The memory of a program, from its first address on. Places must lie in it.
#[derive(Debug, Default)]
pub struct Memory {
    /// The first address.
    pub base: u64,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl Memory {
    /// The bytes at a place.
    ///
    /// # Panics
    /// The place lies outside.
    pub fn get(&self, place: Place) -> &[u8] {
        let at = (place.address - self.base) as usize;
        &self.bytes[at..at + place.length]
    }

    /// The bytes at a place, to change them.
    ///
    /// # Panics
    /// The place lies outside.
    pub fn get_mut(&mut self, place: Place) -> &mut [u8] {
        let at = (place.address - self.base) as usize;
        &mut self.bytes[at..at + place.length]
    }

    /// The bytes of data to send.
    pub fn gather(&self, from: Source<'_>) -> Vec<u8> {
        match from {
            Source::Bytes(bytes) => bytes.to_vec(),
            Source::Memory(places) => {
                let pieces = places.iter().map(|place| self.get(*place));
                pieces.collect::<Vec<_>>().concat()
            }
        }
    }

    /// Stores bytes at places.
    ///
    /// # Panics
    /// The bytes are fewer or more than the places hold.
    pub fn scatter(&mut self, to: &[Place], mut bytes: &[u8]) {
        for place in to {
            let (now, later) = bytes.split_at(place.length);
            self.get_mut(*place).copy_from_slice(now);
            bytes = later;
        }
        assert!(bytes.is_empty(), "more bytes than places");
    }

    /// Does an atomic operation. Returns the former value.
    pub fn atomic(&mut self, address: u64, operation: Atomic) -> u64 {
        let word = self.get_mut(place(address, 8));
        let before = u64::from_ne_bytes((&*word).try_into().unwrap_or_default());
        if let Some(after) = operation.after(before) {
            word.copy_from_slice(&after.to_ne_bytes());
        }
        before
    }
}

type Shared = Rc<RefCell<Memory>>;

/// A connection: the bytes on their way to each end, and the windows of each end.
#[derive(Default)]
struct Connection {
    bytes: [VecDeque<u8>; 2],
    windows: [BTreeMap<u64, (Place, Access)>; 2],
    memories: [Shared; 2],
    has_ended: bool,
    next_window: u64,
}

/// One end of a connection.
#[derive(Clone)]
struct End {
    connection: Rc<RefCell<Connection>>,
    own: usize,
    peer: usize,
}

/// A program: its memory and its lanes.
#[derive(Default)]
pub struct Program {
    memory: Shared,
    lanes: BTreeMap<LaneId, End>,
    /// Most bytes that may be on their way to the peer of each lane.
    pub ring: usize,
    /// Windows that can still be exposed.
    pub windows_left: usize,
    /// The buses of its lanes have atomic operations.
    pub has_atomics: bool,
    /// There is a driver, which makes windows.
    pub has_driver: bool,
    /// Copies to a peer's window that are still going to be interrupted.
    pub interruptions: usize,
    /// Records that cannot be received after a peek, before the next one can.
    pub spoilt_records: usize,
    /// The number of records that were sent.
    pub sent_records: usize,
    /// Bytes that were copied to and from the windows of peers.
    pub copied_bytes: u64,
    /// The key of a region whose memory is not there.
    pub missing: Option<u32>,
}

/// Bytes of the program's memory, whatever region they are part of.
fn place(address: u64, length: usize) -> Place {
    Place {
        key: 0,
        address,
        length,
    }
}

impl Program {
    /// A program with `bytes` bytes of memory, at [`BASE`].
    pub fn new(bytes: usize) -> Program {
        Program {
            memory: Rc::new(RefCell::new(Memory {
                base: BASE,
                bytes: vec![0; bytes],
            })),
            lanes: BTreeMap::new(),
            ring: 1 << 16,
            windows_left: usize::MAX,
            has_atomics: true,
            has_driver: true,
            interruptions: 0,
            spoilt_records: 0,
            sent_records: 0,
            copied_bytes: 0,
            missing: None,
        }
    }

    /// Joins two programs by a lane.
    pub fn join(&mut self, own: LaneId, other: &mut Program, others: LaneId) {
        let connection = Connection {
            memories: [Rc::clone(&self.memory), Rc::clone(&other.memory)],
            ..Connection::default()
        };
        let connection = Rc::new(RefCell::new(connection));
        let end = |own, peer| End {
            connection: Rc::clone(&connection),
            own,
            peer,
        };
        self.lanes.insert(own, end(0, 1));
        other.lanes.insert(others, end(1, 0));
    }

    /// Joins the program to itself: what it sends on the lane it receives there.
    pub fn join_self(&mut self, lane: LaneId) {
        let connection = Connection {
            memories: [Rc::clone(&self.memory), Shared::default()],
            ..Connection::default()
        };
        let connection = Rc::new(RefCell::new(connection));
        let (own, peer) = (0, 0);
        let end = End {
            connection,
            own,
            peer,
        };
        self.lanes.insert(lane, end);
    }

    /// Ends a lane at both ends. What was sent before can still be received.
    pub fn cut(&mut self, lane: LaneId) {
        self.end(lane).connection.borrow_mut().has_ended = true;
    }

    /// The number of windows on all lanes.
    pub fn windows(&self) -> usize {
        let counts = self.lanes.values().map(|end| {
            let connection = end.connection.borrow();
            connection.windows[end.own].len()
        });
        counts.sum()
    }

    /// Ends all windows without telling anyone.
    pub fn forget_windows(&mut self) {
        for end in self.lanes.values() {
            end.connection.borrow_mut().windows[end.own].clear();
        }
    }

    /// Bytes of the program's memory.
    ///
    /// # Panics
    /// They lie outside of it.
    pub fn bytes(&self, address: u64, count: usize) -> Vec<u8> {
        self.memory.borrow().get(place(address, count)).to_vec()
    }

    /// Stores bytes in the program's memory.
    ///
    /// # Panics
    /// They lie outside of it.
    pub fn store(&mut self, address: u64, bytes: &[u8]) {
        let mut memory = self.memory.borrow_mut();
        let to = memory.get_mut(place(address, bytes.len()));
        to.copy_from_slice(bytes);
    }

    /// Checks that the memory of places is there.
    fn check(&self, places: &[Place]) -> Result<(), NotThere> {
        let is_missing = |place: &Place| self.missing == Some(place.key);
        match places.iter().any(is_missing) {
            true => Err(NotThere),
            false => Ok(()),
        }
    }

    /// Sends any bytes on a lane.
    pub fn inject(&mut self, lane: LaneId, bytes: &[u8]) {
        let end = self.end(lane);
        end.connection.borrow_mut().bytes[end.peer].extend(bytes);
    }

    fn end(&self, lane: LaneId) -> End {
        self.lanes.get(&lane).expect("no such lane").clone()
    }
}

impl End {
    /// The peer's memory, and where a range of its window lies in it.
    fn remote(
        &self,
        window: u64,
        offset: u64,
        length: usize,
        needs: Access,
    ) -> Result<(Shared, Place), NotMoved> {
        let connection = self.connection.borrow();
        if connection.has_ended {
            return Err(NotMoved::Ended);
        }
        let window = connection.windows[self.peer].get(&window);
        let (place, access) = *window.ok_or(NotMoved::NoWindow)?;
        let is_inside = offset as usize + length <= place.length;
        assert!(is_inside, "outside of a window");
        let may = access.intersects(needs | Access::REMOTE_ATOMIC);
        assert!(may, "a copy against the rights of a window");
        let address = place.address + offset;
        let memory = Rc::clone(&connection.memories[self.peer]);
        Ok((memory, self::place(address, length)))
    }
}

impl Host for Program {
    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<(), NotThere> {
        self.check(&[from])?;
        to.copy_from_slice(&self.bytes(from.address, to.len()));
        Ok(())
    }

    fn write(&mut self, to: Place, from: &[u8]) -> Result<(), NotThere> {
        self.check(&[to])?;
        self.store(to.address, from);
        Ok(())
    }

    fn room(&mut self, lane: LaneId) -> usize {
        let end = self.end(lane);
        let connection = end.connection.borrow();
        match connection.has_ended {
            true => 0,
            false => self.ring.saturating_sub(connection.bytes[end.peer].len()),
        }
    }

    fn send(
        &mut self,
        lane: LaneId,
        header: &[u8; HEADER_BYTES],
        payload: Source<'_>,
    ) -> Result<(), NotThere> {
        if let Source::Memory(places) = payload {
            self.check(places)?;
        }
        let payload = self.memory.borrow().gather(payload);
        assert!(
            self.room(lane) >= HEADER_BYTES + payload.len(),
            "there is no room"
        );
        self.sent_records += 1;
        let end = self.end(lane);
        let queue = &mut end.connection.borrow_mut().bytes[end.peer];
        queue.extend(header);
        queue.extend(payload);
        Ok(())
    }

    fn may_send(&mut self, lane: LaneId) -> bool {
        !self.end(lane).connection.borrow().has_ended
    }

    fn available(&mut self, lane: LaneId, wanted: usize) -> Available {
        let end = self.end(lane);
        let connection = end.connection.borrow();
        let bytes = connection.bytes[end.own].len();
        // Like a stream: nobody looks for its end while enough bytes are there.
        let has_ended = connection.has_ended && bytes < wanted;
        Available { bytes, has_ended }
    }

    fn peek(&mut self, lane: LaneId, header: &mut [u8; HEADER_BYTES]) -> Peeked {
        let end = self.end(lane);
        let mut connection = end.connection.borrow_mut();
        let has_ended = connection.has_ended;
        let bytes = connection.bytes[end.own].make_contiguous();
        match bytes.first_chunk() {
            Some(first) => {
                *header = *first;
                Peeked::Record(bytes.len())
            }
            None if bytes.is_empty() && !has_ended => Peeked::Nothing,
            None => Peeked::Unknown,
        }
    }

    fn receive_record(&mut self, lane: LaneId, to: Option<Place>) -> bool {
        if self.spoilt_records > 0 {
            self.spoilt_records -= 1;
            return false;
        }
        if self.check(to.as_slice()).is_err() {
            return false;
        }
        let header = self.receive(lane, Target::Nowhere(HEADER_BYTES));
        header.is_ok() && self.receive(lane, Target::Memory(to.as_slice())).is_ok()
    }

    fn receive(&mut self, lane: LaneId, target: Target<'_>) -> Result<(), NotThere> {
        let count = match &target {
            Target::Bytes(bytes) => bytes.len(),
            Target::Memory(places) => places.iter().map(|place| place.length).sum(),
            Target::Nowhere(count) => *count,
        };
        let end = self.end(lane);
        let taken: Vec<u8> = {
            let queue = &mut end.connection.borrow_mut().bytes[end.own];
            assert!(queue.len() >= count, "more than is there");
            queue.drain(..count).collect()
        };
        match target {
            Target::Bytes(bytes) => bytes.copy_from_slice(&taken),
            Target::Memory(places) => {
                self.check(places)?;
                self.memory.borrow_mut().scatter(places, &taken);
            }
            Target::Nowhere(_) => {}
        }
        Ok(())
    }

    fn expose(&mut self, lane: LaneId, place: Place, access: Access) -> Result<u64, NotMoved> {
        let end = self.end(lane);
        if !self.has_driver || end.connection.borrow().has_ended {
            return Err(NotMoved::Ended);
        }
        self.check(&[place])?;
        let left = self.windows_left.checked_sub(1);
        self.windows_left = left.ok_or(NotMoved::NoWindow)?;
        let mut connection = end.connection.borrow_mut();
        connection.next_window += 1;
        let number = connection.next_window;
        connection.windows[end.own].insert(number, (place, access));
        Ok(number)
    }

    fn withdraw(&mut self, lane: LaneId, window: u64) {
        let end = self.end(lane);
        let removed = end.connection.borrow_mut().windows[end.own].remove(&window);
        assert!(removed.is_some(), "there is no such window");
        self.windows_left = self.windows_left.saturating_add(1);
    }

    fn put(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        from: Source<'_>,
    ) -> Result<(), NotMoved> {
        if let Some(left) = self.interruptions.checked_sub(1) {
            self.interruptions = left;
            return Err(NotMoved::Ended);
        }
        if let Source::Memory(places) = from {
            self.check(places)?;
        }
        let bytes = self.memory.borrow().gather(from);
        let (memory, place) =
            self.end(lane)
                .remote(window, offset, bytes.len(), Access::REMOTE_WRITE)?;
        memory.borrow_mut().scatter(&[place], &bytes);
        self.copied_bytes += bytes.len() as u64;
        Ok(())
    }

    fn get(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        to: &[Place],
    ) -> Result<(), NotMoved> {
        self.check(to)?;
        let count = to.iter().map(|place| place.length).sum();
        let (memory, place) = self
            .end(lane)
            .remote(window, offset, count, Access::REMOTE_READ)?;
        let bytes = memory.borrow().get(place).to_vec();
        self.memory.borrow_mut().scatter(to, &bytes);
        self.copied_bytes += bytes.len() as u64;
        Ok(())
    }

    fn atomic(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        operation: Atomic,
    ) -> Result<u64, NotMoved> {
        let (memory, place) = self
            .end(lane)
            .remote(window, offset, 8, Access::REMOTE_ATOMIC)?;
        match self.has_atomics {
            true => Ok(memory.borrow_mut().atomic(place.address, operation)),
            false => Err(NotMoved::NotSupported),
        }
    }
}
