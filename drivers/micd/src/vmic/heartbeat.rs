//! The heartbeats of a link: this side's beats, and how long the peer has had none.

use hal::mem::{BoundsError, Region};
use scif_abi::limits::LinkTiming;
use scif_abi::link::heartbeat_offset;

/// Doorbells to a silent peer before its link fails. The peer's heartbeat follows its own clock,
/// which may lose time, as that of an emulated machine under load does; but it also beats at every
/// doorbell.
const PROBES: u64 = 3;

/// Both heartbeats of a link, which are words of the link memory.
#[derive(Debug)]
pub struct Heartbeat {
    own: usize,
    beats: u64,
    peer_beats: u64,
    /// Nanoseconds of watching without a beat from the peer.
    silent_ns: u64,
}

impl Heartbeat {
    /// Continues the heartbeat of the side `own` where its earlier incarnation ended.
    ///
    /// # Errors
    /// When the memory is too short.
    pub fn new(memory: &Region, own: usize) -> Result<Self, BoundsError> {
        Ok(Self {
            own,
            beats: memory.read::<u64>(heartbeat_offset(own))?,
            peer_beats: 0,
            silent_ns: 0,
        })
    }

    /// Shows the peer that this side is alive.
    pub fn beat(&mut self, memory: &Region) {
        self.beats = self.beats.wrapping_add(1);
        let beaten = memory.store_release_u64(heartbeat_offset(self.own), self.beats);
        debug_assert!(beaten.is_ok());
    }

    /// Checks for a beat of the peer in the time that has `passed`, in nanoseconds. A late check
    /// counts as a timely one: while this machine stood still, the peer may have stood still, too,
    /// for example when both are guests of one host. Returns whether it is time to ring a silent
    /// peer.
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

    /// Records that the peer has shown by something else than a beat that it is alive.
    pub fn restart(&mut self) {
        self.silent_ns = 0;
    }

    /// Whether the peer has been silent for too long.
    pub fn is_silent(&self, timing: LinkTiming) -> bool {
        self.silent_ns > timing.silence_ns
    }
}
