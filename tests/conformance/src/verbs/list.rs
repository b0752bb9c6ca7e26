//! The cases of rdma-core's own tests that belong to no particular device, from `list.txt`: what
//! shows each of them here, or why it does not apply.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::page::Shown;

/// A case.
pub struct Case {
    /// The file that has it.
    pub file: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The test that shows it.
    pub shown: Shown,
}

/// The cases; `None` for a line that is none.
pub fn cases() -> Vec<Option<Case>> {
    let lines = include_str!("list.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(case).collect()
}

fn case(line: &'static str) -> Option<Case> {
    let (file, rest) = line.split_once(" | ")?;
    let (name, shown) = rest.split_once(" | ")?;
    let shown = Shown::parse(shown)?;
    Some(Case { file, name, shown })
}

/// The part of the page.
pub fn page() -> String {
    let all: Vec<Case> = cases().into_iter().flatten().collect();
    let covered = all
        .iter()
        .filter(|case| !matches!(case.shown, Shown::Not(_)));
    let mut page = format!(
        "\n## The cases of rdma-core's tests\n\nOf the {} cases of rdma-core's tests that belong \
         to no particular device, {} are shown by a row or a test here; the others say why they \
         do not apply.\n\n| file | case | here |\n| --- | --- | --- |\n",
        all.len(),
        covered.count()
    );
    for Case { file, name, shown } in &all {
        page += &format!("| {file} | {name} | {} |\n", shown.text());
    }
    page
}
