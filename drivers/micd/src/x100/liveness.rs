//! The liveness of a card's system, from its heartbeat, or from probes where it has none.

use scif_abi::limits::LinkTiming;

/// Probes in a row that a system without a heartbeat leaves unanswered before its link fails.
pub(super) const PROBES: u32 = 3;

/// The liveness of the system behind a connected link. Times are in nanoseconds.
#[derive(Default)]
pub(super) struct Liveness {
    /// The last heartbeat that was read; 0: the system has shown none so far.
    beats: u64,
    beat_at: u64,
    /// When a system without a heartbeat is probed next.
    probe_at: u64,
    /// Messages that had come from the system at the last probe, and the probes since then.
    messages: u64,
    unanswered: u32,
}

/// Nanoseconds between two probes.
fn interval(timing: LinkTiming) -> u64 {
    timing.silence_ns / u64::from(PROBES)
}

impl Liveness {
    /// Starts watching a system whose link is connected: nothing is known yet.
    pub fn start(&mut self, now: u64, timing: LinkTiming) {
        *self = Self {
            beat_at: now,
            ..Self::default()
        };
        self.restart_probes(now, timing);
    }

    /// Restarts the probes: those so far do not count, as they were too far apart or too close
    /// together.
    pub fn restart_probes(&mut self, now: u64, timing: LinkTiming) {
        self.unanswered = 0;
        self.probe_at = now.saturating_add(interval(timing));
    }

    /// Records the heartbeat that was read at `now`.
    pub fn beat(&mut self, now: u64, beats: u64) {
        if beats != self.beats {
            self.beats = beats;
            self.beat_at = now;
        }
    }

    /// Whether the system had a heartbeat, and has been without one for too long.
    pub fn is_silent(&self, now: u64, timing: LinkTiming) -> bool {
        self.beats != 0 && now.saturating_sub(self.beat_at) > timing.silence_ns
    }

    /// Whether to probe the system now. If so, the next probe is due one interval later.
    pub fn take_probe(&mut self, now: u64, timing: LinkTiming) -> bool {
        let is_due = self.probe_deadline().is_some_and(|due| due <= now);
        if is_due {
            self.probe_at = now.saturating_add(interval(timing));
        }
        is_due
    }

    /// When the next probe is due; `None` when the heartbeat is used instead.
    pub fn probe_deadline(&self) -> Option<u64> {
        (self.beats == 0).then_some(self.probe_at)
    }

    /// Records a probe, sent after `messages` had come from the system. Returns whether too many
    /// probes had no answer.
    pub fn probed(&mut self, messages: u64) -> bool {
        if messages != self.messages {
            (self.messages, self.unanswered) = (messages, 0);
            return false;
        }
        self.unanswered += 1;
        self.unanswered >= PROBES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: LinkTiming = LinkTiming {
        heartbeat_ns: 10,
        silence_ns: 300,
    };

    #[test]
    fn a_heartbeat_makes_probes_needless() {
        let mut liveness = Liveness::default();
        liveness.start(1000, TIMING);
        assert_eq!(liveness.probe_deadline(), Some(1100));
        assert!(!liveness.take_probe(1099, TIMING) && liveness.take_probe(1100, TIMING));
        assert_eq!(liveness.probe_deadline(), Some(1200));
        liveness.beat(1150, 1);
        assert!(!liveness.take_probe(1200, TIMING));
        liveness.beat(1450, 1);
        assert!(!liveness.is_silent(1450, TIMING) && liveness.is_silent(1451, TIMING));
    }

    #[test]
    fn probes_without_answer_count_in_a_row() {
        let mut liveness = Liveness::default();
        liveness.start(0, TIMING);
        let probes = [(0, false), (0, false), (7, false), (7, false), (7, false)];
        for (messages, is_over) in probes {
            assert_eq!(liveness.probed(messages), is_over);
        }
        assert!(liveness.probed(7));
        liveness.restart_probes(500, TIMING);
        assert!(!liveness.probed(7));
        assert_eq!(liveness.probe_deadline(), Some(600));
    }
}
