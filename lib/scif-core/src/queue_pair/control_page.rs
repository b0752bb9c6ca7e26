//! The control page of a connection: what the engine shares with clients that work on the rings
//! themselves. `rings.rs` has its positions and locks; this file has the state, the epoch, and the
//! words in which clients count their copies.

use scif_abi::bypass::{
    CONTROL_BYTES, COPY_ROUTINES_OFFSET, EPOCH_OFFSET, FIRST_HANDLE, RMA_BUSY_SLOTS, STATE_OFFSET,
    TRANSFERS_OFFSET, rma_busy_offset, rma_busy_slot,
};
use scif_ring::validity::{self, EpochOwner};

use crate::base::memory::Memory;

/// A control page, which exists while a bypass handle is open.
#[derive(Debug)]
pub(crate) struct ControlPage {
    /// The local address of the page.
    address: u64,
    /// How many handles are open.
    handles: usize,
    /// For each of the page's words, how many handles count their copies in it.
    slots: [u32; RMA_BUSY_SLOTS],
    /// The number of the next handle.
    next: u32,
    /// The epoch as the engine set it; a client may have changed the one in the page.
    epoch: u32,
    /// Whether the page shows transfers as under way, unless a client has changed it.
    shows_transfers: bool,
}

/// Access to the page during one call.
struct Words<'a> {
    mem: &'a mut dyn Memory,
    page: &'a mut ControlPage,
}

impl EpochOwner for Words<'_> {
    fn epoch(&self) -> u32 {
        self.page.epoch
    }

    fn set_epoch(&mut self, epoch: u32) {
        self.page.epoch = epoch;
        let word = self.page.address + EPOCH_OFFSET;
        self.mem.store_index(word, epoch);
        self.mem.full_fence();
    }

    fn busy(&self) -> u32 {
        let words = self.page.busy_words();
        let busy = words.map(|word| self.mem.load_index(word));
        // The words may hold any numbers.
        busy.fold(0, u32::saturating_add)
    }
}

impl ControlPage {
    /// Makes the page of a connection in `state`, which is one that clients know. `None`: no
    /// memory. `copy_routines` are hints for clients.
    pub(crate) fn new(
        mem: &mut dyn Memory,
        copy_routines: [u8; 4],
        state: u32,
    ) -> Option<ControlPage> {
        let address = mem.allocate(CONTROL_BYTES)?;
        mem.write(address + COPY_ROUTINES_OFFSET, &copy_routines);
        mem.store_index(address + STATE_OFFSET, state);
        Some(ControlPage {
            address,
            handles: 0,
            slots: [0; RMA_BUSY_SLOTS],
            next: FIRST_HANDLE,
            epoch: 0,
            shows_transfers: false,
        })
    }

    pub(crate) fn free(self, mem: &mut dyn Memory) {
        mem.free(self.address, CONTROL_BYTES);
    }

    /// The local address of the page.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The present epoch.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Opens a handle. Returns the number that the handle stores into lock words.
    pub(crate) fn open_handle(&mut self) -> u32 {
        let number = self.next;
        self.handles += 1;
        self.slots[rma_busy_slot(number)] += 1;
        self.next = number.checked_add(1).unwrap_or(FIRST_HANDLE);
        number
    }

    /// Closes a handle. A copy that its client had under way is over, even if the client was
    /// killed, so it no longer counts. Returns whether this was the last handle.
    pub(crate) fn close_handle(&mut self, mem: &mut dyn Memory, number: u32) -> bool {
        self.handles = self.handles.saturating_sub(1);
        let slot = &mut self.slots[rma_busy_slot(number)];
        *slot = slot.saturating_sub(1);
        if *slot == 0 {
            mem.store_index(self.address + rma_busy_offset(number), 0);
        }
        self.handles == 0
    }

    /// Local addresses of the words in which open handles count their copies.
    fn busy_words(&self) -> impl Iterator<Item = u64> {
        let used = (0..).zip(self.slots).filter(|(_, handles)| *handles > 0);
        used.map(|(slot, _)| self.address + rma_busy_offset(slot))
    }

    /// Whether clients count copies as under way.
    pub(crate) fn is_busy(&self, mem: &dyn Memory) -> bool {
        self.busy_words().any(|word| mem.load_index(word) != 0)
    }

    /// Begins a new epoch: what clients looked up in the old one becomes void.
    pub(crate) fn advance(&mut self, mem: &mut dyn Memory) {
        validity::advance(&mut Words { mem, page: self });
    }

    /// Whether no client copies to or from a window that it looked up in an old epoch.
    pub(crate) fn is_idle(&mut self, mem: &mut dyn Memory) -> bool {
        validity::is_idle(&Words { mem, page: self })
    }

    /// Whether the page shows transfers as under way.
    pub(crate) fn shows_transfers(&self) -> bool {
        self.shows_transfers
    }

    /// Shows clients whether transfers or signals are under way.
    pub(crate) fn show_transfers(&mut self, mem: &mut dyn Memory, are_under_way: bool) {
        self.shows_transfers = are_under_way;
        mem.store_index(self.address + TRANSFERS_OFFSET, u32::from(are_under_way));
    }

    /// Publishes the state of the connection to clients.
    pub(crate) fn publish_state(&mut self, mem: &mut dyn Memory, state: u32) {
        mem.store_index(self.address + STATE_OFFSET, state);
        self.advance(mem);
    }
}
