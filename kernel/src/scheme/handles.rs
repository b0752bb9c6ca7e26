//! Numbered handles of a kernel scheme.

use alloc::collections::BTreeMap;

use ::syscall::error::{EBADF, Error, Result};

/// Number of the root object in schemes with handles. No handle ever gets it.
pub const ROOT: usize = usize::MAX;

/// Open handles by number. Numbers are not reused, so a late event cannot reach another handle.
#[derive(Debug)]
pub struct Handles<T> {
    list: BTreeMap<usize, T>,
    next: usize,
}

impl<T> Handles<T> {
    /// A table without handles.
    pub const fn new() -> Self {
        Self {
            list: BTreeMap::new(),
            next: 1,
        }
    }

    /// Adds a handle and returns its number.
    pub fn insert(&mut self, handle: T) -> usize {
        let number = self.next;
        self.next += 1;
        self.list.insert(number, handle);
        number
    }

    /// The handle with this number, or `EBADF`.
    pub fn get(&self, number: usize) -> Result<&T> {
        self.list.get(&number).ok_or(Error::new(EBADF))
    }

    /// The handle with this number, for changing it, or `EBADF`.
    pub fn get_mut(&mut self, number: usize) -> Result<&mut T> {
        self.list.get_mut(&number).ok_or(Error::new(EBADF))
    }

    /// Removes a handle.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        self.list.remove(&number)
    }

    /// All handles with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.list.iter().map(|(&number, handle)| (number, handle))
    }
}
