//! Checks of the table itself: `docs/behaviour.md` is written from it, its names are unique, and
//! the tests that it names exist. With SKIFF_REWRITE set the document is written instead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use conformance::bench::Place;
use conformance::document;
use conformance::run::{Totals, cases};
use conformance::table::{SECTIONS, Test};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_default()
}

/// Whether a file has a test with this name: a function, or a step that a program checks.
fn has_test(text: &str, name: &str) -> bool {
    const CHECKS: [&str; 3] = ["suite.check(", "suite.equal(", "suite.holds("];
    let quoted = format!("\"{name}\"");
    let is_step = |at: usize| {
        let before = text[..at].trim_end();
        let is_checked = CHECKS.iter().any(|check| before.ends_with(check));
        // A row of a list whose steps are checked one after the other.
        let of_list = before.strip_suffix('(').map(str::trim_end);
        let is_row = of_list.is_some_and(|list| list.ends_with(['[', ',']));
        is_checked || (is_row && text.contains("suite.check(name, "))
    };
    let is_function = text.contains(&format!("fn {name}("));
    is_function || text.match_indices(&quoted).any(|(at, _)| is_step(at))
}

/// The body of a function of a C program.
fn body<'a>(text: &'a str, function: &str) -> Option<&'a str> {
    let begin = |line: &&str| {
        let is_head = line.ends_with(" {") && !line.starts_with([' ', '}', '#', '/']);
        is_head && is_called(line, function)
    };
    let head = text.lines().find(begin)?;
    let (_, behind) = text.split_once(head)?;
    behind.split_once("\n}\n").map(|(body, _)| body)
}

/// Whether a function is called, or defined, in the text.
fn is_called(text: &str, function: &str) -> bool {
    text.match_indices(function).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let is_whole = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        is_whole && text[at + function.len()..].starts_with('(')
    })
}

#[test]
fn a_test_is_a_function_or_a_step() {
    for (text, is_test) in [
        ("fn a_b() {", true),
        ("fn a_b_c() {", false),
        ("suite.equal(\"a_b\", 1, 1);", true),
        ("suite.holds(\n    \"a_b\",\n    true,\n);", true),
        ("[(\"a_b\", f)]; suite.check(name, f());", true),
        (
            "[(\"c\", f), (\n\"a_b\", f)]; suite.check(name, f());",
            true,
        ),
        ("[(\"a_b\", f)];", false),
        ("let name = \"a_b\";", false),
        ("print(\"a_b\"); suite.check(name, f());", false),
        ("suite.equal(\"c\", found, \"a_b\");", false),
    ] {
        assert_eq!(has_test(text, "a_b"), is_test, "{text}");
    }
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
        "docs/behaviour.md is not what the table says: run `make behaviour`"
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
        "docs/st-behaviour.md is not what the rows say: run `make behaviour`"
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
        "docs/verbs-behaviour.md is not what the rows say: run `make behaviour`"
    );
}

#[test]
fn what_rows_of_verbs_are_shown_by_is_there() {
    use conformance::verbs::page::{Shown, references};
    let mut names = BTreeSet::new();
    for shown in references() {
        let shown = shown.expect("a line of list.txt, events.txt or defects.txt cannot be read");
        assert_eq!(shown.missing(), None);
        match shown {
            Shown::Elsewhere(file, test) => {
                assert!(has_test(&read(file), test), "no test {test} in {file}");
            }
            Shown::Function(file, function, words) => {
                let text = read(file);
                let calls = body(&text, "main").is_some_and(|main| is_called(main, function));
                assert!(calls, "main does not call {function} in {file}");
                let found = body(&text, function).is_some_and(|body| body.contains(words));
                assert!(found, "no {words} in {function} in {file}");
            }
            _ => {}
        }
    }
    // rdma-core's list names each case only once.
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
    // The number of changes of state, so that none is left out.
    let counts = conformance::verbs::transitions::counts();
    assert_eq!(counts, (10_780, 696));
}

#[test]
fn rows_of_scheduled_transfers_are_numbered() {
    let rows = conformance::st::SECTIONS.iter().flat_map(|(_, rows)| *rows);
    let numbers: BTreeSet<u32> = rows.clone().map(|row| row.number).collect();
    assert_eq!(rows.count(), 90);
    assert!(numbers.into_iter().eq(1..=90));
}

#[test]
fn a_run_without_cases_is_no_success() {
    let none = Totals::default();
    let some = Totals { passed: 1, ..none };
    let bad = Totals { failed: 1, ..some };
    let found = [none, some, bad].map(|totals| totals.is_success());
    assert_eq!(found, [false, true, false]);
}

/// So many that none is left out; who adds or removes cases changes the number.
#[test]
fn each_place_has_its_cases() {
    let found: Vec<_> = Place::ALL
        .iter()
        .map(|place| (place.name(), cases(*place).len()))
        .collect();
    assert_eq!(found, [("sim", 742), ("loopback", 752), ("pair", 754)]);
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
                let found = has_test(&read(file), name);
                assert!(found, "{}: no test {name} in {file}", row.condition);
            }
        }
    }
}
