//! `tidy`: checks the rules of this project that no compiler checks. Each rule is a function from
//! a file's text to findings, and has a test in which it finds something.

use crate::build;
use crate::columns;
use crate::layers;
use crate::pages;
use harness::base::report::{Context, Failure, Result};
use harness::base::settings::Settings;
use harness::base::workspace;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Crates that may contain unsafe code. All others inherit the lint that forbids it.
pub const UNSAFE_HOMES: &[&str] = &[
    "kernel",
    "lib/os/libc",
    "lib/libscif",
    "lib/libsocket",
    "lib/libst",
    "lib/libibverbs",
    "lib/libibumad",
    "lib/hal",
    "lib/scheme",
    "lib/client-memory",
    "lib/os/runtime",
];
const MAX_COLUMNS: usize = 100;
/// Most lines in a source file, its tests not counted.
const MAX_LINES: usize = 600;
/// The directory of the fuzz targets' inputs, which may have any bytes, and the most bytes in all
/// of them.
const CORPORA: &str = "tests/fuzz/corpus/";
const MAX_CORPORA_BYTES: usize = 128 << 10;
/// The page that names sources of Redox's kernel.
const OTHERS_SOURCES: &str = "docs/redox.md";
/// The page that lists every external crate with its reason.
const DEPENDENCY_LIST: &str = "docs/dependencies.md";

/// A violation of a rule: the place, and what to do.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_string(),
            line,
            what: what.into(),
        }
    }
}

/// Runs the command.
pub fn command(_settings: &Settings) -> Result<()> {
    let findings = check()?;
    for finding in &findings {
        println!("{}:{}: {}", finding.path, finding.line, finding.what);
    }
    match findings.len() {
        0 => {
            println!("tidy: nothing to complain about");
            Ok(())
        }
        count => Err(Failure::from(format!(
            "tidy: {count} findings, listed above"
        ))),
    }
}

fn check() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let text = |name: &str| {
        let path = workspace::root().join(name);
        std::fs::read_to_string(path).context(|| format!("read {name}"))
    };
    for complaint in columns::complaints(&text(columns::CODE)?, &text(columns::PAGE)?) {
        findings.push(Finding::new(columns::PAGE, 1, complaint));
    }
    for (path, line, what) in layers::complaints(&workspace::root())? {
        findings.push(Finding::new(&path, line, what));
    }
    let mut corpora = 0;
    let all = files()?;
    for path in &all {
        let name = workspace::display(path);
        let bytes = std::fs::read(path).context(|| format!("read {name}"))?;
        if name.starts_with(CORPORA) {
            corpora += bytes.len();
            continue;
        }
        let Ok(text) = String::from_utf8(bytes) else {
            findings.push(Finding::new(&name, 1, "not UTF-8: only text belongs here"));
            continue;
        };
        findings.extend(check_text(&name, &text));
        if name.ends_with(".rs") {
            findings.extend(check_source(&name, &text));
        }
        if name.ends_with(".sh") {
            findings.extend(check_waits(&name, &text));
        }
        if !name.ends_with(".md") {
            findings.extend(check_pages(&name, &text, |page| {
                let beside = path.parent().map(|directory| directory.join(page));
                let places = [workspace::root(), workspace::root().join("docs")];
                beside.is_some_and(|path| path.exists())
                    || places.iter().any(|place| place.join(page).exists())
            }));
        } else {
            findings.extend(check_links(&name, &text, |target| {
                path.parent()
                    .is_some_and(|directory| directory.join(target).exists())
            }));
            let root = workspace::root();
            let is_known = |word: &str| crate::COMMANDS.iter().any(|known| known.name == word);
            let names = pages::Names {
                is_top: |top: &str| top != "target" && root.join(top).is_dir(),
                is_path: |path: &str| root.join(path).exists(),
                is_source: |end: &str| {
                    name == OTHERS_SOURCES || all.iter().any(|path| path.ends_with(end))
                },
                is_command: |word: &str| word == "help" || is_known(word),
            };
            let complaints = pages::complaints(&text, &names);
            let finding = |(line, what)| Finding::new(&name, line, what);
            findings.extend(complaints.into_iter().map(finding));
        }
    }
    findings.extend(check_corpora(corpora));
    findings.extend(check_pipeline(&read(".ci/run")?));
    findings.extend(check_manifests()?);
    Ok(findings)
}

fn read(name: &str) -> Result<String> {
    std::fs::read_to_string(workspace::root().join(name)).context(|| format!("read {name}"))
}

/// All files of the project but build results and version control.
fn files() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![workspace::root()];
    while let Some(directory) = directories.pop() {
        let shown = || format!("read the directory {}", directory.display());
        for item in std::fs::read_dir(&directory).context(shown)? {
            let path = item.context(shown)?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if matches!(name.as_str(), "target" | ".git" | "Cargo.lock") || name.ends_with(".swp") {
                continue;
            }
            if path.is_dir() {
                directories.push(path)
            } else {
                found.push(path)
            }
        }
    }
    found.sort();
    Ok(found)
}

fn check_corpora(bytes: usize) -> Option<Finding> {
    let what = format!("{bytes} bytes of inputs: keep at most {MAX_CORPORA_BYTES}");
    (bytes > MAX_CORPORA_BYTES).then(|| Finding::new(CORPORA, 1, what))
}

/// Rules for every text file.
fn check_text(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The parts are joined here, so that this file does not break its own rule.
    let machine_paths = [
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/Us", "ers/"),
        concat!("/wo", "rk/"),
    ];
    let notes = [
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
        concat!("XX", "X:"),
    ];
    for (index, line) in text.lines().enumerate() {
        let mut find = |what: &str| findings.push(Finding::new(name, index + 1, what));
        if machine_paths.iter().any(|path| line.contains(path)) {
            find("a path of one machine: use a relative path");
        }
        if notes.iter().any(|note| line.contains(note)) {
            find("a note about unfinished work: finish it, or list it in README.md");
        }
        if line.ends_with([' ', '\t']) && !name.ends_with(".md") {
            find("blanks at the end of the line");
        }
    }
    // Of the pair at the end of a line, `lines` leaves nothing to be found.
    if let Some((before, _)) = text.split_once('\r') {
        let what = "carriage return: lines end with a line feed only";
        findings.push(Finding::new(name, before.split('\n').count(), what));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(Finding::new(
            name,
            text.lines().count(),
            "no line end at the end",
        ));
    }
    findings
}

/// Rules for Rust sources.
fn check_source(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//! ") {
        findings.push(Finding::new(
            name,
            1,
            "must begin with `//!` and what the file is for",
        ));
    }
    for (index, line) in text.lines().enumerate() {
        if line.chars().count() > MAX_COLUMNS {
            findings.push(Finding::new(
                name,
                index + 1,
                format!("longer than {MAX_COLUMNS}"),
            ));
        }
    }
    let code = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .count();
    if code > MAX_LINES && !name.ends_with("tests.rs") {
        let what = format!("{code} lines before the tests, more than {MAX_LINES}: split the file");
        findings.push(Finding::new(name, MAX_LINES, what));
    }
    findings
}

/// Checks that relative links in a document have targets.
fn check_links(name: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for piece in line.split("](").skip(1) {
            let Some((target, _)) = piece.split_once(')') else {
                continue;
            };
            let file = target.split('#').next().unwrap_or_default();
            if !target.contains("://") && !file.is_empty() && !exists(file) {
                let what = format!("the link to '{target}' leads nowhere");
                findings.push(Finding::new(name, index + 1, what));
            }
        }
    }
    findings
}

/// Checks that pages named in a source exist: beside it, in the project's root or in `docs`.
fn check_pages(name: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = line.split(|c| !is_part(c));
        let words = words.map(|word| word.trim_end_matches('.'));
        for page in words.filter(|word| word.len() > 3 && word.ends_with(".md")) {
            // The page is on another site: `//host/page` is what is left of its address.
            if !page.starts_with("//") && !exists(page) {
                let what =
                    format!("the page '{page}' is not there: name one that a reader can open");
                findings.push(Finding::new(name, index + 1, what));
            }
        }
    }
    findings
}

/// Checks that a script looks at the result of each wait, in its line or by a step in the next one.
fn check_waits(name: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let ignores = |at: &usize| {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        let line = lines[*at];
        line.starts_with("until_true ") && !line.contains("||") && !next.starts_with("step ")
    };
    let what = "nobody looks whether it came true: add `|| failed=1`, or a step behind it";
    let found = (0..lines.len()).filter(ignores);
    found.map(|at| Finding::new(name, at + 1, what)).collect()
}

/// Checks that the pipeline has no logic of its own, so that one command does the same anywhere.
fn check_pipeline(text: &str) -> Vec<Finding> {
    let lines: Vec<_> = text.lines().collect();
    let right = lines.len() == 2 && lines[0].starts_with("#!") && lines[1].ends_with("make test");
    if right {
        return Vec::new();
    }
    vec![Finding::new(
        ".ci/run",
        1,
        "must be two lines, the second one calling `make test` only",
    )]
}

fn check_manifests() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    used.extend(dependencies("Cargo.toml", &read("Cargo.toml")?)?);
    for member in build::workspace_members()? {
        let name = format!("{member}/Cargo.toml");
        let text = read(&name)?;
        findings.extend(check_lints(&member, &text));
        used.extend(dependencies(&name, &text)?);
    }
    findings.extend(check_dependency_list(&used, &read(DEPENDENCY_LIST)?));
    Ok(findings)
}

/// Checks that a crate inherits the workspace's lints. The homes of unsafe code must demand
/// reasons for it instead.
fn check_lints(member: &str, manifest: &str) -> Option<Finding> {
    let name = format!("{member}/Cargo.toml");
    let Ok(table) = manifest.parse::<toml::Table>() else {
        return Some(Finding::new(&name, 1, "cannot be understood"));
    };
    let lints = table.get("lints");
    if lints.and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true) {
        return None;
    }
    if !UNSAFE_HOMES.contains(&member) {
        let what = "must inherit the lints: add `[lints]` with `workspace = true`";
        return Some(Finding::new(&name, 1, what));
    }
    let clippy = lints.and_then(|lints| lints.get("clippy"));
    let reasons = clippy.and_then(|clippy| clippy.get("undocumented_unsafe_blocks")?.as_str());
    match reasons {
        Some("deny") => None,
        _ => Some(Finding::new(
            &name,
            1,
            "must deny clippy's undocumented_unsafe_blocks",
        )),
    }
}

/// Names of the external crates that a manifest requires by version.
fn dependencies(name: &str, manifest: &str) -> Result<BTreeSet<String>> {
    let table: toml::Table = manifest.parse().context(|| format!("understand {name}"))?;
    let mut names = BTreeSet::new();
    let workspace = table
        .get("workspace")
        .and_then(|workspace| workspace.as_table());
    let targets = table.get("target").and_then(|targets| targets.as_table());
    let per_target = targets.into_iter().flat_map(|targets| targets.values());
    let places = [Some(&table), workspace]
        .into_iter()
        .flatten()
        .chain(per_target.filter_map(|target| target.as_table()));
    for place in places {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let list = place.get(section).and_then(|section| section.as_table());
            for (name, value) in list.into_iter().flatten() {
                if value.is_str() || value.get("version").is_some() {
                    names.insert(name.clone());
                }
            }
        }
    }
    Ok(names)
}

/// Checks that the list and the manifests name the same crates.
fn check_dependency_list(used: &BTreeSet<String>, list: &str) -> Vec<Finding> {
    let mut listed = BTreeSet::new();
    let mut findings = Vec::new();
    for (index, line) in list.lines().enumerate() {
        let Some((name, rest)) = line
            .strip_prefix("| `")
            .and_then(|rest| rest.split_once('`'))
        else {
            continue;
        };
        listed.insert(name.to_string());
        if rest.trim_matches(['|', ' ']).is_empty() {
            let what = format!("no reason is given for '{name}'");
            findings.push(Finding::new(DEPENDENCY_LIST, index + 1, what));
        }
        if !used.contains(name) {
            let what = format!("'{name}' is not used by any crate: remove the line");
            findings.push(Finding::new(DEPENDENCY_LIST, index + 1, what));
        }
    }
    for name in used.difference(&listed) {
        let what = format!("'{name}' is missing: add it with the reason why it is used");
        findings.push(Finding::new(DEPENDENCY_LIST, 1, what));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_a_wait_is_looked_at() {
        let lines = |text: &str| {
            let found = check_waits("x.sh", text);
            found.iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        let good = "until_true x || failed=1\nuntil_true x\nstep x $? y\n";
        assert!(lines(good).is_empty());
        assert_eq!(lines("until_true x\nkill 1\n  until_true y\n"), [1, 3]);
    }

    #[test]
    fn inputs_of_fuzz_targets_are_few() {
        assert_eq!(check_corpora(MAX_CORPORA_BYTES), None);
        assert!(check_corpora(MAX_CORPORA_BYTES + 1).is_some());
    }

    #[test]
    fn text_rules_fire() {
        let count = |text: &str| check_text("x.rs", text).len();
        assert_eq!(count("fine\n"), 0);
        assert_eq!(count(concat!("see /ho", "me/me/x\n")), 1);
        assert_eq!(count(concat!("// TO", "DO later\n")), 1);
        assert_eq!(count("blank \n"), 1);
        assert_eq!(count("dos\r\ndos\r\n"), 1);
        assert_eq!(count("one\rtwo\n"), 1);
        assert_eq!(count("no end"), 1);
    }

    #[test]
    fn source_rules_fire() {
        let count = |text: &str| check_source("x.rs", text).len();
        assert_eq!(count("//! For the test.\n"), 0);
        assert_eq!(count("fn main() {}\n"), 1);
        assert_eq!(count(&format!("//! {}\n", "x".repeat(MAX_COLUMNS))), 1);
        let long = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
        assert_eq!(count(&long), 1);
        let tests = format!("//! Long tests.\n#[cfg(test)]\n{}", "\n".repeat(MAX_LINES));
        assert_eq!(count(&tests), 0);
    }

    #[test]
    fn link_rule_fires() {
        let text = concat!(
            "[a](there",
            ".md#part) [b](gone",
            ".md) [c](https://example.org) [d](#here)\n"
        );
        let findings = check_links("x", text, |target| target == concat!("there", ".md"));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].what.contains("gone"));
    }

    #[test]
    fn page_rule_fires() {
        // The parts are joined, because this source is checked, too.
        let text = concat!(
            "// see docs/there",
            ".md.\n// and (gone",
            ".md, section 2)\n",
            "let end = \".md\"; // https://example.org/x",
            ".md\n"
        );
        let findings = check_pages("x.rs", text, |page| page == concat!("docs/there", ".md"));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        assert!(findings[0].what.contains("gone"));
    }

    #[test]
    fn pipeline_rule_fires() {
        assert!(check_pipeline("#!/bin/sh\nmake test\n").is_empty());
        assert_eq!(check_pipeline("#!/bin/sh\nset -e\nmake test\n").len(), 1);
        assert_eq!(check_pipeline("#!/bin/sh\nmake test || true\n").len(), 1);
    }

    #[test]
    fn lint_rule_fires() {
        let inherits = "[lints]\nworkspace = true\n";
        let own = "[lints.clippy]\nundocumented_unsafe_blocks = \"deny\"\n";
        assert!(check_lints("drivers/micd", inherits).is_none());
        assert!(check_lints("drivers/micd", own).is_some());
        assert!(check_lints("drivers/micd", "").is_some());
        assert!(check_lints("kernel", own).is_none());
        assert!(check_lints("kernel", "[lints.clippy]\n").is_some());
    }

    #[test]
    fn dependency_rules_fire() {
        let manifest = "[dependencies]\na = \"1\"\nb = { version = \"2\" }\nc.workspace = true\n\
                        [target.x.dependencies]\nd = \"1\"\n";
        let used = dependencies("x", manifest).unwrap();
        assert_eq!(used.iter().collect::<Vec<_>>(), ["a", "b", "d"]);
        let complete = "| `a` | why |\n| `b` | why |\n| `d` | why |\n";
        assert!(check_dependency_list(&used, complete).is_empty());
        let wrong = "| `a` | |\n| `b` | why |\n| `e` | why |\n";
        assert_eq!(check_dependency_list(&used, wrong).len(), 3);
    }

    #[test]
    fn files_are_found_and_build_results_left_out() {
        let files = files().unwrap();
        assert!(files.iter().any(|path| path.ends_with("xtask/src/tidy.rs")));
        assert!(
            !files
                .iter()
                .any(|path| workspace::display(path).starts_with("target/"))
        );
    }
}
