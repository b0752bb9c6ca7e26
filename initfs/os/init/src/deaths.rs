//! When to restart a daemon that ended: at once, then after ever longer pauses, and not any more
//! once it has ended too often.

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

/// The ends of a daemon within the window.
#[derive(Debug, Default)]
pub struct Deaths {
    times: VecDeque<Duration>,
}

impl Deaths {
    /// Notes that the daemon ended at `now`, by any clock that only goes forward. Returns the
    /// pause before it is restarted; `None` if it has ended [`LIMIT`] times within [`WINDOW`].
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
