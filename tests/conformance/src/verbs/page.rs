//! Writes the rows for people: `docs/verbs-behaviour.md`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::bench::Place;
use super::rows::SECTIONS;
use super::rows::errors::ERRORS;
use super::{Row, commands, list, transitions};

const HEAD: &str = include_str!("page/head.txt");
const ERRORS_HEAD: &str = include_str!("page/errors.txt");
const COMMANDS_HEAD: &str = include_str!("page/commands.txt");
const CHANGES_HEAD: &str = include_str!("page/changes.txt");
const EVENTS_HEAD: &str = include_str!("page/events.txt");
const DEFECTS_HEAD: &str = include_str!("page/defects.txt");
const EVENTS: &str = include_str!("events.txt");
const DEFECTS: &str = include_str!("defects.txt");

/// The test that shows a statement.
pub enum Shown {
    /// The rows with these names.
    Rows(Vec<&'static str>),
    /// The row of an error.
    Error(&'static str),
    /// A condition of a command.
    Refusal(&'static str),
    /// A command without a mistake.
    Works(&'static str),
    /// A documented change of state of a type of queue pair, with attributes.
    Change(&'static str),
    /// A C program, a function that its main function calls, and words in that function.
    Function(&'static str, &'static str, &'static str),
    /// A file of the project, and a test in it.
    Elsewhere(&'static str, &'static str),
    /// No test, with the reason.
    Not(&'static str),
}

impl Shown {
    /// Parses the tests that a cell of a table names.
    pub fn parse(cell: &'static str) -> Option<Shown> {
        let (kind, rest) = cell.split_once(": ")?;
        Some(match kind {
            "rows" => Shown::Rows(rest.split_whitespace().collect()),
            "error" => Shown::Error(rest),
            "refusal" => Shown::Refusal(rest),
            "works" => Shown::Works(rest),
            "change" => Shown::Change(rest),
            "c" | "extended" | "requests" | "cm" | "ud" => {
                let (function, words) = rest.split_once(": ")?;
                Shown::Function(program(kind), function, words)
            }
            "file" => {
                let (file, words) = rest.split_once(": ")?;
                Shown::Elsewhere(file, words)
            }
            "no" => Shown::Not(rest),
            _ => return None,
        })
    }

    /// The text for the page.
    pub fn text(&self) -> String {
        match self {
            Shown::Rows(names) => {
                let names = names.iter().map(|name| format!("`{name}`"));
                names.collect::<Vec<_>>().join(", ")
            }
            Shown::Error(what) => format!("“{what}”"),
            Shown::Refusal(when) => format!("commands: “{when}”"),
            Shown::Works(command) => format!("commands: {command}"),
            Shown::Change(change) => format!("changes of state: {change}"),
            Shown::Function(file, function, _) => format!("`{function}` in `{file}`"),
            Shown::Elsewhere(file, words) => format!("“{words}” in `{file}`"),
            Shown::Not(why) => format!("not applicable: {why}"),
        }
    }

    /// The named tests that do not exist. Files are left to the caller, which can read them.
    pub fn missing(&self) -> Option<&'static str> {
        let unless = |what, found: bool| (!found).then_some(what);
        match self {
            Shown::Rows(names) => names.iter().copied().find(|name| !is_row(name)),
            Shown::Error(what) => unless(*what, ERRORS.iter().any(|row| row.what == *what)),
            Shown::Refusal(when) => {
                let mut all = commands::refusals().into_iter().flatten();
                unless(*when, all.any(|row| row.when == *when))
            }
            Shown::Works(name) => unless(*name, commands::is_known(name)),
            Shown::Change(change) => unless(*change, transitions::is_documented(change)),
            Shown::Function(..) | Shown::Elsewhere(..) | Shown::Not(_) => None,
        }
    }
}

/// The C programs by their short names.
fn program(kind: &str) -> &'static str {
    match kind {
        "c" => "tests/patterns/verbs-calls.c",
        "extended" => "tests/patterns/verbs-extended.c",
        "requests" => "tests/patterns/verbs-requests.c",
        "ud" => "tests/patterns/verbs-unconnected.c",
        _ => "tests/patterns/verbs-manager.c",
    }
}

fn is_row(name: &str) -> bool {
    let mut rows = SECTIONS.iter().flat_map(|(_, rows)| *rows);
    rows.any(|row| row.name == name)
}

/// The statements of a file, each with a situation or defect, the result here, and the test that
/// shows it; `None` for a malformed line.
fn statements(file: &'static str) -> Vec<Option<[&'static str; 3]>> {
    let lines = file.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let cells = |line: &'static str| {
        let cells: Vec<&'static str> = line.split(" | ").collect();
        <[_; 3]>::try_from(cells).ok()
    };
    lines.map(cells).collect()
}

/// The tests of all statements that name one; `None` for a malformed line.
pub fn references() -> Vec<Option<Shown>> {
    let cases = list::cases().into_iter();
    let cases = cases.map(|case| case.map(|case| case.shown));
    let others = [EVENTS, DEFECTS].into_iter().flat_map(statements);
    let others = others.map(|cells| cells.and_then(|[_, _, shown]| Shown::parse(shown)));
    cases.chain(others).collect()
}

const fn about(place: Place) -> &'static str {
    match place {
        Place::Sim => {
            "two contexts of `lib/verbs-core` on the simulator's memory, with stores that arrive \
             late, and buses with and without atomic operations"
        }
        Place::Node => "two programs with `lib/verbs` in one node",
        Place::Pair => "two programs with `lib/verbs`, on the host and on a card",
    }
}

/// The places where a row runs.
fn runs_in(row: &Row) -> String {
    if row.except.is_empty() {
        return "all".into();
    }
    let places = Place::ALL.into_iter();
    let names = places.filter(|place| row.case(*place).is_some());
    let mut text = names.map(Place::name).collect::<Vec<_>>().join(", ");
    for (place, why) in row.except {
        text += &format!("; not `{}`: {why}", place.name());
    }
    text
}

/// The whole page.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    let rows = || SECTIONS.iter().flat_map(|(_, rows)| *rows);
    for place in Place::ALL {
        let count = ERRORS.len() + rows().filter(|row| row.case(place).is_some()).count();
        page += &format!("| `{}` | {} | {count} |\n", place.name(), about(place));
    }
    page += ERRORS_HEAD;
    for row in ERRORS {
        page += &format!("| {} |\n", row.columns().join(" | "));
    }
    for (title, rows) in SECTIONS {
        page += &format!(
            "\n## {title}\n\n| row | when | what happens | runs in |\n| --- | --- | --- | --- |\n"
        );
        for row in *rows {
            let (condition, result) = row.words().unwrap_or_default();
            let name = row.name;
            page += &format!("| `{name}` | {condition} | {result} | {} |\n", runs_in(row));
        }
    }
    page += COMMANDS_HEAD;
    page += &commands::page();
    page += CHANGES_HEAD;
    page += &transitions::page();
    for (head, file) in [(EVENTS_HEAD, EVENTS), (DEFECTS_HEAD, DEFECTS)] {
        page += head;
        for [when, here, shown] in statements(file).into_iter().flatten() {
            let shown = Shown::parse(shown).map(|shown| shown.text());
            page += &format!("| {when} | {here} | {} |\n", shown.unwrap_or_default());
        }
    }
    page += &list::page();
    page
}
