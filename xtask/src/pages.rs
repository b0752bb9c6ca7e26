//! Names in the documentation. A path of the project or a command of `make` in code type must
//! exist, so a file cannot move without its name in the pages.

/// Tests for the things that a page can name. Each function returns whether the thing exists.
pub struct Names<Top, Path, Source, Command> {
    /// A directory in the project's root.
    pub is_top: Top,
    /// A path from the project's root.
    pub is_path: Path,
    /// The end of a source's path.
    pub is_source: Source,
    /// A command of `make`.
    pub is_command: Command,
}

/// The faults, each with the number of its line.
pub fn complaints(
    text: &str,
    names: &Names<
        impl Fn(&str) -> bool,
        impl Fn(&str) -> bool,
        impl Fn(&str) -> bool,
        impl Fn(&str) -> bool,
    >,
) -> Vec<(usize, String)> {
    let mut complaints = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Every second piece is between two backquotes.
        for code in line.split('`').skip(1).step_by(2) {
            let is_gone = match path(code, &names.is_top) {
                Some(path) => !(names.is_path)(path),
                None => is_source(code) && !(names.is_source)(code),
            };
            if is_gone {
                complaints.push((index + 1, format!("the path '{code}' does not exist")));
            }
            if let Some(word) = command(code).filter(|word| !(names.is_command)(word)) {
                complaints.push((index + 1, format!("there is no command 'make {word}'")));
            }
        }
    }
    complaints
}

/// Whether a piece of code type can be a path.
fn is_plain(code: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    code.chars().all(is_part)
}

/// The path in a piece of code type, if it begins with a name in the project's root.
fn path(code: &str, is_top: impl Fn(&str) -> bool) -> Option<&str> {
    let (top, _) = code.split_once('/').filter(|(top, _)| !top.is_empty())?;
    (is_plain(code) && is_top(top)).then(|| code.trim_end_matches('/'))
}

/// Whether a piece of code type is the end of a source's path.
fn is_source(code: &str) -> bool {
    is_plain(code) && code.len() > ".rs".len() && code.ends_with(".rs")
}

/// The command of `make` in a piece of code type, if it has one.
fn command(code: &str) -> Option<&str> {
    let word = code.strip_prefix("make ")?.split(' ').next()?;
    let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
    (!word.is_empty() && word.chars().all(is_part)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_noticed() {
        let none: Vec<usize> = Vec::new();
        let found = |text: &str| -> Vec<usize> {
            let names = Names {
                is_top: |top: &str| top == "lib",
                is_path: |path: &str| path == "lib/there.rs" || path == "lib/folder",
                is_source: |end: &str| end == "there.rs",
                is_command: |word: &str| word == "run",
            };
            let found = complaints(text, &names);
            found.into_iter().map(|(line, _)| line).collect()
        };
        assert_eq!(found("`lib/there.rs`, `lib/folder/` and `lib`\n"), none);
        assert_eq!(found("fine\n`lib/gone.rs`\n"), [2]);
        assert_eq!(
            found("`lib/a b`, `lib/<x>`, `other/gone`, lib/gone\n"),
            none
        );
        assert_eq!(found("`there.rs`, `.rs`, `a b.rs`, gone.rs\n"), none);
        assert_eq!(found("`gone.rs`\n`other/there.rs`\n"), [1, 2]);
        assert_eq!(
            found("`make run SCRIPT=x`, `make NODES=2`, to make it\n"),
            none
        );
        assert_eq!(found("`make walk` and `lib/gone`\n"), [1, 1]);
    }
}
