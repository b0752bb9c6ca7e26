//! Two sides of a link against each other: every way in which a side comes, restarts, hangs,
//! leaves or misbehaves. Whenever a side takes its memory back, the peer must be unable to write
//! to it.

use alloc::vec::Vec;

use hal::mem::{PAGE, Region};
use scif_abi::link::{
    HEADER_DOWN, Header, RECORD_GENERATION, RECORD_PEER_GENERATION, RECORD_STATE, Record,
    STATE_ABSENT, STATE_READY, STATE_STOPPED, record_offset,
};
use scif_core::DownReason;
use zerocopy::{FromZeros, IntoBytes};

use super::{Link, NotALink, Timing, whole_record};
use crate::function::{LinkStep, Outcome};

const LOOK_INTERVAL_NS: u64 = 1_000_000_000;
const SILENCE_NS: u64 = 30_000_000_000;

/// One side, with what its engine would do.
struct Side {
    link: Link,
    /// This side's queue pair, if there is one.
    queue_pair: Option<u64>,
    /// The peer's queue pair to which this side writes, if it does.
    writes_to: Option<u64>,
    history: Vec<LinkStep>,
    alive: bool,
}

struct Fixture {
    memory: Region,
    sides: [Option<Side>; 2],
    now: u64,
    /// Queue pairs are numbered, so that an old one is never taken for a new one.
    queue_pairs: u64,
}

impl Fixture {
    fn new() -> Self {
        let memory = Region::heap(4096);
        memory
            .write_bytes(0, Header::new([0, 5]).as_bytes())
            .unwrap();
        Self {
            memory,
            sides: [None, None],
            now: 0,
            queue_pairs: 0x1000,
        }
    }

    /// Starts a machine and its driver.
    fn boot(&mut self, side: usize) {
        let (link, peer) = Link::new(self.memory.clone(), [0, 5][side]).unwrap();
        assert_eq!(peer, [5, 0][side]);
        let side_state = Side {
            link,
            queue_pair: None,
            writes_to: None,
            history: Vec::new(),
            alive: true,
        };
        self.sides[side] = Some(side_state);
    }

    /// Ends a machine, as the fabric server reports it.
    fn kill(&mut self, side: usize) {
        self.sides[side] = None;
        self.memory
            .write(record_offset(side) + RECORD_STATE, STATE_ABSENT)
            .unwrap();
    }

    fn turn(&mut self, index: usize) -> bool {
        let Some(side) = &mut self.sides[index] else {
            return false;
        };
        if !side.alive {
            return false;
        }
        let Some(step) = side.link.step(self.now) else {
            return false;
        };
        side.history.push(step);
        match step {
            LinkStep::Attach => {
                assert_eq!(side.queue_pair, None);
                self.queue_pairs += 1;
                side.queue_pair = Some(self.queue_pairs);
                side.link.done(Outcome::Attached {
                    queue_pair: side.queue_pair,
                });
            }
            LinkStep::Connect { queue_pair } => {
                assert_eq!(side.writes_to, None);
                side.writes_to = Some(queue_pair);
                side.link.done(Outcome::Connected { is_usable: true });
            }
            LinkStep::Fail { .. } => {
                side.writes_to = None;
                side.link.done(Outcome::Failed);
            }
            LinkStep::Probe => panic!("it has a heart"),
            LinkStep::Detach => {
                side.writes_to = None;
                side.link.done(Outcome::Detached);
                let freed = side.queue_pair.take();
                // The most important rule: no side writes to memory that its owner takes back.
                if let Some(other) = &self.sides[1 - index] {
                    assert!(other.writes_to.is_none() || other.writes_to != freed);
                }
            }
        }
        true
    }

    fn run_until_idle(&mut self) {
        for _ in 0..100 {
            self.now += LOOK_INTERVAL_NS / 10;
            self.turn(0);
            self.turn(1);
        }
    }

    fn connected(&self) -> bool {
        let [Some(a), Some(b)] = &self.sides else {
            return false;
        };
        a.writes_to.is_some() && a.writes_to == b.queue_pair && b.writes_to == a.queue_pair
    }

    fn pass(&mut self, nanoseconds: u64) {
        let end = self.now + nanoseconds;
        while self.now < end {
            self.now += LOOK_INTERVAL_NS;
            for index in [0, 1, 0, 1] {
                while self.turn(index) {}
            }
        }
    }
}

fn both() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.boot(0);
    fixture.boot(1);
    fixture.run_until_idle();
    assert!(fixture.connected());
    fixture
}

#[test]
fn two_sides_find_each_other() {
    let fixture = both();
    for side in fixture.sides.iter().flatten() {
        assert_eq!(side.history.len(), 2);
        assert_eq!(side.history[0], LinkStep::Attach);
    }
}

#[test]
fn a_late_side_is_found() {
    let mut fixture = Fixture::new();
    fixture.boot(1);
    fixture.pass(3 * SILENCE_NS);
    assert!(!fixture.connected());
    fixture.boot(0);
    fixture.run_until_idle();
    assert!(fixture.connected());
}

#[test]
fn a_machine_that_goes_is_noticed_and_found_again() {
    let mut fixture = both();
    fixture.kill(1);
    fixture.run_until_idle();
    let left = fixture.sides[0].as_ref().unwrap();
    assert_eq!(left.writes_to, None);
    assert!(left.history.contains(&LinkStep::Detach));
    fixture.boot(1);
    fixture.run_until_idle();
    assert!(fixture.connected());
}

#[test]
fn a_restart_between_two_looks_is_noticed() {
    let mut fixture = both();
    // The server's word is overwritten before a side sees it.
    fixture.sides[1] = None;
    fixture.boot(1);
    while fixture.turn(1) {}
    fixture.run_until_idle();
    assert!(fixture.connected());
    assert!(
        fixture.sides[0]
            .as_ref()
            .unwrap()
            .history
            .contains(&LinkStep::Detach)
    );
}

#[test]
fn a_queue_pair_that_an_earlier_incarnation_used_is_not_used_again() {
    // Side 1 restarts after every possible number of steps.
    for steps in 0..6 {
        let mut fixture = Fixture::new();
        fixture.boot(0);
        fixture.boot(1);
        for step in 0..steps {
            fixture.turn(step % 2);
        }
        let before = fixture.sides[1].as_ref().unwrap().writes_to;
        fixture.boot(1);
        fixture.run_until_idle();
        assert!(fixture.connected(), "restart after {steps} steps");
        if let Some(used) = before {
            assert_ne!(fixture.sides[0].as_ref().unwrap().queue_pair, Some(used));
        }
    }
}

#[test]
fn a_hung_side_is_lost_and_its_memory_kept() {
    let mut fixture = both();
    fixture.sides[1].as_mut().unwrap().alive = false;
    fixture.pass(2 * SILENCE_NS);
    let waiting = fixture.sides[0].as_ref().unwrap();
    let reason = DownReason::Silent;
    assert_eq!(waiting.history.last(), Some(&LinkStep::Fail { reason }));
    assert!(waiting.queue_pair.is_some() && waiting.writes_to.is_none());
    // It wakes up, sees that the link was given up, and both start anew.
    fixture.sides[1].as_mut().unwrap().alive = true;
    fixture.run_until_idle();
    assert!(fixture.connected());
}

/// The record changes only after the requested step was carried out.
#[test]
fn nothing_is_said_before_it_is_done() {
    let state = |fixture: &Fixture, side| -> u32 {
        fixture
            .memory
            .read(record_offset(side) + RECORD_STATE)
            .unwrap()
    };
    let mut fixture = both();
    fixture.kill(1);
    let side = fixture.sides[0].as_mut().unwrap();
    assert_eq!(side.link.step(fixture.now), Some(LinkStep::Detach));
    assert_eq!(side.link.step(fixture.now), None);
    assert_eq!(state(&fixture, 0), STATE_READY);
    fixture.sides[0]
        .as_mut()
        .unwrap()
        .link
        .done(Outcome::Detached);
    assert_eq!(state(&fixture, 0), STATE_ABSENT);
    let mut fixture = both();
    let side = fixture.sides[0].as_mut().unwrap();
    let reason = DownReason::Silent;
    let looks = 2 * SILENCE_NS / LOOK_INTERVAL_NS;
    let lost = (1..looks).find_map(|look| side.link.step(fixture.now + look * LOOK_INTERVAL_NS));
    assert_eq!(lost, Some(LinkStep::Fail { reason }));
    assert_eq!(state(&fixture, 0), STATE_READY);
    fixture.sides[0]
        .as_mut()
        .unwrap()
        .link
        .done(Outcome::Failed);
    assert_eq!(state(&fixture, 0), STATE_STOPPED);
}

/// A side whose programs may still reach the peer's memory must not claim otherwise.
#[test]
fn a_side_that_cannot_be_cut_off_is_as_one_that_hangs() {
    let mut fixture = both();
    fixture.sides[0].as_mut().unwrap().link.link_failed();
    fixture.sides[0].as_mut().unwrap().writes_to = None;
    let side = fixture.sides[1].as_mut().unwrap();
    assert_eq!(side.link.step(fixture.now), Some(LinkStep::Detach));
    side.link.stop_publishing();
    fixture.pass(3 * SILENCE_NS);
    assert!(fixture.sides[0].as_ref().unwrap().queue_pair.is_some());
    let record = record_offset(1) + RECORD_STATE;
    assert_eq!(fixture.memory.read(record), Ok(STATE_READY));
}

#[test]
fn a_cut_link_is_lost_on_both_sides_and_found_again() {
    let mut fixture = both();
    fixture.memory.write(HEADER_DOWN, 1_u32).unwrap();
    fixture.run_until_idle();
    let reason = DownReason::Cut;
    // The first side's record tells the other that the link was given up.
    assert!(
        fixture.sides[0]
            .as_ref()
            .unwrap()
            .history
            .contains(&LinkStep::Fail { reason })
    );
    assert!(
        fixture
            .sides
            .iter()
            .flatten()
            .all(|side| side.writes_to.is_none())
    );
    fixture.pass(3 * SILENCE_NS);
    assert!(!fixture.connected());
    for side in fixture.sides.iter().flatten() {
        // Each has seen that the other released its memory, and has taken it back.
        assert!(side.history.contains(&LinkStep::Detach));
    }
    fixture.memory.write(HEADER_DOWN, 0_u32).unwrap();
    fixture.run_until_idle();
    assert!(fixture.connected());
    // A cut that is over before the second side looks leaves both with a new link.
    fixture.memory.write(HEADER_DOWN, 1_u32).unwrap();
    fixture.turn(0);
    fixture.memory.write(HEADER_DOWN, 0_u32).unwrap();
    fixture.run_until_idle();
    assert!(fixture.connected());
    // A cut that neither side saw has no effect.
    let before: Vec<usize> = fixture
        .sides
        .iter()
        .flatten()
        .map(|s| s.history.len())
        .collect();
    fixture.memory.write(HEADER_DOWN, 1_u32).unwrap();
    fixture.memory.write(HEADER_DOWN, 0_u32).unwrap();
    fixture.run_until_idle();
    let after: Vec<usize> = fixture
        .sides
        .iter()
        .flatten()
        .map(|s| s.history.len())
        .collect();
    assert!(fixture.connected() && before == after);
}

/// Both machines may share a host that does not run them for a while.
#[test]
fn who_stood_still_itself_blames_nobody() {
    let mut fixture = both();
    for _ in 0..3 {
        fixture.now += 10 * SILENCE_NS;
        assert!(!fixture.turn(0));
        fixture.turn(1);
    }
    assert!(fixture.connected());
    // Silence counts all the same, for the time in which a side watched.
    fixture.sides[1].as_mut().unwrap().alive = false;
    fixture.now += 10 * SILENCE_NS;
    assert!(!fixture.turn(0));
    fixture.pass(SILENCE_NS);
    assert!(fixture.connected());
    fixture.pass(LOOK_INTERVAL_NS);
    assert!(!fixture.connected());
}

/// Passes time on side 0's clock only. Side 1 checks the link when it is rung, if it `answers`.
/// Returns how often it was rung.
fn pass_for_one(fixture: &mut Fixture, nanoseconds: u64, answers: bool) -> u32 {
    let (start, mut rung) = (fixture.now, 0);
    while fixture.now < start + nanoseconds {
        fixture.now += LOOK_INTERVAL_NS;
        fixture.turn(0);
        let [Some(own), Some(peer)] = &mut fixture.sides else {
            panic!("both are there");
        };
        if own.link.take_announcement() {
            rung += 1;
            if answers {
                assert_eq!(peer.link.step(start), None);
            }
        }
    }
    rung
}

#[test]
fn a_peer_whose_clock_stands_still_is_asked_and_answers() {
    let mut fixture = both();
    let is_changed = |side: &mut Side| side.link.take_announcement();
    assert!(fixture.sides.iter_mut().flatten().all(is_changed));
    let rung = pass_for_one(&mut fixture, 10 * SILENCE_NS, true);
    assert!(fixture.connected());
    assert!((30..=50).contains(&rung), "{rung} questions");
}

#[test]
fn a_peer_that_does_not_answer_is_asked_and_lost() {
    let mut fixture = both();
    fixture.sides[0].as_mut().unwrap().link.take_announcement();
    assert_eq!(pass_for_one(&mut fixture, SILENCE_NS, false), 3);
    assert!(fixture.connected());
    pass_for_one(&mut fixture, 2 * LOOK_INTERVAL_NS, false);
    assert!(!fixture.connected());
}

#[test]
fn timing_is_taken_over_by_a_link_that_runs() {
    const MS: u64 = 1_000_000;
    let mut fixture = both();
    let timing = Timing {
        heartbeat_ns: 50 * MS,
        silence_ns: 300 * MS,
    };
    for side in fixture.sides.iter_mut().flatten() {
        side.link.set_timing(timing);
        assert!(side.link.deadline() <= fixture.now);
    }
    for _ in 0..100 {
        fixture.now += 50 * MS;
        fixture.turn(0);
        fixture.turn(1);
    }
    assert!(fixture.connected(), "a heart beats often enough");
    let side = fixture.sides[0].as_mut().unwrap();
    assert!(side.link.deadline() <= fixture.now + 50 * MS);
    for _ in 0..8 {
        fixture.now += 50 * MS;
        fixture.turn(0);
    }
    let reason = DownReason::Silent;
    let lost = fixture.sides[0].as_ref().unwrap();
    assert_eq!(lost.history.last(), Some(&LinkStep::Fail { reason }));
}

#[test]
fn quiet_sides_that_live_are_not_lost() {
    let mut fixture = both();
    fixture.pass(5 * SILENCE_NS);
    assert!(fixture.connected());
    assert_eq!(fixture.sides[0].as_ref().unwrap().history.len(), 2);
}

#[test]
fn a_link_given_up_is_reset_by_both() {
    let mut fixture = both();
    fixture.sides[0].as_mut().unwrap().link.link_failed();
    fixture.sides[0].as_mut().unwrap().writes_to = None;
    fixture.run_until_idle();
    assert!(fixture.connected());
    // Both sides at once.
    for side in fixture.sides.iter_mut().flatten() {
        side.link.link_failed();
        side.writes_to = None;
    }
    fixture.run_until_idle();
    assert!(fixture.connected());
}

#[test]
fn an_unusable_queue_pair_is_tried_anew() {
    let mut fixture = Fixture::new();
    fixture.boot(0);
    fixture.boot(1);
    fixture.turn(0);
    fixture.turn(1);
    let mut refused = false;
    for _ in 0..8 {
        fixture.turn(1);
        let side = fixture.sides[0].as_mut().unwrap();
        if let Some(LinkStep::Connect { .. }) = side.link.step(fixture.now) {
            side.link.done(Outcome::Connected { is_usable: false });
            refused = true;
            break;
        }
    }
    fixture.run_until_idle();
    assert!(refused && fixture.connected());
}

#[test]
fn a_side_that_left_is_gone() {
    let mut fixture = both();
    fixture.sides[1].as_mut().unwrap().link.leave();
    fixture.sides[1].as_mut().unwrap().writes_to = None;
    fixture.run_until_idle();
    let other = fixture.sides[0].as_ref().unwrap();
    assert_eq!(other.writes_to, None);
    assert_eq!(
        fixture.sides[1].as_mut().unwrap().link.step(fixture.now),
        None
    );
}

/// The memory of a driver that died is in use exactly until the peer has noticed.
#[test]
fn the_memory_of_a_driver_that_died_is_let_go_when_the_peer_begins_anew() {
    let mut fixture = both();
    let used = fixture.sides[0].as_ref().unwrap().writes_to;
    assert!(used.is_some());
    fixture.boot(1);
    for _ in 0..3 {
        // However far the new driver is, and however often it is started: the peer still writes.
        assert!(
            !fixture.sides[1]
                .as_ref()
                .unwrap()
                .link
                .predecessor_is_quiesced()
        );
        fixture.turn(1);
        fixture.now += LOOK_INTERVAL_NS;
    }
    fixture.boot(1);
    assert!(
        !fixture.sides[1]
            .as_ref()
            .unwrap()
            .link
            .predecessor_is_quiesced()
    );
    assert_eq!(fixture.sides[0].as_ref().unwrap().writes_to, used);
    while fixture.turn(0) {
        assert_ne!(fixture.sides[0].as_ref().unwrap().writes_to, used);
    }
    assert!(
        fixture.sides[1]
            .as_ref()
            .unwrap()
            .link
            .predecessor_is_quiesced()
    );
    fixture.run_until_idle();
    assert!(fixture.connected());
    assert!(
        fixture.sides[1]
            .as_ref()
            .unwrap()
            .link
            .predecessor_is_quiesced()
    );
}

#[test]
fn a_peer_that_is_not_there_or_never_bound_has_let_go() {
    let released = |fixture: &Fixture| {
        fixture.sides[1]
            .as_ref()
            .unwrap()
            .link
            .predecessor_is_quiesced()
    };
    let mut fixture = both();
    fixture.kill(0);
    fixture.boot(1);
    assert!(released(&fixture));
    // The peer's machine comes back and takes up the link with the new driver only.
    fixture.boot(0);
    fixture.run_until_idle();
    assert!(fixture.connected() && released(&fixture));
    // A peer that has published and waits has written to nobody.
    let mut fixture = Fixture::new();
    fixture.boot(0);
    fixture.turn(0);
    fixture.boot(1);
    assert!(released(&fixture));
    fixture.run_until_idle();
    assert!(fixture.connected() && released(&fixture));
    // A peer that gave the link up no longer writes, though it waits for an answer.
    let mut fixture = both();
    fixture.sides[0].as_mut().unwrap().link.link_failed();
    fixture.boot(1);
    assert!(released(&fixture));
}

#[test]
fn without_memory_attaching_is_tried_again() {
    let mut fixture = Fixture::new();
    fixture.boot(0);
    let side = fixture.sides[0].as_mut().unwrap();
    assert_eq!(side.link.step(1), Some(LinkStep::Attach));
    side.link.done(Outcome::Attached { queue_pair: None });
    assert_eq!(side.link.step(2), None);
    assert_eq!(side.link.step(2 + LOOK_INTERVAL_NS), Some(LinkStep::Attach));
}

#[test]
fn foreign_memory_is_no_link() {
    let memory = Region::heap(4096);
    assert_eq!(Link::new(memory.clone(), 0).err(), Some(NotALink::Header));
    memory
        .write_bytes(0, Header::new([1, 2]).as_bytes())
        .unwrap();
    assert_eq!(Link::new(memory, 0).err(), Some(NotALink::Header));
    assert_eq!(Link::new(Region::heap(128), 0).err(), Some(NotALink::Short));
}

#[test]
fn a_peer_that_writes_noise_into_its_record_does_no_harm() {
    let mut fixture = both();
    let mut state = 7_u64;
    for round in 0..20_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let word = (state >> 33) as u32;
        let small = if round % 3 == 0 { word % 4 } else { word };
        fixture
            .memory
            .write(record_offset(1) + (round % 8) * 4, small)
            .unwrap();
        let side = fixture.sides[0].as_mut().unwrap();
        match side.link.step(round as u64 * 50_000_000) {
            Some(LinkStep::Attach) => side.link.done(Outcome::Attached {
                queue_pair: Some(1),
            }),
            Some(LinkStep::Connect { .. }) => side.link.done(Outcome::Connected {
                is_usable: round % 5 != 0,
            }),
            Some(LinkStep::Fail { .. }) => side.link.done(Outcome::Failed),
            Some(LinkStep::Detach) => side.link.done(Outcome::Detached),
            Some(LinkStep::Probe) => panic!("it has a heart"),
            None => {}
        }
    }
}

#[test]
fn a_record_of_two_incarnations_is_no_record() {
    let memory = Region::heap(4096);
    let place = record_offset(1);
    let begin = |generation: u32| {
        let mut record = Record::new_zeroed();
        record.generation = generation.into();
        record.queue_pair = u64::from(0x1000 * generation).into();
        memory.write_bytes(place, record.as_bytes()).unwrap();
        memory.write(place + RECORD_STATE, STATE_READY).unwrap();
    };
    let copy = |from: usize, bytes: &mut [u8]| memory.read_bytes(place + from, bytes).ok();
    begin(1);
    let whole = whole_record(&memory, place, |bytes| copy(0, bytes)).unwrap();
    assert_eq!(
        (whole.generation.get(), whole.queue_pair.get()),
        (1, 0x1000)
    );
    // The peer begins anew when half of it is copied.
    let torn = whole_record(&memory, place, |bytes| {
        let (first, rest) = bytes.split_at_mut(8);
        copy(0, first)?;
        begin(2);
        copy(8, rest)
    });
    assert_eq!(torn, None);
}

#[test]
fn a_restless_peer_does_not_keep_us_busy() {
    let mut fixture = both();
    let mut attached = 0;
    for round in 0..10_000_u32 {
        // A new incarnation every millisecond, always bound to nobody.
        let place = record_offset(1);
        fixture
            .memory
            .write(place + RECORD_GENERATION, round + 100)
            .unwrap();
        fixture
            .memory
            .write(place + RECORD_PEER_GENERATION, 0_u32)
            .unwrap();
        fixture.now += 1_000_000;
        let side = fixture.sides[0].as_mut().unwrap();
        while let Some(step) = side.link.step(fixture.now) {
            match step {
                LinkStep::Attach => {
                    attached += 1;
                    side.link.done(Outcome::Attached {
                        queue_pair: Some(1),
                    });
                }
                LinkStep::Connect { .. } => side.link.done(Outcome::Connected { is_usable: true }),
                LinkStep::Fail { .. } => side.link.done(Outcome::Failed),
                LinkStep::Detach => side.link.done(Outcome::Detached),
                LinkStep::Probe => panic!("it has a heart"),
            }
        }
    }
    assert!(attached <= 101, "{attached} queue pairs in ten seconds");
}

#[test]
fn what_is_left_of_the_memory_is_halved_between_the_sides() {
    // A page of records, then three pages: each side gets one.
    let memory = Region::heap(4 * PAGE);
    let header = Header::new([0, 5]);
    memory.write_bytes(0, header.as_bytes()).unwrap();
    let spare = |node| Link::new(memory.clone(), node).unwrap().0.spare().unwrap();
    let places = [spare(0), spare(5)].map(|part| (part.address() - memory.address(), part.len()));
    assert_eq!(places, [(PAGE, PAGE), (2 * PAGE, PAGE)]);
    let short = memory.part(0, PAGE - 1).unwrap();
    assert!(Link::new(short, 0).unwrap().0.spare().is_none());
}
