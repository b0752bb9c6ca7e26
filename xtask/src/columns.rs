//! Columns of the scheme's text files. The code that writes the files defines the columns, and the
//! page that describes them must name each, in the same order.

use std::collections::BTreeMap;

/// Path of the code in the project.
pub const CODE: &str = "scheme-scif/src/scif/files/mod.rs";
/// Path of the page.
pub const PAGE: &str = "docs/scheme.md";
/// The head of the page's table.
const HEAD: &str = "| file | columns |";
/// The text that begins a table in the code.
const TABLE: &str = "Table::new(";

/// The faults of the page, one sentence for each file.
pub fn complaints(code: &str, page: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let (_, page) = page.split_once(HEAD).unwrap_or_default();
    let files = files(code);
    if files.is_empty() {
        complaints.push(format!(
            "no columns are found in {CODE}: correct the search"
        ));
    }
    for (file, columns) in files {
        let start = format!("| `{file}` | ");
        let Some(row) = page.lines().find_map(|line| line.strip_prefix(&start)) else {
            complaints.push(format!("has no row for the file `{file}`"));
            continue;
        };
        // Every second piece is between two backquotes.
        let mut words = row.split('`').skip(1).step_by(2);
        if let Some(lost) = columns
            .iter()
            .find(|&column| !words.any(|word| word == *column))
        {
            let columns = columns.join(" ");
            complaints.push(format!(
                "`{file}` has no `{lost}`, or not in its place; the columns are {columns}"
            ));
        }
    }
    complaints
}

/// The columns of each file, from the function with the file's name.
fn files(code: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut files = BTreeMap::new();
    for function in code.split("    fn ").skip(1) {
        let name = function.split('(').next().unwrap_or_default();
        if !function.contains(TABLE) {
            continue;
        }
        // The first list of string literals in the function.
        let lists = function.split('[').skip(1);
        let lists = lists.filter_map(|list| list.split(']').next());
        let mut lists = lists.filter(|list| list.trim_start().starts_with('"'));
        if let Some(list) = lists.next() {
            files.insert(name, list.split('"').skip(1).step_by(2).collect());
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
    fn nodes(&self) -> String {
        rows[0];
        let mut table = Table::new(["node", "role"]);
    }

    fn other(&self) {}
    fn ports(&self) -> String {
        let columns = [
            "port",
        ];
        let mut table = Table::new(columns);
"#;
    const GOOD: &str = "\
| `nodes` | another table |
| file | columns |
| --- | --- |
| `nodes` | `node`, `role` (`host`) |
| `ports` | `port` |
";

    #[test]
    fn a_stale_page_is_noticed() {
        assert_eq!(complaints(SOURCE, GOOD), [""; 0]);
        let old = GOOD.replace("`role`", "`kind`");
        let found = complaints(SOURCE, &old);
        assert!(
            found.len() == 1 && found[0].contains("no `role`"),
            "{found:?}"
        );
        for (from, to) in [
            ("`node`, `role`", "`role`, `node`"),
            ("| `ports` | `port` |", ""),
        ] {
            assert_eq!(complaints(SOURCE, &GOOD.replace(from, to)).len(), 1);
        }
        assert_eq!(complaints("", GOOD).len(), 1);
    }

    #[test]
    fn all_tables_of_the_code_are_found() {
        let code = std::fs::read_to_string(harness::base::workspace::root().join(CODE)).unwrap();
        assert_eq!(files(&code).len(), code.matches(TABLE).count());
    }
}
