//! Random simulations: a small part of what `make sim` does for as long as one likes.

use sim::faults::Fault;
use sim::runner::play_all;
use sim::{Canary, Settings, run};

#[test]
fn random_schedules_keep_every_rule() {
    let mut sum = sim::Report::default();
    for seed in 0..100 {
        let settings = Settings::new(seed, 3000);
        let report = run(settings).unwrap_or_else(|failure| panic!("{failure}"));
        sum.steps += report.steps;
        sum.faults.add(&report.faults);
        sum.registered.add(&report.registered);
        sum.half_closes.add(&report.half_closes);
        sum.stats.connected += report.stats.connected;
        sum.stats.refused += report.stats.refused;
        sum.stats.doorbells_rung += report.stats.doorbells_rung;
        sum.stats.doorbells_saved += report.stats.doorbells_saved;
    }
    println!("{sum:#?}");
    // A simulator that does nothing would find nothing.
    assert!(sum.stats.connected > 700 && sum.stats.refused > 300);
    assert!(sum.stats.doorbells_rung > 1000 && sum.stats.doorbells_saved > 1000);
    for fault in [
        Fault::DoorbellLost,
        Fault::DoorbellLate,
        Fault::DoorbellDoubled,
        Fault::StoreDelayed,
        Fault::NodeKilled,
        Fault::DriverKilled,
        Fault::NodeFrozen,
        Fault::LinkGivenUp,
        Fault::NodeLeft,
        Fault::AllocationRefused,
        Fault::ProcessKilled,
    ] {
        assert!(sum.faults.count(fault) > 10, "{fault:?}: {}", sum.faults);
    }
    let done = sum.registered;
    assert!(done.windows > 500 && done.unregistered > 50 && done.mappings > 100);
    assert!(done.transfers > 500 && done.bytes > 1_000_000 && done.refused > 500);
    assert!(done.marks > 50 && done.signals > 50);
    let halves = sum.half_closes;
    assert!(halves.said > 200 && halves.heard > 100 && halves.bytes > 10_000);
}

/// Each planted bug must be noticed with at least a quarter of a few seeds.
#[test]
fn planted_bugs_are_found() {
    let mut missed = Vec::new();
    for canary in [
        Canary::LostDoorbell,
        Canary::StoresOvertake,
        Canary::LostEvent,
        Canary::LostFree,
        Canary::EarlyUnpin,
        Canary::EarlyReuse,
        Canary::NoLinkTimeout,
        Canary::LateAsk,
        Canary::CorruptByte,
        Canary::EarlyLinkDown,
        Canary::SkippedCopy,
        Canary::HastyCompletion,
        Canary::HastyStore,
    ] {
        let settings = |seed| Settings {
            canary: Some(canary),
            ..Settings::new(seed, 3000)
        };
        let failures = (0..20).filter_map(|seed| run(settings(seed)).err());
        let found: Vec<_> = failures.take(5).collect();
        for failure in &found {
            println!("{canary:?}: step {}: {}", failure.step, failure.what);
            assert!(!failure.trace.is_empty());
        }
        if found.len() < 5 {
            missed.push((canary, found.len()));
        }
    }
    assert!(
        missed.is_empty(),
        "noticed by fewer than 5 of 20 seeds: {missed:?}"
    );
}

/// All kinds of worlds as `make sim` plays them, with storms and sweeps.
#[test]
fn every_kind_of_world_is_played() {
    let total = play_all(1000..1012, 2, |_, _| {}, |failure| panic!("{failure}"));
    println!("{total:?}");
    assert_eq!((total.seeds, total.violations), (12, 0));
    assert!(total.worlds > 12 * 4 + 100 && total.steps > 100_000);
    assert!(total.faults.node_losses() > 50);
}

/// A node that stores anything anywhere it can reach loses its own connections and its link, and
/// harms no other node.
#[test]
fn a_hostile_peer_harms_nobody_else() {
    let mut sum = sim::hostile::HostileReport::default();
    for seed in 0..60 {
        let report = sim::hostile::run_hostile(seed, 3000).unwrap_or_else(|what| panic!("{what}"));
        sum.add(&report);
    }
    println!("{sum:?}");
    assert!(sum.connected > 0 && sum.links_failed > 0 && sum.rings_reset > 0 && sum.ignored > 0);
    assert!(sum.undisturbed_copies > 1000);
    assert!(sum.bystander_bytes > 10_000_000 && sum.bystander_copies > 1000);
    assert!(sum.windows > 500 && sum.refused_windows > 1000);
    assert!(sum.transfers > 20 && sum.mappings > 10);
    for fault in [
        Fault::LinkSpoilt,
        Fault::HostileMessage,
        Fault::HostileStore,
        Fault::HostileDoorbell,
    ] {
        assert!(sum.faults.count(fault) > 10, "{fault:?}: {}", sum.faults);
    }
}
