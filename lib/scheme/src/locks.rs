//! Locks of files: ranges of bytes that a process, or an open file, holds alone or shares. They
//! bind only programs that ask for locks. Redox has the calls for them (`StdFsCallKind`);
//! redox-scheme's own table of locks needs `std`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use syscall::error::{EINVAL, ENOLCK, Error, Result};

/// The most locks in one table, as each takes memory of the daemon.
const MOST: usize = 16_384;
/// The most locks of one owner, so that others find room.
const MOST_OF_OWNER: usize = MOST / 8;

/// Who holds a lock. Locks of the same owner never conflict.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
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
    /// Whether the owner has a lock on some of the bytes.
    fn is_of(&self, owner: Owner, bytes: &Range<u64>) -> bool {
        self.owner == owner && self.bytes.start < bytes.end && bytes.start < self.bytes.end
    }

    /// What is left of the lock without these bytes, one or both of which may be empty.
    fn without(&self, bytes: &Range<u64>) -> [Range<u64>; 2] {
        [
            self.bytes.start..bytes.start.max(self.bytes.start),
            bytes.end.min(self.bytes.end)..self.bytes.end,
        ]
    }

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
    /// The number of locks of each owner that has any.
    owners: BTreeMap<Owner, usize>,
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
        self.check_more(
            wanted.owner,
            1 + self.growth(file, wanted.owner, &wanted.bytes),
        )?;
        self.give_back(file, wanted.owner, &wanted.bytes);
        self.note_more(wanted.owner, 1);
        self.files.entry(file).or_default().push(wanted);
        Ok(true)
    }

    /// Releases the owner's locks on these bytes.
    ///
    /// # Errors
    /// `ENOLCK`: a lock is cut into two, and there are too many.
    pub fn release(&mut self, file: u64, owner: Owner, bytes: &Range<u64>) -> Result<()> {
        self.check_more(owner, self.growth(file, owner, bytes))?;
        self.give_back(file, owner, bytes);
        Ok(())
    }

    /// How many more locks there are once those of the owner on these bytes are released: one more
    /// if one is cut into two, fewer where nothing is left.
    fn growth(&self, file: u64, owner: Owner, bytes: &Range<u64>) -> isize {
        let locks = self.files.get(&file).into_iter().flatten();
        let cut = locks.filter(|lock| lock.is_of(owner, bytes));
        let left = |lock: &Lock| {
            lock.without(bytes)
                .iter()
                .filter(|rest| !rest.is_empty())
                .count()
        };
        cut.map(|lock| left(lock) as isize - 1).sum()
    }

    /// Checks that there may be more locks of an owner; fewer are always possible.
    fn check_more(&self, owner: Owner, more: isize) -> Result<()> {
        let Some(more) = usize::try_from(more).ok().filter(|&more| more > 0) else {
            return Ok(());
        };
        let own = self.owners.get(&owner).copied().unwrap_or(0);
        match self.count + more <= MOST && own + more <= MOST_OF_OWNER {
            true => Ok(()),
            false => Err(Error::new(ENOLCK)),
        }
    }

    /// Counts more locks of an owner, or fewer.
    fn note_more(&mut self, owner: Owner, more: isize) {
        self.count = self.count.saturating_add_signed(more);
        let own = self.owners.entry(owner).or_default();
        *own = own.saturating_add_signed(more);
        if *own == 0 {
            self.owners.remove(&owner);
        }
    }

    /// Releases all locks of an owner on a file.
    pub fn release_all(&mut self, file: u64, owner: Owner) {
        self.give_back(file, owner, &(0..u64::MAX));
    }

    fn give_back(&mut self, file: u64, owner: Owner, bytes: &Range<u64>) {
        let Some(locks) = self.files.get_mut(&file) else {
            return;
        };
        let before = locks.len() as isize;
        let cut: Vec<Lock> = locks
            .extract_if(.., |lock| lock.is_of(owner, bytes))
            .collect();
        self.is_freed |= !cut.is_empty();
        for lock in cut {
            for rest in lock.without(bytes) {
                if !rest.is_empty() {
                    locks.push(Lock {
                        bytes: rest,
                        ..lock.clone()
                    });
                }
            }
        }
        let more = locks.len() as isize - before;
        if locks.is_empty() {
            self.files.remove(&file);
        }
        self.note_more(owner, more);
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

    /// Takes locks of three bytes each, with a byte between two, until one is refused; their
    /// number.
    fn fill(locks: &mut Locks, file: u64, owner: Owner) -> u64 {
        let each = |at: u64| lock(owner, 4 * at..4 * at + 3, false);
        let mut taken = 0;
        while locks.take(file, each(taken)) == Ok(true) {
            taken += 1;
        }
        assert_eq!(
            locks.take(file, each(taken)),
            Err(Error::new(ENOLCK)),
            "too many"
        );
        taken
    }

    /// A table without room, and the owners of its locks.
    fn full() -> (Locks, Vec<Owner>) {
        let mut locks = Locks::default();
        let mut owners = Vec::new();
        let mut taken = 0;
        while taken < MOST {
            assert!(owners.len() < 2 * MOST / MOST_OF_OWNER);
            owners.push(Owner::Process(owners.len() + 1));
            let owner = owners[owners.len() - 1];
            taken += fill(&mut locks, FILE + owners.len() as u64 - 1, owner) as usize;
        }
        assert_eq!((taken, locks.count), (MOST, MOST));
        (locks, owners)
    }

    #[test]
    fn there_are_at_most_so_many() {
        let (mut locks, owners) = full();
        let other = Owner::Process(owners.len() + 1);
        assert_eq!(fill(&mut locks, FILE, other), 0);
        locks.release_all(FILE + 1, owners[1]);
        assert_eq!(fill(&mut locks, FILE, other) as usize, MOST_OF_OWNER);
    }

    #[test]
    fn one_owner_leaves_locks_to_others() {
        let mut locks = Locks::default();
        assert_eq!(fill(&mut locks, FILE, ONE) as usize, MOST_OF_OWNER);
        assert_eq!(fill(&mut locks, FILE + 1, ONE), 0);
        assert_eq!(fill(&mut locks, FILE, OTHER) as usize, MOST_OF_OWNER);
        locks.release_all(FILE, ONE);
        assert_eq!(fill(&mut locks, FILE + 1, ONE) as usize, MOST_OF_OWNER);
    }

    #[test]
    fn a_full_table_refuses_only_what_makes_more_locks() {
        let (mut locks, _) = full();
        let no_more = Err(Error::new(ENOLCK));
        // The middle of the first lock.
        assert_eq!(locks.release(FILE, ONE, &(1..2)), no_more);
        assert_eq!(
            locks.take(FILE, lock(ONE, 1..2, false)),
            no_more.map(|()| true)
        );
        assert_eq!(locks.count, MOST);
        for same in [0..3, 4..7, 4..8] {
            assert_eq!(locks.take(FILE, lock(ONE, same, false)), Ok(true));
        }
        // What nobody has, both ends of a lock, all of one, and one with parts of others.
        let released = [(3..4, 0), (8..9, 0), (10..11, 0), (12..15, 1), (18..25, 1)];
        let mut count = locks.count;
        for (bytes, fewer) in released {
            assert_eq!(locks.release(FILE, ONE, &bytes), Ok(()), "{bytes:?}");
            count -= fewer;
            assert_eq!(locks.count, count, "{bytes:?}");
        }
        assert_eq!(
            locks.release(FILE, ONE, &(29..30)),
            Ok(()),
            "there is room again"
        );
    }

    #[test]
    fn lengths_reach_to_the_end_or_fail() {
        assert_eq!(bytes(5, 0), Ok(5..u64::MAX));
        assert_eq!(bytes(5, 1), Ok(5..6));
        assert_eq!(bytes(5, u64::MAX), Err(Error::new(EINVAL)));
    }
}
