//! The open handles of a scheme.

use alloc::collections::BTreeMap;

use redox_scheme::OpenResult;
use syscall::error::{EBADF, Error, Result};
use syscall::schemev2::NewFdFlags;

/// The number of the root directory's handle in a table that has one.
pub const ROOT: usize = 0;

/// A table of handles by number. A number is never used again, so a late request cannot reach
/// another handle than its own.
#[derive(Debug)]
pub struct Handles<H> {
    open: BTreeMap<usize, H>,
    last: usize,
}

impl<H> Default for Handles<H> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<H> Handles<H> {
    /// A table with the handle of the scheme's root directory, whose number is [`ROOT`].
    pub fn with_root(root: H) -> Self {
        Self {
            open: BTreeMap::from([(ROOT, root)]),
            last: ROOT,
        }
    }

    /// Adds a handle and returns its number, which is at least 1.
    pub fn add(&mut self, handle: H) -> usize {
        self.last += 1;
        self.open.insert(self.last, handle);
        self.last
    }

    /// Adds a handle for the answer to an open, for which the kernel keeps no position.
    pub fn open(&mut self, handle: H) -> OpenResult {
        self.opened(handle, NewFdFlags::empty())
    }

    /// Adds a handle for the answer to an open, for which the kernel keeps the position.
    pub fn open_positioned(&mut self, handle: H) -> OpenResult {
        self.opened(handle, NewFdFlags::POSITIONED)
    }

    fn opened(&mut self, handle: H, flags: NewFdFlags) -> OpenResult {
        OpenResult::ThisScheme {
            number: self.add(handle),
            flags,
        }
    }

    /// The handle with this number.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn get(&self, number: usize) -> Result<&H> {
        self.open.get(&number).ok_or(Error::new(EBADF))
    }

    /// [`get`](Self::get) for changing the handle.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn get_mut(&mut self, number: usize) -> Result<&mut H> {
        self.open.get_mut(&number).ok_or(Error::new(EBADF))
    }

    /// Removes a handle that was closed.
    pub fn remove(&mut self, number: usize) -> Option<H> {
        self.open.remove(&number)
    }

    /// The number of open handles.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// All handles with their numbers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &H)> {
        self.open.iter().map(|(&number, handle)| (number, handle))
    }

    /// The numbers of all handles, in ascending order.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.open.keys().copied()
    }

    /// All handles.
    pub fn values(&self) -> impl Iterator<Item = &H> {
        self.open.values()
    }

    /// All handles, for changing them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut H> {
        self.open.values_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_used_again() {
        let mut handles = Handles::default();
        let first = handles.add('a');
        assert_eq!(handles.remove(first), Some('a'));
        let second = handles.add('b');
        assert!(second > first && first > 0);
        assert_eq!(handles.get(first), Err(Error::new(EBADF)));
        assert_eq!(handles.get_mut(first), Err(Error::new(EBADF)));
        assert_eq!(handles.get(second), Ok(&'b'));
        assert_eq!((handles.len(), handles.remove(first)), (1, None));
    }

    #[test]
    fn the_root_is_a_handle_like_others() {
        let mut handles = Handles::with_root('/');
        assert_eq!(handles.get(ROOT), Ok(&'/'));
        let file = handles.add('f');
        assert!(file > ROOT);
        let all: alloc::vec::Vec<_> = handles.iter().collect();
        assert_eq!(all, [(ROOT, &'/'), (file, &'f')]);
    }

    #[test]
    fn what_is_opened_has_the_number_of_its_handle() {
        let mut handles = Handles::default();
        let opened = [handles.open('a'), handles.open_positioned('b')];
        let opened = opened.map(|result| match result {
            OpenResult::ThisScheme { number, flags } => (number, flags),
            _ => unreachable!("a handle of this scheme"),
        });
        let flags = [NewFdFlags::empty(), NewFdFlags::POSITIONED];
        assert_eq!(
            opened.map(|(_, flags)| flags.bits()),
            flags.map(|f| f.bits())
        );
        let numbers: alloc::vec::Vec<usize> = handles.numbers().collect();
        assert_eq!(numbers, opened.map(|(number, _)| number));
    }
}
