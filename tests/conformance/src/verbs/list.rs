//! The cases of rdma-core's own tests that are for no particular device, from `list.txt`, with the
//! test here that covers each, or the reason why it does not apply.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::page::Shown;

/// A case.
pub struct Case {
    /// The file in rdma-core.
    pub file: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The test here that covers it.
    pub shown: Shown,
}

/// The cases; `None` for a malformed line.
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

/// The section of the page.
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
