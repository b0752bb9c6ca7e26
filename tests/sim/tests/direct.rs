//! Random worlds in which programs work on rings themselves. `SKIFF_SIM_SEED=s` plays that seed
//! only, `SKIFF_SIM_RUNS=n` so many.

use sim::direct::{Bug, DirectReport, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn programs_and_engine_share_rings() {
    let seed = number("SKIFF_SIM_SEED");
    let runs = number("SKIFF_SIM_RUNS").unwrap_or(if seed.is_some() { 1 } else { 200 });
    let start = seed.unwrap_or(0);
    let mut sum = DirectReport::default();
    for seed in start..start + runs {
        let report = run(seed, 3000, None).unwrap_or_else(|what| panic!("{what}"));
        sum.add(&report);
    }
    println!("{runs} seeds: {sum:?}");
    if runs >= 200 {
        // A simulator that does nothing would find nothing.
        assert!(sum.bytes.iter().all(|bytes| *bytes > 1_000_000));
        assert!(sum.sleeps > 10_000 && sum.wakes > 5_000 && sum.in_the_way > 1_000);
        assert!(sum.deaths > 500 && sum.spoilt > 100 && sum.refused > 50);
    }
}

/// Each planted bug must be noticed by at least a quarter of a few seeds: another program at the
/// same end often makes good what one does wrong.
#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::NoKick, Bug::NoLock, Bug::NoArm] {
        let found = (0..20).filter(|seed| run(*seed, 3000, Some(bug)).is_err());
        let found = found.count();
        assert!(
            found >= 5,
            "{bug:?} was noticed by {found} of 20 seeds only"
        );
    }
}
