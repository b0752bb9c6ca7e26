//! Locks of files: ranges of bytes that a process, or an open file, holds alone or shares. They
//! bind only programs that ask for locks. Redox has the calls for them (`StdFsCallKind`);
//! redox-scheme's own table of locks needs `std`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use syscall::error::{EINVAL, ENOLCK, Error, Result};

/// The most locks in one table, as each takes memory of the daemon.
const MOST: usize = 16_384;

/// Who holds a lock. Locks of the same owner never conflict.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// An open file, with all descriptors that were copied from its first one (`flock`).
    Opening(usize),
    /// A process (`F_SETLK`).
    Process(usize),
}

/// A locked range of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lock {
    /// Who holds it.
    pub owner: Owner,
    /// The locked bytes; an end of `u64::MAX` means the end of any file.
    pub bytes: Range<u64>,
    /// Whether no other owner can have a lock there.
    pub is_exclusive: bool,
}

impl Lock {
    fn is_in_the_way(&self, wanted: &Lock) -> bool {
        self.owner != wanted.owner
            && (self.is_exclusive || wanted.is_exclusive)
            && self.bytes.start < wanted.bytes.end
            && wanted.bytes.start < self.bytes.end
    }
}

/// The range of `length` bytes from `start`; a length of 0 means up to the end of any file.
///
/// # Errors
/// `EINVAL`: the end is beyond what a number can hold.
pub fn bytes(start: u64, length: u64) -> Result<Range<u64>> {
    let end = match length {
        0 => Some(u64::MAX),
        _ => start.checked_add(length),
    };
    end.map(|end| start..end).ok_or(Error::new(EINVAL))
}

/// The locks of all files of a scheme.
#[derive(Debug, Default)]
pub struct Locks {
    /// The locks of each file, by the number of the file.
    files: BTreeMap<u64, Vec<Lock>>,
    count: usize,
    /// A range was released for which another owner may wait.
    is_freed: bool,
}

impl Locks {
    /// The first lock that conflicts with a wanted one.
    pub fn in_the_way(&self, file: u64, wanted: &Lock) -> Option<&Lock> {
        let locks = self.files.get(&file)?.iter();
        locks
            .filter(|lock| lock.is_in_the_way(wanted))
            .min_by_key(|lock| lock.bytes.start)
    }

    /// Takes a lock in place of those that its owner has on these bytes. Returns false, and
    /// changes nothing, if other owners' locks conflict.
    ///
    /// # Errors
    /// `ENOLCK`: too many locks.
    pub fn take(&mut self, file: u64, wanted: Lock) -> Result<bool> {
        if self.in_the_way(file, &wanted).is_some() {
            return Ok(false);
        }
        // This adds one lock, and may cut another one into two.
        if self.count + 2 > MOST {
            return Err(Error::new(ENOLCK));
        }
        self.give_back(file, wanted.owner, &wanted.bytes);
        self.files.entry(file).or_default().push(wanted);
        self.count += 1;
        Ok(true)
    }

    /// Releases the owner's locks on these bytes.
    ///
    /// # Errors
    /// `ENOLCK`: a lock may be cut into two, and there are too many.
    pub fn release(&mut self, file: u64, owner: Owner, bytes: &Range<u64>) -> Result<()> {
        if self.count + 1 > MOST && *bytes != (0..u64::MAX) {
            return Err(Error::new(ENOLCK));
        }
        self.give_back(file, owner, bytes);
        Ok(())
    }

    /// Releases all locks of an owner on a file.
    pub fn release_all(&mut self, file: u64, owner: Owner) {
        self.give_back(file, owner, &(0..u64::MAX));
    }

    fn give_back(&mut self, file: u64, owner: Owner, bytes: &Range<u64>) {
        let Some(locks) = self.files.get_mut(&file) else {
            return;
        };
        let before = locks.len();
        let is_cut = |lock: &Lock| {
            lock.owner == owner && lock.bytes.start < bytes.end && bytes.start < lock.bytes.end
        };
        let cut: Vec<Lock> = locks.extract_if(.., |lock| is_cut(lock)).collect();
        self.is_freed |= !cut.is_empty();
        for lock in cut {
            for rest in [
                lock.bytes.start..bytes.start.max(lock.bytes.start),
                bytes.end.min(lock.bytes.end)..lock.bytes.end,
            ] {
                if !rest.is_empty() {
                    locks.push(Lock {
                        bytes: rest,
                        ..lock.clone()
                    });
                }
            }
        }
        self.count = self.count + locks.len() - before;
        if locks.is_empty() {
            self.files.remove(&file);
        }
    }

    /// Whether a range was released since the last call.
    pub fn take_freed(&mut self) -> bool {
        core::mem::take(&mut self.is_freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 7;
    const ONE: Owner = Owner::Process(1);
    const OTHER: Owner = Owner::Process(2);

    fn lock(owner: Owner, bytes: Range<u64>, is_exclusive: bool) -> Lock {
        Lock {
            owner,
            bytes,
            is_exclusive,
        }
    }

    #[test]
    fn exclusive_locks_stand_in_the_way_of_others_alone() {
        let mut locks = Locks::default();
        assert_eq!(locks.take(FILE, lock(ONE, 10..20, true)), Ok(true));
        assert_eq!(locks.take(FILE, lock(ONE, 0..u64::MAX, true)), Ok(true));
        assert_eq!(locks.take(FILE, lock(OTHER, 100..101, false)), Ok(false));
        assert_eq!(locks.take(FILE + 1, lock(OTHER, 0..1, true)), Ok(true));
        let opening = Owner::Opening(1);
        assert_eq!(locks.take(FILE, lock(opening, 0..1, false)), Ok(false));
        assert!(locks.take_freed(), "a part was replaced");
        assert!(!locks.take_freed());
    }

    #[test]
    fn shared_locks_go_together_and_become_exclusive_when_alone() {
        let mut locks = Locks::default();
        assert_eq!(locks.take(FILE, lock(ONE, 0..10, false)), Ok(true));
        assert_eq!(locks.take(FILE, lock(OTHER, 5..15, false)), Ok(true));
        assert_eq!(locks.take(FILE, lock(OTHER, 9..15, true)), Ok(false));
        assert_eq!(locks.take(FILE, lock(OTHER, 10..15, true)), Ok(true));
        assert_eq!(
            locks.in_the_way(FILE, &lock(ONE, 0..u64::MAX, false)),
            Some(&lock(OTHER, 10..15, true))
        );
        assert_eq!(locks.in_the_way(FILE, &lock(ONE, 0..10, false)), None);
    }

    #[test]
    fn a_release_in_the_middle_leaves_both_ends() {
        let mut locks = Locks::default();
        assert_eq!(locks.take(FILE, lock(ONE, 0..100, true)), Ok(true));
        assert_eq!(locks.release(FILE, ONE, &(40..60)), Ok(()));
        assert_eq!(locks.count, 2);
        assert_eq!(locks.take(FILE, lock(OTHER, 40..60, true)), Ok(true));
        for taken in [39..40, 60..61] {
            assert_eq!(locks.take(FILE, lock(OTHER, taken, false)), Ok(false));
        }
        locks.release_all(FILE, ONE);
        locks.release_all(FILE, OTHER);
        assert!(locks.files.is_empty() && locks.count == 0);
    }

    #[test]
    fn there_are_at_most_so_many() {
        let mut locks = Locks::default();
        let each = |at: u64| lock(ONE, 2 * at..2 * at + 1, false);
        let mut taken = 0;
        while locks.take(FILE, each(taken)) == Ok(true) {
            taken += 1;
        }
        assert_eq!(taken as usize, MOST - 1);
        assert_eq!(
            locks.take(FILE, each(taken)),
            Err(Error::new(ENOLCK)),
            "too many"
        );
        locks.release_all(FILE, ONE);
        assert_eq!(locks.take(FILE, each(0)), Ok(true));
    }

    #[test]
    fn lengths_reach_to_the_end_or_fail() {
        assert_eq!(bytes(5, 0), Ok(5..u64::MAX));
        assert_eq!(bytes(5, 1), Ok(5..6));
        assert_eq!(bytes(5, u64::MAX), Err(Error::new(EINVAL)));
    }
}
