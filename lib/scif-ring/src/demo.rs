//! Memory for examples and tests: both ends of a connection in one thread.

extern crate alloc;

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::convert::Infallible;

use crate::access::{RingMemory, Side, Word};
use crate::validity::{EpochOwner, ValidityMemory};

/// The memory of one side.
struct Own {
    words: [Cell<u32>; 4],
    ring: RefCell<Vec<u8>>,
    locks: [Cell<u32>; 2],
    positions: [Cell<u64>; 2],
}

/// One end of a connection, as a [`RingMemory`].
#[derive(Clone)]
pub struct End {
    own: Rc<Own>,
    peer: Rc<Own>,
}

/// The two ends of a connection with `ring_bytes` bytes in each ring.
pub fn pair(ring_bytes: usize) -> (End, End) {
    let own = || {
        Rc::new(Own {
            words: Default::default(),
            ring: RefCell::new(vec![0; ring_bytes]),
            locks: Default::default(),
            positions: Default::default(),
        })
    };
    let (left, right) = (own(), own());
    let end = |own: &Rc<Own>, peer: &Rc<Own>| End {
        own: Rc::clone(own),
        peer: Rc::clone(peer),
    };
    (end(&left, &right), end(&right, &left))
}

impl End {
    /// Stores a word of the own page, which only the other side should do.
    pub fn scribble(&self, word: Word, value: u32) {
        self.own.words[word as usize].set(value);
    }
}

impl RingMemory for End {
    type Error = Infallible;

    fn load(&self, word: Word) -> u32 {
        self.own.words[word as usize].get()
    }

    fn clear(&mut self, word: Word) -> u32 {
        self.own.words[word as usize].replace(0)
    }

    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), Infallible> {
        self.peer.words[word as usize].set(value);
        Ok(())
    }

    fn flush_peer(&mut self, _word: Word) -> Result<(), Infallible> {
        Ok(())
    }

    fn read(&self, offset: usize, buffer: &mut [u8]) {
        let ring = self.own.ring.borrow();
        buffer.copy_from_slice(&ring[offset..offset + buffer.len()]);
    }

    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Infallible> {
        let mut ring = self.peer.ring.borrow_mut();
        ring[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn fence(&self) {}

    fn position(&self, side: Side) -> u64 {
        self.own.positions[side as usize].get()
    }

    fn set_position(&mut self, side: Side, position: u64) {
        self.own.positions[side as usize].set(position);
    }

    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        let lock = &self.own.locks[side as usize];
        if lock.get() == 0 {
            lock.set(holder);
            return true;
        }
        false
    }

    fn unlock(&mut self, side: Side) {
        self.own.locks[side as usize].set(0);
    }
}

/// The words of [`validity`](crate::validity).
#[derive(Default)]
pub struct Epoch {
    epoch: u32,
    busy: u32,
}

impl ValidityMemory for Epoch {
    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn add_busy(&mut self) {
        self.busy += 1;
    }

    fn remove_busy(&mut self) {
        self.busy -= 1;
    }
}

impl EpochOwner for Epoch {
    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn set_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    fn busy(&self) -> u32 {
        self.busy
    }
}
