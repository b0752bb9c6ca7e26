//! The busy-poll policy: how long the driver polls for messages before it sleeps.
//!
//! A sleeping driver costs its peer a doorbell, and this node an interrupt and a wake-up, which
//! take longer than the message itself. So when messages follow each other closely, the driver
//! polls for the next one for a while, as kernels do before they halt a processor. It polls only
//! while no other program needs the processor, and only while that pays: after each poll in vain
//! it waits for more short sleeps before the next poll, so that a node at rest sleeps.

use hal::clock::Rate;

/// Longest poll, in nanoseconds: about what an answer takes under the emulator when both sides
/// have to wake a program for it.
const POLL_NS: u64 = 500_000;

/// A sleep that a message ended within this time, in nanoseconds, might have been worth a poll: a
/// sleeping peer takes longer to answer.
const SHORT_SLEEP_NS: u64 = 2 * POLL_NS;

/// A yield that takes at least this long, in nanoseconds, has let another program use the
/// processor.
const OTHERS_NS: u64 = 15_000;

/// A yield that takes at least this long, in nanoseconds, has given a program that computes a turn
/// (the shortest is `COMPUTING_TURN_NS` in `kernel/core/src/ready.rs`).
const TURN_NS: u64 = 90_000;

/// Polls of the rings between two yields of the processor.
const POLLS: u32 = 50;

/// Most short sleeps between two polls, after polls in vain.
const MAX_BACKOFF: u32 = 64;

/// The outcome of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The poll saw a message.
    Seen,
    /// The poll saw nothing, but another program has run and sleeps again, and may have made a
    /// request. The poll goes on after the driver has read the event queue.
    Interrupted,
    /// The poll saw nothing, or would not pay: it is time to sleep.
    Over,
}

/// The clock and the processor.
pub trait Time {
    /// The present time, in ticks.
    fn ticks(&self) -> u64;
    /// Lets other programs run.
    fn yield_now(&self);
}

/// The state of the policy. Times are in ticks.
pub struct BusyPoll {
    poll: u64,
    short_sleep: u64,
    others: u64,
    turn: u64,
    /// Short sleeps left before the next poll; 0: the driver polls the next time.
    sleeps_left: u32,
    /// The value that `sleeps_left` got after the last poll in vain.
    backoff: u32,
    asleep_since: u64,
    /// When a poll that was interrupted ends.
    end: Option<u64>,
    /// Whether programs compute. The driver then has to sleep before it polls again: the kernel
    /// counts a context that never sleeps as a computing one, and runs the others first.
    must_sleep: bool,
}

impl BusyPoll {
    /// A policy for a counter of this rate. Without a rate it never polls.
    pub fn new(rate: Option<Rate>) -> Self {
        let ticks = |nanoseconds| rate.map_or(0, |rate| rate.ticks(nanoseconds));
        Self {
            poll: ticks(POLL_NS),
            short_sleep: ticks(SHORT_SLEEP_NS),
            others: ticks(OTHERS_NS),
            turn: ticks(TURN_NS),
            sleeps_left: 1,
            backoff: 0,
            asleep_since: 0,
            end: None,
            must_sleep: false,
        }
    }

    /// Polls for messages, if that may pay. `sees` says whether a message is there.
    pub fn poll(&mut self, time: &impl Time, mut sees: impl FnMut() -> bool) -> Poll {
        let interrupted = self.end.take();
        if self.sleeps_left > 0 || self.must_sleep {
            return Poll::Over;
        }
        let end = interrupted.unwrap_or_else(|| time.ticks().saturating_add(self.poll));
        loop {
            if (0..POLLS).any(|_| sees()) {
                self.backoff = 0;
                return Poll::Seen;
            }
            let before = time.ticks();
            if before >= end {
                self.backoff = (2 * self.backoff).clamp(1, MAX_BACKOFF);
                self.sleeps_left = self.backoff;
                return Poll::Over;
            }
            time.yield_now();
            let others = time.ticks().saturating_sub(before);
            if others >= self.others {
                self.must_sleep = others >= self.turn;
                // A message may have come while other programs ran.
                return match (sees(), self.must_sleep) {
                    (true, _) => Poll::Seen,
                    (false, true) => Poll::Over,
                    (false, false) => {
                        self.end = Some(end);
                        Poll::Interrupted
                    }
                };
            }
        }
    }

    /// Yields after a program got an answer, so that it can run, unless programs compute. On a
    /// single processor it cannot send its next request before.
    pub fn after_answer(&mut self, time: &impl Time) {
        if !self.must_sleep {
            let before = time.ticks();
            time.yield_now();
            self.must_sleep = time.ticks().saturating_sub(before) >= self.turn;
        }
    }

    /// Call it when the driver goes to sleep.
    pub fn before_sleep(&mut self, time: &impl Time) {
        self.asleep_since = time.ticks();
    }

    /// Call it when the driver has woken up. `by_message`: a doorbell woke it.
    pub fn after_sleep(&mut self, time: &impl Time, by_message: bool) {
        let slept = time.ticks().saturating_sub(self.asleep_since);
        // A shorter time is no sleep: there was work already.
        self.must_sleep &= slept < self.others;
        if by_message && slept < self.short_sleep {
            self.sleeps_left = self.sleeps_left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::cell::Cell;

    use super::*;

    /// Each reading of the clock takes a microsecond.
    struct Fake {
        now: Cell<u64>,
        yields: Cell<u64>,
        /// How long other programs run at a yield.
        others: u64,
    }

    const MICROSECOND: u64 = 1000;

    impl Time for Fake {
        fn ticks(&self) -> u64 {
            self.now.set(self.now.get() + MICROSECOND);
            self.now.get()
        }

        fn yield_now(&self) {
            self.yields.set(self.yields.get() + 1);
            self.now.set(self.now.get() + self.others);
        }
    }

    fn fake(others: u64) -> Fake {
        Fake {
            now: Cell::new(0),
            yields: Cell::new(0),
            others,
        }
    }

    /// A tick is a nanosecond.
    fn busy_poll() -> BusyPoll {
        BusyPoll::new(Rate::of(1, 1))
    }

    fn sleep(policy: &mut BusyPoll, time: &Fake, nanoseconds: u64) {
        policy.before_sleep(time);
        time.now.set(time.now.get() + nanoseconds);
        policy.after_sleep(time, true);
    }

    #[test]
    fn it_polls_after_a_short_sleep_and_not_before() {
        let (mut policy, time) = (busy_poll(), fake(0));
        assert_eq!(policy.poll(&time, || panic!("polled")), Poll::Over);
        sleep(&mut policy, &time, 2 * SHORT_SLEEP_NS);
        assert_eq!(policy.poll(&time, || panic!("polled")), Poll::Over);
        sleep(&mut policy, &time, SHORT_SLEEP_NS / 2);
        let mut looks = 0;
        let poll = policy.poll(&time, || {
            looks += 1;
            looks == 3 * POLLS
        });
        assert_eq!(poll, Poll::Seen);
        assert_eq!(time.yields.get(), 2);
        // It paid: the next poll needs no sleep.
        assert_eq!(policy.poll(&time, || true), Poll::Seen);
    }

    #[test]
    fn polls_in_vain_get_rare_and_end() {
        let (mut policy, time) = (busy_poll(), fake(0));
        let mut sleeps = 0;
        let mut before_looks = Vec::new();
        while before_looks.len() < 9 {
            sleep(&mut policy, &time, 1);
            sleeps += 1;
            let mut looked = false;
            let start = time.now.get();
            let poll = policy.poll(&time, || {
                looked = true;
                false
            });
            assert_eq!(poll, Poll::Over);
            if looked {
                assert!(time.now.get() - start < POLL_NS + 10 * MICROSECOND);
                before_looks.push(core::mem::take(&mut sleeps));
            }
        }
        assert_eq!(before_looks, [1, 1, 2, 4, 8, 16, 32, 64, 64]);
    }

    #[test]
    fn others_come_first() {
        let (mut policy, time) = (busy_poll(), fake(OTHERS_NS));
        sleep(&mut policy, &time, 1);
        let mut looks = 0;
        let mut poll = || {
            policy.poll(&time, || {
                looks += 1;
                false
            })
        };
        assert_eq!(poll(), Poll::Interrupted);
        assert_eq!(time.yields.get(), 1);
        // The poll ends when it would have ended without the interruption.
        while poll() == Poll::Interrupted {}
        assert!(time.now.get() < POLL_NS + 2 * OTHERS_NS + 10 * MICROSECOND);
        assert_eq!(looks, (POLLS + 1) * time.yields.get() as u32 + POLLS);
        assert_eq!((policy.end, policy.sleeps_left), (None, 1));
    }

    #[test]
    fn what_came_while_others_ran_is_seen() {
        let (mut policy, time) = (busy_poll(), fake(OTHERS_NS));
        sleep(&mut policy, &time, 1);
        assert_eq!(policy.poll(&time, || time.yields.get() > 0), Poll::Seen);
    }

    #[test]
    fn a_program_with_an_answer_runs_unless_others_compute() {
        let (mut policy, time) = (busy_poll(), fake(OTHERS_NS));
        policy.after_answer(&time);
        policy.after_answer(&time);
        assert_eq!(time.yields.get(), 2);
        let time = fake(TURN_NS);
        policy.after_answer(&time);
        policy.after_answer(&time);
        assert_eq!(time.yields.get(), 1);
        // Until it has slept.
        sleep(&mut policy, &time, OTHERS_NS);
        policy.after_answer(&time);
        assert_eq!(time.yields.get(), 2);
    }

    #[test]
    fn beside_programs_that_compute_it_sleeps_before_it_polls_again() {
        let (mut policy, time) = (busy_poll(), fake(TURN_NS));
        sleep(&mut policy, &time, 1);
        assert_eq!(policy.poll(&time, || time.yields.get() > 0), Poll::Seen);
        assert_eq!(policy.poll(&time, || panic!("polled")), Poll::Over);
        // There was work already, so it did not sleep.
        sleep(&mut policy, &time, 0);
        assert_eq!(policy.poll(&time, || panic!("polled")), Poll::Over);
        sleep(&mut policy, &time, OTHERS_NS);
        assert_eq!(policy.poll(&time, || true), Poll::Seen);
    }
}
