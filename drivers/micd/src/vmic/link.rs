//! The state machine of a link between virtual machines. Two nodes exchange the addresses of their
//! queue pairs through the link memory, and each notices when the other starts, restarts, hangs or
//! leaves. Memory and time are arguments, so tests run both sides against each other without a
//! device or a clock.
//!
//! ```text
//! Detached --Attach--> Published --peer may be bound--> Bound --peer is bound to us--> Connected
//!    ^                     |                              |                               |
//!    +------ Detach -------+---- peer's incarnation is another one, or it is absent ------+
//!                                                         ^                               |
//!                     Stopped (link failed) --------------+<-- link_failed, silence (Fail) --+
//! ```
//!
//! Our record promises that this node no longer writes to the peer's memory. That includes
//! everything that programs have mapped. So the caller cuts the aperture off before
//! [`Link::link_failed`], [`Link::leave`], and [`Link::done`] (except for the outcome of a queue
//! pair that was attached, or is usable).
//!
//! A link that the fabric has cut ([`link::HEADER_DOWN`]) is handled like one with a silent peer:
//! it fails, and no side binds until the fabric has mended it.

use hal::mem::{BoundsError, PAGE, Region, full_fence};
use scif_abi::NodeId;
use scif_abi::limits::LinkTiming as Timing;
use scif_abi::link::{
    self, Header, RECORD_GENERATION, RECORD_PEER_GENERATION, RECORD_STATE, Record, STATE_ABSENT,
    STATE_READY, STATE_STOPPED,
};
use scif_core::DownReason;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::heartbeat::Heartbeat;
use crate::function::{LinkStep, Outcome};

/// Nanoseconds until this side requests a queue pair again after there was no memory for one.
const ATTACH_RETRY_NS: u64 = 1_000_000_000;

/// The least time between two queue pairs, in nanoseconds. A peer that changes its record all the
/// time cannot keep this side busy with making new ones.
const ATTACH_INTERVAL_NS: u64 = 100_000_000;

/// The interrupt vector with which the peer rings this side; no other is in use.
const DOORBELL_VECTOR: u32 = 0;

/// The start of the unused part of the link memory: after the records, at a page boundary.
const SPARE_OFFSET: usize = link::MIN_LINK_BYTES.next_multiple_of(PAGE);

/// This side's state of the link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// No queue pair; this side requests one at the time `since`.
    Detached { since: u64 },
    /// [`LinkStep::Attach`] was requested.
    Attaching,
    /// Our queue pair is published, but not yet for any peer.
    Published,
    /// Our queue pair belongs to this incarnation of the peer.
    Bound { peer: u32 },
    /// [`LinkStep::Connect`] was requested.
    Connecting { peer: u32 },
    /// [`LinkStep::Fail`] was requested.
    Failing { peer: u32 },
    /// [`LinkStep::Detach`] was requested.
    Detaching,
    /// Both sides use each other's queue pair.
    Connected { peer: u32 },
    /// The link has failed; the peer has not noticed yet.
    Stopped { peer: u32 },
    /// This node has left.
    Left,
}

/// One side's view of a link.
#[derive(Debug)]
pub struct Link {
    memory: Region,
    own: usize,
    state: State,
    generation: u32,
    timing: Timing,
    /// The records as they were when this side started.
    found: Found,
    now: u64,
    next_check: u64,
    next_attach: u64,
    heartbeat: Heartbeat,
    /// Whether our record has changed since the peer was rung.
    announce: bool,
}

/// The generations of the records when this side started.
#[derive(Clone, Copy, Debug)]
struct Found {
    own: u32,
    peer: u32,
}

/// Why a region of memory is not a link of this node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotALink {
    /// There is no header, or its values do not fit this node.
    Header,
    /// The memory is too short.
    Short,
}

impl From<BoundsError> for NotALink {
    fn from(_: BoundsError) -> Self {
        NotALink::Short
    }
}

impl Link {
    /// The link in `memory` as node `node` sees it, and the peer's number. Withdraws whatever an
    /// earlier incarnation of this side has published.
    pub fn new(memory: Region, node: NodeId) -> Result<(Self, NodeId), NotALink> {
        if memory.len() < link::MIN_LINK_BYTES {
            return Err(NotALink::Short);
        }
        let mut header = Header::new_zeroed();
        memory.read_bytes(0, header.as_mut_bytes())?;
        let (own, peer) = header.side_of(node).ok_or(NotALink::Header)?;
        let place = link::record_offset(own);
        memory.store_release_u32(place + RECORD_STATE, STATE_ABSENT)?;
        let generation = memory.read::<u32>(place + RECORD_GENERATION)?;
        // Read the peer's record after ours is withdrawn: whatever the peer publishes from now on
        // does not refer to our earlier memory.
        full_fence();
        let other = link::record_offset(1 - own);
        let found = Found {
            own: generation,
            peer: memory.read::<u32>(other + RECORD_GENERATION)?,
        };
        let heartbeat = Heartbeat::new(&memory, own)?;
        let link = Self {
            memory,
            own,
            state: State::Detached { since: 0 },
            generation,
            timing: Timing::default(),
            found,
            now: 0,
            next_check: 0,
            next_attach: 0,
            heartbeat,
            announce: true,
        };
        Ok((link, peer))
    }

    /// This side's half of the unused memory behind the records, for any use. `None` when there is
    /// none.
    pub fn spare(&self) -> Option<Region> {
        let bytes = self.memory.len().checked_sub(SPARE_OFFSET)? / 2;
        let bytes = bytes - bytes % PAGE;
        self.memory
            .part(SPARE_OFFSET + self.own * bytes, bytes)
            .ok()
    }

    /// Whether the peer should be rung because our record changed. The call clears this.
    pub fn take_announcement(&mut self) -> bool {
        core::mem::take(&mut self.announce)
    }

    /// The latest time at which [`step`](Self::step) must be called.
    pub fn deadline(&self) -> u64 {
        match self.state {
            State::Detached { since } => self.next_check.min(since),
            _ => self.next_check,
        }
    }

    /// The doorbell that the peer listens to.
    pub fn peer_doorbell(&self) -> u32 {
        self.peer_record().doorbell.get()
    }

    fn own_place(&self) -> usize {
        link::record_offset(self.own)
    }

    /// The peer's record, copied once. If the record changes during the copy, the peer counts as
    /// absent. A record with a new generation is a new incarnation of the peer, so a change that
    /// is missed here is noticed at the next check.
    fn peer_record(&self) -> Record {
        self.whole_peer_record().unwrap_or(Record::new_zeroed())
    }

    /// The peer's record; `None` when it changed during the copy.
    fn whole_peer_record(&self) -> Option<Record> {
        let place = link::record_offset(1 - self.own);
        let copy = |bytes: &mut [u8]| self.memory.read_bytes(place, bytes).ok();
        whole_record(&self.memory, place, copy)
    }

    /// Whether the peer no longer writes to the memory of previous drivers on this side: it is
    /// absent or stopped, has restarted since this driver started, or is bound to no driver or to
    /// this one.
    pub fn predecessor_is_quiesced(&self) -> bool {
        let Some(peer) = self.whole_peer_record() else {
            return false;
        };
        let bound_to = peer.peer_generation.get();
        let ours = self.generation != self.found.own && bound_to == self.generation;
        peer.state.get() != STATE_READY
            || peer.generation.get() != self.found.peer
            || bound_to == 0
            || ours
    }

    /// Stores a word of our record. It cannot fail, as `new` has checked the length of the memory.
    fn publish_word(&mut self, offset: usize, value: u32) {
        let stored = self
            .memory
            .store_release_u32(self.own_place() + offset, value);
        debug_assert!(stored.is_ok());
        self.announce = true;
    }

    /// The next step; see [`MicFunction::step`](crate::function::MicFunction::step).
    pub fn step(&mut self, now: u64) -> Option<LinkStep> {
        let passed = now.saturating_sub(self.now);
        self.now = now;
        if now >= self.next_check {
            self.next_check = now.saturating_add(self.timing.heartbeat_ns);
        }
        // Beats at doorbells, too, as the peer may be probing.
        self.heartbeat.beat(&self.memory);
        let peer = self.peer_record();
        let is_down = self.is_down();
        let is_due = self.heartbeat.listen(&self.memory, passed, self.timing);
        self.announce |= is_due && self.is_connected();
        let is =
            |generation| peer.state.get() == STATE_READY && peer.generation.get() == generation;
        match self.state {
            State::Detached { since } if since <= now => {
                self.next_attach = now.saturating_add(ATTACH_INTERVAL_NS);
                self.state = State::Attaching;
                Some(LinkStep::Attach)
            }
            State::Published if peer.may_bind(self.generation) && !is_down => {
                let generation = peer.generation.get();
                self.publish_word(RECORD_PEER_GENERATION, generation);
                self.state = State::Bound { peer: generation };
                self.step(now)
            }
            State::Bound { peer: bound } if !is(bound) => self.detach(),
            State::Bound { peer: bound } if peer.is_bound_to(self.generation) && !is_down => {
                self.state = State::Connecting { peer: bound };
                Some(LinkStep::Connect {
                    queue_pair: peer.queue_pair.get(),
                })
            }
            State::Connected { peer: bound } if !is(bound) => self.detach(),
            State::Connected { peer: bound }
                if is_down || self.heartbeat.is_silent(self.timing) =>
            {
                let reason = match is_down {
                    true => DownReason::Cut,
                    false => DownReason::Silent,
                };
                self.state = State::Failing { peer: bound };
                Some(LinkStep::Fail { reason })
            }
            State::Stopped { peer: bound } if !is(bound) => self.detach(),
            _ => None,
        }
    }

    /// Whether the fabric has cut the link.
    fn is_down(&self) -> bool {
        self.memory.load_acquire_u32(link::HEADER_DOWN) != Ok(0)
    }

    /// Ends the link, because the peer can no longer reach us through the old queue pair.
    fn detach(&mut self) -> Option<LinkStep> {
        self.state = State::Detaching;
        Some(LinkStep::Detach)
    }

    /// Takes the outcome of a step; see [`MicFunction::done`](crate::function::MicFunction::done).
    pub fn done(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Attached { queue_pair } => self.attached(queue_pair),
            Outcome::Connected { is_usable } => self.connected(is_usable),
            Outcome::Failed => self.failed(),
            Outcome::Detached => self.detached(),
            // Never requested: the record has a heartbeat.
            Outcome::Probed { .. } => {}
        }
    }

    fn detached(&mut self) {
        if self.state == State::Detaching {
            self.publish_word(RECORD_STATE, STATE_ABSENT);
            let since = self.now.max(self.next_attach);
            self.state = State::Detached { since };
        }
    }

    fn failed(&mut self) {
        if let State::Failing { peer } = self.state {
            self.stop(peer);
        }
    }

    /// Stops publishing, because the peer's memory cannot be cut off. The peer then considers this
    /// node hung, and keeps the memory to which programs here may write.
    pub fn stop_publishing(&mut self) {
        self.state = State::Left;
    }

    /// Publishes that this side no longer writes to the peer's memory.
    fn stop(&mut self, peer: u32) {
        self.publish_word(RECORD_STATE, STATE_STOPPED);
        self.state = State::Stopped { peer };
    }

    /// Sets the time between two checks, and the time to wait for a heartbeat.
    pub fn set_timing(&mut self, timing: Timing) {
        if timing != self.timing {
            self.timing = timing;
            self.next_check = self.now;
        }
    }

    fn attached(&mut self, queue_pair: Option<u64>) {
        if self.state != State::Attaching {
            return;
        }
        let Some(queue_pair) = queue_pair else {
            self.state = State::Detached {
                since: self.now.saturating_add(ATTACH_RETRY_NS),
            };
            return;
        };
        self.generation = self.generation.wrapping_add(1).max(1);
        let mut record = Record::new_zeroed();
        record.generation = self.generation.into();
        record.doorbell = DOORBELL_VECTOR.into();
        record.queue_pair = queue_pair.into();
        // The state stays absent until the rest of the record is written.
        let written = self.memory.write_bytes(self.own_place(), record.as_bytes());
        debug_assert!(written.is_ok());
        self.publish_word(RECORD_STATE, STATE_READY);
        self.state = State::Published;
    }

    fn connected(&mut self, is_usable: bool) {
        let State::Connecting { peer } = self.state else {
            return;
        };
        if is_usable {
            self.heartbeat.restart();
            self.state = State::Connected { peer };
        } else {
            // The peer may already have used our queue pair: restart once it has seen the stop.
            self.stop(peer);
        }
    }

    /// Whether both sides use each other's queue pair.
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected { .. })
    }

    /// Stops the link after the engine has given it up.
    pub fn link_failed(&mut self) {
        if let State::Connected { peer } = self.state {
            self.stop(peer);
        }
    }

    /// Publishes that this node has left.
    pub fn leave(&mut self) {
        self.publish_word(RECORD_STATE, STATE_ABSENT);
        self.state = State::Left;
    }
}

/// Copies the record at a place of the link memory by `copy`; `None` if it changed meanwhile.
fn whole_record(
    memory: &Region,
    place: usize,
    copy: impl FnOnce(&mut [u8]) -> Option<()>,
) -> Option<Record> {
    // The state is stored last and loaded first, so the rest is not older than it. A side that has
    // restarted meanwhile has the same state, but another generation. All accesses are inside the
    // memory, whose length was checked.
    let load = |offset| memory.load_acquire_u32(place + offset).ok();
    let look = || Some([load(RECORD_STATE)?, load(RECORD_GENERATION)?]);
    let before = look()?;
    let mut bytes = [0; size_of::<Record>()];
    copy(&mut bytes)?;
    let record = Record::read_from_bytes(&bytes).ok()?;
    full_fence();
    let copied = [record.state.get(), record.generation.get()];
    (copied == before && look()? == before).then_some(record)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
