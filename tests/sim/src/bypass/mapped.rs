//! The rings of a connection as a program has mapped them, until the program dies.

use scif_abi::bypass::{EPOCH_OFFSET, LOCK_FREE, rma_busy_offset};
use scif_core::{Memory, Place};
use scif_ring::validity::ValidityMemory;
use scif_ring::{RingMemory, Side, Word};

use crate::memory::NodeMemory;

/// The rings as a program has mapped them.
#[derive(Clone)]
pub(super) struct Mapped {
    pub(super) mem: NodeMemory,
    pub(super) control: u64,
    /// The number of the handle.
    pub(super) number: u32,
    pub(super) own: u64,
    pub(super) peer: Place,
    pub(super) peer_ring: Place,
    /// The number of stores before the program dies.
    pub(super) life: Option<u32>,
    pub(super) locks: bool,
}

/// The program is dead.
#[derive(Debug)]
pub(super) struct Dead;

impl Mapped {
    /// Counts one more store. Returns false if the program is dead.
    fn lives(&mut self) -> bool {
        match &mut self.life {
            Some(0) => false,
            Some(life) => {
                *life -= 1;
                true
            }
            None => true,
        }
    }

    pub(super) fn store(&mut self, place: Place, bytes: &[u8]) -> Result<(), Dead> {
        if !self.lives() {
            return Err(Dead);
        }
        match place {
            Place::Own(address) => self.mem.write(address, bytes),
            Place::Peer(node, address) => {
                self.mem
                    .peer_write(node, address, bytes)
                    .map_err(|_| Dead)?;
            }
        }
        Ok(())
    }

    /// Returns the address of the word in which the program counts its copies.
    fn busy_word(&self) -> u64 {
        self.control + rma_busy_offset(self.number)
    }

    pub(super) fn state(&self) -> u32 {
        self.mem.load_index(self.control)
    }
}

/// The words by which a program counts itself as copying.
impl ValidityMemory for Mapped {
    fn epoch(&self) -> u32 {
        self.mem.load_index(self.control + EPOCH_OFFSET)
    }

    fn add_busy(&mut self) {
        let busy = self.mem.load_index(self.busy_word());
        self.mem.store_index(self.busy_word(), busy.wrapping_add(1));
    }

    fn remove_busy(&mut self) {
        let busy = self.mem.load_index(self.busy_word());
        self.mem.store_index(self.busy_word(), busy.wrapping_sub(1));
    }
}

impl RingMemory for Mapped {
    type Error = Dead;

    fn load(&self, word: Word) -> u32 {
        self.mem.load_index(self.own + word.offset())
    }

    fn clear(&mut self, word: Word) -> u32 {
        if !self.lives() {
            return 0;
        }
        let found = self.load(word);
        self.mem.store_index(self.own + word.offset(), 0);
        found
    }

    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), Dead> {
        self.store(self.peer.offset(word.offset()), &value.to_le_bytes())
    }

    fn flush_peer(&mut self, _word: Word) -> Result<(), Dead> {
        Ok(())
    }

    fn read(&self, offset: usize, buffer: &mut [u8]) {
        self.mem.read(self.own + 4096 + offset as u64, buffer);
    }

    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Dead> {
        self.store(self.peer_ring.offset(offset as u64), bytes)
    }

    fn fence(&self) {}

    fn position(&self, side: Side) -> u64 {
        self.mem
            .load_position(self.control + side.position_offset())
    }

    fn set_position(&mut self, side: Side, position: u64) {
        if self.lives() {
            self.mem
                .store_position(self.control + side.position_offset(), position);
        }
    }

    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        let lock = self.control + side.lock_offset();
        if !self.lives() {
            return true;
        }
        !self.locks || self.mem.exchange(lock, LOCK_FREE, holder) == LOCK_FREE
    }

    fn unlock(&mut self, side: Side) {
        if self.lives() && self.locks {
            self.mem.store_index(self.control + side.lock_offset(), 0);
        }
    }
}
