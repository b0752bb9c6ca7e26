//! Memory regions and their keys.
//!
//! A key is the index of an entry in the table and, in its low 8 bits, a counter that changes with
//! each registration at this index, so an old key fails. Index 0 is not used: no key is 0 to 255.

use alloc::vec::Vec;

use crate::host::Place;
use crate::table::Id;
use crate::types::{Access, Error, Result};
use crate::work::Segment;

/// Bits of a key that are the counter.
const COUNTER_BITS: u32 = 8;
/// Most regions of a context.
pub const MAX_REGIONS: usize = 16384;
/// Most bytes of a region: of one window of SCIF.
pub const MAX_REGION_BYTES: u64 = 1 << 30;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// A memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its protection domain.
    pub pd: Id,
    /// Where it lies in the program's memory.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// The address of its first byte in requests.
    pub iova: u64,
    /// What may be done with it.
    pub access: Access,
}

impl Region {
    /// Where a range of this region lies in the program's memory; `None`: not all of it is in the
    /// region.
    fn place(&self, address: u64, length: u64) -> Option<u64> {
        let offset = address.checked_sub(self.iova)?;
        let end = offset.checked_add(length)?;
        (end <= self.length).then(|| self.start + offset)
    }
}

/// The memory regions of a context, by key.
#[derive(Debug, Default)]
pub struct KeyTable {
    entries: Vec<Entry>,
    /// Indices of free entries.
    free: Vec<usize>,
}

#[derive(Debug)]
struct Entry {
    counter: u8,
    region: Option<Region>,
}

/// A local key does not give the access that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied;

impl KeyTable {
    /// Registers memory; its key, which is the local and the remote one.
    ///
    /// # Errors
    /// `Invalid`: no bytes, too many, or beyond the end of memory; `start` and `iova` with
    /// different offsets in a page; access of a peer that the owner does not have. `NoMemory`: the
    /// table is full.
    pub fn register(&mut self, region: Region) -> Result<u32> {
        check(&region)?;
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < MAX_REGIONS => {
                self.entries.push(Entry {
                    counter: 0,
                    region: None,
                });
                self.entries.len() - 1
            }
            None => return Err(Error::NoMemory),
        };
        let entry = self.entries.get_mut(index).ok_or(Error::NotFound)?;
        entry.counter = entry.counter.wrapping_add(1);
        entry.region = Some(region);
        Ok(((index as u32 + 1) << COUNTER_BITS) | u32::from(entry.counter))
    }

    /// Ends a region; what it was. From now on its key fails.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn deregister(&mut self, key: u32) -> Result<Region> {
        let index = Self::index(key).ok_or(Error::NotFound)?;
        let entry = self.entries.get_mut(index).ok_or(Error::NotFound)?;
        if u32::from(entry.counter) != key & ((1 << COUNTER_BITS) - 1) {
            return Err(Error::NotFound);
        }
        let region = entry.region.take().ok_or(Error::NotFound)?;
        self.free.push(index);
        Ok(region)
    }

    fn index(key: u32) -> Option<usize> {
        ((key >> COUNTER_BITS) as usize).checked_sub(1)
    }

    /// The region of a key.
    pub fn get(&self, key: u32) -> Option<&Region> {
        let entry = self.entries.get(Self::index(key)?)?;
        let is_current = u32::from(entry.counter) == key & ((1 << COUNTER_BITS) - 1);
        entry.region.as_ref().filter(|_| is_current)
    }

    /// Adds to `places` where `length` bytes, `skip` bytes behind the beginning of `segments`, lie
    /// in the program's memory. `writes`: they are to be written.
    ///
    /// # Errors
    /// A segment that is touched has a key that is not valid, of another domain, for another range,
    /// or without the right to write; or the segments are too short.
    pub fn resolve(
        &self,
        pd: Id,
        segments: &[Segment],
        (mut skip, mut length): (u64, u64),
        writes: bool,
        places: &mut Vec<Place>,
    ) -> core::result::Result<(), Denied> {
        for segment in segments {
            let here = u64::from(segment.length);
            if skip >= here {
                skip -= here;
                continue;
            }
            if length == 0 {
                break;
            }
            let count = (here - skip).min(length);
            let region = self.get(segment.key).ok_or(Denied)?;
            let may = !writes || region.access.contains(Access::LOCAL_WRITE);
            if region.pd != pd || !may {
                return Err(Denied);
            }
            // The whole segment counts, not only the bytes that are touched.
            let place = region.place(segment.address, here).ok_or(Denied)?;
            places.push(Place {
                address: place + skip,
                length: count as usize,
            });
            (skip, length) = (0, length - count);
        }
        if length == 0 { Ok(()) } else { Err(Denied) }
    }

    /// Regions.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys of a protection domain's regions.
    pub fn keys_of(&self, pd: Id) -> impl Iterator<Item = u32> + '_ {
        let entries = self.entries.iter().zip(1u32..);
        entries.filter_map(move |(entry, index)| {
            entry.region.filter(|region| region.pd == pd)?;
            Some((index << COUNTER_BITS) | u32::from(entry.counter))
        })
    }
}

fn check(region: &Region) -> Result<()> {
    let Region {
        start,
        length,
        iova,
        access,
        ..
    } = *region;
    let fits = start.checked_add(length).is_some() && iova.checked_add(length).is_some();
    let has_size = length > 0 && length <= MAX_REGION_BYTES;
    let is_aligned = start % PAGE == iova % PAGE;
    let unknown = access.bits() & !Access::all().bits() & !Access::OPTIONAL_BITS;
    let needs_write = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    let may_write = !needs_write || access.contains(Access::LOCAL_WRITE);
    if fits && has_size && is_aligned && unknown == 0 && may_write {
        Ok(())
    } else {
        Err(Error::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::{Denied, KeyTable, Region};
    use crate::host::Place;
    use crate::table::Id;
    use crate::types::{Access, Error};
    use crate::work::Segment;

    fn region(access: Access) -> Region {
        Region {
            pd: Id(0),
            start: 0x5000,
            length: 100,
            iova: 0x1000,
            access,
        }
    }

    #[test]
    fn what_cannot_be_registered() {
        let good = region(Access::LOCAL_WRITE);
        let bad = [
            Region { length: 0, ..good },
            Region {
                length: (1 << 30) + 1,
                ..good
            },
            Region {
                start: u64::MAX - 4095 - 96,
                iova: 4000,
                length: 5000,
                ..good
            },
            Region { iova: 1, ..good },
            region(Access::REMOTE_WRITE),
            region(Access::REMOTE_ATOMIC | Access::REMOTE_READ),
            region(Access::from_bits_retain(1 << 10)),
        ];
        let mut keys = KeyTable::default();
        for region in bad {
            assert_eq!(keys.register(region), Err(Error::Invalid), "{region:?}");
        }
        // A wish that is not known is no error.
        assert!(
            keys.register(region(Access::from_bits_retain(1 << 20)))
                .is_ok()
        );
        assert!(keys.register(region(Access::REMOTE_READ)).is_ok());
        assert_eq!(keys.len(), 2);
    }

    #[test]
    fn old_keys_fail() {
        let mut keys = KeyTable::default();
        let mut former = Vec::new();
        for _ in 0..200 {
            let key = keys.register(region(Access::empty())).unwrap();
            assert!(!former.contains(&key) && key > 255);
            assert!(keys.get(key).is_some());
            assert!(former.iter().all(|old| keys.get(*old).is_none()));
            assert!(keys.deregister(key).is_ok());
            assert_eq!(keys.deregister(key), Err(Error::NotFound));
            former.push(key);
        }
        assert!(keys.is_empty());
    }

    #[test]
    fn segments_are_checked_as_a_whole() {
        let mut keys = KeyTable::default();
        let key = keys.register(region(Access::LOCAL_WRITE)).unwrap();
        let constant = keys.register(region(Access::empty())).unwrap();
        let segment = |address, length, key| Segment {
            address,
            length,
            key,
        };
        let resolve = |pd, segments: &[Segment], range, writes| {
            let mut places = Vec::new();
            let done = keys.resolve(Id(pd), segments, range, writes, &mut places);
            done.map(|()| places)
        };
        let two = [segment(0x1000, 60, key), segment(0x1030, 40, constant)];
        let place = |address, length| Place { address, length };
        assert_eq!(
            resolve(0, &two, (50, 30), false),
            Ok(vec![place(0x5032, 10), place(0x5030, 20)])
        );
        assert_eq!(resolve(0, &two, (60, 0), false), Ok(vec![]));
        assert_eq!(resolve(0, &two, (99, 2), false), Err(Denied));
        assert_eq!(resolve(0, &two, (50, 30), true), Err(Denied));
        assert_eq!(resolve(0, &two, (0, 60), true).map(|_| ()), Ok(()));
        assert_eq!(resolve(1, &two, (0, 60), false), Err(Denied));
        for bad in [
            segment(0x1001, 100, key),
            segment(0xfff, 10, key),
            segment(u64::MAX, 2, key),
            segment(0x1000, 10, key ^ 1),
            segment(0x1000, 10, key + 512),
            segment(0x1000, 10, 0),
        ] {
            assert_eq!(resolve(0, &[bad], (0, 1), false), Err(Denied), "{bad:?}");
        }
        // Bytes that are not touched need no key.
        let mixed = [segment(0x1000, 10, key), segment(0, 10, 0)];
        assert_eq!(resolve(0, &mixed, (0, 10), true).map(|_| ()), Ok(()));
        assert_eq!(resolve(0, &mixed, (0, 11), true), Err(Denied));
    }
}
