//! Queues of requests and of completions.

use alloc::vec::Vec;
use core::mem::forget;

/// The first number of slots of a queue; a power of two, as all later ones.
const FIRST_SLOTS: usize = 4;

/// A queue in a ring of slots. An entry is built in its slot, by functions that are inlined into
/// their callers: to move an entry would take as many instructions as to build it.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// Their number is 0 or a power of two.
    slots: Vec<Option<T>>,
    /// The slot of the first entry, modulo the number of slots.
    first: usize,
    count: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue::new()
    }
}

impl<T> Queue<T> {
    /// An empty queue.
    pub const fn new() -> Queue<T> {
        Queue {
            slots: Vec::new(),
            first: 0,
            count: 0,
        }
    }

    /// The number of entries.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The index of an entry's slot; out of range if there are no slots.
    #[inline(always)]
    fn slot(&self, index: usize) -> usize {
        self.first.wrapping_add(index) & self.slots.len().wrapping_sub(1)
    }

    /// The entry at an index, counted from the first one.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        match index < self.count {
            true => self.slots.get(self.slot(index))?.as_ref(),
            false => None,
        }
    }

    /// The entry at an index, to change it.
    #[inline(always)]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let slot = self.slot(index);
        match index < self.count {
            true => self.slots.get_mut(slot)?.as_mut(),
            false => None,
        }
    }

    /// The first entry.
    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// Adds an entry behind all others.
    #[inline(always)]
    pub fn push_back(&mut self, entry: T) {
        if self.count == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.count);
        self.count = self.count.wrapping_add(1);
        if let Some(slot) = self.slots.get_mut(slot) {
            // The slot is empty, so there is nothing to drop.
            forget(slot.replace(entry));
        }
    }

    /// Adds an entry before all others.
    pub fn push_front(&mut self, entry: T) {
        if self.count == self.slots.len() {
            self.grow();
        }
        self.first = self.first.wrapping_sub(1);
        self.count += 1;
        let slot = self.slot(0);
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = Some(entry);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let first = self.slot(0).min(self.slots.len());
        self.slots.rotate_left(first);
        self.first = 0;
        let slots = FIRST_SLOTS.max(self.slots.len() * 2);
        self.slots.resize_with(slots, || None);
    }

    /// Removes the first entry.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<T> {
        if self.count == 0 {
            return None;
        }
        let slot = self.slot(0);
        self.first = self.first.wrapping_add(1);
        self.count = self.count.wrapping_sub(1);
        self.slots.get_mut(slot)?.take()
    }

    /// The last entry.
    #[inline(always)]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.count.wrapping_sub(1))
    }

    /// Removes the last entry.
    pub fn pop_back(&mut self) -> Option<T> {
        let slot = self.slot(self.count.checked_sub(1)?);
        self.count -= 1;
        self.slots.get_mut(slot)?.take()
    }

    /// Removes the first entry, which must own no memory: it is forgotten, not dropped.
    #[inline(always)]
    pub fn pass_front(&mut self) {
        forget(self.pop_front());
    }

    /// All entries in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.count).filter_map(|index| self.get(index))
    }

    /// The entries from an index on, to change them.
    pub fn iter_mut_from(&mut self, from: usize) -> impl Iterator<Item = &mut T> {
        let first = self.slot(0).min(self.slots.len());
        let count = self.count;
        let (behind, ahead) = self.slots.split_at_mut(first);
        let slots = ahead.iter_mut().chain(behind).take(count);
        slots.skip(from).flatten()
    }

    /// Drops the entries for which `is_kept` is false.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        for _ in 0..self.count {
            if let Some(entry) = self.pop_front()
                && is_kept(&entry)
            {
                self.push_back(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use super::Queue;

    #[test]
    fn entries_stay_in_their_order() {
        let mut queue = Queue::new();
        let mut like = VecDeque::new();
        assert_eq!((queue.front(), queue.get(7)), (None, None));
        assert_eq!(queue.pop_front(), None);
        let mut random = 1u32;
        for number in 0..2000u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match random >> 29 {
                0 | 1 => assert_eq!(queue.pop_front(), like.pop_front()),
                2 => {
                    queue.push_front(number);
                    like.push_front(number);
                }
                3 if random & 0xff00 == 0 => {
                    queue.retain(|of| of % 3 != 0);
                    like.retain(|of| of % 3 != 0);
                }
                _ => {
                    queue.push_back(number);
                    like.push_back(number);
                }
            }
            assert_eq!(
                (queue.len(), queue.is_empty()),
                (like.len(), like.is_empty())
            );
            assert_eq!(queue.front(), like.front());
            let at = random as usize % 50;
            assert_eq!(queue.get(at), like.get(at));
            assert_eq!(queue.get_mut(at), like.get_mut(at));
        }
        assert!(queue.iter().eq(&like) && queue.len() > 100);
        let from: Vec<u32> = queue.iter_mut_from(60).map(|of| *of).collect();
        assert!(like.range(60..).eq(&from));
        assert_eq!(queue.iter_mut_from(queue.len()).count(), 0);
        let none = |_: &u32| false;
        queue.retain(none);
        assert!(queue.is_empty() && queue.iter_mut_from(0).next().is_none());
    }
}
