//! Marks of fence_mark: a number from 1 to 2^30 - 1 stands for "all jobs queued on this channel so
//! far". A mark of the peer's channel also has bit 30 set.

use alloc::collections::VecDeque;

/// The bit that is set in marks of the peer's channel.
const REMOTE_MARK: u32 = 1 << 30;

/// Marks are counted modulo this.
const MARK_MODULUS: u64 = 1 << 30;

/// The bits of a mark in a message; the mainline driver extends the sign of an `int`.
pub(crate) const MARK_BITS: u64 = 0x7fff_ffff;

/// The transfers that a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// Jobs that are done.
    Done,
    /// This many jobs of the channel, counted from its first one.
    Jobs(u64),
    /// Jobs of the peer's channel, for which this is the peer's mark.
    Remote(u32),
}

/// The marks of a channel.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// How many marks were given out, which is also the number of the last one.
    taken: u64,
    /// For each mark that is not reached, its number and how many jobs it stands for; both
    /// ascending.
    open: VecDeque<(u64, u64)>,
    /// The highest mark of the peer's channel that was given out here.
    highest_remote: Option<u32>,
    /// Whether 0 was: it is no mark here, but one of the older driver.
    has_remote_zero: bool,
}

impl Marks {
    /// Makes a mark for the first `issued` jobs.
    pub(super) fn take(&mut self, issued: u64) -> u32 {
        if self.open.back().is_none_or(|(_, jobs)| *jobs != issued) {
            self.taken += 1;
            // 0 is never a mark.
            if self.taken.is_multiple_of(MARK_MODULUS) {
                self.taken += 1;
            }
            self.open.push_back((self.taken, issued));
        }
        (self.taken % MARK_MODULUS) as u32
    }

    /// How many jobs a mark stands for, 0 if these were done long ago; `None` if it was not given
    /// out.
    fn jobs(&self, mark: u32) -> Option<u64> {
        let mark = u64::from(mark);
        let age = (self.taken + MARK_MODULUS).wrapping_sub(mark) % MARK_MODULUS;
        if mark == 0 || mark >= MARK_MODULUS || age >= self.taken || age > MARK_MODULUS / 2 {
            return None;
        }
        let number = self.taken - age;
        let found = self
            .open
            .binary_search_by_key(&number, |(number, _)| *number);
        let jobs = found.ok().and_then(|index| self.open.get(index));
        Some(jobs.map_or(0, |(_, jobs)| *jobs))
    }

    /// Forgets the marks that are reached when `retired` jobs are done.
    pub(super) fn forget(&mut self, retired: u64) {
        while self
            .open
            .pop_front_if(|(_, jobs)| *jobs <= retired)
            .is_some()
        {}
    }

    /// Notes a mark of the peer's channel. Returns the mark for the caller.
    pub(super) fn note_remote(&mut self, mark: u64) -> Option<u64> {
        let mark = (mark & MARK_BITS) as u32;
        if mark >= REMOTE_MARK {
            return None;
        }
        self.highest_remote = self.highest_remote.max(Some(mark));
        self.has_remote_zero |= mark == 0;
        Some(u64::from(REMOTE_MARK | mark))
    }

    /// The transfers that a mark stands for when `retired` jobs are done; `None`: the mark was not
    /// given out here.
    pub(super) fn find(&self, mark: u32, retired: u64) -> Option<Marked> {
        if mark & REMOTE_MARK == 0 {
            let jobs = self.jobs(mark)?;
            return Some(if jobs <= retired {
                Marked::Done
            } else {
                Marked::Jobs(jobs)
            });
        }
        let mark = mark & !REMOTE_MARK;
        let is_known = self.highest_remote.is_some_and(|highest| mark <= highest);
        (is_known && (mark != 0 || self.has_remote_zero)).then_some(Marked::Remote(mark))
    }
}
