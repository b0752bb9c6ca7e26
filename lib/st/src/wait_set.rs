//! One wait for many connections.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use scif::{BusyPoll, Waiting};

use crate::deadline::Deadline;
use crate::error::Result;
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

    /// Whether it is there, by a look at own memory.
    fn look(&mut self) -> Result<bool> {
        match self {
            Self::Header(receiver) => receiver.is_ready(),
            Self::Room(sender) => sender.is_ready(),
        }
    }

    /// Whether it is there, or the connection has ended; the peer is asked to say so when it comes.
    fn arm(&mut self) -> bool {
        let ready = match self {
            Self::Header(receiver) => receiver.arm(),
            Self::Room(sender) => sender.arm(),
        };
        // The next call says which end it is.
        ready.unwrap_or(true)
    }
}

/// Waits for any of many channels, of any connections.
///
/// ```no_run
/// # use st::{Deadline, Interest, Receiver, Result, WaitSet};
/// # fn f(mut a: Receiver, mut b: Receiver) -> Result<()> {
/// let mut set = WaitSet::new()?;
/// loop {
///     let mut both = [Interest::Header(&mut a), Interest::Header(&mut b)];
///     for index in set.wait(&mut both, Deadline::Never)? {
///         let Interest::Header(rx) = &mut both[index] else { continue };
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
        })
    }

    /// Sets how [`wait`](Self::wait) waits from now on.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// Waits until some of these are there, and returns their indices. A connection that has ended
    /// counts: the next call on it gives the error. Nothing when the deadline has passed.
    ///
    /// # Errors
    /// Those of the event queue.
    pub fn wait(
        &mut self,
        interests: &mut [Interest<'_>],
        deadline: Deadline,
    ) -> Result<Vec<usize>> {
        let is_local = interests
            .iter()
            .all(|interest| interest.half().shared.is_local);
        let mut busy_poll = BusyPoll::new(self.waiting, is_local);
        loop {
            for _ in 0..busy_poll.spins() {
                let ready = indices(interests, |interest| interest.look().unwrap_or(true));
                if !ready.is_empty() {
                    return Ok(ready);
                }
                core::hint::spin_loop();
            }
            if deadline == Deadline::Now || !busy_poll.give_way() {
                break;
            }
        }
        self.watch(interests)?;
        loop {
            for shared in self.watched.iter().filter_map(Weak::upgrade) {
                // Errors are found again by those whom they concern.
                let _ = shared.fall_asleep(self.sleeper.id);
            }
            let ready = indices(interests, Interest::arm);
            if !ready.is_empty() {
                return Ok(ready);
            }
            match deadline.left() {
                Ok(left) => self.sleeper.sleep(left)?,
                Err(crate::Error::WouldBlock | crate::Error::TimedOut) => return Ok(ready),
                Err(error) => return Err(error),
            }
        }
    }

    /// Has all connections wake the sleeper.
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

/// The indices of those that are ready.
fn indices<'a>(
    interests: &mut [Interest<'a>],
    mut is_ready: impl FnMut(&mut Interest<'a>) -> bool,
) -> Vec<usize> {
    let each = interests.iter_mut().enumerate();
    each.filter_map(|(index, interest)| is_ready(interest).then_some(index))
        .collect()
}
