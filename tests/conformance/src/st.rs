//! Scheduled Transfers (docs/st.md): what each call does, as rows that are tested, and the page
//! that is written from them.
//!
//! A row has a situation, a result, and a case that shows it. A case is written once, against
//! [`driver::Driver`], and runs in four places: between two programs of the simulator, in one
//! booted node, between host and card, and from card to card. On booted nodes C programs make the
//! calls. A row without a case in a place says why.

pub mod bench;
pub mod call;
pub mod driver;
pub mod ends;
pub mod number;
mod rows;
pub mod run;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use bench::{Bench, Checked, Place};
pub use rows::SECTIONS;

/// A row: a situation, and its result.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its number.
    pub number: u32,
    /// The call, and its condition.
    pub condition: &'static str,
    /// The expected result.
    pub result: &'static str,
    case: fn(&mut Bench<'_>) -> Checked,
    /// Places where the case does not run, with the reasons.
    except: &'static [(Place, &'static str)],
}

/// A row with a case that runs everywhere.
const fn row(
    number: u32,
    condition: &'static str,
    result: &'static str,
    case: fn(&mut Bench<'_>) -> Checked,
) -> Row {
    Row {
        number,
        condition,
        result,
        case,
        except: &[],
    }
}

impl Row {
    /// Excludes places from the row, with the reasons.
    const fn except(mut self, places: &'static [(Place, &'static str)]) -> Row {
        self.except = places;
        self
    }

    /// The case, if it runs in this place.
    pub fn case(&self, place: Place) -> Option<fn(&mut Bench<'_>) -> Checked> {
        let runs = self.except.iter().all(|(other, _)| *other != place);
        runs.then_some(self.case)
    }
}

/// The page.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    let rows = || SECTIONS.iter().flat_map(|(_, rows)| *rows);
    for place in Place::ALL {
        let count = rows().filter(|row| row.case(place).is_some()).count();
        let _ = writeln!(
            page,
            "| `{}` | {} | {count} | {} |",
            place.name(),
            about(place),
            place.many()
        );
    }
    for (title, rows) in SECTIONS {
        let _ = write!(
            page,
            "\n## {title}\n\n| | when | what happens | runs in |\n| --- | --- | --- | --- |\n"
        );
        for row in *rows {
            let (number, condition, result) = (row.number, row.condition, row.result);
            let runs = runs_in(row);
            let _ = writeln!(page, "| {number} | {condition} | {result} | {runs} |");
        }
    }
    page
}

fn about(place: Place) -> &'static str {
    match place {
        Place::Sim => {
            "two programs of the simulator with the machine of `st-core`, over shared memory and \
             over a bus, with stores that arrive late"
        }
        Place::Node => "two C programs in one node",
        Place::Pair => "two C programs, on the host and on a card",
        Place::Cards => "two C programs on two cards; the host asks them",
    }
}

/// The places where a row runs.
fn runs_in(row: &Row) -> String {
    let places = Place::ALL.into_iter();
    let places = places.filter(|place| row.case(*place).is_some());
    let names: Vec<_> = places.map(Place::name).collect();
    let mut text = match row.except.is_empty() {
        true => "all".to_string(),
        false => names.join(", "),
    };
    for (place, why) in row.except {
        let _ = write!(text, "; not `{}`: {why}", place.name());
    }
    text
}

const HEAD: &str = "# What Scheduled Transfers do\n
This page is written from the rows in `tests/conformance/src/st/rows` by `make behaviour`. A row is
a case that runs in the places that its last column names; a row that does not run in a place says
why. `A` is the end that connects, `B` the one that listens. Calls are those of `st.h`;
[st.md](st.md) says what they do and why. After each row both nodes hold as many endpoints,
connections, ports, windows, mappings and pinned pages as before.

Rows that repeat something very often do so as many times as the last column says; the program
`st-conformance` takes another number.\n
| place | what it is | rows | very often |
| --- | --- | --- | --- |\n";
