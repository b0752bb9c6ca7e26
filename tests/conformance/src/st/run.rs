//! Runs the rows in one place and reports each in a line.

use alloc::format;

use super::SECTIONS;
use super::bench::{Bench, Driver, Run};

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rows that passed.
    pub passed: usize,
    /// Rows that failed.
    pub failed: usize,
    /// Rows that were not requested.
    pub skipped: usize,
    /// Rows without a case in this place.
    pub absent: usize,
}

impl Totals {
    /// Number of all rows.
    pub const fn rows(&self) -> usize {
        self.passed + self.failed + self.skipped + self.absent
    }
}

/// Runs all rows, or those with the given numbers. Reports each, and the totals, by `print`.
pub fn run(driver: &mut dyn Driver, only: &[u32], print: &mut dyn FnMut(&str)) -> Totals {
    let place = driver.place();
    let name = place.name();
    print(&format!("conformance st {name}: seed {:#x}", driver.seed()));
    let mut totals = Totals::default();
    let mut state = Run::default();
    // The sides are ready once they have answered.
    let mut bench = Bench::new(driver, &mut state);
    let before = bench.first_counts();
    for row in SECTIONS.iter().flat_map(|(_, rows)| *rows) {
        let Some(case) = row.case(place) else {
            totals.absent += 1;
            continue;
        };
        if !only.is_empty() && !only.contains(&row.number) {
            totals.skipped += 1;
            continue;
        }
        let mut bench = Bench::new(driver, &mut state);
        let found = case(&mut bench);
        let cleared = bench.clear();
        let settled = match &before {
            Ok(before) => bench.settles_at(before),
            Err(what) => Err(what.clone()),
        };
        let left = |what| format!("after the row {what}");
        let (name, number) = (place.name(), row.number);
        match found.and(cleared).and(settled.map_err(left)) {
            Ok(()) => {
                totals.passed += 1;
                print(&format!("STEP st {name} {number}: ok"));
            }
            Err(what) => {
                totals.failed += 1;
                print(&format!("STEP st {name} {number}: FAIL {what}"));
            }
        }
    }
    let Totals {
        passed,
        failed,
        skipped,
        absent,
    } = totals;
    print(&format!(
        "conformance st {}: {passed} passed, {failed} failed, {skipped} skipped ({absent} have \
         nothing to show here)",
        place.name()
    ));
    totals
}
