//! Scheduled Transfers: what each call does, as rows, and the page that is written from them.
//!
//! A row says where it is shown: by checks of the program `st-test`, which the suites `st` (one
//! node) and `st-pair` (two nodes) run, by C programs of the suites `sockets` and `sockets-pair`,
//! by tests of `st-core` and of the simulator. A row without a test says what is missing.

mod rows;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

pub use rows::SECTIONS;

/// Where a row is shown.
pub enum Shown {
    /// By these tests: file and name.
    By(&'static [(&'static str, &'static str)]),
    /// Nowhere yet, because this is missing.
    Missing(&'static str),
}

/// A row: a call and a condition, and what happens.
pub struct Row {
    /// Its number.
    pub number: u32,
    /// The call, and when.
    pub condition: &'static str,
    /// What happens.
    pub result: &'static str,
    /// Where it is shown.
    pub shown: Shown,
}

/// A row that these tests show.
const fn by(
    number: u32,
    condition: &'static str,
    result: &'static str,
    tests: &'static [(&'static str, &'static str)],
) -> Row {
    Row {
        number,
        condition,
        result,
        shown: Shown::By(tests),
    }
}

/// A row for which something is missing.
const fn missing(
    number: u32,
    condition: &'static str,
    result: &'static str,
    what: &'static str,
) -> Row {
    Row {
        number,
        condition,
        result,
        shown: Shown::Missing(what),
    }
}

/// The page.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    for (title, rows) in rows::SECTIONS {
        let _ = write!(
            page,
            "\n## {title}\n\n| | when | what happens | shown by |\n"
        );
        page.push_str("| --- | --- | --- | --- |\n");
        for row in *rows {
            let shown = match row.shown {
                Shown::By(tests) => {
                    let name = |(file, name): &(&str, &str)| format!("`{}`: {name}", place(file));
                    let each = tests.iter().map(name);
                    each.collect::<Vec<_>>().join("; ")
                }
                Shown::Missing(what) => format!("not yet: {what}"),
            };
            let (number, condition, result) = (row.number, row.condition, row.result);
            let _ = writeln!(page, "| {number} | {condition} | {result} | {shown} |");
        }
    }
    page
}

/// A short name of a file of tests.
fn place(file: &str) -> &str {
    match file {
        rows::CLIENT | rows::DEATHS => "st-test",
        file => file.strip_prefix("tests/patterns/").unwrap_or(file),
    }
}

const HEAD: &str = "# What Scheduled Transfers do\n
This page is written from `tests/conformance/src/st/rows.rs` by `cargo xtask behaviour`. `st-test`
is the program of the suites `st` (one node) and `st-pair` (two nodes), and programs in C
(`tests/patterns`) are in `sockets` and `sockets-pair`; a row shown by them holds in both. Calls
are those of the Rust library; [st.md](st.md) says what they do and why.\n";
