//! Busy polling: how long a blocking call polls before it sleeps in the daemon.
//!
//! Polling costs no system call and finds the peer's bytes at once; sleeping costs two wake-ups
//! and leaves the processor to others. A node may have a single processor, so a polling thread
//! yields it from time to time: rarely at first, because a peer that polls too answers in a
//! fraction of a microsecond; after every poll when the peer is a program of the same node,
//! because nothing can arrive before that program runs.

use hal::pause::yield_now;

/// How blocking calls wait.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Waiting {
    /// Polls for about as long as a wake-up takes, then sleeps.
    #[default]
    Adaptive = 0,
    /// Polls until the call is done: the lowest latency, on a processor with no other work.
    Poll = 1,
    /// Sleeps at once.
    Sleep = 2,
}

impl Waiting {
    /// The policy with this number, or the default.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Poll,
            2 => Self::Sleep,
            _ => Self::Adaptive,
        }
    }
}

/// Polls before the first yield, and between two later ones. Under the emulator the first ones
/// take some tens of microseconds, the later ones a hundred and more, because each of them pauses.
/// A short receive makes the first ones twice. With a pause after every eighth poll, calls went to
/// sleep sooner, and a tenth of all echoes took 28 to 124 µs instead of 9.
const FIRST_SPINS: u32 = 2000;
const SPINS: u32 = 400;
/// Yields before a sleep.
const YIELDS: u32 = 20;
/// Yields before a sleep when the peer is a program of this node.
const LOCAL_YIELDS: u32 = 50;

/// The busy-polling budget of one blocking call.
pub struct BusyPoll {
    waiting: Waiting,
    is_local: bool,
    /// Rounds of polls that have begun; the caller yields between two rounds.
    rounds: u32,
    yields: u32,
}

impl BusyPoll {
    /// A full budget. `is_local` says that the peer is a program of this node.
    pub fn new(waiting: Waiting, is_local: bool) -> Self {
        Self {
            waiting,
            is_local,
            rounds: 0,
            yields: if is_local { LOCAL_YIELDS } else { YIELDS },
        }
    }

    /// Called between two polls. Pauses, so that a thread that shares the core gets it, but not in
    /// the first round, in which a peer that polls too would have answered. Under the emulator a
    /// pause takes hundreds of nanoseconds, as long as half a round trip.
    #[inline]
    pub fn relax(&self) {
        if self.rounds > 1 {
            core::hint::spin_loop();
        }
    }

    /// Begins a round of polls and returns how many it has.
    pub fn spins(&mut self) -> u32 {
        self.rounds = self.rounds.saturating_add(1);
        if self.is_local || self.waiting == Waiting::Sleep {
            1
        } else if self.rounds == 1 {
            FIRST_SPINS
        } else {
            SPINS
        }
    }

    /// Yields the processor. `false`: the budget is used up and the caller should sleep.
    pub fn give_way(&mut self) -> bool {
        match self.waiting {
            Waiting::Sleep => return false,
            Waiting::Poll => {}
            Waiting::Adaptive if self.yields == 0 => return false,
            Waiting::Adaptive => self.yields -= 1,
        }
        yield_now();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_ends_unless_the_policy_is_to_poll() {
        let yields = |waiting, is_local, limit: u32| {
            let mut busy_poll = BusyPoll::new(waiting, is_local);
            (0..limit)
                .take_while(|_| busy_poll.spins() > 0 && busy_poll.give_way())
                .count() as u32
        };
        assert_eq!(yields(Waiting::Sleep, false, 1000), 0);
        assert_eq!(yields(Waiting::Poll, false, 1000), 1000);
        assert_eq!(yields(Waiting::Adaptive, false, 1000), YIELDS);
        assert_eq!(yields(Waiting::Adaptive, true, 1000), LOCAL_YIELDS);
    }

    #[test]
    fn numbers_name_policies() {
        for policy in [Waiting::Adaptive, Waiting::Poll, Waiting::Sleep] {
            assert_eq!(Waiting::from_number(policy as u8), policy);
        }
        assert_eq!(Waiting::from_number(77), Waiting::Adaptive);
    }
}
