//! Memory regions and memory windows, and their keys.
//!
//! A key is the index of an entry in the table and, in its low 8 bits, a counter that changes with
//! each registration at this index, so that an old key fails. Index 0 is not used: no key is 0 to
//! 255. The counter of a memory window is chosen by its owner with each binding.

use alloc::vec::Vec;

use crate::host::Place;
use crate::table::Id;
use crate::types::{Access, Error, Result};
use crate::work::{Bind, Segment};

/// The key that follows `key` when its region is registered again or its window bound again.
pub const fn next_key(key: u32) -> u32 {
    key & !COUNTER_MASK | key.wrapping_add(1) & COUNTER_MASK
}

/// The index in a table of memory by key: that of the key's entry, which no other key has at the
/// same time. Index 0 is not used.
#[inline]
pub const fn slot_of(key: u32) -> usize {
    (key >> COUNTER_BITS) as usize
}

/// Bits of a key that are the counter.
const COUNTER_BITS: u32 = 8;
const COUNTER_MASK: u32 = (1 << COUNTER_BITS) - 1;
/// Most regions and windows of a context.
pub const MAX_REGIONS: usize = 16384;
/// Most bytes of a region: those of one SCIF window.
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
    /// The address of its first byte in work requests.
    pub iova: u64,
    /// The permitted access.
    pub access: Access,
}

impl Region {
    /// Where a range of this region lies in the program's memory; `None`: not all of it is in the
    /// region.
    #[inline(always)]
    fn place(&self, address: u64, length: u64) -> Option<u64> {
        let offset = address.checked_sub(self.iova)?;
        let end = offset.checked_add(length)?;
        (end <= self.length).then(|| self.start + offset)
    }
}

/// The type of a memory window, which decides when it can be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WindowType {
    /// At any time, also while it is bound.
    One = 1,
    /// Only while it is not bound. It belongs to the queue pair that has bound it, and peers can
    /// invalidate it.
    Two = 2,
}

/// The binding of a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    region: usize,
    /// The queue pair through which it can be used, for type 2.
    qp: Option<u32>,
    reach: KeyedRange,
}

/// Memory that a peer can reach by a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyedRange {
    pub pd: Id,
    /// The key of the memory region, which is another one if the key is that of a memory window.
    pub region: u32,
    /// Where it lies in the program's memory.
    pub start: u64,
    pub length: u64,
    /// The address of its first byte in the peer's requests.
    pub iova: u64,
    pub access: Access,
    /// The only queue pair of this context through which it can be used.
    pub qp: Option<u32>,
}

/// The memory regions and windows of a context, by key.
#[derive(Debug, Default)]
pub struct KeyTable {
    entries: Vec<Entry>,
    /// Indices of free entries.
    free: Vec<usize>,
    windows: usize,
}

#[derive(Debug)]
struct Entry {
    counter: u8,
    what: What,
}

#[derive(Debug)]
enum What {
    Free,
    /// A region, and how many windows are bound to it.
    Region(Region, u32),
    Window {
        pd: Id,
        kind: WindowType,
        bound: Option<Bound>,
    },
}

/// A local key does not give the access that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied;

impl KeyTable {
    /// Registers memory. Returns its key, which is both the local and the remote one.
    ///
    /// # Errors
    /// `Invalid`: no bytes, too many, or bytes beyond the end of memory; `start` and `iova` with
    /// different offsets in a page, unless addresses count from 0; such ones for atomic operations
    /// on memory that is not aligned for these; unknown access bits; access for peers that the
    /// owner does not have. `NoMemory`: the table is full.
    pub fn register(&mut self, region: Region) -> Result<u32> {
        check(&region)?;
        self.insert(What::Region(region, 0))
    }

    /// Registers a region again, with another key. The old key fails from now on.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: windows are bound to it. Those of [`register`](KeyTable::register).
    /// After an error nothing has changed.
    pub fn reregister(&mut self, key: u32, new: Region) -> Result<u32> {
        check(&new)?;
        let index = self.find_region(key)?;
        let entry = self.entries.get_mut(index).ok_or(Error::NotFound)?;
        entry.counter = entry.counter.wrapping_add(1);
        entry.what = What::Region(new, 0);
        Ok(key_of(index, entry.counter))
    }

    /// Ends a region and returns it. Its key fails from now on.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: windows are bound to it.
    pub fn deregister(&mut self, key: u32) -> Result<Region> {
        let index = self.find_region(key)?;
        match self.take(index) {
            What::Region(region, _) => Ok(region),
            What::Free | What::Window { .. } => Err(Error::NotFound),
        }
    }

    /// The index of a region to which no window is bound.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: a window is bound to it.
    pub fn find_region(&self, key: u32) -> Result<usize> {
        match self.entry(key).map(|entry| &entry.what) {
            Some(What::Region(_, 0)) => index_of(key).ok_or(Error::NotFound),
            Some(What::Region(..)) => Err(Error::Busy),
            _ => Err(Error::NotFound),
        }
    }

    fn insert(&mut self, what: What) -> Result<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < MAX_REGIONS => {
                self.entries.push(Entry {
                    counter: 0,
                    what: What::Free,
                });
                self.entries.len() - 1
            }
            None => return Err(Error::NoMemory),
        };
        let entry = self.entries.get_mut(index).ok_or(Error::NotFound)?;
        entry.counter = entry.counter.wrapping_add(1);
        self.windows += usize::from(matches!(what, What::Window { .. }));
        entry.what = what;
        Ok(key_of(index, entry.counter))
    }

    fn take(&mut self, index: usize) -> What {
        let Some(entry) = self.entries.get_mut(index) else {
            return What::Free;
        };
        let what = core::mem::replace(&mut entry.what, What::Free);
        self.windows -= usize::from(matches!(what, What::Window { .. }));
        self.free.push(index);
        what
    }

    #[inline(always)]
    fn entry(&self, key: u32) -> Option<&Entry> {
        let entry = self.entries.get(index_of(key)?)?;
        (u32::from(entry.counter) == key & COUNTER_MASK).then_some(entry)
    }

    /// The region that has this key.
    #[inline(always)]
    pub fn get(&self, key: u32) -> Option<&Region> {
        match &self.entry(key)?.what {
            What::Region(region, _) => Some(region),
            What::Free | What::Window { .. } => None,
        }
    }

    /// The memory that peers reach by a key, if it is a key for peers.
    pub(crate) fn reach(&self, key: u32) -> Option<KeyedRange> {
        match &self.entry(key)?.what {
            What::Region(region, _) if region.access.intersects(Access::REMOTE) => {
                Some(KeyedRange {
                    pd: region.pd,
                    region: key,
                    start: region.start,
                    length: region.length,
                    iova: region.iova,
                    access: region.access & Access::REMOTE,
                    qp: None,
                })
            }
            What::Window { bound, .. } => {
                let reach = bound.map(|bound| bound.reach);
                reach.filter(|reach| !reach.access.is_empty())
            }
            What::Free | What::Region(..) => None,
        }
    }

    // ---- Memory windows ----

    /// Makes a memory window that is not bound yet. Returns a key of it.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn allocate_window(&mut self, pd: Id, kind: WindowType) -> Result<u32> {
        self.insert(What::Window {
            pd,
            kind,
            bound: None,
        })
    }

    /// Ends a memory window, named by any of its keys. Returns its domain, and the key by which
    /// peers could reach it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn free_window(&mut self, key: u32) -> Result<(Id, Option<u32>)> {
        let index = index_of(key).ok_or(Error::NotFound)?;
        let entry = self.entries.get(index).ok_or(Error::NotFound)?;
        let What::Window { pd, .. } = entry.what else {
            return Err(Error::NotFound);
        };
        let former = self.unbind(index);
        self.take(index);
        Ok((pd, former))
    }

    /// Binds a window for a queue pair of a domain. If it was bound, returns the old key, which
    /// fails from now on.
    ///
    /// # Errors
    /// The window or the region is not of this domain; the key is not new; the window is of type 2
    /// and bound, or would be bound to no bytes; the range is not in the region; the region does
    /// not allow windows, counts its addresses from 0, or does not give its owner the access that
    /// the peer would have.
    pub fn bind(
        &mut self,
        pd: Id,
        qp: u32,
        bind: &Bind,
    ) -> core::result::Result<Option<u32>, Denied> {
        let index = index_of(bind.window).ok_or(Denied)?;
        let entry = self.entries.get(index).ok_or(Denied)?;
        let What::Window {
            pd: own,
            kind,
            bound,
        } = entry.what
        else {
            return Err(Denied);
        };
        let is_two = kind == WindowType::Two;
        let key = key_of(index, entry.counter);
        let is_new = index_of(bind.key) == Some(index) && bind.key != key;
        if own != pd || !is_new || is_two && (bound.is_some() || bind.length == 0) {
            return Err(Denied);
        }
        let qp = is_two.then_some(qp);
        let new = match bind.length {
            0 => None,
            _ => Some(self.bound(pd, qp, bind)?),
        };
        let former = self.unbind(index);
        if let Some(Entry {
            what: What::Region(_, windows),
            ..
        }) = new.and_then(|new| self.entries.get_mut(new.region))
        {
            *windows += 1;
        }
        if let Some(entry) = self.entries.get_mut(index) {
            entry.counter = bind.key as u8;
            entry.what = What::Window {
                pd,
                kind,
                bound: new,
            };
        }
        Ok(former)
    }

    /// Checks the binding that a request asks for, and makes it.
    fn bound(&self, pd: Id, qp: Option<u32>, bind: &Bind) -> core::result::Result<Bound, Denied> {
        let region = self.get(bind.region).filter(|region| region.pd == pd);
        let region = region.ok_or(Denied)?;
        let allowed = Access::REMOTE | Access::ZERO_BASED;
        let needs_write = bind
            .access
            .intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        let may = region.access.contains(Access::MW_BIND)
            && !region.access.contains(Access::ZERO_BASED)
            && allowed.contains(bind.access)
            && (!needs_write || region.access.contains(Access::LOCAL_WRITE));
        let start = region.place(bind.address, bind.length);
        let start = start.filter(|_| may).ok_or(Denied)?;
        let is_zero_based = bind.access.contains(Access::ZERO_BASED);
        // Atomics need aligned memory behind aligned addresses.
        let has_atomics = bind.access.contains(Access::REMOTE_ATOMIC);
        if is_zero_based && has_atomics && !start.is_multiple_of(8) {
            return Err(Denied);
        }
        let reach = KeyedRange {
            pd,
            region: bind.region,
            start,
            length: bind.length,
            iova: if is_zero_based { 0 } else { bind.address },
            access: bind.access & Access::REMOTE,
            qp,
        };
        let region = index_of(bind.region).ok_or(Denied)?;
        Ok(Bound { region, qp, reach })
    }

    /// Ends the binding of a window. If it was bound, returns the key, which fails from now on.
    fn unbind(&mut self, index: usize) -> Option<u32> {
        let entry = self.entries.get_mut(index)?;
        let What::Window { bound, .. } = &mut entry.what else {
            return None;
        };
        let (bound, key) = (bound.take()?, key_of(index, entry.counter));
        if let Some(Entry {
            what: What::Region(_, windows),
            ..
        }) = self.entries.get_mut(bound.region)
        {
            *windows -= 1;
        }
        Some(key)
    }

    /// Invalidates the key of a window of type 2 that is bound to a queue pair of this domain.
    ///
    /// # Errors
    /// The key does not name such a window.
    pub fn invalidate(&mut self, pd: Id, qp: u32, key: u32) -> core::result::Result<(), Denied> {
        let is_it = match self.entry(key).map(|entry| &entry.what) {
            Some(What::Window { bound, .. }) => {
                bound.is_some_and(|bound| bound.reach.pd == pd && bound.qp == Some(qp))
            }
            _ => false,
        };
        let index = index_of(key).filter(|_| is_it).ok_or(Denied)?;
        self.unbind(index).map(|_| ()).ok_or(Denied)
    }

    /// Ends the bindings of all windows of a queue pair. Returns the keys that fail from now on.
    pub(crate) fn unbind_all(&mut self, qp: u32) -> Vec<u32> {
        if self.windows == 0 {
            return Vec::new();
        }
        let is_its = |entry: &Entry| match entry.what {
            What::Window { bound, .. } => bound.is_some_and(|bound| bound.qp == Some(qp)),
            What::Free | What::Region(..) => false,
        };
        let all = 0..self.entries.len();
        let its: Vec<_> = all
            .filter(|index| self.entries.get(*index).is_some_and(is_its))
            .collect();
        let keys = its.into_iter().filter_map(|index| self.unbind(index));
        keys.collect()
    }

    /// Adds to `places` where the `length` bytes that begin `skip` bytes into `segments` lie in
    /// the program's memory. `writes`: they are going to be written.
    ///
    /// # Errors
    /// A segment that is touched has a key that is not valid, of another domain, for another
    /// range, or without the right to write; or the segments are too short.
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
            // The region must have the whole segment, not only the bytes that are touched.
            let place = region.place(segment.address, here).ok_or(Denied)?;
            places.push(Place {
                key: segment.key,
                address: place + skip,
                length: count as usize,
            });
            (skip, length) = (0, length - count);
        }
        if length == 0 { Ok(()) } else { Err(Denied) }
    }

    /// Where the first `bytes` bytes of a segment lie, by the rules of [`resolve`](Self::resolve).
    #[inline(always)]
    pub(crate) fn place(
        &self,
        pd: Id,
        segment: &Segment,
        bytes: usize,
        writes: bool,
    ) -> Option<Place> {
        let region = self.get(segment.key)?;
        let may = !writes || region.access.contains(Access::LOCAL_WRITE);
        let start = region.place(segment.address, u64::from(segment.length))?;
        (may && region.pd == pd && bytes <= segment.length as usize).then_some(Place {
            key: segment.key,
            address: start,
            length: bytes,
        })
    }

    /// The number of regions and windows.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The number of windows.
    pub fn windows(&self) -> usize {
        self.windows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[inline]
fn index_of(key: u32) -> Option<usize> {
    slot_of(key).checked_sub(1)
}

fn key_of(index: usize, counter: u8) -> u32 {
    (index as u32 + 1) << COUNTER_BITS | u32::from(counter)
}

/// Checks a region before it is registered.
///
/// # Errors
/// `Invalid`: see [`KeyTable::register`].
pub fn check(region: &Region) -> Result<()> {
    let Region {
        start,
        length,
        iova,
        access,
        ..
    } = *region;
    let fits = start.checked_add(length).is_some() && iova.checked_add(length).is_some();
    let has_size = length > 0 && length <= MAX_REGION_BYTES;
    // Addresses that count from 0 keep no offset, but atomic operations on aligned ones need
    // aligned memory.
    let unit = match access.contains(Access::ZERO_BASED) {
        true if access.contains(Access::REMOTE_ATOMIC) => 8,
        true => 1,
        false => PAGE,
    };
    let is_aligned = start % unit == iova % unit;
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
    fn addresses_that_count_from_0_need_no_offset() {
        let of = |start, access| Region {
            start,
            iova: 0,
            ..region(access | Access::ZERO_BASED | Access::LOCAL_WRITE)
        };
        let atomic = Access::REMOTE_ATOMIC;
        let mut keys = KeyTable::default();
        assert!(keys.register(of(0x5001, Access::REMOTE_WRITE)).is_ok());
        assert!(keys.register(of(0x5008, atomic)).is_ok());
        let odd = keys.register(of(0x5004, atomic));
        assert_eq!(odd, Err(Error::Invalid));
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
        let place = |key, address, length| Place {
            key,
            address,
            length,
        };
        assert_eq!(
            resolve(0, &two, (50, 30), false),
            Ok(vec![place(key, 0x5032, 10), place(constant, 0x5030, 20)])
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
