//! Tables that every request and every record uses: lanes by their numbers, which are small, and
//! queue pairs and keys by theirs, which are not.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::host::LaneId;

/// A table with the value of each lane in the slot of its number.
#[derive(Debug)]
pub(crate) struct LaneTable<T> {
    slots: Vec<Option<T>>,
    count: usize,
}

impl<T> LaneTable<T> {
    /// A table without a lane.
    pub const fn new() -> LaneTable<T> {
        LaneTable {
            slots: Vec::new(),
            count: 0,
        }
    }

    /// A lane.
    #[inline]
    pub fn get(&self, id: LaneId) -> Option<&T> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// A lane, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: LaneId) -> Option<&mut T> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// Whether there is a lane of this number.
    pub fn contains(&self, id: LaneId) -> bool {
        self.get(id).is_some()
    }

    /// Adds a lane, in place of one with this number if there is any.
    pub fn insert(&mut self, id: LaneId, lane: T) {
        let index = id.0 as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        if let Some(slot) = self.slots.get_mut(index) {
            self.count += usize::from(slot.is_none());
            *slot = Some(lane);
        }
    }

    /// Removes a lane.
    pub fn remove(&mut self, id: LaneId) -> Option<T> {
        let lane = self.slots.get_mut(id.0 as usize)?.take()?;
        self.count -= 1;
        Some(lane)
    }

    /// The first lane whose number is not below `from`.
    #[inline]
    pub fn next_from(&self, from: u32) -> Option<LaneId> {
        let slots = self.slots.get(from as usize..)?;
        let ahead = slots.iter().position(Option::is_some)?;
        Some(LaneId(from + ahead as u32))
    }

    /// The number of lanes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// All lanes.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// All lanes, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// All lanes with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (LaneId, &T)> {
        let slots = self.slots.iter().zip(0..);
        slots.filter_map(|(slot, index)| Some((LaneId(index), slot.as_ref()?)))
    }

    /// All lanes with their numbers, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (LaneId, &mut T)> {
        let slots = self.slots.iter_mut().zip(0..);
        slots.filter_map(|(slot, index)| Some((LaneId(index), slot.as_mut()?)))
    }
}

/// Queue pairs, or what is known of keys, sorted by their numbers.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    /// Boxed, because entries move when others are added and removed.
    pairs: Vec<(u32, Box<T>)>,
}

impl<T> Numbered<T> {
    /// An empty table.
    pub const fn new() -> Numbered<T> {
        Numbered { pairs: Vec::new() }
    }

    /// The index of a number, or the one where it would be inserted.
    fn search(&self, number: u32) -> Result<usize, usize> {
        self.pairs.binary_search_by_key(&number, |(of, _)| *of)
    }

    #[cold]
    #[inline(never)]
    fn find(&self, number: u32) -> Option<usize> {
        self.search(number).ok()
    }

    /// The index of a number in a table of numbers without a gap, as most programs have them.
    #[inline(always)]
    fn ahead(&self, number: u32) -> usize {
        let first = self.pairs.first().map_or(number, |(of, _)| *of);
        number.wrapping_sub(first) as usize
    }

    /// A queue pair.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&T> {
        match self.pairs.get(self.ahead(number)) {
            Some((of, pair)) if *of == number => Some(pair),
            _ => {
                let index = self.find(number)?;
                self.pairs.get(index).map(|(_, pair)| &**pair)
            }
        }
    }

    /// A queue pair, to change it.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let mut index = self.ahead(number);
        if self.pairs.get(index).is_none_or(|(of, _)| *of != number) {
            index = self.find(number)?;
        }
        self.pairs.get_mut(index).map(|(_, pair)| &mut **pair)
    }

    /// Adds a queue pair, if there is none with its number. Returns whether there was none.
    pub fn insert(&mut self, number: u32, pair: T) -> bool {
        match self.search(number) {
            Ok(_) => false,
            Err(index) => {
                self.pairs.insert(index, (number, Box::new(pair)));
                true
            }
        }
    }

    /// Removes a queue pair.
    pub fn remove(&mut self, number: u32) -> Option<Box<T>> {
        let index = self.search(number).ok()?;
        Some(self.pairs.remove(index).1)
    }

    /// Removes the queue pairs whose numbers are not to be kept.
    pub fn retain(&mut self, mut keeps: impl FnMut(u32) -> bool) {
        self.pairs.retain(|(of, _)| keeps(*of));
    }

    /// The number of queue pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// All queue pairs.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.pairs.iter().map(|(_, pair)| &**pair)
    }

    /// All queue pairs, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pairs.iter_mut().map(|(_, pair)| &mut **pair)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{LaneTable, Numbered};
    use crate::host::LaneId;

    #[test]
    fn lanes_are_found_in_the_order_of_their_numbers() {
        let mut lanes = LaneTable::new();
        for number in [7, 2, 2] {
            lanes.insert(LaneId(number), 'x');
        }
        assert_eq!(lanes.len(), 2);
        assert_eq!(lanes.next_from(0), Some(LaneId(2)));
        assert_eq!(lanes.next_from(3), Some(LaneId(7)));
        assert_eq!(lanes.next_from(8), None);
        assert_eq!(lanes.next_from(100), None);
        assert!(lanes.remove(LaneId(2)).is_some() && lanes.remove(LaneId(2)).is_none());
        assert!(!lanes.contains(LaneId(2)) && lanes.get(LaneId(100)).is_none());
        let left: Vec<LaneId> = lanes.iter_mut().map(|(id, _)| id).collect();
        assert_eq!(left, [LaneId(7)]);
        assert_eq!(lanes.values().count(), lanes.len());
    }

    #[test]
    fn queue_pairs_are_in_the_order_of_their_numbers() {
        let mut pairs = Numbered::new();
        for number in [7, 2, 5] {
            assert!(pairs.insert(number, number));
        }
        assert!(!pairs.insert(2, 3), "there is one");
        assert_eq!(pairs.values().copied().collect::<Vec<u32>>(), [2, 5, 7]);
        assert_eq!((pairs.get(5), pairs.get(6)), (Some(&5), None));
        assert_eq!(pairs.remove(2).map(|of| *of), Some(2));
        assert_eq!((pairs.remove(2), pairs.len()), (None, 2));
        assert_eq!(pairs.get_mut(7), Some(&mut 7));
        // Without a gap, and with one.
        for number in [6, 8, 20] {
            pairs.insert(number, number);
        }
        for number in 0..30 {
            let there = [5, 6, 7, 8, 20].contains(&number);
            assert_eq!(pairs.get(number), there.then_some(&number));
        }
    }
}
