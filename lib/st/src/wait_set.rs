//! One wait for many connections.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::time::Duration;

use scif::{BusyPoll, Waiting};

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::half::Half;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::shared::Shared;
use crate::wait::Sleeper;

/// A condition to wait for.
pub enum Interest<'a> {
    /// A header to pull.
    Header(&'a mut Receiver),
    /// Room for a header to push.
    Room(&'a mut Sender),
}

impl Interest<'_> {
    fn half(&self) -> &Half {
        match self {
            Self::Header(receiver) => &receiver.half,
            Self::Room(sender) => &sender.half,
        }
    }

    /// Whether it holds, by a look at this end's memory.
    fn look(&mut self) -> Result<bool> {
        match self {
            Self::Header(receiver) => receiver.is_ready(),
            Self::Room(sender) => sender.is_ready(),
        }
    }

    /// Whether it holds, or the connection has ended, by the peer's records and what the driver
    /// reports.
    fn attend(&mut self) -> bool {
        let shared = &self.half().shared;
        let is_live = match shared.may_be_readable() {
            true => shared.take_records(None).is_ok() && shared.is_live(),
            false => shared.is_live(),
        };
        // The next call reports the end.
        !is_live || self.look().unwrap_or(true)
    }

    /// Whether it holds, or the connection has ended. If not, the peer is asked to wake this end
    /// when it does.
    fn arm(&mut self) -> bool {
        let ready = match self {
            Self::Header(receiver) => receiver.arm(),
            Self::Room(sender) => sender.arm(),
        };
        // The next call reports the end.
        ready.unwrap_or(true)
    }
}

/// How many of the conditions that held last are looked at in each round of polling.
const RECENT: usize = 4;
/// The number of rounds of polling, in one wait or several, after which one of the other conditions
/// is looked at, too: pages that nobody touches take long to reach.
const ROUNDS: u32 = 32;

/// Waits for any of many channels, of any connections.
///
/// In each round, polling looks at the conditions that held last, and at all others in turn, so
/// that a thousand of them do not delay the few on which something happens. Before a sleep each
/// connection is asked again.
///
/// ```no_run
/// # use st::{Deadline, Interest, Receiver, Result, WaitSet};
/// # fn f(mut a: Receiver, mut b: Receiver) -> Result<()> {
/// let mut set = WaitSet::new()?;
/// loop {
///     let mut both = [Interest::Header(&mut a), Interest::Header(&mut b)];
///     for index in set.wait(&mut both, Deadline::Never)? {
///         let Interest::Header(rx) = &mut both[*index] else { continue };
///         while let Some(number) = rx.try_pull::<u64>()? {
///             // …
///             # drop(number);
///         }
///     }
/// }
/// # }
/// ```
pub struct WaitSet {
    sleeper: Sleeper,
    watched: Vec<Weak<Shared>>,
    waiting: Waiting,
    /// The indices that the last wait returned.
    ready: Vec<usize>,
    /// Some of those that held last.
    recent: Vec<usize>,
    /// Rounds of polling so far.
    rounds: u32,
    /// The index that is looked at next, and the one whose connection is checked next.
    next: usize,
    next_connection: usize,
}

impl WaitSet {
    /// A set that polls for a while before it sleeps.
    ///
    /// # Errors
    /// Those of opening an event queue and a pipe.
    pub fn new() -> Result<Self> {
        Ok(Self {
            sleeper: Sleeper::new()?,
            watched: Vec::new(),
            waiting: Waiting::Adaptive,
            ready: Vec::new(),
            recent: Vec::new(),
            rounds: 0,
            next: 0,
            next_connection: 0,
        })
    }

    /// Sets how [`wait`](Self::wait) waits from now on.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// Waits until some of the conditions hold, and returns their indices in rising order. Others
    /// may hold, too; the next calls find them. A connection that has ended counts: the next call
    /// on it gives the error. It is noticed only if nothing else holds. The result is empty if the
    /// deadline has passed.
    ///
    /// # Errors
    /// Those of the event queue and of reading the clock.
    pub fn wait(&mut self, interests: &mut [Interest<'_>], deadline: Deadline) -> Result<&[usize]> {
        self.ready.clear();
        if deadline == Deadline::Now {
            self.keep(interests, Interest::attend);
        } else if !self.poll(interests, deadline)? {
            self.sleep(interests, deadline)?;
        }
        if !self.ready.is_empty() {
            self.recent.clear();
            self.recent.extend(self.ready.iter().take(RECENT));
        }
        Ok(&self.ready)
    }

    /// Polls until some conditions hold or the deadline has passed; `false`: the time for polling
    /// is used up.
    fn poll(&mut self, interests: &mut [Interest<'_>], deadline: Deadline) -> Result<bool> {
        // As for the one that held last: to look at a thousand of them would take too long.
        let likely = interests.get(self.recent.first().copied().unwrap_or(0));
        let is_local = likely.is_none_or(|interest| interest.half().shared.is_local);
        let mut busy_poll = BusyPoll::new(self.waiting, is_local);
        loop {
            for _ in 0..busy_poll.spins() {
                self.rounds = self.rounds.wrapping_add(1);
                if self.rounds.is_multiple_of(ROUNDS) {
                    self.next = after(self.next, interests);
                    self.look_at(interests, self.next);
                }
                self.look_at_recent(interests);
                if !self.ready.is_empty() {
                    return Ok(true);
                }
                busy_poll.relax();
            }
            // All of them, before other threads run. Records and the end are looked for on one
            // connection only, as both take longer than a look.
            self.keep(interests, |interest| interest.look().unwrap_or(true));
            self.attend_next(interests);
            if !self.ready.is_empty() || time_left(deadline)?.is_none() {
                return Ok(true);
            }
            if !busy_poll.give_way() {
                return Ok(false);
            }
        }
    }

    /// Notes the indices of all that are ready.
    fn keep<'a>(
        &mut self,
        interests: &mut [Interest<'a>],
        mut is_ready: impl FnMut(&mut Interest<'a>) -> bool,
    ) {
        for (index, interest) in interests.iter_mut().enumerate() {
            if is_ready(interest) {
                self.ready.push(index);
            }
        }
    }

    /// Looks at those that held last.
    #[inline]
    fn look_at_recent(&mut self, interests: &mut [Interest<'_>]) {
        for at in 0..self.recent.len() {
            self.look_at(interests, self.recent[at]);
        }
        self.ready.sort_unstable();
        self.ready.dedup();
    }

    #[inline]
    fn look_at(&mut self, interests: &mut [Interest<'_>], index: usize) {
        let is_there = |interest: &mut Interest<'_>| interest.look().unwrap_or(true);
        if interests.get_mut(index).is_some_and(is_there) {
            self.ready.push(index);
        }
    }

    /// Takes the records of the next connection, and looks whether it has ended.
    fn attend_next(&mut self, interests: &mut [Interest<'_>]) {
        self.next_connection = after(self.next_connection, interests);
        let next = interests.get_mut(self.next_connection);
        if self.ready.is_empty() && next.is_some_and(Interest::attend) {
            self.ready.push(self.next_connection);
        }
    }

    /// Sleeps until some conditions hold or the deadline has passed.
    fn sleep(&mut self, interests: &mut [Interest<'_>], deadline: Deadline) -> Result<()> {
        self.watch(interests)?;
        loop {
            for shared in self.watched.iter().filter_map(Weak::upgrade) {
                // Errors are found again by the calls that they concern.
                let _ = shared.fall_asleep(self.sleeper.id);
            }
            self.keep(interests, Interest::arm);
            if !self.ready.is_empty() {
                return Ok(());
            }
            match time_left(deadline)? {
                Some(left) => self.sleeper.sleep(left)?,
                None => return Ok(()),
            }
        }
    }

    /// Makes all connections wake the sleeper.
    fn watch(&mut self, interests: &[Interest<'_>]) -> Result<()> {
        self.watched.retain(|known| known.strong_count() > 0);
        for interest in interests {
            let shared = &interest.half().shared;
            let is_same = |known: &Weak<Shared>| core::ptr::eq(known.as_ptr(), Arc::as_ptr(shared));
            if !self.watched.iter().any(is_same) {
                self.sleeper.watch(shared)?;
                self.watched.push(Arc::downgrade(shared));
            }
        }
        Ok(())
    }
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        for shared in self.watched.iter().filter_map(Weak::upgrade) {
            shared.remove_sleeper(self.sleeper.id);
        }
    }
}

/// The index after another one; the first one follows the last.
#[inline]
fn after(index: usize, interests: &[Interest<'_>]) -> usize {
    match index + 1 {
        next if next < interests.len() => next,
        _ => 0,
    }
}

/// How long a wait may go on, where the inner `None` means without limit; `None`: the deadline has
/// passed.
fn time_left(deadline: Deadline) -> Result<Option<Option<Duration>>> {
    match deadline.left() {
        Ok(left) => Ok(Some(left)),
        Err(Error::WouldBlock | Error::TimedOut) => Ok(None),
        Err(error) => Err(error),
    }
}
