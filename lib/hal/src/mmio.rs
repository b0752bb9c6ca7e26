//! Device registers: 32-bit accesses at fixed offsets of a mapped BAR.

use syscall::error::{EINVAL, Error, Result};

use crate::mem::Region;

/// The registers of a device: those of a mapped BAR, or a model of them.
pub trait Mmio {
    /// Reads a register; offsets are the driver's own constants.
    fn read32(&self, offset: usize) -> u32;

    /// Writes a register.
    fn write32(&self, offset: usize, value: u32);
}

/// A block of registers whose length was checked once, so that single accesses cannot fail.
#[derive(Clone, Debug)]
pub struct Registers {
    region: Region,
}

impl Registers {
    /// Takes a region that holds at least `bytes` bytes of registers.
    ///
    /// # Errors
    /// `EINVAL` when the region is shorter, as that of another device may be.
    pub fn new(region: Region, bytes: usize) -> Result<Self> {
        if region.len() < bytes {
            return Err(Error::new(EINVAL));
        }
        Ok(Self {
            region: region.part(0, bytes)?,
        })
    }

    /// Reads a register. Offsets are the driver's own constants; one outside the block is a
    /// mistake in the driver and panics.
    pub fn read32(&self, offset: usize) -> u32 {
        match self.region.read(offset) {
            Ok(value) => value,
            Err(error) => panic!("register read: {error}"),
        }
    }

    /// Writes a register; offsets as for [`read32`](Self::read32).
    pub fn write32(&self, offset: usize, value: u32) {
        if let Err(error) = self.region.write(offset, value) {
            panic!("register write: {error}");
        }
    }
}

impl Mmio for Registers {
    fn read32(&self, offset: usize) -> u32 {
        Registers::read32(self, offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        Registers::write32(self, offset, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_checked_once() {
        assert!(Registers::new(Region::heap(16), 32).is_err());
        let registers = Registers::new(Region::heap(64), 32).unwrap();
        registers.write32(28, 5);
        assert_eq!(registers.read32(28), 5);
    }

    #[test]
    #[should_panic(expected = "register read")]
    fn a_wrong_offset_is_a_mistake_of_the_driver() {
        Registers::new(Region::heap(64), 32).unwrap().read32(32);
    }
}
