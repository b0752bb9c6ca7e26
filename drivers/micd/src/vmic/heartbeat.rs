//! The heartbeats of a link: ours, and for how long the peer has had none.

use hal::mem::{BoundsError, Region};
use scif_abi::limits::LinkTiming;
use scif_abi::link::heartbeat_offset;

/// Doorbells to a silent peer before its link fails: its heartbeat goes by its own clock, which may
/// lose time, as that of an emulated machine under load does, but it beats at every doorbell too.
const PROBES: u64 = 3;

/// Both heartbeats of a link, which are words of its memory.
#[derive(Debug)]
pub struct Heartbeat {
    own: usize,
    beats: u64,
    peer_beats: u64,
    /// Nanoseconds of watching without a beat of the peer.
    silent_ns: u64,
}

impl Heartbeat {
    /// Goes on with the heartbeat of the side `own`, where an earlier incarnation of it ended.
    ///
    /// # Errors
    /// The memory is too short.
    pub fn new(memory: &Region, own: usize) -> Result<Self, BoundsError> {
        Ok(Self {
            own,
            beats: memory.read::<u64>(heartbeat_offset(own))?,
            peer_beats: 0,
            silent_ns: 0,
        })
    }

    /// Shows the peer that this side lives.
    pub fn beat(&mut self, memory: &Region) {
        self.beats = self.beats.wrapping_add(1);
        let beaten = memory.store_release_u64(heartbeat_offset(self.own), self.beats);
        debug_assert!(beaten.is_ok());
    }

    /// Checks for a beat of the peer in the time that has passed, in nanoseconds. A late check
    /// counts as one in time: while this machine stood still the peer may have as well, as when
    /// both are guests of one host. Returns whether a silent peer is due to be rung.
    pub fn listen(&mut self, memory: &Region, passed: u64, timing: LinkTiming) -> bool {
        let beats = memory.load_acquire_u64(heartbeat_offset(1 - self.own));
        if let Ok(beats) = beats
            && beats != self.peer_beats
        {
            self.peer_beats = beats;
            self.silent_ns = 0;
            return false;
        }
        let watched = passed.min(timing.heartbeat_ns);
        let interval = (timing.silence_ns / (PROBES + 1)).max(1);
        let probes = |silent_ns: u64| silent_ns / interval;
        let sent = probes(self.silent_ns);
        self.silent_ns = self.silent_ns.saturating_add(watched);
        probes(self.silent_ns) > sent
    }

    /// The peer has shown that it lives by something else than a beat.
    pub fn restart(&mut self) {
        self.silent_ns = 0;
    }

    /// Whether the peer has had no beat for too long.
    pub fn is_silent(&self, timing: LinkTiming) -> bool {
        self.silent_ns > timing.silence_ns
    }
}
