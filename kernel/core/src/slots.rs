//! The slot table behind a file table: numbered places that the caller chooses.
//!
//! Redox programs choose descriptor numbers themselves, in one of two number spaces: plain
//! numbers, and numbers with [`UPPER_TAG`] set, which POSIX code cannot see or close by accident.
//! Both grow on demand up to [`MAX_SLOTS`] places.

use alloc::vec::Vec;

/// Marks a number of the upper table (bit 62).
pub const UPPER_TAG: usize = 1 << 62;

/// Places per number space; also the most entries of both spaces together.
pub const MAX_SLOTS: usize = 65_536;

/// Why a table operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// The number is beyond [`MAX_SLOTS`], or the table holds [`MAX_SLOTS`] entries already.
    Limit,
    /// The place is taken.
    Taken,
    /// The place is empty.
    Empty,
    /// A list names the same place twice.
    Duplicate,
    /// A list of places and a list of entries differ in length, or a table would shrink.
    Length,
    /// Memory has no piece large enough for the places or for a list.
    Memory,
}

/// An empty list with room for `count` entries, a number that programs determine.
fn list_for<T>(count: usize) -> Result<Vec<T>, SlotError> {
    let mut list = Vec::new();
    let reserved = list.try_reserve_exact(count);
    reserved.map_err(|_| SlotError::Memory).map(|()| list)
}

/// Makes a number space at least `size` places long.
fn grow<T>(space: &mut Vec<Option<T>>, size: usize) -> Result<(), SlotError> {
    let more = size.saturating_sub(space.len());
    space.try_reserve(more).map_err(|_| SlotError::Memory)?;
    if more > 0 {
        space.resize_with(size, || None);
    }
    Ok(())
}

/// Numbered places for values of type `T`.
#[derive(Debug)]
pub struct SlotTable<T> {
    plain: Vec<Option<T>>,
    upper: Vec<Option<T>>,
    used: usize,
}

impl<T> Default for SlotTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> SlotTable<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            plain: Vec::new(),
            upper: Vec::new(),
            used: 0,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True when no place is taken.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    fn space(&self, number: usize) -> (&Vec<Option<T>>, usize) {
        let space = if number & UPPER_TAG == 0 {
            &self.plain
        } else {
            &self.upper
        };
        (space, number & !UPPER_TAG)
    }

    fn space_mut(&mut self, number: usize) -> (&mut Vec<Option<T>>, usize) {
        let space = if number & UPPER_TAG == 0 {
            &mut self.plain
        } else {
            &mut self.upper
        };
        (space, number & !UPPER_TAG)
    }

    /// The entry at `number`.
    pub fn get(&self, number: usize) -> Option<&T> {
        let (space, index) = self.space(number);
        space.get(index)?.as_ref()
    }

    /// Checks that an entry could be put at `number` now.
    fn check_free(&self, number: usize) -> Result<(), SlotError> {
        if number & !UPPER_TAG >= MAX_SLOTS {
            return Err(SlotError::Limit);
        }
        if self.get(number).is_some() {
            Err(SlotError::Taken)
        } else {
            Ok(())
        }
    }

    /// The error of [`insert`](Self::insert) if it came now, except for a lack of memory.
    ///
    /// # Errors
    /// [`SlotError::Limit`], [`SlotError::Taken`].
    pub fn check_insert(&self, number: usize) -> Result<(), SlotError> {
        self.check_free(number)?;
        match self.used < MAX_SLOTS {
            true => Ok(()),
            false => Err(SlotError::Limit),
        }
    }

    /// Puts `entry` at `number`; returns a refused entry.
    ///
    /// # Errors
    /// [`SlotError::Limit`], [`SlotError::Taken`]; [`SlotError::Memory`] when the places cannot
    /// grow.
    pub fn insert(&mut self, number: usize, entry: T) -> Result<(), (SlotError, T)> {
        if let Err(error) = self.check_insert(number) {
            return Err((error, entry));
        }
        let (space, index) = self.space_mut(number);
        if let Err(error) = grow(space, index + 1) {
            return Err((error, entry));
        }
        if let Some(place) = space.get_mut(index) {
            *place = Some(entry);
            self.used += 1;
        }
        Ok(())
    }

    /// Takes out the entry at `number`.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        let (space, index) = self.space_mut(number);
        let entry = space.get_mut(index)?.take();
        if entry.is_some() {
            self.used -= 1;
        }
        entry
    }

    fn check_list(
        numbers: &[usize],
        check: impl Fn(usize) -> Result<(), SlotError>,
    ) -> Result<(), SlotError> {
        let mut sorted = list_for(numbers.len())?;
        sorted.extend_from_slice(numbers);
        sorted.sort_unstable();
        if sorted
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a == b))
        {
            return Err(SlotError::Duplicate);
        }
        numbers.iter().try_for_each(|&number| check(number))
    }

    fn check_taken(&self, numbers: &[usize]) -> Result<(), SlotError> {
        Self::check_list(numbers, |number| {
            if number & !UPPER_TAG >= MAX_SLOTS {
                Err(SlotError::Limit)
            } else if self.get(number).is_none() {
                Err(SlotError::Empty)
            } else {
                Ok(())
            }
        })
    }

    /// Takes several entries out: all of them or none.
    ///
    /// # Errors
    /// [`SlotError::Duplicate`], [`SlotError::Limit`] or [`SlotError::Empty`] for a number;
    /// [`SlotError::Memory`] for the lists.
    pub fn remove_all(&mut self, numbers: &[usize]) -> Result<Vec<T>, SlotError> {
        self.check_taken(numbers)?;
        let mut taken = list_for(numbers.len())?;
        taken.extend(numbers.iter().filter_map(|&number| self.remove(number)));
        Ok(taken)
    }

    /// Puts several entries in, `entries[i]` at `numbers[i]`: all of them or none. Returns refused
    /// entries.
    ///
    /// # Errors
    /// [`SlotError::Length`] when the lists differ in length, [`SlotError::Duplicate`],
    /// [`SlotError::Limit`] or [`SlotError::Taken`] for a number, [`SlotError::Memory`].
    pub fn insert_all(
        &mut self,
        numbers: &[usize],
        entries: Vec<T>,
    ) -> Result<(), (SlotError, Vec<T>)> {
        let check = if numbers.len() != entries.len() {
            Err(SlotError::Length)
        } else if self.used + entries.len() > MAX_SLOTS {
            Err(SlotError::Limit)
        } else {
            Self::check_list(numbers, |number| self.check_free(number))
                .and_then(|()| self.grow_for(numbers))
        };
        if let Err(error) = check {
            return Err((error, entries));
        }
        for (&number, entry) in numbers.iter().zip(entries) {
            // Checked above: the place exists and is free.
            let _ = self.insert(number, entry);
        }
        Ok(())
    }

    /// Makes places for all of `numbers`, which are below the limit.
    fn grow_for(&mut self, numbers: &[usize]) -> Result<(), SlotError> {
        numbers.iter().try_for_each(|&number| {
            let (space, index) = self.space_mut(number);
            grow(space, index + 1)
        })
    }

    /// Makes the number space of `which` (only its tag counts) at least `size` places long.
    ///
    /// # Errors
    /// [`SlotError::Limit`] beyond [`MAX_SLOTS`], [`SlotError::Length`] when it would shrink,
    /// [`SlotError::Memory`].
    pub fn resize(&mut self, which: usize, size: usize) -> Result<(), SlotError> {
        let (space, _) = self.space_mut(which);
        if size > MAX_SLOTS {
            return Err(SlotError::Limit);
        }
        if size < space.len() {
            return Err(SlotError::Length);
        }
        grow(space, size)
    }

    /// All entries with their numbers: plain ones first, each space in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let upper = self
            .upper
            .iter()
            .enumerate()
            .map(|(i, entry)| (i | UPPER_TAG, entry));
        self.plain
            .iter()
            .enumerate()
            .chain(upper)
            .filter_map(|(number, entry)| Some((number, entry.as_ref()?)))
    }

    /// Takes out all entries, in the order of [`SlotTable::iter`].
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.used = 0;
        let plain = core::mem::take(&mut self.plain);
        let upper = core::mem::take(&mut self.upper);
        plain.into_iter().chain(upper).flatten()
    }
}

impl<T: Clone> SlotTable<T> {
    /// Copies several entries: all of them or none.
    ///
    /// # Errors
    /// As for [`remove_all`](Self::remove_all).
    pub fn get_all(&self, numbers: &[usize]) -> Result<Vec<T>, SlotError> {
        self.check_taken(numbers)?;
        let mut copies = list_for(numbers.len())?;
        copies.extend(
            numbers
                .iter()
                .filter_map(|&number| self.get(number).cloned()),
        );
        Ok(copies)
    }

    /// A table with the same entries at the same numbers.
    ///
    /// # Errors
    /// [`SlotError::Memory`].
    pub fn copy(&self) -> Result<Self, SlotError> {
        let mut plain = list_for(self.plain.len())?;
        let mut upper = list_for(self.upper.len())?;
        plain.extend_from_slice(&self.plain);
        upper.extend_from_slice(&self.upper);
        Ok(Self {
            plain,
            upper,
            used: self.used,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_two_number_spaces_are_separate() {
        let mut table = SlotTable::new();
        table.insert(3, 'a').unwrap();
        table.insert(3 | UPPER_TAG, 'b').unwrap();
        assert_eq!(table.get(3), Some(&'a'));
        assert_eq!(table.get(3 | UPPER_TAG), Some(&'b'));
        assert_eq!(
            table.iter().collect::<Vec<_>>(),
            [(3, &'a'), (3 | UPPER_TAG, &'b')]
        );
        assert_eq!(table.remove(3), Some('a'));
        assert_eq!(table.remove(3), None);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn limits_and_taken_places_are_refused() {
        let mut table = SlotTable::new();
        table.insert(MAX_SLOTS - 1, 1).unwrap();
        assert_eq!(table.insert(MAX_SLOTS - 1, 2), Err((SlotError::Taken, 2)));
        assert_eq!(table.insert(MAX_SLOTS, 2), Err((SlotError::Limit, 2)));
        assert_eq!(table.insert(usize::MAX, 2), Err((SlotError::Limit, 2)));
        assert_eq!(table.check_insert(MAX_SLOTS - 1), Err(SlotError::Taken));
        assert_eq!(table.check_insert(MAX_SLOTS), Err(SlotError::Limit));
        assert_eq!(table.check_insert(0), Ok(()));
        assert_eq!(table.get(usize::MAX), None);
        assert_eq!(table.remove(usize::MAX), None);
    }

    #[test]
    fn lists_are_all_or_nothing() {
        let mut table = SlotTable::new();
        assert_eq!(
            table.insert_all(&[1, 1], vec!['a', 'b']),
            Err((SlotError::Duplicate, vec!['a', 'b']))
        );
        table.insert_all(&[1, 2], vec!['a', 'b']).unwrap();
        assert_eq!(
            table.insert_all(&[0, 2], vec!['c', 'd']).unwrap_err().0,
            SlotError::Taken
        );
        assert_eq!(table.get(0), None);
        assert_eq!(table.remove_all(&[1, 7]), Err(SlotError::Empty));
        assert_eq!(table.len(), 2);
        assert_eq!(table.get_all(&[2, 1]), Ok(vec!['b', 'a']));
        assert_eq!(table.remove_all(&[2, 1]), Ok(vec!['b', 'a']));
        assert!(table.is_empty());
    }

    #[test]
    fn places_without_memory_are_refused() {
        // More bytes than an address space has: no allocator gives them.
        let mut table = SlotTable::<[u64; 1 << 40]>::new();
        assert_eq!(table.resize(0, MAX_SLOTS), Err(SlotError::Memory));
        assert_eq!(table.resize(UPPER_TAG, 1 << 15), Err(SlotError::Memory));
        assert_eq!(table.grow_for(&[MAX_SLOTS - 1]), Err(SlotError::Memory));
        assert!(table.is_empty());
    }

    #[test]
    fn a_copy_has_the_same_entries() {
        let mut table = SlotTable::new();
        table
            .insert_all(&[70, 7 | UPPER_TAG], vec!['a', 'b'])
            .unwrap();
        let mut copy = table.copy().unwrap();
        assert_eq!(copy.len(), 2);
        assert_eq!(copy.get(70), Some(&'a'));
        assert_eq!(copy.drain().collect::<Vec<_>>(), ['a', 'b']);
        assert_eq!(table.get_all(&[7 | UPPER_TAG, 70]), Ok(vec!['b', 'a']));
    }

    #[test]
    fn resize_grows_only() {
        let mut table = SlotTable::<u8>::new();
        table.resize(0, 64).unwrap();
        assert_eq!(table.resize(0, 63), Err(SlotError::Length));
        assert_eq!(
            table.resize(UPPER_TAG, MAX_SLOTS + 1),
            Err(SlotError::Limit)
        );
    }
}
