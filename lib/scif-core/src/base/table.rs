//! A table whose ids are never valid again once their entry is gone.
//!
//! An id is a generation (upper half) and an index (lower half). Ids travel to peers and come back
//! as untrusted numbers, so a look-up checks both.

use alloc::vec::Vec;

struct Entry<T> {
    /// Generation of the value here, or of the next one when there is none.
    generation: u32,
    value: Option<T>,
}

/// The table. At most `limit` values.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    limit: usize,
}

fn split(id: u64) -> (u32, usize) {
    ((id >> 32) as u32, (id as u32) as usize)
}

impl<T> Slab<T> {
    pub(crate) fn new(limit: usize) -> Slab<T> {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
            limit: limit.min(u32::MAX as usize),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Adds a value; `None` when the table is full. Ids are never 0.
    pub(crate) fn insert(&mut self, value: T) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.entries.push(Entry {
                    generation: 1,
                    value: None,
                });
                (self.entries.len() - 1) as u32
            }
        };
        let entry = self.entries.get_mut(index as usize)?;
        entry.value = Some(value);
        Some(u64::from(entry.generation) << 32 | u64::from(index))
    }

    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        let (generation, index) = split(id);
        let entry = self.entries.get(index)?;
        if entry.generation == generation {
            entry.value.as_ref()
        } else {
            None
        }
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let (generation, index) = split(id);
        let entry = self.entries.get_mut(index)?;
        if entry.generation == generation {
            entry.value.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let (generation, index) = split(id);
        let entry = self.entries.get_mut(index)?;
        if entry.generation != generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.checked_add(1).unwrap_or(1);
        self.free.push(index as u32);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| {
                let id = u64::from(entry.generation) << 32 | index as u64;
                entry.value.as_ref().map(|value| (id, value))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn ids_of_removed_values_stay_invalid() {
        let mut slab = Slab::new(2);
        let first = slab.insert('a').unwrap();
        assert_eq!(slab.get(first), Some(&'a'));
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!(slab.remove(first), None);
        let second = slab.insert('b').unwrap();
        assert_ne!(first, second);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
    }

    #[test]
    fn refuses_more_than_the_limit_and_foreign_ids() {
        let mut slab = Slab::new(1);
        let only = slab.insert(1).unwrap();
        assert_eq!(slab.insert(2), None);
        for id in [0, 1, u64::MAX, only + 1, only ^ (1 << 40)] {
            assert_eq!(slab.get(id), None);
        }
        assert_eq!(slab.len(), 1);
    }
}
