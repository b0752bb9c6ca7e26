//! Writes the behaviour table for people: `docs/behaviour.md`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::ask::{ERR, HUP, IN, OUT};
use crate::cases::states;
use crate::table::{Ours, Row, SECTIONS, Test};

const HEAD: &str = "\
# Behaviour: what each call does, and why

This page defines the result of every SCIF call in every situation that the project's tests cover:
first each call in each state of an endpoint, then, call by call, the special conditions. The
columns *documents* and *drivers* give what the SCIF header says and what the two known drivers do
(the older one, MPSS 3, before the stroke, mainline's after it; – stands for no statement). *Skiff*
is what happens here. The header decides; *why* gives the reason where it is silent or where the
drivers differ from it or from each other.

Every row runs as a case of the conformance suite (`make conformance`), or names the test that shows
it. The page is written from the data of that suite
([`tests/conformance`](../tests/conformance/src/table.rs)): to change the page, change the data and
run `make behaviour`.

A call that fails changes nothing: after each failure below, both nodes have as many endpoints,
connections, ports, windows, mappings and pinned pages as before.
";

/// Returns the whole page.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str(&states::page());
    for section in SECTIONS {
        page.push_str(&format!("\n## {}\n\n", section.title));
        if !section.about.is_empty() {
            page.push_str(&format!("{}\n\n", section.about));
        }
        page.push_str("| condition | documents | drivers | Skiff | why |\n");
        page.push_str("| --- | --- | --- | --- | --- |\n");
        for row in section.rows {
            page.push_str(&line(row));
        }
    }
    page
}

/// The names of bits of readiness.
fn readiness(bits: u32) -> String {
    let names = [(IN, "IN"), (OUT, "OUT"), (ERR, "ERR"), (HUP, "HUP")];
    let set: Vec<&str> = names
        .into_iter()
        .filter_map(|(bit, name)| (bits & bit != 0).then_some(name))
        .collect();
    match set.as_slice() {
        [] => "nothing".to_string(),
        set => set.join(" and "),
    }
}

fn line(row: &Row) -> String {
    let ours = match row.ours {
        Ours::Fails(error) => error.symbol().to_string(),
        // An offset, as the other numbers are no whole pages.
        Ours::Gives(value) if value > 0 && value % 4096 == 0 => format!("{value:#x}"),
        Ours::Gives(value) => value.to_string(),
        Ours::Ready(bits) => readiness(bits),
        Ours::Succeeds => "succeeds".to_string(),
        Ours::Says(text) => text.to_string(),
    };
    let mut why = row.why.to_string();
    if let Test::Elsewhere(tests) = row.test {
        for (file, test) in tests {
            let gap = match why.chars().last() {
                None => "",
                Some('.' | ':' | ';') => " ",
                Some(_) => ". ",
            };
            why.push_str(&format!("{gap}Shown by `{test}` in [{file}](../{file})."));
        }
    }
    let cells = [row.condition, row.documents, row.drivers, &ours, &why];
    let cells = cells.map(|cell| match cell {
        "" => "–".to_string(),
        cell => cell.replace('|', "\\|"),
    });
    format!("| {} |\n", cells.join(" | "))
}
