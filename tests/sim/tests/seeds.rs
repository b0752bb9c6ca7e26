//! Random simulations. `SKIFF_SIM_SEED=s` begins with that seed, and does only that one unless
//! `SKIFF_SIM_RUNS=n` asks for more; `SKIFF_SIM_RUNS=n` alone does n instead of the usual number.

use sim::{Canary, Settings, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seeds to run, `usual` of them unless the environment says otherwise.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let seed = number("SKIFF_SIM_SEED");
    let runs = number("SKIFF_SIM_RUNS").unwrap_or(if seed.is_some() { 1 } else { usual });
    let start = seed.unwrap_or(0);
    start..start + runs
}

#[test]
fn random_schedules_keep_every_rule() {
    let seeds = seeds(100);
    let mut sum = sim::Report::default();
    for seed in seeds.clone() {
        let settings = Settings {
            seed,
            steps: 3000,
            canary: None,
        };
        let report = run(settings).unwrap_or_else(|failure| panic!("{failure}"));
        sum.steps += report.steps;
        sum.nodes_killed += report.nodes_killed;
        sum.nodes_left += report.nodes_left;
        sum.processes_killed += report.processes_killed;
        sum.links_lost += report.links_lost;
        sum.allocations_refused += report.allocations_refused;
        sum.registered.add(&report.registered);
        sum.stats.connected += report.stats.connected;
        sum.stats.accepted += report.stats.accepted;
        sum.stats.refused += report.stats.refused;
        sum.stats.bytes_received += report.stats.bytes_received;
        sum.stats.messages_received += report.stats.messages_received;
        sum.stats.doorbells_rung += report.stats.doorbells_rung;
        sum.stats.doorbells_saved += report.stats.doorbells_saved;
        sum.stats.links_up += report.stats.links_up;
        sum.stats.stale_ids += report.stats.stale_ids;
        sum.stats.unexpected_messages += report.stats.unexpected_messages;
    }
    println!("{} seeds: {sum:#?}", seeds.end - seeds.start);
    if seeds.end - seeds.start >= 100 {
        // A simulator that does nothing would find nothing.
        assert!(sum.stats.connected > 1000 && sum.stats.refused > 500);
        assert!(sum.nodes_killed > 10 && sum.nodes_left > 10 && sum.processes_killed > 100);
        assert!(sum.links_lost > 10 && sum.allocations_refused > 100);
        assert!(sum.stats.doorbells_rung > 1000 && sum.stats.doorbells_saved > 1000);
        let done = sum.registered;
        assert!(done.windows > 500 && done.unregistered > 50 && done.mappings > 100);
        assert!(done.transfers > 500 && done.bytes > 1_000_000 && done.refused > 500);
        assert!(done.marks > 50 && done.signals > 50);
    }
}

/// Each planted bug must be noticed by at least half of a few seeds.
#[test]
fn planted_bugs_are_found() {
    for canary in [
        Canary::LostDoorbell,
        Canary::LateAsk,
        Canary::CorruptByte,
        Canary::ImpatientLink,
        Canary::SkippedCopy,
        Canary::HastyCompletion,
        Canary::HastyStore,
    ] {
        let settings = |seed| Settings {
            seed,
            steps: 2000,
            canary: Some(canary),
        };
        let found = (0..10).filter(|seed| run(settings(*seed)).is_err()).count();
        assert!(
            found >= 5,
            "{canary:?} was noticed by {found} of 10 seeds only"
        );
    }
}

/// A node that stores anything anywhere it can reach costs itself its connections and its link, and
/// nobody else anything.
#[test]
fn a_hostile_peer_harms_nobody_else() {
    let mut sum = sim::hostile::HostileReport::default();
    let seeds = seeds(60);
    let all = seeds.end - seeds.start >= 60;
    for seed in seeds {
        let report = sim::hostile::run_hostile(seed, 3000).unwrap_or_else(|what| panic!("{what}"));
        sum.connected += report.connected;
        sum.links_failed += report.links_failed;
        sum.rings_reset += report.rings_reset;
        sum.ignored += report.ignored;
        sum.undisturbed_bytes += report.undisturbed_bytes;
        sum.undisturbed_copies += report.undisturbed_copies;
        sum.windows += report.windows;
        sum.refused_windows += report.refused_windows;
        sum.transfers += report.transfers;
        sum.mappings += report.mappings;
    }
    println!("{sum:?}");
    let [connected, links_failed] = [sum.connected, sum.links_failed];
    let [rings_reset, ignored] = [sum.rings_reset, sum.ignored];
    assert!(!all || connected > 0 && links_failed > 0 && rings_reset > 0 && ignored > 0);
    let [windows, refused] = [sum.windows, sum.refused_windows];
    let [transfers, mappings] = [sum.transfers, sum.mappings];
    assert!(!all || sum.undisturbed_copies > 1000);
    assert!(!all || windows > 1000 && refused > 1000 && transfers > 50 && mappings > 20);
}
