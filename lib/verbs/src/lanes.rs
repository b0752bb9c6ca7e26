//! The lanes of a context and its registered memory: the [`Host`] of the rules in `verbs-core`.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use client_memory::pages::Writable;
use verbs_core::host::{
    Available, Host, LaneId, NotMoved, NotThere, Peeked, Place, Source, Target,
};
use verbs_core::record::HEADER_BYTES;
use verbs_core::types::{Access, Atomic};

use crate::memory::Registered;
use crate::stream::Stream;

/// Most bytes on their way on a lane within the context.
const LOCAL_BYTES: usize = 64 * 1024;
/// Bytes that are copied at a time within the context.
const PIECE: usize = 4096;
/// Stands for no lane.
const GONE: LaneId = LaneId(u32::MAX);

/// A lane.
pub enum Lane {
    /// A connection to another program.
    Stream(Box<Stream>),
    /// A lane within the context.
    Local(Local),
}

/// A lane between two queue pairs of the context.
pub struct Local {
    /// The other end, which may be this one.
    pub peer: LaneId,
    /// The bytes that were sent to this end.
    incoming: VecDeque<u8>,
    windows: BTreeMap<u64, Place>,
    next_window: u64,
}

impl Local {
    pub fn new(peer: LaneId) -> Self {
        Self {
            peer,
            incoming: VecDeque::new(),
            windows: BTreeMap::new(),
            next_window: 1,
        }
    }
}

/// The lanes and the registered memory of a context.
#[derive(Default)]
pub struct Lanes {
    pub memory: Registered,
    lanes: Vec<Option<Lane>>,
    /// How many of the lanes are within the context.
    locals: usize,
    /// A buffer for the record that is being sent.
    record: Vec<u8>,
}

impl Lanes {
    /// Adds a lane over a connection.
    pub fn insert_stream(&mut self, stream: Stream) -> LaneId {
        self.insert(Lane::Stream(Box::new(stream)))
    }

    /// The numbers of all lanes.
    pub fn ids(&self) -> Vec<LaneId> {
        let lanes = self.lanes.iter().zip(0..);
        let lanes = lanes.filter(|(lane, _)| lane.is_some());
        lanes.map(|(_, index)| LaneId(index)).collect()
    }

    /// Adds a lane.
    fn insert(&mut self, lane: Lane) -> LaneId {
        let id = self.next_id();
        self.put_in(id, lane);
        id
    }

    /// The number of the lane that is added next.
    fn next_id(&self) -> LaneId {
        let free = self.lanes.iter().position(Option::is_none);
        LaneId(free.unwrap_or(self.lanes.len()) as u32)
    }

    fn put_in(&mut self, id: LaneId, lane: Lane) {
        let index = id.0 as usize;
        if index == self.lanes.len() {
            self.lanes.push(None);
        }
        self.locals += usize::from(matches!(lane, Lane::Local(_)));
        if let Some(slot) = self.lanes.get_mut(index) {
            let former = slot.replace(lane);
            self.locals -= usize::from(matches!(former, Some(Lane::Local(_))));
        }
    }

    /// Adds two lanes, each the other end of the other.
    pub fn insert_pair(&mut self) -> (LaneId, LaneId) {
        let one = self.insert(Lane::Local(Local::new(LaneId(0))));
        let other = self.insert(Lane::Local(Local::new(one)));
        self.put_in(one, Lane::Local(Local::new(other)));
        (one, other)
    }

    /// Adds a lane that is its own other end.
    pub fn insert_loop(&mut self) -> LaneId {
        let id = self.next_id();
        self.put_in(id, Lane::Local(Local::new(id)));
        id
    }

    /// The number of windows on the program's memory.
    pub fn exposed(&self) -> usize {
        let lanes = self.lanes.iter().flatten();
        let counts = lanes.map(|lane| match lane {
            Lane::Stream(stream) => stream.exposed(),
            Lane::Local(local) => local.windows.len(),
        });
        counts.sum()
    }

    /// Ends a lane.
    pub fn remove(&mut self, id: LaneId) -> Option<Lane> {
        let lane = self.lanes.get_mut(id.0 as usize)?.take()?;
        if let Lane::Local(local) = &lane {
            self.locals -= 1;
            // The number may be given to another lane before the other end is used.
            if let Some(Lane::Local(peer)) = self.lane(local.peer) {
                peer.peer = GONE;
            }
        }
        Some(lane)
    }

    /// The lanes over connections.
    pub fn streams(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.lanes.iter_mut().filter_map(|lane| match lane {
            Some(Lane::Stream(stream)) => Some(&mut **stream),
            _ => None,
        })
    }

    /// Whether any lane within the context has bytes that were not received.
    #[inline]
    pub fn have_local(&self) -> bool {
        if self.locals == 0 {
            return false;
        }
        let mut lanes = self.lanes.iter().flatten();
        lanes.any(|lane| matches!(lane, Lane::Local(local) if !local.incoming.is_empty()))
    }

    /// Whether no peer seems to have sent anything since the last look.
    pub fn are_quiet(&self) -> bool {
        let mut lanes = self.lanes.iter().flatten();
        lanes.all(|lane| match lane {
            Lane::Stream(stream) => stream.is_quiet(),
            Lane::Local(local) => local.incoming.is_empty(),
        })
    }

    #[inline]
    fn lane(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.lanes.get_mut(id.0 as usize)?.as_mut()
    }

    /// Where a part of a window of the peer lies, on a lane within the context.
    fn place(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        length: usize,
    ) -> Result<Place, NotMoved> {
        let peer = match self.lane(lane) {
            Some(Lane::Local(local)) => local.peer,
            _ => return Err(NotMoved::Ended),
        };
        let Some(Lane::Local(peer)) = self.lane(peer) else {
            return Err(NotMoved::Ended);
        };
        let place = peer.windows.get(&window).ok_or(NotMoved::NoWindow)?;
        let address = place.address.checked_add(offset);
        let is_inside = offset.saturating_add(length as u64) <= place.length as u64;
        match address.filter(|_| is_inside) {
            Some(address) => Ok(Place {
                address,
                length,
                ..*place
            }),
            None => Err(NotMoved::NoWindow),
        }
    }

    /// Sends a record directly on a connection, if its payload is in one place and the connection
    /// takes it. Returns whether it did.
    #[inline(always)]
    fn send_at_once(&self, lane: LaneId, header: &[u8; HEADER_BYTES], payload: Source<'_>) -> bool {
        let Some(Some(Lane::Stream(stream))) = self.lanes.get(lane.0 as usize) else {
            return false;
        };
        match payload {
            Source::Bytes(bytes) => stream.send_at_once(header, bytes),
            Source::Memory([place]) => {
                let range = self.memory.range(*place);
                range.is_some_and(|range| stream.send_at_once(header, range))
            }
            Source::Memory(_) => false,
        }
    }

    /// Sends a record by way of a buffer.
    fn send_copied(
        &mut self,
        lane: LaneId,
        header: &[u8; HEADER_BYTES],
        payload: Source<'_>,
    ) -> Result<(), NotThere> {
        let mut record = core::mem::take(&mut self.record);
        record.clear();
        record.extend_from_slice(header);
        match payload {
            Source::Bytes(bytes) => record.extend_from_slice(bytes),
            Source::Memory(places) => {
                for place in places {
                    let from = record.len();
                    record.resize(from + place.length, 0);
                    let to = record.get_mut(from..).unwrap_or_default();
                    if load(&self.memory, *place, to).is_err() {
                        self.record = record;
                        return Err(NotThere);
                    }
                }
            }
        }
        let peer = match self.lane(lane) {
            Some(Lane::Stream(stream)) => {
                stream.send(&record);
                None
            }
            Some(Lane::Local(local)) => Some(local.peer),
            None => None,
        };
        if let Some(Lane::Local(peer)) = peer.and_then(|peer| self.lane(peer)) {
            peer.incoming.extend(&record);
        }
        self.record = record;
        Ok(())
    }

    /// Copies within the program's memory, in ascending order. Gives the first error if there is
    /// nothing to copy from, the second one if there is nothing to copy to.
    fn copy(&self, from: Place, to: Place, errors: (NotMoved, NotMoved)) -> Result<(), NotMoved> {
        let mut piece = [0; PIECE];
        for done in (0..from.length).step_by(PIECE) {
            let length = PIECE.min(from.length - done);
            let piece = piece.get_mut(..length).unwrap_or_default();
            let part = |place: Place| Place {
                address: place.address + done as u64,
                length,
                ..place
            };
            load(&self.memory, part(from), piece).map_err(|NotThere| errors.0)?;
            store(&self.memory, part(to), piece).map_err(|NotThere| errors.1)?;
        }
        Ok(())
    }
}

/// Does an atomic operation on a word. Returns its former value.
fn operate(word: &AtomicU64, operation: Atomic) -> u64 {
    match operation {
        Atomic::CompareSwap(compare, swap) => {
            let order = (Ordering::AcqRel, Ordering::Acquire);
            match word.compare_exchange(compare, swap, order.0, order.1) {
                Ok(before) | Err(before) => before,
            }
        }
        Atomic::FetchAdd(value) => word.fetch_add(value, Ordering::AcqRel),
    }
}

/// Copies received bytes to a target.
fn deliver(memory: &Registered, target: Target<'_>, bytes: &[u8]) -> Result<(), NotThere> {
    match target {
        Target::Bytes(to) => {
            if let Some(to) = to.get_mut(..bytes.len()) {
                to.copy_from_slice(bytes);
            }
        }
        Target::Memory(places) => {
            let mut rest = bytes;
            for place in places {
                let (now, later) = rest.split_at(place.length.min(rest.len()));
                store(memory, *place, now)?;
                rest = later;
            }
        }
        Target::Nowhere(_) => {}
    }
    Ok(())
}

/// Copies out of the program's memory. It may have unmapped what it has registered.
fn load(memory: &Registered, from: Place, to: &mut [u8]) -> Result<(), NotThere> {
    if to.is_empty() {
        return Ok(());
    }
    let length = to.len();
    let range = memory.range(Place { length, ..from }).ok_or(NotThere)?;
    range.readable().ok_or(NotThere)?.copy_out(to);
    Ok(())
}

/// Copies into the program's memory. It may have unmapped what it has registered.
fn store(memory: &Registered, to: Place, from: &[u8]) -> Result<(), NotThere> {
    if from.is_empty() {
        return Ok(());
    }
    writable(memory, to, from.len())?.copy_in(from);
    Ok(())
}

/// The first `length` bytes of a place, to write to them.
fn writable(memory: &Registered, place: Place, length: usize) -> Result<Writable<'_>, NotThere> {
    let range = memory.range(Place { length, ..place }).ok_or(NotThere)?;
    range.writable().ok_or(NotThere)
}

impl Host for Lanes {
    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<(), NotThere> {
        load(&self.memory, from, to)
    }

    fn write(&mut self, to: Place, from: &[u8]) -> Result<(), NotThere> {
        store(&self.memory, to, from)
    }

    #[inline(always)]
    fn room(&mut self, lane: LaneId) -> usize {
        let peer = match self.lane(lane) {
            Some(Lane::Stream(stream)) => return stream.room(),
            Some(Lane::Local(local)) => local.peer,
            None => return 0,
        };
        match self.lane(peer) {
            Some(Lane::Local(peer)) => LOCAL_BYTES.saturating_sub(peer.incoming.len()),
            _ => 0,
        }
    }

    #[inline(always)]
    fn send(
        &mut self,
        lane: LaneId,
        header: &[u8; HEADER_BYTES],
        payload: Source<'_>,
    ) -> Result<(), NotThere> {
        if self.send_at_once(lane, header, payload) {
            return Ok(());
        }
        self.send_copied(lane, header, payload)
    }

    #[inline(always)]
    fn send_if_room(
        &mut self,
        lane: LaneId,
        header: &[u8; HEADER_BYTES],
        payload: Source<'_>,
        bytes: usize,
    ) -> bool {
        if self.send_at_once(lane, header, payload) {
            return true;
        }
        let has_room = self.room(lane) >= HEADER_BYTES + bytes;
        has_room && self.send_copied(lane, header, payload).is_ok()
    }

    #[inline(always)]
    fn flush(&mut self, lane: LaneId) -> bool {
        match self.lane(lane) {
            Some(Lane::Stream(stream)) => stream.flush(),
            Some(Lane::Local(_)) | None => true,
        }
    }

    fn may_send(&mut self, lane: LaneId) -> bool {
        let peer = match self.lane(lane) {
            Some(Lane::Stream(stream)) => return stream.may_send(),
            Some(Lane::Local(local)) => local.peer,
            None => return false,
        };
        self.lane(peer).is_some()
    }

    fn available(&mut self, lane: LaneId, wanted: usize) -> Available {
        match self.lane(lane) {
            Some(Lane::Stream(stream)) => stream.available(wanted),
            Some(Lane::Local(local)) => {
                let (bytes, peer) = (local.incoming.len(), local.peer);
                Available {
                    bytes,
                    has_ended: self.lane(peer).is_none(),
                }
            }
            None => Available {
                bytes: 0,
                has_ended: true,
            },
        }
    }

    #[inline(always)]
    fn is_quiet(&mut self, lane: LaneId) -> bool {
        match self.lanes.get(lane.0 as usize) {
            Some(Some(Lane::Stream(stream))) => stream.is_quiet(),
            _ => false,
        }
    }

    #[inline(always)]
    fn peek(&mut self, lane: LaneId, header: &mut [u8; HEADER_BYTES]) -> Peeked {
        match self.lanes.get_mut(lane.0 as usize) {
            Some(Some(Lane::Stream(stream))) => stream.peek(header),
            _ => Peeked::Unknown,
        }
    }

    fn receive(&mut self, lane: LaneId, target: Target<'_>) -> Result<(), NotThere> {
        let count = match &target {
            Target::Bytes(bytes) => bytes.len(),
            Target::Memory(places) => places.iter().map(|place| place.length).sum(),
            Target::Nowhere(count) => *count,
        };
        let Self { memory, lanes, .. } = self;
        match lanes.get_mut(lane.0 as usize).and_then(Option::as_mut) {
            Some(Lane::Stream(stream)) => deliver(memory, target, stream.take(count)),
            Some(Lane::Local(local)) => {
                let count = count.min(local.incoming.len());
                let bytes = local.incoming.make_contiguous();
                let stored = deliver(memory, target, bytes.get(..count).unwrap_or_default());
                local.incoming.drain(..count);
                stored
            }
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn receive_record(&mut self, lane: LaneId, to: Option<Place>) -> bool {
        // Only records of connections are found by a peek.
        let Some(Some(Lane::Stream(stream))) = self.lanes.get_mut(lane.0 as usize) else {
            return false;
        };
        let is_taken = match to.map(|to| self.memory.range(to)) {
            None => stream.take_record(&mut [][..]),
            Some(range) => range.is_some_and(|range| stream.take_record(range)),
        };
        if is_taken {
            return true;
        }
        let to = to.filter(|to| to.length > 0);
        let bytes = HEADER_BYTES + to.map_or(0, |to| to.length);
        let room = to.map(|to| writable(&self.memory, to, to.length));
        if matches!(room, Some(Err(_))) || stream.available(bytes).bytes < bytes {
            return false;
        }
        let record = stream.take(bytes);
        if let Some(Ok(mut room)) = room {
            room.copy_in(record.get(HEADER_BYTES..).unwrap_or_default());
        }
        true
    }

    fn expose(&mut self, lane: LaneId, place: Place, access: Access) -> Result<u64, NotMoved> {
        let Self { memory, lanes, .. } = self;
        let lane = lanes.get_mut(lane.0 as usize).and_then(Option::as_mut);
        match lane.ok_or(NotMoved::Ended)? {
            Lane::Stream(stream) => {
                let (range, is_borrowed) = memory.find(place).ok_or(NotMoved::NotThere)?;
                stream.expose(range, access, is_borrowed)
            }
            Lane::Local(local) => {
                let number = local.next_window;
                local.next_window += 1;
                local.windows.insert(number, place);
                Ok(number)
            }
        }
    }

    fn withdraw(&mut self, lane: LaneId, window: u64) {
        match self.lane(lane) {
            Some(Lane::Stream(stream)) => stream.withdraw(window),
            Some(Lane::Local(local)) => {
                local.windows.remove(&window);
            }
            None => {}
        }
    }

    #[inline(always)]
    fn put(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        from: Source<'_>,
    ) -> Result<(), NotMoved> {
        if let Some(Some(Lane::Stream(stream))) = self.lanes.get_mut(lane.0 as usize) {
            match from {
                Source::Bytes(bytes) => stream.put(bytes.into(), window, offset)?,
                Source::Memory(places) => {
                    let mut at = offset;
                    for place in places {
                        let range = self.memory.range(*place).ok_or(NotMoved::NotThere)?;
                        stream.put(range.into(), window, at)?;
                        at += place.length as u64;
                    }
                }
            }
            stream.drain();
            return Ok(());
        }
        match from {
            Source::Bytes(bytes) => {
                let to = self.place(lane, window, offset, bytes.len())?;
                store(&self.memory, to, bytes).map_err(|NotThere| NotMoved::NoWindow)?;
            }
            Source::Memory(places) => {
                let mut at = offset;
                for from in places {
                    let to = self.place(lane, window, at, from.length)?;
                    self.copy(*from, to, (NotMoved::NotThere, NotMoved::NoWindow))?;
                    at += from.length as u64;
                }
            }
        }
        Ok(())
    }

    fn get(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        to: &[Place],
    ) -> Result<(), NotMoved> {
        let mut at = offset;
        for place in to {
            if let Some(Some(Lane::Stream(stream))) = self.lanes.get_mut(lane.0 as usize) {
                let range = self.memory.range(*place).ok_or(NotMoved::NotThere)?;
                stream.get(range, window, at)?;
            } else {
                let from = self.place(lane, window, at, place.length)?;
                self.copy(from, *place, (NotMoved::NoWindow, NotMoved::NotThere))?;
            }
            at += place.length as u64;
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        operation: Atomic,
    ) -> Result<u64, NotMoved> {
        if let Some(Lane::Stream(stream)) = self.lane(lane) {
            return stream.fetch(window, offset, |word| operate(word, operation));
        }
        let place = self.place(lane, window, offset, size_of::<u64>())?;
        let before = self.atomic_own(place, operation);
        before.map_err(|NotThere| NotMoved::NoWindow)
    }

    fn atomic_own(&mut self, place: Place, operation: Atomic) -> Result<u64, NotThere> {
        let memory = writable(&self.memory, place, size_of::<u64>())?;
        let word = memory.word_u64().ok_or(NotThere)?;
        Ok(operate(word, operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_knows_that_the_other_one_has_gone_though_its_number_is_used_again() {
        let mut lanes = Lanes::default();
        let (one, other) = lanes.insert_pair();
        lanes.remove(other);
        let (third, fourth) = lanes.insert_pair();
        assert_eq!(third, other, "the number is free");
        assert!(!lanes.may_send(one));
        assert!(lanes.available(one, HEADER_BYTES).has_ended);
        let header = [0; HEADER_BYTES];
        lanes.send(one, &header, Source::Bytes(&[])).unwrap();
        assert_eq!(
            lanes.available(third, HEADER_BYTES).bytes,
            0,
            "a stranger's"
        );
        lanes.remove(one);
        assert!(lanes.may_send(third) && lanes.may_send(fourth));
    }
}
