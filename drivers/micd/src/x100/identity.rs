//! The identity of a card (family, stepping, memory), as its scratchpads report it.

use alloc::string::String;

use hal::mmio::Mmio;

use super::registers::{FUSES, IDENTITY, MEMORY_SIZE, POSTCODE, THERMAL_STATUS};

/// What is known of a card.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// Scratchpad 13.
    word: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Fuse revision.
    pub fuses: u32,
}

impl Identity {
    /// Reads the card's scratchpads, once its firmware is ready.
    pub fn read(registers: &dyn Mmio) -> Self {
        Self {
            word: registers.read32(IDENTITY),
            memory_bytes: memory_bytes(registers.read32(MEMORY_SIZE)),
            fuses: registers.read32(FUSES) & 0x3ff,
        }
    }

    /// The stepping's name.
    pub fn stepping(&self) -> &'static str {
        match self.word >> 4 & 0xf {
            0 => "A0",
            1 => "B0",
            2 => "C0",
            3 => "B1",
            _ => "?",
        }
    }

    /// Whether it is an A stepping, which has other rules for interrupts and DMA.
    pub fn is_first_stepping(&self) -> bool {
        self.word >> 4 & 0xf == 0
    }
}

/// The bytes of memory in scratchpad 0: the firmware may use all, a half, a third or a fourth of
/// it.
fn memory_bytes(word: u32) -> u64 {
    let shares = u64::from(word >> 1 & 3) + 1;
    (u64::from(word >> 3) << 10) / shares
}

/// The POST code as people write it: two characters, or the number of an invalid code.
pub fn post_code(registers: &dyn Mmio) -> String {
    let code = registers.read32(POSTCODE);
    let [first, second, ..] = code.to_le_bytes();
    if code >> 16 == 0 && first.is_ascii_graphic() && second.is_ascii_graphic() {
        String::from_iter([char::from(first), char::from(second)])
    } else {
        alloc::format!("{code:#x}")
    }
}

/// The card's temperature in degrees Celsius, if the card reports it.
pub fn temperature(registers: &dyn Mmio) -> Option<u32> {
    const VALID: u32 = 1 << 31;
    let status = registers.read32(THERMAL_STATUS);
    (status != u32::MAX && status & VALID != 0).then_some(status >> 22 & 0x1ff)
}

#[cfg(test)]
mod tests {
    use super::memory_bytes;

    #[test]
    fn memory_is_what_the_firmware_uses() {
        let all = 8 << 20 << 3;
        assert_eq!(memory_bytes(all | 1), 8 << 30);
        assert_eq!(memory_bytes(all | 1 << 1), 4 << 30);
        assert_eq!(memory_bytes(all | 3 << 1), 2 << 30);
    }
}
