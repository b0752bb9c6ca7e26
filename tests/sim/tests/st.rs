//! Random worlds of Scheduled Transfers.

use sim::faults::Fault;
use sim::st::sessions::{self, SessionBug, SessionReport, SessionSettings};
use sim::st::{Bug, StReport, StSettings, run, sweep};

const STEPS: u64 = 3000;

fn settings() -> StSettings {
    StSettings {
        steps: STEPS,
        ..StSettings::default()
    }
}

#[test]
fn headers_and_data_arrive_and_sleepers_are_woken() {
    let mut sum = StReport::default();
    for seed in 0..200 {
        let report = run(seed, settings()).unwrap_or_else(|failure| panic!("{failure}"));
        sum.add(&report);
    }
    println!("{sum:?}");
    // A simulator that does nothing would find nothing.
    assert!(sum.pulled > 50_000 && sum.with_data > 10_000 && sum.lost > 4_000);
    assert!(sum.sleeps > 7_000 && sum.wakes > 6_000 && sum.refused > 200);
    assert!(sum.maps > 5_000 && sum.stale > 500 && sum.broken == 0);
    for fault in [Fault::ProcessKilled, Fault::NodeKilled] {
        assert!(sum.faults.count(fault) > 50, "{fault:?}: {}", sum.faults);
    }
}

/// The program is killed at each store of a connection, first at one end and then at the other.
#[test]
fn what_a_peer_pushed_before_its_death_arrives_in_order() {
    let mut sum = StReport::default();
    for seed in 0..4 {
        let swept = sweep(seed, 150, |report| sum.add(report));
        swept.unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{sum:?}");
    assert!(sum.faults.count(Fault::ProcessKilled) > 100 && sum.pulled > 3_000);
}

#[test]
fn a_peer_that_stores_anything_costs_itself_the_connection() {
    let mut sum = StReport::default();
    for seed in 0..200 {
        let hostile = StSettings {
            is_hostile: true,
            ..settings()
        };
        let report = run(seed, hostile).unwrap_or_else(|failure| panic!("{failure}"));
        sum.add(&report);
    }
    println!("{sum:?}");
    assert!(sum.broken > 1_000 && sum.with_data > 5_000);
    for fault in [Fault::HostileStore, Fault::HostileMessage] {
        assert!(sum.faults.count(fault) > 5_000, "{fault:?}: {}", sum.faults);
    }
}

/// The number of worlds in which planted bugs must be noticed, and in how many of them at least:
/// some need a loss at the right moment.
const PLANTED: u64 = 300;
const NOTICED: usize = 5;

#[test]
fn planted_bugs_are_found() {
    let mut missed = Vec::new();
    for bug in [
        Bug::NoFence,
        Bug::NoFlush,
        Bug::NoRelease,
        Bug::NoWake,
        Bug::HeaderFirst,
        Bug::LookFirst,
        Bug::LateData,
    ] {
        let planted = StSettings {
            bug: Some(bug),
            ..settings()
        };
        let found = (0..PLANTED).filter_map(|seed| run(seed, planted).err());
        let found: Vec<_> = found.take(NOTICED).collect();
        for failure in &found {
            println!("{bug:?}: step {}: {}", failure.step, failure.what);
            assert!(!failure.trace.is_empty());
        }
        if found.len() < NOTICED {
            missed.push((bug, found.len()));
        }
    }
    assert!(
        missed.is_empty(),
        "noticed by so many of {PLANTED}: {missed:?}"
    );
}

fn cut_at_random() -> SessionSettings {
    SessionSettings {
        steps: STEPS,
        ..SessionSettings::default()
    }
}

#[test]
fn sessions_lose_and_double_nothing() {
    let mut sum = SessionReport::default();
    for seed in 0..200 {
        let report = sessions::run(seed, cut_at_random());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum:?}");
    assert!(sum.connections > 2_000 && sum.received > 15_000 && sum.with_data > 4_000);
    assert!(sum.cancelled > 5_000 && sum.delivered > 10_000 && sum.full > 10_000);
    assert!(sum.timed_out > 2_000 && sum.sleeps > 5_000 && sum.over > 200 && sum.broken == 0);
    assert!(sum.early > 500);
}

#[test]
fn a_connection_can_be_cut_at_every_store() {
    let mut sum = SessionReport::default();
    // In a world of the last sweep, a sleeper's connection is cut at the store of its last poll.
    for (seed, steps) in [(0, 200), (1, 200), (2, 200), (3, 200), (8, 150)] {
        let swept = sessions::sweep(seed, steps, |report| sum.add(report));
        swept.unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{sum:?}");
    assert!(sum.connections > 300 && sum.received > 5_000);
}

#[test]
fn a_peer_that_quotes_anything_costs_itself_the_session() {
    let mut sum = SessionReport::default();
    for seed in 0..200 {
        let hostile = SessionSettings {
            is_hostile: true,
            ..cut_at_random()
        };
        let report = sessions::run(seed, hostile);
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum:?}");
    assert!(sum.broken > 1_000 && sum.faults.count(Fault::HostileMessage) > 1_000);
}

#[test]
fn planted_bugs_of_sessions_are_found() {
    let mut missed = Vec::new();
    for bug in [
        SessionBug::BlindFence,
        SessionBug::NoWake,
        SessionBug::ShortQuote,
    ] {
        let planted = SessionSettings {
            bug: Some(bug),
            ..cut_at_random()
        };
        let found = (0..PLANTED).filter_map(|seed| sessions::run(seed, planted).err());
        let found: Vec<_> = found.take(NOTICED).collect();
        for failure in &found {
            println!("{bug:?}: step {}: {}", failure.step, failure.what);
        }
        if found.len() < NOTICED {
            missed.push((bug, found.len()));
        }
    }
    assert!(
        missed.is_empty(),
        "noticed by so many of {PLANTED}: {missed:?}"
    );
}
