//! A peer's RAM, seen through a BAR: the offset in the BAR is the peer's physical address.

use crate::mem::{BoundsError, Region};

/// A peer's RAM. Addresses come from the peer and are checked at every access.
#[derive(Clone, Debug)]
pub struct Aperture {
    region: Region,
    physical: u64,
}

impl Aperture {
    /// An aperture over a mapped BAR, which is at physical address `physical`.
    pub fn new(region: Region, physical: u64) -> Self {
        Self { region, physical }
    }

    /// Translates a physical address of the peer into the one at which this node reaches it.
    /// `None` outside the aperture.
    pub fn physical(&self, address: u64) -> Option<u64> {
        (address < self.len()).then(|| self.physical + address)
    }

    /// Bytes of the peer's RAM that can be reached.
    pub fn len(&self) -> u64 {
        self.region.len() as u64
    }

    /// Whether nothing can be reached.
    pub fn is_empty(&self) -> bool {
        self.region.len() == 0
    }

    /// The range of the peer's RAM at a physical address of the peer. Its bounds are checked once,
    /// here, for memory that is used many times (a queue, a ring).
    ///
    /// # Errors
    /// [`BoundsError`]: the range is not all inside the aperture.
    pub fn window(&self, physical: u64, bytes: usize) -> Result<Region, BoundsError> {
        self.region.part(self.offset(physical, bytes)?, bytes)
    }

    /// Copies out of the peer's RAM.
    ///
    /// # Errors
    /// [`BoundsError`]: the range is not all inside the aperture.
    pub fn read(&self, physical: u64, to: &mut [u8]) -> Result<(), BoundsError> {
        self.region.read_bytes(self.offset(physical, to.len())?, to)
    }

    /// Copies into the peer's RAM.
    ///
    /// # Errors
    /// [`BoundsError`]: the range is not all inside the aperture.
    pub fn write(&self, physical: u64, from: &[u8]) -> Result<(), BoundsError> {
        self.region
            .write_bytes(self.offset(physical, from.len())?, from)
    }

    /// Copies from own shared memory into the peer's RAM.
    ///
    /// # Errors
    /// [`BoundsError`]: one of the two ranges is not all inside its memory.
    pub fn copy_in(
        &self,
        physical: u64,
        from: &Region,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), BoundsError> {
        self.region
            .copy_from(self.offset(physical, bytes)?, from, from_offset, bytes)
    }

    /// Copies from the peer's RAM into own shared memory.
    ///
    /// # Errors
    /// [`BoundsError`]: one of the two ranges is not all inside its memory.
    pub fn copy_out(
        &self,
        physical: u64,
        to: &Region,
        to_offset: usize,
        bytes: usize,
    ) -> Result<(), BoundsError> {
        to.copy_from(
            to_offset,
            &self.region,
            self.offset(physical, bytes)?,
            bytes,
        )
    }

    fn offset(&self, physical: u64, bytes: usize) -> Result<usize, BoundsError> {
        let region_bytes = self.region.len();
        usize::try_from(physical).map_err(|_| BoundsError {
            offset: usize::MAX,
            bytes,
            region_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_peer_are_checked() {
        let aperture = Aperture::new(Region::heap(8192), 0xfe00_0000);
        assert_eq!(aperture.physical(4096), Some(0xfe00_1000));
        assert_eq!(aperture.physical(8192), None);
        let window = aperture.window(4096, 64).unwrap();
        window.write(0, 9_u32).unwrap();
        let mut back = [0; 4];
        aperture.read(4096, &mut back).unwrap();
        assert_eq!(back, [9, 0, 0, 0]);
        assert!(aperture.window(8192, 1).is_err());
        assert!(aperture.window(u64::MAX, 2).is_err());
        assert!(aperture.read(8190, &mut back).is_err());
        let own = Region::heap(16);
        aperture.copy_out(4096, &own, 8, 4).unwrap();
        assert_eq!(own.read::<u32>(8), Ok(9));
        aperture.copy_in(0, &own, 8, 4).unwrap();
        aperture.read(0, &mut back).unwrap();
        assert_eq!(back, [9, 0, 0, 0]);
        assert!(aperture.copy_in(8190, &own, 0, 4).is_err());
        assert_eq!((aperture.len(), aperture.is_empty()), (8192, false));
    }
}
