//! Random worlds of RDMA verbs.

use sim::faults::Fault;
use sim::verbs::{Bug, VerbsReport, VerbsSettings, run, sweep};

const STEPS: u64 = 3000;

fn settings() -> VerbsSettings {
    VerbsSettings {
        steps: STEPS,
        ..VerbsSettings::default()
    }
}

fn play(seeds: u64, settings: VerbsSettings) -> VerbsReport {
    let mut sum = VerbsReport::default();
    for seed in 0..seeds {
        let report = run(seed, settings).unwrap_or_else(|failure| panic!("{failure}"));
        sum.add(&report);
    }
    println!("{sum:?}");
    sum
}

#[test]
fn every_request_completes_once_and_in_order() {
    let sum = play(200, settings());
    // A simulator that does nothing would find nothing.
    assert!(sum.sent > 20_000 && sum.received > 20_000 && sum.pairs > 2_000);
    assert!(sum.flushed > 2_000 && sum.failed > 300 && sum.lanes > 500);
    assert!(sum.letters > 10_000 && sum.letters_received > 8_000 && sum.letters_failed > 200);
    assert!(sum.letters_relayed > 1_000, "{}", sum.letters_relayed);
    assert!(sum.windows > 1_000);
    for fault in [
        Fault::ProcessKilled,
        Fault::NodeKilled,
        Fault::ConnectionCut,
    ] {
        assert!(sum.faults.count(fault) > 20, "{fault:?}: {}", sum.faults);
    }
}

/// A program is killed at each of its stores in turn.
#[test]
fn survivors_of_a_program_that_dies_at_any_store() {
    let mut sum = VerbsReport::default();
    for seed in 0..4 {
        let swept = sweep(seed, 400, |report| sum.add(report));
        swept.unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{sum:?}");
    assert!(sum.received > 2_000 && sum.lanes > 200);
}

#[test]
fn a_peer_that_sends_anything_costs_itself_the_lane() {
    let hostile = VerbsSettings {
        is_hostile: true,
        ..settings()
    };
    let sum = play(300, hostile);
    assert!(sum.received > 10_000 && sum.lanes > 1_000);
    for fault in [Fault::HostileStore, Fault::HostileMessage] {
        assert!(sum.faults.count(fault) > 1_000, "{fault:?}: {}", sum.faults);
    }
}

#[test]
fn planted_mistakes_are_found() {
    for bug in [Bug::StoresOvertaken, Bug::WindowsStay] {
        let planted = VerbsSettings {
            bug: Some(bug),
            ..settings()
        };
        let found = (0..100).find_map(|seed| run(seed, planted).err());
        let failure = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?}: {failure}");
    }
}
