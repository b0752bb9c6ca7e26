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
fn the_document_is_written_from_the_rows_of_verbs() {
    let path = root().join("docs/verbs-behaviour.md");
    let page = conformance::verbs::page::page();
    if std::env::var_os("SKIFF_REWRITE").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == page,
        "docs/verbs-behaviour.md is not what the rows say: run `cargo xtask behaviour`"
    );
}

#[test]
fn what_rows_of_verbs_are_shown_by_is_there() {
    use conformance::verbs::page::{Shown, references};
    let mut names = BTreeSet::new();
    for shown in references() {
        let shown = shown.expect("a line of list.txt or defects.txt cannot be read");
        assert_eq!(shown.missing(), None);
        if let Shown::Elsewhere(file, words) = shown {
            let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            assert!(text.contains(words), "no {words} in {file}");
        }
    }
    // rdma-core's list names each case once.
    let cases = conformance::verbs::list::cases();
    for case in cases.iter().flatten() {
        assert!(names.insert((case.file, case.name)), "twice: {}", case.name);
    }
    assert_eq!((cases.len(), names.len()), (231, 231));
}

#[test]
fn rows_of_verbs_have_names_of_their_own() {
    let sections = conformance::verbs::rows::SECTIONS;
    let mut names = BTreeSet::new();
    for row in sections.iter().flat_map(|(_, rows)| *rows) {
        assert!(names.insert(row.name), "twice: {}", row.name);
        assert!(!row.name.contains([':', ' ']), "{}", row.name);
    }
    let refusals = conformance::verbs::commands::refusals();
    assert!(refusals.iter().all(Option::is_some) && refusals.len() > 100);
    // The number of changes of state: none was left out.
    let counts = conformance::verbs::transitions::counts();
    assert_eq!(counts, (10_780, 486));
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
