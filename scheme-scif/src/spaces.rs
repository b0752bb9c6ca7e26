//! Address spaces that programs have sent, in which the daemon finds pages to pin.
//!
//! A descriptor of an address space keeps the whole space alive. So a space goes as soon as the
//! handle over which it came is closed, as most handles of a program are that ends, and soon after
//! its last use: another process may have the handle, too, or a mapping of the program keep it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use syscall::error::{ESRCH, Error, Result};

use crate::ids::HandleId;

/// The address space of each process that has sent one.
pub(crate) struct Spaces<S> {
    by_process: BTreeMap<usize, Kept<S>>,
}

struct Kept<S> {
    /// The number by which the process names the space. A process that has run another program
    /// since has another space, and its library does not know the number.
    number: u64,
    /// The handle over which it came.
    handle: HandleId,
    space: S,
    /// Whether it was used since [`Spaces::take_idle`] was called last.
    was_used: bool,
}

impl<S> Default for Spaces<S> {
    fn default() -> Self {
        Self {
            by_process: BTreeMap::new(),
        }
    }
}

impl<S: Clone> Spaces<S> {
    /// Keeps the space of a process. Returns its former one.
    pub fn keep(&mut self, process: usize, number: u64, handle: HandleId, space: S) -> Option<S> {
        let kept = Kept {
            number,
            handle,
            space,
            was_used: true,
        };
        let former = self.by_process.insert(process, kept);
        former.map(|former| former.space)
    }

    /// The space that a process names by `number`.
    ///
    /// # Errors
    /// `ESRCH`: it is not here, or not any more.
    pub fn get(&mut self, process: usize, number: u64) -> Result<S> {
        let kept = self.by_process.get_mut(&process);
        let kept = kept.filter(|kept| kept.number == number);
        let kept = kept.ok_or(Error::new(ESRCH))?;
        kept.was_used = true;
        Ok(kept.space.clone())
    }

    /// Takes the spaces that came over a handle.
    pub fn take_of_handle(&mut self, handle: HandleId) -> Vec<S> {
        self.take(|kept| kept.handle == handle)
    }

    /// Takes the spaces that were not used since the last call.
    pub fn take_idle(&mut self) -> Vec<S> {
        let idle = self.take(|kept| !kept.was_used);
        for kept in self.by_process.values_mut() {
            kept.was_used = false;
        }
        idle
    }

    fn take(&mut self, which: impl Fn(&Kept<S>) -> bool) -> Vec<S> {
        let taken = self.by_process.extract_if(.., |_, kept| which(kept));
        taken.map(|(_, kept)| kept.space).collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_process.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_is_its_process_s_alone() {
        let mut spaces = Spaces::default();
        assert_eq!(spaces.keep(7, 100, 1, "seven"), None);
        assert_eq!(spaces.keep(8, 100, 2, "eight"), None);
        assert_eq!(spaces.get(7, 100), Ok("seven"));
        assert_eq!(spaces.get(8, 100), Ok("eight"));
        let missing = Err(Error::new(ESRCH));
        assert_eq!(spaces.get(7, 101), missing);
        assert_eq!(spaces.get(9, 100), missing);
        assert_eq!(spaces.keep(7, 101, 1, "after exec"), Some("seven"));
        assert_eq!(spaces.get(7, 100), missing);
        assert_eq!(spaces.get(7, 101), Ok("after exec"));
    }

    #[test]
    fn a_space_goes_with_its_handle_or_when_it_is_idle() {
        let mut spaces = Spaces::default();
        for process in 1..=3 {
            spaces.keep(process, 5, process % 2, process);
        }
        assert_eq!(spaces.take_of_handle(1), [1, 3]);
        assert!(spaces.take_idle().is_empty(), "it is new");
        assert_eq!(spaces.get(2, 5), Ok(2));
        assert!(spaces.take_idle().is_empty(), "it was used");
        assert!(!spaces.is_empty());
        assert_eq!(spaces.take_idle(), [2]);
        assert!(spaces.is_empty());
    }
}
