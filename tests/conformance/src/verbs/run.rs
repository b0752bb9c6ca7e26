//! Runs the rows between two ends and reports each in a line.

use alloc::format;
use alloc::string::String;

use super::bench::{Bench, Checked, Driver};
use super::rows::SECTIONS;
use super::rows::errors::ERRORS;

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

    /// Reports a row.
    pub fn report(&mut self, name: &str, found: Checked, print: &mut dyn FnMut(&str)) {
        match found {
            Ok(()) => {
                self.passed += 1;
                print(&format!("STEP verbs {name}: ok"));
            }
            Err(what) => {
                self.failed += 1;
                print(&format!("STEP verbs {name}: FAIL {what}"));
            }
        }
    }

    /// Reports the totals.
    pub fn finish(&self, what: &str, print: &mut dyn FnMut(&str)) {
        let Totals {
            passed,
            failed,
            skipped,
            absent,
        } = self;
        print(&format!(
            "conformance verbs {what}: {passed} passed, {failed} failed, {skipped} skipped \
             ({absent} have nothing to show here)"
        ));
    }
}

/// The number of rows.
pub fn count() -> usize {
    let cases = SECTIONS.iter().map(|(_, rows)| rows.len());
    ERRORS.len() + cases.sum::<usize>()
}

/// The name of the error row with this index.
pub fn error_name(index: usize) -> String {
    format!("error-{}", index + 1)
}

/// Runs all rows, or those with the given names. `before` is the number of good messages before
/// each wrong request.
pub fn run(
    driver: &mut dyn Driver,
    before: u64,
    only: &[String],
    print: &mut dyn FnMut(&str),
) -> Totals {
    let place = driver.place();
    let mut totals = Totals::default();
    let mut one = |name: String, case: Option<&dyn Fn(&mut Bench<'_>) -> Checked>| {
        let Some(case) = case else {
            totals.absent += 1;
            return;
        };
        if !only.is_empty() && !only.contains(&name) {
            totals.skipped += 1;
            return;
        }
        let mut bench = Bench::new(driver);
        let found = case(&mut bench);
        let cleared = bench.clear();
        let report = format!("{} {name}", place.name());
        totals.report(&report, found.and(cleared), print);
    };
    for (index, row) in ERRORS.iter().enumerate() {
        let case = |bench: &mut Bench<'_>| row.run(bench, before);
        one(error_name(index), Some(&case));
    }
    for row in SECTIONS.iter().flat_map(|(_, rows)| *rows) {
        let case = row.case(place);
        let case = case
            .as_ref()
            .map(|case| case as &dyn Fn(&mut Bench<'_>) -> Checked);
        one(row.name.into(), case);
    }
    totals.finish(place.name(), print);
    totals
}
