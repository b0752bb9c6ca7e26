//! Compares the tables in `docs/redox.md` with the parts of the kernel's interface that the
//! programs of the image use: each part that is used has a row, each row is used, and each row
//! names a check of the ABI test.
//!
//! Uses are found in the sources by name: constants of the published crates, paths of kernel
//! schemes, names with which descriptors are duplicated, methods of scheme daemons.

use harness::base::report::{Context, Result};
use harness::base::workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const DOCUMENT: &str = "docs/redox.md";
/// First cell in the head of the table of what the kernel offers.
const KERNEL_HEAD: &str = "kernel";
/// First cell in the head of the table of names that daemons answer.
const OTHERS_HEAD: &str = "not the kernel";
/// Directories of the programs and libraries of the image; their tests run elsewhere.
const SOURCES: &[&str] = &["lib", "initfs", "drivers", "scheme-scif"];
/// Directory of the checks.
const CHECKS: &str = "tests/abi/src";
/// The file with raw calls for tests.
const PROBE: &str = "probe.rs";

/// The kernel's schemes, as their paths begin.
const SCHEMES: &[&str] = &[
    "debug",
    "event",
    "irq",
    "kernel.acpi",
    "kernel.dtb",
    "memory",
    "pipe",
    "serio",
    "sys",
    "time",
];
/// Prefixes of constants in the published crates that stand for an operation of the kernel.
const WORDS: &[&str] = &[
    "SYS_",
    "FUTEX_WA",
    "F_DUPFD",
    "F_GETF",
    "F_SETF",
    "ADDRSPACE_OP_",
    "AcpiVerb::",
    "CallFlags::",
    "ContextStatus::",
    "ContextVerb::",
    "GlobalSchemes::",
    "MapFlags::MAP_",
    "MapFlags::PROT_",
    "ProcSchemeVerb::",
    "StdFsCallKind::",
];
/// Conversions of the enums above, which are no values of them.
const CONVERSIONS: &[&str] = &["try_from_raw", "from_bits_retain", "empty"];
/// Functions that request an object by its name.
const ASKING: &[&str] = &[
    "companion",
    "dup",
    "dup2",
    "dup_at",
    "dup_upper",
    "hidden",
    "openat_upper",
];

/// Compares tables and sources.
///
/// # Errors
/// All differences, one a line.
pub fn check() -> Result<()> {
    let mut used: BTreeMap<String, String> = BTreeMap::new();
    for path in sources()? {
        let name = workspace::display(&path);
        let text = std::fs::read_to_string(&path).context(|| format!("read {name}"))?;
        for word in uses(&code(&text)) {
            used.entry(word).or_insert_with(|| name.clone());
        }
    }
    let document = std::fs::read_to_string(workspace::root().join(DOCUMENT))
        .context(|| format!("read {DOCUMENT}"))?;
    let mut checks = BTreeSet::new();
    for path in rust_files(&workspace::root().join(CHECKS))? {
        let text = std::fs::read_to_string(&path).context(|| format!("read {path:?}"))?;
        checks.extend(names_of_checks(&text));
    }
    let complaints = compare(&used, &document, &checks);
    if complaints.is_empty() {
        println!("{DOCUMENT} names all {} uses of the kernel", used.len());
        return Ok(());
    }
    Err(format!("{DOCUMENT}:\n  {}", complaints.join("\n  ")).into())
}

/// The sources of the image's programs and libraries, without tests.
fn sources() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for directory in SOURCES {
        found.extend(rust_files(&workspace::root().join(directory))?);
    }
    let is_test = |path: &PathBuf| {
        let shown = workspace::display(path);
        shown.ends_with("tests.rs") || shown.contains("/tests/") || shown.ends_with(PROBE)
    };
    found.retain(|path| !is_test(path));
    Ok(found)
}

fn rust_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let shown = || format!("read the directory {}", directory.display());
    for item in std::fs::read_dir(directory).context(shown)? {
        let path = item.context(shown)?.path();
        if path.is_dir() {
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// A source without its comments, and without the tests at its end.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.fold(String::new(), |code, line| code + line + "\n")
}

/// The parts of the interface that a source uses.
fn uses(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    found.extend(constants(code));
    found.extend(paths(code));
    found.extend(asked_names(code));
    found.extend(methods(code).into_iter().map(|name| format!("fn {name}")));
    found
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The constants that begin with one of [`WORDS`].
fn constants(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for prefix in WORDS {
        for (at, _) in code.match_indices(prefix) {
            let before = code.get(..at).and_then(|text| text.chars().next_back());
            if before.is_some_and(is_word) {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            if !CONVERSIONS.contains(&name.as_str()) {
                found.insert(format!("{prefix}{name}"));
            }
        }
    }
    found
}

/// String literals that are paths of kernel schemes. The parts that are filled in are left out.
fn paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, start) in code.match_indices("\"/scheme/") {
        let rest = &code[at + start.len()..];
        let Some((path, _)) = rest.split_once('"') else {
            continue;
        };
        let scheme = path.split('/').next().unwrap_or_default();
        if SCHEMES.contains(&scheme) {
            found.insert(format!("/scheme/{}", without_arguments(path)));
        }
    }
    found
}

/// The names by which objects are requested.
fn asked_names(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for function in ASKING {
        for (at, _) in code.match_indices(&format!("{function}(")) {
            let before = code.get(..at).and_then(|text| text.chars().next_back());
            if before.is_some_and(is_word) {
                continue;
            }
            let arguments = in_parentheses(&code[at + function.len()..]);
            let pieces = arguments.split("b\"").skip(1);
            let names = pieces.filter_map(|piece| piece.split('"').next());
            found.extend(names.filter(|name| !name.is_empty()).map(str::to_string));
        }
    }
    // These names are put together in another place.
    for (at, _) in code.match_indices("\"auth-") {
        if let Some(name) = code[at + 1..].split('"').next() {
            found.insert(without_arguments(name));
        }
    }
    // A mere prefix is compared with, not requested.
    found.remove("auth-");
    found
}

/// The text from an opening parenthesis to the closing one that belongs to it.
fn in_parentheses(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// A format string with `{}` for each part that is filled in.
fn without_arguments(text: &str) -> String {
    let mut pieces = text.split('{');
    let mut result = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        result += "{}";
        result += piece.split_once('}').map_or("", |(_, rest)| rest);
    }
    result
}

/// The requests that scheme daemons answer: methods of `SchemeSync`.
fn methods(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in code.lines() {
        if line.starts_with("impl") && line.contains("SchemeSync for ") {
            inside = true;
        } else if line.starts_with('}') {
            inside = false;
        } else if let Some(rest) = line.strip_prefix("    fn ").filter(|_| inside) {
            found.insert(rest.chars().take_while(|c| is_word(*c)).collect());
        }
    }
    found
}

/// The names of the checks in a source of the ABI test: those of single checks, and those in
/// tables.
fn names_of_checks(text: &str) -> BTreeSet<String> {
    let single = text.split(".check(").skip(1);
    let tables = text.split("&[Check] = &[").skip(1);
    let tables = tables.filter_map(|rest| rest.split("\n];").next());
    single
        .chain(tables.flat_map(|table| table.split("\n    (").skip(1)))
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .map(str::to_string)
        .collect()
}

/// A row of a table: the names in its first cell, and the other cells.
struct Row<'a> {
    names: Vec<&'a str>,
    cells: Vec<&'a str>,
}

/// The rows of the table whose head begins with `head`.
fn rows<'a>(document: &'a str, head: &str) -> Vec<Row<'a>> {
    let lines = document.lines();
    let table = lines
        .skip_while(|line| !line.starts_with(&format!("| {head} |")))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    table
        .map(|line| {
            let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
            let first = cells.next().unwrap_or_default();
            Row {
                names: first.split('`').skip(1).step_by(2).collect(),
                cells: cells.collect(),
            }
        })
        .collect()
}

/// All differences. `used` maps each name to a file that uses it.
fn compare(
    used: &BTreeMap<String, String>,
    document: &str,
    checks: &BTreeSet<String>,
) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut known = BTreeSet::new();
    let kernel = rows(document, KERNEL_HEAD);
    let others = rows(document, OTHERS_HEAD);
    for row in kernel.iter().chain(&others) {
        for name in &row.names {
            if !known.insert(*name) {
                complaints.push(format!("`{name}` has two rows"));
            }
            if !used.contains_key(*name) {
                complaints.push(format!("`{name}` is used nowhere: remove it"));
            }
        }
    }
    for (name, file) in used {
        if !known.contains(name.as_str()) {
            complaints.push(format!("`{name}` is missing (used by {file})"));
        }
    }
    for row in &kernel {
        let name = row.names.first().unwrap_or(&"a row without a name");
        let [source, check] = row.cells[..] else {
            complaints.push(format!("`{name}`: not three cells"));
            continue;
        };
        if !source.contains(".rs` `") {
            complaints.push(format!("`{name}`: '{source}' is no file and function"));
        }
        for check in check.split("; ") {
            // Every name begins with the empty text.
            if check.is_empty() || !checks.iter().any(|known| known.starts_with(check)) {
                complaints.push(format!("`{name}`: no check begins with '{check}'"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_found_and_comments_are_none() {
        let text = "
            /// syscall::SYS_READ is not used
            unsafe { call(syscall::SYS_WRITE, [CallFlags::FD.bits()]) };
            CallFlags::empty(); MY_SYS_CALL;
            let fd = fd::dup_upper(thread(1), b\"regs/env\")?;
            fd::dup(a, b\"\")?;
            Fd::open(\"/scheme/memory/zeroed@wb\"); open(\"/scheme/scif/1\");
            let path = format!(\"/scheme/irq/cpu-{cpu:02x}/{irq}\");
            let name = format!(\"auth-{}-attrs\", 1);
impl SchemeSync for Daemon {
    fn openat(&mut self) {}
}
impl Daemon {
    fn answer(&mut self) {}
}
#[cfg(test)]
mod tests { SYS_FUTEX }
";
        let expected = [
            "/scheme/irq/cpu-{}/{}",
            "/scheme/memory/zeroed@wb",
            "CallFlags::FD",
            "SYS_WRITE",
            "auth-{}-attrs",
            "fn openat",
            "regs/env",
        ];
        let found: Vec<String> = uses(&code(text)).into_iter().collect();
        assert_eq!(found, expected);
    }

    const DOCUMENT: &str = "
| kernel | upstream | checked by |
| --- | --- | --- |
| `SYS_READ`, `SYS_WRITE` | `syscall/fs.rs` `sys_read` | pipe: bytes |

| not the kernel | who |
| --- | --- |
| `fork` | procmgr |
";

    fn complaints(used: &[&str], document: &str) -> Vec<String> {
        let used = used
            .iter()
            .map(|name| (name.to_string(), "x.rs".to_string()));
        let checks = ["pipe: bytes in order".to_string()].into();
        compare(&used.collect(), document, &checks)
    }

    #[test]
    fn every_difference_is_told() {
        let all = ["SYS_READ", "SYS_WRITE", "fork"];
        assert_eq!(complaints(&all, DOCUMENT), Vec::<String>::new());
        let told = complaints(&["SYS_READ", "SYS_FMAP", "fork"], DOCUMENT);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("`SYS_WRITE` is used nowhere"));
        assert!(told[1].contains("`SYS_FMAP` is missing (used by x.rs)"));
        let told = complaints(&all, &DOCUMENT.replace("pipe: bytes", "pipes"));
        assert!(told[0].contains("no check begins with 'pipes'"), "{told:?}");
        let told = complaints(&all, &DOCUMENT.replace("pipe: bytes", ""));
        assert!(told[0].contains("no check begins with ''"), "{told:?}");
        let told = complaints(&all, &DOCUMENT.replace("`sys_read`", ""));
        assert!(told[0].contains("is no file and function"), "{told:?}");
    }

    #[test]
    fn checks_are_found_by_their_names() {
        let text = r#"
const CHECKS: &[Check] = &[
    ("four (of it)", four),
    (
        "three",
        three,
    ),
];
    suite.check("one", |_| Ok(("none", 0)));
    s.check(
        "two",
"#;
        let names: Vec<String> = names_of_checks(text).into_iter().collect();
        assert_eq!(names, ["four (of it)", "one", "three", "two"]);
    }
}
