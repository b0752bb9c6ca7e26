//! Runs the cases of the table in one place and reports each in a line.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::bench::{Bench, Checked, Driver, Place};
use crate::cases::states;
use crate::table::{Ours, Row, SECTIONS, Test};

/// One case.
pub struct Case {
    /// The name, which is unique. It has no colon, because a colon ends it in a report.
    pub name: String,
    kind: Kind,
}

enum Kind {
    Row(&'static Row),
    Variant(&'static Row, usize),
    State(states::Cell),
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed.
    pub failed: usize,
    /// Cases that were not run.
    pub skipped: usize,
}

impl Totals {
    /// Whether the run is a success: no case has failed, and some have run.
    pub const fn is_success(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

/// The cases of a place.
pub fn cases(place: Place) -> Vec<Case> {
    let mut cases = Vec::new();
    for section in SECTIONS {
        let rows = section.rows.iter();
        for row in rows.filter(|row| row.places.contains(&place)) {
            let name = format!("{}, {}", section.word, row.condition);
            match row.test {
                Test::Call(_) | Test::Story(_) => cases.push(Case {
                    name,
                    kind: Kind::Row(row),
                }),
                Test::Each(names, _) => {
                    for (index, variant) in names().iter().enumerate() {
                        cases.push(Case {
                            name: format!("{name}, {variant}"),
                            kind: Kind::Variant(row, index),
                        });
                    }
                }
                Test::Elsewhere(_) => {}
            }
        }
    }
    for cell in states::cells(place) {
        cases.push(Case {
            name: cell.name(),
            kind: Kind::State(cell),
        });
    }
    cases
}

impl Case {
    fn run(&self, bench: &mut Bench<'_>) -> Checked {
        match &self.kind {
            Kind::Row(row) => run_row(bench, row),
            Kind::Variant(row, index) => match row.test {
                Test::Each(_, story) => story(bench, *index),
                _ => Err("a row without variants".into()),
            },
            Kind::State(cell) => cell.run(bench),
        }
    }
}

fn run_row(bench: &mut Bench<'_>, row: &Row) -> Checked {
    let prepare = match row.test {
        Test::Call(prepare) => prepare,
        Test::Story(story) => return story(bench),
        Test::Each(..) | Test::Elsewhere(_) => return Err("a row of another kind".into()),
    };
    let ask = prepare(bench)?;
    match row.ours {
        Ours::Fails(error) => bench.fails(ask, error),
        Ours::Gives(value) => bench.gives(ask, value),
        Ours::Ready(bits) => bench.gives(ask, bits.into()),
        Ours::Succeeds => bench.ok(ask).map(|_| ()),
        Ours::Says(_) => Err("a row that says nothing to compare with".into()),
    }
}

/// Runs all cases whose name contains `only`. Reports each, and the totals, by `print`.
pub fn run(driver: &mut dyn Driver, only: &str, print: &mut dyn FnMut(&str)) -> Totals {
    let place = driver.place();
    let mut totals = Totals::default();
    // The sides are ready once they have answered.
    let mut bench = Bench::new(driver);
    let baseline = bench.clear().and_then(|()| bench.counts());
    for case in cases(place) {
        if !case.name.contains(only) {
            totals.skipped += 1;
            continue;
        }
        let mut bench = Bench::new(driver);
        let found = case.run(&mut bench);
        let cleared = bench.clear();
        let settled = match &baseline {
            Ok(baseline) => bench.settles_at(*baseline),
            Err(what) => Err(what.clone()),
        };
        let left = |what| format!("after the case {what}");
        match found.and(cleared).and(settled.map_err(left)) {
            Ok(()) => {
                totals.passed += 1;
                print(&format!("STEP {} {}: ok", place.name(), case.name));
            }
            Err(what) => {
                totals.failed += 1;
                print(&format!("STEP {} {}: FAIL {what}", place.name(), case.name));
            }
        }
    }
    print(&format!(
        "conformance {}: {} passed, {} failed, {} skipped",
        place.name(),
        totals.passed,
        totals.failed,
        totals.skipped
    ));
    totals
}
