//! When to restart a daemon that ended: at once, then after ever longer pauses, and not any more
//! once it has ended too often. And which of several daemons is the next to be started.

use alloc::collections::VecDeque;
use core::time::Duration;

/// Number of ends within [`WINDOW`] that are too many.
pub const LIMIT: usize = 12;
/// The time in which ends are counted.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Pause after the second end within the window; each further end doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Pause after an attempt for which the system had no memory or no process.
const SHORTAGE_PAUSE: Duration = Duration::from_secs(1);

/// The state of a daemon. Times are those of any clock that only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Runs,
    /// It is to be started at this time, or later if one that it depends on does not run yet.
    Waits(Duration),
    /// It stays ended.
    Ended,
}

/// What to do about a daemon, given by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Start it.
    Start(usize),
    /// Do not wait any more: one that it depends on stays ended.
    GiveUp(usize),
}

/// Finds the first daemon that can be started at `now`, or has to be given up. The daemons come as
/// their scripts and states; each depends on those before it in the same script.
pub fn next<'a>(
    daemons: impl Iterator<Item = (&'a str, State)> + Clone,
    now: Duration,
) -> Option<Turn> {
    daemons
        .clone()
        .enumerate()
        .find_map(|(place, (script, state))| {
            let mut before = daemons.clone().take(place).filter(|(of, _)| *of == script);
            match state {
                State::Waits(due) if due <= now => {
                    if before.clone().any(|(_, state)| state == State::Ended) {
                        return Some(Turn::GiveUp(place));
                    }
                    let ready = before.all(|(_, state)| state == State::Runs);
                    ready.then_some(Turn::Start(place))
                }
                _ => None,
            }
        })
}

/// The ends of a daemon within the window.
#[derive(Debug, Default)]
pub struct Deaths {
    times: VecDeque<Duration>,
}

impl Deaths {
    /// Returns the state of a daemon whose start has failed at `now`. That is an end of the daemon
    /// unless it was for a `shortage` of the system, which is not its fault and may pass.
    pub fn failed(&mut self, now: Duration, shortage: bool) -> State {
        if shortage {
            return State::Waits(now + SHORTAGE_PAUSE);
        }
        self.add(now)
            .map_or(State::Ended, |pause| State::Waits(now + pause))
    }

    /// Notes that the daemon ended at `now`. Returns the pause before it is restarted; `None` if
    /// it has ended [`LIMIT`] times within [`WINDOW`].
    pub fn add(&mut self, now: Duration) -> Option<Duration> {
        self.times.push_back(now);
        while self.times.front().is_some_and(|&time| time + WINDOW <= now) {
            self.times.pop_front();
        }
        match self.times.len() {
            LIMIT.. => None,
            ..2 => Some(Duration::ZERO),
            ends => Some((FIRST_PAUSE * (1 << (ends - 2))).min(LONGEST_PAUSE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_get_longer_until_it_is_given_up() {
        let mut deaths = Deaths::default();
        let pauses: [_; LIMIT] = core::array::from_fn(|second| {
            let now = Duration::from_secs(second as u64);
            deaths.add(now).map(|pause| pause.as_millis())
        });
        assert_eq!(pauses[..4], [Some(0), Some(50), Some(100), Some(200)]);
        assert_eq!(pauses[LIMIT - 2..], [Some(2000), None]);
    }

    #[test]
    fn a_shortage_is_no_end() {
        let mut deaths = Deaths::default();
        for second in 0..1000 {
            let now = Duration::from_secs(second);
            let later = State::Waits(now + SHORTAGE_PAUSE);
            assert_eq!(deaths.failed(now, true), later);
        }
        let now = Duration::from_secs(1000);
        assert_eq!(deaths.failed(now, false), State::Waits(now));
        for _ in 2..LIMIT {
            assert!(matches!(deaths.failed(now, false), State::Waits(_)));
        }
        assert_eq!(deaths.failed(now, false), State::Ended);
        assert!(matches!(deaths.failed(now, true), State::Waits(_)));
    }

    #[test]
    fn daemons_start_when_they_are_due_behind_those_they_depend_on() {
        use State::{Ended, Runs, Waits};
        let second = Duration::from_secs(1);
        let turn = |states: [State; 3], now| next(["a", "a", "b"].into_iter().zip(states), now);
        assert_eq!(turn([Runs, Runs, Ended], second), None);
        assert_eq!(turn([Runs, Runs, Waits(second)], Duration::ZERO), None);
        assert_eq!(
            turn([Runs, Runs, Waits(second)], second),
            Some(Turn::Start(2))
        );
        let now = Waits(Duration::ZERO);
        assert_eq!(turn([now, now, now], second), Some(Turn::Start(0)));
        assert_eq!(turn([Runs, now, now], second), Some(Turn::Start(1)));
        // The second one waits for the first, the one of another script does not.
        assert_eq!(turn([Waits(2 * second), now, Runs], second), None);
        assert_eq!(
            turn([Waits(2 * second), now, now], second),
            Some(Turn::Start(2))
        );
        assert_eq!(turn([Ended, now, Runs], second), Some(Turn::GiveUp(1)));
    }

    #[test]
    fn ends_of_long_ago_do_not_count() {
        let mut deaths = Deaths::default();
        for minute in 0..100 {
            assert_eq!(deaths.add(WINDOW * minute), Some(Duration::ZERO));
        }
        let last = WINDOW * 99;
        assert_eq!(deaths.add(last + WINDOW / 2), Some(FIRST_PAUSE));
        assert_eq!(deaths.add(last + WINDOW), Some(FIRST_PAUSE));
    }
}
