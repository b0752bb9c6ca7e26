//! Registered address spaces: windows by offset.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::Error;
use scif_abi::flags::Protection;

use crate::base::ids::ConnectionId;
use crate::base::pages::PAGE;
use crate::base::rule::{Violation, rule};
use crate::base::table::Key;
use crate::window::core::WindowCore;

/// A range of a registered address space that a window fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot<K> {
    /// The window.
    pub(super) id: K,
    pub(super) bytes: u64,
}

/// A registered address space: its windows by offset. They never overlap and end below 2^63.
#[derive(Debug)]
pub(super) struct Space<K> {
    slots: BTreeMap<i64, Slot<K>>,
}

impl<K> Default for Space<K> {
    fn default() -> Space<K> {
        Space {
            slots: BTreeMap::new(),
        }
    }
}

impl<K: Copy> Space<K> {
    /// Adds a window. Its range must be free.
    pub(super) fn insert(&mut self, offset: i64, slot: Slot<K>) {
        self.slots.insert(offset, slot);
    }

    /// Removes the window that begins at `offset`.
    pub(super) fn remove(&mut self, offset: i64) {
        self.slots.remove(&offset);
    }

    /// Removes all windows and returns their ids.
    pub(super) fn take(&mut self) -> impl Iterator<Item = K> + use<K> {
        core::mem::take(&mut self.slots)
            .into_values()
            .map(|slot| slot.id)
    }

    /// The ids of all windows, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = K> {
        self.slots.values().map(|slot| slot.id)
    }

    /// The window that holds `offset`.
    pub(super) fn holding(&self, offset: i64) -> Option<(i64, Slot<K>)> {
        let (start, slot) = self.slots.range(..=offset).next_back()?;
        let into = offset.checked_sub(*start)?;
        (into.unsigned_abs() < slot.bytes).then_some((*start, *slot))
    }

    /// The windows that have bytes in `offset..end`, ascending.
    pub(super) fn overlapping(
        &self,
        offset: i64,
        end: i64,
    ) -> impl Iterator<Item = (i64, Slot<K>)> + '_ {
        let before = self.holding(offset).filter(|(start, _)| *start < offset);
        let inside = self.slots.range(offset..end.max(offset));
        before
            .into_iter()
            .chain(inside.map(|(start, slot)| (*start, *slot)))
    }

    /// The windows that hold `offset..offset + length` without a gap, ascending.
    ///
    /// # Errors
    /// `ENXIO`: there is a gap, or the range ends beyond the last offset. Returned only when the
    /// iterator gets there.
    pub(super) fn covering(
        &self,
        offset: i64,
        length: u64,
    ) -> impl Iterator<Item = Result<(i64, Slot<K>), Error>> + '_ {
        let end = range_end(offset, length);
        let mut next = offset;
        core::iter::from_fn(move || {
            let Some(end) = end else {
                // The caller stops at an error.
                return Some(Err(Error::NoSuchAddress));
            };
            if next >= end {
                return None;
            }
            let found = self.holding(next);
            let Some((start, slot)) = found.filter(|(start, _)| next == offset || *start == next)
            else {
                return Some(Err(Error::NoSuchAddress));
            };
            next = start.saturating_add_unsigned(slot.bytes);
            Some(Ok((start, slot)))
        })
    }

    /// The windows that hold a range, and the byte of the first one at which the range begins.
    /// `protection` returns what a window allows; `None`: the window is not registered.
    ///
    /// # Errors
    /// `ENXIO`: not all of the range is registered. `EACCES`: a window does not allow `need`.
    pub(super) fn cover(
        &self,
        (offset, length): (i64, u64),
        need: Protection,
        protection: impl Fn(K) -> Option<Protection>,
    ) -> Result<(Vec<K>, u64), Error> {
        let (mut ids, mut is_allowed, mut first) = (Vec::new(), true, offset);
        for found in self.covering(offset, length) {
            let (start, slot) = found?;
            is_allowed &= protection(slot.id)
                .ok_or(Error::NoSuchAddress)?
                .contains(need);
            if ids.is_empty() {
                first = start;
            }
            ids.push(slot.id);
        }
        if !is_allowed {
            return Err(Error::AccessDenied);
        }
        Ok((ids, offset.abs_diff(first)))
    }
}

impl<K: Key> Space<K> {
    /// Checks that windows do not overlap, and that each of them, which `window` finds, is in the
    /// space of `connection`.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub(super) fn check<'a>(
        &self,
        connection: ConnectionId,
        window: impl Fn(K) -> Option<&'a WindowCore>,
    ) -> Result<(), Violation> {
        let mut free = 0;
        for (offset, slot) in &self.slots {
            rule(*offset >= free, "windows do not overlap", slot.id)?;
            free = offset.saturating_add_unsigned(slot.bytes);
            let is_it = window(slot.id).is_some_and(|w| w.is_at(connection, *offset, slot.bytes));
            rule(is_it, "a space and its windows agree", slot.id)?;
        }
        Ok(())
    }

    /// Whether the window is in this space, at its offset.
    pub(super) fn lists(&self, id: K, window: &WindowCore) -> bool {
        let slot = self.holding(window.offset);
        slot.is_some_and(|(_, slot)| slot.id.number() == id.number())
    }
}

/// Checks a range of whole pages given by a caller.
///
/// # Errors
/// `EINVAL`: not whole pages, empty, negative, or beyond the last offset.
pub(crate) fn check_range(offset: i64, length: u64) -> Result<(), Error> {
    let is_whole = offset.cast_unsigned().is_multiple_of(PAGE) && length.is_multiple_of(PAGE);
    if !is_whole || length == 0 || range_end(offset, length).is_none() {
        return Err(Error::InvalidArgument);
    }
    Ok(())
}

/// The end of a range of offsets; `None` if the range is negative or ends beyond the last offset.
pub(super) fn range_end(offset: i64, length: u64) -> Option<i64> {
    if offset < 0 {
        return None;
    }
    offset.checked_add_unsigned(length)
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::{Slot, Space};
    use scif_abi::Error;

    fn space(slots: &[(i64, u64)]) -> Space<u64> {
        let mut space = Space::default();
        for (id, (offset, bytes)) in slots.iter().enumerate() {
            let id = id as u64;
            space.insert(*offset, Slot { id, bytes: *bytes });
        }
        space
    }

    fn ids(space: &Space<u64>, offset: i64, length: u64) -> Result<Vec<u64>, Error> {
        space
            .covering(offset, length)
            .map(|slot| slot.map(|(_, slot)| slot.id))
            .collect()
    }

    #[test]
    fn a_range_may_cover_neighbours_but_no_gap() {
        let space = space(&[(0, 10), (10, 20), (40, 5)]);
        assert_eq!(ids(&space, 0, 10), Ok(vec![0]));
        assert_eq!(ids(&space, 9, 2), Ok(vec![0, 1]));
        assert_eq!(ids(&space, 5, 25), Ok(vec![0, 1]));
        assert_eq!(ids(&space, 44, 1), Ok(vec![2]));
        for (offset, length) in [
            (5, 26),
            (30, 1),
            (-1, 2),
            (44, 2),
            (i64::MAX, 2),
            (0, 1 << 63),
        ] {
            assert_eq!(ids(&space, offset, length), Err(Error::NoSuchAddress));
        }
    }

    #[test]
    fn overlap_is_found_at_both_ends_and_inside() {
        let space = space(&[(0, 10), (20, 10), (40, 10)]);
        let found = |offset, end| -> Vec<i64> {
            space
                .overlapping(offset, end)
                .map(|(start, _)| start)
                .collect()
        };
        assert_eq!(found(10, 20), []);
        assert_eq!(found(9, 20), [0]);
        assert_eq!(found(10, 21), [20]);
        assert_eq!(found(5, 45), [0, 20, 40]);
        assert_eq!(found(22, 23), [20]);
        assert_eq!(found(50, i64::MAX), []);
    }
}
