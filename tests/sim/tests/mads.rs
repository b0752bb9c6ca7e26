//! Random worlds of management datagrams.

use sim::faults::Fault;
use sim::mads::{Bug, MadReport, MadSettings, run};

const STEPS: u64 = 3000;

fn settings() -> MadSettings {
    MadSettings {
        steps: STEPS,
        ..MadSettings::default()
    }
}

fn play(seeds: u64, settings: MadSettings) -> MadReport {
    let mut sum = MadReport::default();
    for seed in 0..seeds {
        let report = run(seed, settings).unwrap_or_else(|failure| panic!("{failure}"));
        sum.add(&report);
    }
    println!("{sum:?}");
    sum
}

#[test]
fn every_request_is_answered_over_a_good_wire() {
    let calm = MadSettings {
        is_calm: true,
        ..settings()
    };
    let sum = play(20, calm);
    assert_eq!(sum.answered, sum.asked);
    assert!(sum.asked > 2_000 && sum.long > 50 && sum.bytes > 10 << 20);
    assert_eq!(sum.faults.total(), 0);
}

#[test]
fn every_request_has_one_outcome_whatever_is_lost() {
    let sum = play(40, settings());
    // A simulator that does nothing would find nothing.
    assert!(sum.asked > 1_000 && sum.answered > sum.asked / 2 && sum.long > 50);
    assert!(sum.failed > 20, "some servers are not there");
    for fault in [
        Fault::DatagramLost,
        Fault::DatagramDoubled,
        Fault::ProcessKilled,
        Fault::NodeKilled,
    ] {
        assert!(sum.faults.count(fault) > 20, "{fault:?}: {}", sum.faults);
    }
}

#[test]
fn planted_mistakes_are_found() {
    for bug in [Bug::BytesChange, Bug::HastyAcks, Bug::AgentsStay] {
        let planted = MadSettings {
            bug: Some(bug),
            ..settings()
        };
        let found = (0..50).find_map(|seed| run(seed, planted).err());
        let failure = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?}: {failure}");
    }
}
