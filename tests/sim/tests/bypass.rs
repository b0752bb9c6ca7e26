//! Random worlds in which programs work directly on rings.

use sim::bypass::{Bug, BypassReport, run};
use sim::faults::Fault;

#[test]
fn programs_and_engine_share_rings() {
    let mut sum = BypassReport::default();
    for seed in 0..200 {
        let report = run(seed, 3000, None).unwrap_or_else(|failure| panic!("{failure}"));
        sum.add(&report);
    }
    println!("{sum:?}");
    // A simulator that does nothing would find nothing.
    assert!(sum.bytes.iter().all(|bytes| *bytes > 1_000_000));
    assert!(sum.short.iter().all(|count| *count > 4_000), "{sum:?}");
    assert!(sum.sleeps > 10_000 && sum.wakes > 5_000 && sum.contended > 1_000);
    assert!(sum.faults.count(Fault::ClientKilled) > 500);
    assert!(sum.faults.count(Fault::ClientScribbled) > 100 && sum.refused > 50);
    assert!(sum.copies > 2000);
}

/// Each planted bug must be noticed with at least a quarter of a few seeds: another program at the
/// same end often makes up for what one does wrong.
#[test]
fn planted_bugs_are_found() {
    for bug in [
        Bug::NoKick,
        Bug::NoLock,
        Bug::NoArm,
        Bug::NoBusy,
        Bug::NoEpoch,
    ] {
        let found = (0..20).filter(|seed| run(*seed, 3000, Some(bug)).is_err());
        let found = found.count();
        assert!(
            found >= 5,
            "{bug:?} was noticed by {found} of 20 seeds only"
        );
    }
}
