//! Tables of objects by handle.

use alloc::vec::Vec;

use crate::types::{Error, Result};

/// The handle of an object. It is valid only in the context that gave it, and only for objects of
/// the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub u32);

/// Objects of one kind. The handle of a removed object is used again.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    most: u32,
}

impl<T> Table<T> {
    /// An empty table of at most `most` objects.
    pub const fn new(most: u32) -> Table<T> {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            most,
        }
    }

    /// Adds an object.
    ///
    /// # Errors
    /// `NoMemory`: the table is full.
    pub fn insert(&mut self, value: T) -> Result<Id> {
        if let Some(index) = self.free.pop() {
            if let Some(slot) = self.slots.get_mut(index as usize) {
                *slot = Some(value);
            }
            return Ok(Id(index));
        }
        let index = self.slots.len() as u32;
        if index >= self.most {
            return Err(Error::NoMemory);
        }
        self.slots.push(Some(value));
        Ok(Id(index))
    }

    /// Removes an object.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove(&mut self, id: Id) -> Result<T> {
        let slot = self.slots.get_mut(id.0 as usize).ok_or(Error::NotFound)?;
        let value = slot.take().ok_or(Error::NotFound)?;
        self.free.push(id.0);
        Ok(value)
    }

    /// An object.
    ///
    /// # Errors
    /// `NotFound`.
    #[inline]
    pub fn get(&self, id: Id) -> Result<&T> {
        let slot = self.slots.get(id.0 as usize);
        slot.and_then(Option::as_ref).ok_or(Error::NotFound)
    }

    /// An object, to change it.
    ///
    /// # Errors
    /// `NotFound`.
    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Result<&mut T> {
        let slot = self.slots.get_mut(id.0 as usize);
        slot.and_then(Option::as_mut).ok_or(Error::NotFound)
    }

    /// The handles of all objects.
    pub fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        let slots = self.slots.iter().zip(0..);
        slots.filter_map(|(slot, index)| slot.as_ref().map(|_| Id(index)))
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
