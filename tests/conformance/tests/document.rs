//! The table itself: `docs/behaviour.md` is what it says, its names are unique, and the tests it
//! refers to exist. With SKIFF_REWRITE set the document is written instead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use conformance::bench::Place;
use conformance::document;
use conformance::run::cases;
use conformance::table::{SECTIONS, Test};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_document_is_written_from_the_table() {
    let path = root().join("docs/behaviour.md");
    let page = document::page();
    if std::env::var_os("SKIFF_REWRITE").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == page,
        "docs/behaviour.md is not what the table says: run `cargo xtask behaviour`"
    );
}

#[test]
fn the_document_is_written_from_the_rows_of_scheduled_transfers() {
    let path = root().join("docs/st-behaviour.md");
    let page = conformance::st::page();
    if std::env::var_os("SKIFF_REWRITE").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == page,
        "docs/st-behaviour.md is not what the rows say: run `cargo xtask behaviour`"
    );
}

#[test]
fn rows_of_scheduled_transfers_are_numbered() {
    let rows = conformance::st::SECTIONS.iter().flat_map(|(_, rows)| *rows);
    let numbers: BTreeSet<u32> = rows.clone().map(|row| row.number).collect();
    assert_eq!(rows.count(), 90);
    assert!(numbers.into_iter().eq(1..=90));
}

#[test]
fn names_of_cases_are_unique_and_can_be_reported() {
    for place in Place::ALL {
        let mut names = BTreeSet::new();
        for case in cases(*place) {
            assert!(!case.name.contains(": "), "{}", case.name);
            assert!(names.insert(case.name.clone()), "twice: {}", case.name);
        }
    }
}

#[test]
fn tests_of_other_suites_that_rows_refer_to_exist() {
    for section in SECTIONS {
        for row in section.rows {
            let Test::Elsewhere(tests) = row.test else {
                assert!(!row.places.is_empty(), "{} runs nowhere", row.condition);
                continue;
            };
            for (file, name) in tests {
                let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
                let found =
                    text.contains(&format!("fn {name}(")) || text.contains(&format!("\"{name}\""));
                assert!(found, "{}: no test {name} in {file}", row.condition);
            }
        }
    }
}
