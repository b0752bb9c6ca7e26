//! The device page: host memory through which host and card tell each other the addresses of their
//! queue pairs. The card finds the page through scratchpads 14 and 15.
//!
//! The first 24 bytes are those of the mainline driver (`mic_common.h`, `mic_bootparam`). The last
//! word is an extension, the card's heartbeat. A card that leaves it 0 has the base protocol, and
//! is probed instead.

use hal::Result;
use hal::mem::{PAGE, Region};

/// The number that marks a device page.
const MAGIC: u32 = 0xc0ff_ee00;
/// Offset of the magic number, 4 bytes.
pub const AT_MAGIC: usize = 0;
/// Offset of the card's node number, 1 byte.
pub const AT_NODE: usize = 5;
/// Offset of the card's doorbell (0 to 7 interrupts, 8 to 15 the other kind), 1 byte, written by
/// the card.
pub const AT_CARD_DOORBELL: usize = 6;
/// Offset of the host's doorbell (0 to 3), 1 byte.
pub const AT_HOST_DOORBELL: usize = 7;
/// Offset of the card address of the host's queue pair, 8 bytes; 0: none.
pub const AT_HOST_QUEUE_PAIR: usize = 8;
/// Offset of the card address of the card's queue pair, 8 bytes, written by the card; 0: none.
pub const AT_CARD_QUEUE_PAIR: usize = 16;
/// Offset of the card's heartbeat, 8 bytes, written by the card.
pub const AT_HEARTBEAT: usize = PAGE - 8;

/// The card's fields of the page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Card address of the card's queue pair; 0: none.
    pub queue_pair: u64,
    /// The card's doorbell.
    pub doorbell: u8,
}

/// The host's access to a device page.
#[derive(Clone, Debug)]
pub struct DevicePage {
    region: Region,
}

impl DevicePage {
    /// A page in this memory, of at least [`PAGE`] bytes.
    ///
    /// # Errors
    /// `EFAULT` when the memory is shorter.
    pub fn new(region: &Region) -> Result<Self> {
        Ok(Self {
            region: region.part(0, PAGE)?,
        })
    }

    /// Clears the page and publishes the host's half. The queue pair is stored last, so a card
    /// that reads it also reads the rest.
    ///
    /// # Errors
    /// None in practice: all places are inside the page.
    pub fn publish(&self, node: u8, doorbell: u8, queue_pair: u64) -> Result<()> {
        self.withdraw()?;
        self.region.write(AT_NODE, node)?;
        self.region.write(AT_HOST_DOORBELL, doorbell)?;
        self.region.write(AT_MAGIC, MAGIC)?;
        self.region
            .store_release_u64(AT_HOST_QUEUE_PAIR, queue_pair)?;
        Ok(())
    }

    /// Clears the page.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish).
    pub fn withdraw(&self) -> Result<()> {
        self.region.store_release_u64(AT_HOST_QUEUE_PAIR, 0)?;
        Ok(self.region.zero(0, PAGE)?)
    }

    /// The card's half, copied once. The doorbell is valid when the queue pair is there.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish).
    pub fn answer(&self) -> Result<Answer> {
        Ok(Answer {
            queue_pair: self.region.load_acquire_u64(AT_CARD_QUEUE_PAIR)?,
            doorbell: self.region.read(AT_CARD_DOORBELL)?,
        })
    }

    /// The card's heartbeat; 0 when it has none.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish).
    pub fn heartbeat(&self) -> Result<u64> {
        Ok(self.region.load_acquire_u64(AT_HEARTBEAT)?)
    }
}

/// Whether this is a device page: for the card's side.
pub fn is_magic(value: u32) -> bool {
    value == MAGIC
}
