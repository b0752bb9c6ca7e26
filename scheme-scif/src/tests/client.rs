//! A bypass client for tests: a program with a connection's rings mapped.

use core::cell::RefCell;

use scif_abi::bypass::{BypassRecord, LOCK_FREE, Part};
use scif_abi::call::Call;
use scif_abi::flags::Kicks;
use scif_ring::{Consumer, Producer, RingMemory, Side, Word};
use syscall::error::Result;
use zerocopy::FromBytes;

use super::fixture::{Fixture, Op, PAGE, USER};
use super::memory::shared;
use super::programs::*;
use crate::HandleId;

#[track_caller]
pub fn dup_bypass(fixture: &mut Fixture, node: usize, id: HandleId) -> Result<HandleId> {
    let name = b"bypass".to_vec();
    let caller = USER;
    fixture.now(node, Op::Dup { id, name, caller }).0
}

#[track_caller]
pub fn info(fixture: &mut Fixture, node: usize, id: HandleId) -> Result<BypassRecord> {
    let record = BypassRecord::default();
    let (result, payload) = fixture.now(node, op(id, Call::BypassInfo { record }));
    result.map(|_| BypassRecord::read_from_bytes(&payload).unwrap())
}

/// A program with all parts mapped.
pub struct Client {
    node: usize,
    pub id: HandleId,
    pub number: u32,
    pub parts: [usize; 4],
    pub producer: Producer,
    pub consumer: Consumer,
}

impl Client {
    #[track_caller]
    pub fn new(fixture: &mut Fixture, node: usize, endpoint: HandleId) -> Self {
        let id = dup_bypass(fixture, node, endpoint).unwrap();
        let record = info(fixture, node, id).unwrap();
        let (own, peer) = (record.own_ring_bytes.get(), record.peer_ring_bytes.get());
        let parts = Part::ALL.map(|part| {
            let bytes = part.bytes(own, peer);
            let mapped = fixture.map(node, id, part.offset(), bytes, shared(READ_WRITE));
            mapped.unwrap()
        });
        Self {
            node,
            id,
            number: record.handle.get(),
            parts,
            producer: Producer::new(peer),
            consumer: Consumer::new(own),
        }
    }

    pub fn view<'a>(&self, fixture: &'a mut Fixture) -> View<'a> {
        View {
            fixture: RefCell::new(fixture),
            node: self.node,
            parts: self.parts,
        }
    }

    /// Puts bytes and wakes a sleeping receiver, as the client library does. Returns the count of
    /// bytes.
    #[track_caller]
    pub fn send(&self, fixture: &mut Fixture, bytes: &[u8]) -> usize {
        let moved = self
            .producer
            .send(&mut self.view(fixture), self.number, bytes)
            .unwrap();
        if moved.notify {
            let kicks = Kicks::BYTES.bits();
            assert_eq!(
                call(fixture, self.node, self.id, Call::Kick { kicks }),
                Ok(0)
            );
        }
        moved.bytes
    }

    #[track_caller]
    pub fn receive(&self, fixture: &mut Fixture, most: usize) -> Vec<u8> {
        let mut buffer = vec![0; most];
        let moved = self
            .consumer
            .receive(&mut self.view(fixture), self.number, &mut buffer)
            .unwrap();
        if moved.notify {
            let kicks = Kicks::ROOM.bits();
            assert_eq!(
                call(fixture, self.node, self.id, Call::Kick { kicks }),
                Ok(0)
            );
        }
        buffer.truncate(moved.bytes);
        buffer
    }

    pub fn control(&self, fixture: &mut Fixture, offset: u64) -> u32 {
        let bytes = fixture.peek(self.node, self.parts[0] + offset as usize, 4);
        u32::from_le_bytes(bytes.try_into().unwrap())
    }

    /// Ends the client as the end of a program does: mappings first.
    pub fn end(self, fixture: &mut Fixture) {
        let record = info(fixture, self.node, self.id).unwrap();
        let (own, peer) = (record.own_ring_bytes.get(), record.peer_ring_bytes.get());
        for part in Part::ALL {
            let bytes = part.bytes(own, peer);
            fixture
                .unmap(self.node, self.id, part.offset(), bytes)
                .unwrap();
        }
        fixture.close(self.node, self.id);
    }
}

/// A client's mapped memory.
pub struct View<'a> {
    fixture: RefCell<&'a mut Fixture>,
    node: usize,
    parts: [usize; 4],
}

impl View<'_> {
    fn load_at<const N: usize>(&self, part: Part, offset: u64) -> [u8; N] {
        let address = self.parts[part as usize] + offset as usize;
        let bytes = self.fixture.borrow_mut().peek(self.node, address, N);
        bytes.try_into().unwrap()
    }

    pub fn store_at(&self, part: Part, offset: u64, bytes: &[u8]) {
        let address = self.parts[part as usize] + offset as usize;
        self.fixture.borrow_mut().poke(self.node, address, bytes);
    }
}

impl RingMemory for View<'_> {
    type Error = core::convert::Infallible;

    fn load(&self, word: Word) -> u32 {
        u32::from_le_bytes(self.load_at(Part::Own, word.offset()))
    }

    fn clear(&mut self, word: Word) -> u32 {
        let before = self.load(word);
        self.store_at(Part::Own, word.offset(), &[0; 4]);
        before
    }

    fn store_peer(&mut self, word: Word, value: u32) -> Result2<(), Self::Error> {
        self.store_at(Part::PeerQueuePair, word.offset(), &value.to_le_bytes());
        Ok(())
    }

    fn flush_peer(&mut self, _word: Word) -> Result2<(), Self::Error> {
        Ok(())
    }

    fn read(&self, offset: usize, buffer: &mut [u8]) {
        let address = self.parts[Part::Own as usize] + PAGE + offset;
        let bytes = self
            .fixture
            .borrow_mut()
            .peek(self.node, address, buffer.len());
        buffer.copy_from_slice(&bytes);
    }

    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result2<(), Self::Error> {
        self.store_at(Part::PeerRing, offset as u64, bytes);
        Ok(())
    }

    fn fence(&self) {}

    fn position(&self, side: Side) -> u64 {
        u64::from_le_bytes(self.load_at(Part::Control, side.position_offset()))
    }

    fn set_position(&mut self, side: Side, position: u64) {
        let bytes = position.to_le_bytes();
        self.store_at(Part::Control, side.position_offset(), &bytes);
    }

    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        let free = u32::from_le_bytes(self.load_at(Part::Control, side.lock_offset())) == LOCK_FREE;
        if free {
            self.store_at(Part::Control, side.lock_offset(), &holder.to_le_bytes());
        }
        free
    }

    fn unlock(&mut self, side: Side) {
        self.store_at(Part::Control, side.lock_offset(), &[0; 4]);
    }
}

type Result2<T, E> = core::result::Result<T, E>;
