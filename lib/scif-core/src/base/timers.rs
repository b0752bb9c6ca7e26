//! Timers: all time-outs of an engine, in one queue.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use scif_abi::NodeId;

use super::ids::ConnectionId;

/// A time-out. Those that are due at the same time expire in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The peer has not answered in a phase of a connection's handshake.
    Handshake(ConnectionId),
    /// The connector of a queued request may have given up.
    RequestExpiry,
    /// A peer has not answered a message about windows or fences.
    Response,
    /// A link has unread messages, retries a full ring, or waits for the end of EXIT.
    Link(NodeId),
    /// Retry a ring that a client had locked.
    RingRetry(ConnectionId),
    /// Poll the copies of clients for which windows that end wait.
    Quiesce,
    /// Notify peers that wait for room of any room, however little.
    CreditUpdate,
    /// Let senders to peers of the base protocol continue with any room, however little.
    CreditGrowth,
}

/// The running timers, by time (ns). Each runs at most once.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(u64, Timer)>,
    expiry: BTreeMap<Timer, u64>,
}

impl Timers {
    /// Starts a timer, or moves it.
    pub(crate) fn set(&mut self, timer: Timer, at: u64) {
        if let Some(old) = self.expiry.insert(timer, at) {
            self.queue.remove(&(old, timer));
        }
        self.queue.insert((at, timer));
    }

    /// Starts a timer. If it runs already, it expires at the earlier of the two times.
    pub(crate) fn set_earliest(&mut self, timer: Timer, at: u64) {
        if self.get(timer).is_none_or(|old| at < old) {
            self.set(timer, at);
        }
    }

    /// Stops a timer, if it runs.
    pub(crate) fn clear(&mut self, timer: Timer) {
        if let Some(old) = self.expiry.remove(&timer) {
            self.queue.remove(&(old, timer));
        }
    }

    /// When a timer expires; `None`: it does not run.
    pub(crate) fn get(&self, timer: Timer) -> Option<u64> {
        self.expiry.get(&timer).copied()
    }

    /// The timers that have expired by `now`, in order. They run on until
    /// [`expire`](Self::expire).
    pub(crate) fn due(&self, now: u64) -> Vec<Timer> {
        let due = self.queue.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, timer)| *timer).collect()
    }

    /// Stops a timer if it has expired by `now`. Returns whether it had.
    pub(crate) fn expire(&mut self, timer: Timer, now: u64) -> bool {
        let has_expired = self.get(timer).is_some_and(|at| at <= now);
        if has_expired {
            self.clear(timer);
        }
        has_expired
    }

    /// When the next timer expires.
    pub(crate) fn next(&self) -> Option<u64> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// The connections in whose handshake a timer runs.
    pub(crate) fn handshakes(&self) -> impl Iterator<Item = ConnectionId> {
        self.expiry.keys().filter_map(|timer| match timer {
            Timer::Handshake(id) => Some(*id),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Timer, Timers};
    use alloc::vec;

    #[test]
    fn timers_expire_in_time_and_once() {
        let mut timers = Timers::default();
        timers.set(Timer::Quiesce, 30);
        timers.set(Timer::Response, 10);
        timers.set(Timer::Response, 20);
        timers.set_earliest(Timer::Link(1), 20);
        timers.set_earliest(Timer::Link(1), 25);
        timers.set(Timer::CreditUpdate, 5);
        timers.clear(Timer::CreditUpdate);
        assert_eq!((timers.next(), timers.due(19)), (Some(20), vec![]));
        assert_eq!(timers.due(20), [Timer::Response, Timer::Link(1)]);
        assert!(!timers.expire(Timer::Response, 19));
        assert!(timers.expire(Timer::Response, 20));
        assert!(!timers.expire(Timer::Response, 20));
        assert!(timers.expire(Timer::Link(1), 20));
        timers.set_earliest(Timer::Quiesce, 25);
        assert_eq!(timers.get(Timer::Quiesce), Some(25));
        assert!(timers.expire(Timer::Quiesce, u64::MAX));
        assert_eq!(timers.next(), None);
    }
}
