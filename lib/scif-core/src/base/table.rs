//! A table whose ids never become valid again once their entry is gone.
//!
//! An id is a generation (upper half) and an index (lower half). Peers receive ids and send them
//! back as untrusted numbers, so a look-up checks both halves.

use alloc::vec::Vec;
use core::marker::PhantomData;

/// An id that is the key of one table.
pub(crate) trait Key: Copy {
    /// The id with this number, which may be untrusted.
    fn from_number(number: u64) -> Self;

    /// The id's number.
    fn number(self) -> u64;
}

/// Numbers that are no ids, for reports of broken rules.
impl Key for u64 {
    fn from_number(number: u64) -> u64 {
        number
    }

    fn number(self) -> u64 {
        self
    }
}

struct Entry<T> {
    /// The generation of the present value, or of the next one if there is none.
    generation: u32,
    value: Option<T>,
}

/// The table of values `V` by ids `K`. At most `limit` values.
pub(crate) struct Table<K, V> {
    entries: Vec<Entry<V>>,
    /// Indices of entries for new values. An entry that has used every generation is never used
    /// again.
    free: Vec<u32>,
    len: usize,
    limit: usize,
    key: PhantomData<K>,
}

fn split(id: impl Key) -> (u32, usize) {
    let number = id.number();
    ((number >> 32) as u32, (number as u32) as usize)
}

fn join<K: Key>(generation: u32, index: usize) -> K {
    K::from_number(u64::from(generation) << 32 | index as u64)
}

impl<K: Key, V> Table<K, V> {
    pub(crate) fn new(limit: usize) -> Table<K, V> {
        Table {
            entries: Vec::new(),
            free: Vec::new(),
            len: 0,
            limit: limit.min(u32::MAX as usize),
            key: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Adds a value; `None` if the table is full. Ids are never 0.
    pub(crate) fn insert(&mut self, value: V) -> Option<K> {
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
        self.len += 1;
        Some(join(entry.generation, index as usize))
    }

    pub(crate) fn get(&self, id: K) -> Option<&V> {
        let (generation, index) = split(id);
        let entry = self.entries.get(index)?;
        if entry.generation == generation {
            entry.value.as_ref()
        } else {
            None
        }
    }

    pub(crate) fn get_mut(&mut self, id: K) -> Option<&mut V> {
        let (generation, index) = split(id);
        let entry = self.entries.get_mut(index)?;
        if entry.generation == generation {
            entry.value.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn remove(&mut self, id: K) -> Option<V> {
        let (generation, index) = split(id);
        let entry = self.entries.get_mut(index)?;
        if entry.generation != generation {
            return None;
        }
        let value = entry.value.take()?;
        self.len -= 1;
        if let Some(next) = entry.generation.checked_add(1) {
            entry.generation = next;
            self.free.push(index as u32);
        }
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| {
                let id = join(entry.generation, index);
                entry.value.as_ref().map(|value| (id, value))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Table};
    use crate::base::ids::EndpointId;

    #[test]
    fn ids_of_removed_values_stay_invalid() {
        let mut table: Table<EndpointId, _> = Table::new(2);
        let first = table.insert('a').unwrap();
        assert_eq!(table.get(first), Some(&'a'));
        assert_eq!(table.remove(first), Some('a'));
        assert_eq!(table.remove(first), None);
        let second = table.insert('b').unwrap();
        assert_ne!(first, second);
        assert_eq!(table.get(first), None);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.get(second), Some(&'b'));
    }

    #[test]
    fn an_entry_that_has_had_every_generation_is_not_used_again() {
        let mut table: Table<EndpointId, _> = Table::new(1);
        let first = table.insert('a').unwrap();
        table.remove(first);
        table.entries[0].generation = u32::MAX;
        let last = table.insert('b').unwrap();
        assert_eq!(table.remove(last), Some('b'));
        let new = table.insert('c').unwrap();
        assert_eq!((table.len(), table.get(new)), (1, Some(&'c')));
        assert_eq!([first, last].map(|id| table.get(id)), [None, None]);
        assert_eq!(table.iter().count(), 1);
    }

    #[test]
    fn refuses_more_than_the_limit_and_foreign_ids() {
        let mut table: Table<EndpointId, _> = Table::new(1);
        let only = table.insert(1).unwrap();
        assert_eq!(table.insert(2), None);
        let number = only.number();
        for id in [0, 1, u64::MAX, number + 1, number ^ (1 << 40)].map(Key::from_number) {
            assert_eq!(table.get(id), None);
        }
        assert_eq!(table.len(), 1);
    }
}
