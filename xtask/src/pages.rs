//! Names in the documentation: a path of the project or a command of `make` in code type must
//! exist. So a file cannot move without its name in the pages.

/// What is wrong, with the number of its line. `is_top` knows the names in the project's root,
/// `exists` its paths, `is_command` the commands of `make`.
pub fn complaints(
    text: &str,
    is_top: impl Fn(&str) -> bool,
    exists: impl Fn(&str) -> bool,
    is_command: impl Fn(&str) -> bool,
) -> Vec<(usize, String)> {
    let mut complaints = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Every second piece is between two of them.
        for code in line.split('`').skip(1).step_by(2) {
            if let Some(path) = path(code, &is_top).filter(|path| !exists(path)) {
                complaints.push((index + 1, format!("the path '{path}' does not exist")));
            }
            if let Some(word) = command(code).filter(|word| !is_command(word)) {
                complaints.push((index + 1, format!("there is no command 'make {word}'")));
            }
        }
    }
    complaints
}

/// The path that a piece of code type is, if it begins with a name of the project's root.
fn path(code: &str, is_top: impl Fn(&str) -> bool) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let (top, _) = code.split_once('/').filter(|(top, _)| !top.is_empty())?;
    (code.chars().all(is_part) && is_top(top)).then(|| code.trim_end_matches('/'))
}

/// The command of `make` that a piece of code type calls.
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
            let found = complaints(
                text,
                |top| top == "lib",
                |path| path == "lib/there.rs" || path == "lib/folder",
                |word| word == "run",
            );
            found.into_iter().map(|(line, _)| line).collect()
        };
        assert_eq!(found("`lib/there.rs`, `lib/folder/` and `lib`\n"), none);
        assert_eq!(found("fine\n`lib/gone.rs`\n"), [2]);
        assert_eq!(
            found("`lib/a b`, `lib/<x>`, `other/gone.rs`, lib/gone\n"),
            none
        );
        assert_eq!(
            found("`make run SCRIPT=x`, `make NODES=2`, to make it\n"),
            none
        );
        assert_eq!(found("`make walk` and `lib/gone`\n"), [1, 1]);
    }
}
