//! `test` and `[`: conditions on files, texts and numbers.

use alloc::format;
use alloc::string::String;

#[cfg(target_os = "redox")]
use syscall::flag::{MODE_DIR, MODE_FIFO, MODE_FILE, MODE_TYPE};

/// The kind of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A pipe.
    Pipe,
    /// A character device or anything else a scheme offers.
    Other,
}

/// The facts about a path that conditions ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The kind.
    pub kind: Kind,
    /// Length in bytes.
    pub size: u64,
    /// What this process may do: 4 read, 2 write, 1 execute.
    pub rights: u32,
    /// Time of the last change, nanoseconds since 1970.
    pub modified: u64,
}

/// What a user with a group may do by the mode of a file and its owner and group: 4 read, 2 write,
/// 1 execute. Root may do all, but execute only what somebody may, or enter any directory.
pub fn rights(
    mode: u32,
    is_directory: bool,
    (owner, group): (u32, u32),
    (user, own_group): (u32, u32),
) -> u32 {
    match user {
        0 if is_directory || mode & 0o111 != 0 => 7,
        0 => 6,
        user if user == owner => mode >> 6 & 7,
        _ if own_group == group => mode >> 3 & 7,
        _ => mode & 7,
    }
}

impl Facts {
    /// The facts about `path`; `None` if it cannot be reached.
    #[cfg(target_os = "redox")]
    pub fn of(path: &str) -> Option<Self> {
        let data = runtime::fs::metadata(path).ok()?;
        let kind = match data.mode() & MODE_TYPE {
            MODE_DIR => Kind::Directory,
            MODE_FILE => Kind::File,
            MODE_FIFO => Kind::Pipe,
            _ => Kind::Other,
        };
        let stat = data.stat();
        let modified = stat
            .st_mtime
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::from(stat.st_mtime_nsec));
        let user = libredox::call::geteuid().unwrap_or_default() as u32;
        // Only asked for where it matters: each question is a request.
        let group = match user == 0 || user == data.uid() {
            true => data.gid(),
            false => libredox::call::getegid().unwrap_or_default() as u32,
        };
        Some(Self {
            kind,
            size: data.len(),
            rights: rights(
                data.mode().into(),
                data.is_dir(),
                (data.uid(), data.gid()),
                (user, group),
            ),
            modified,
        })
    }
}

/// Access to the facts that conditions ask for.
pub trait Files {
    /// The facts about `path`; `None` if it cannot be reached.
    fn facts(&self, path: &str) -> Option<Facts>;
    /// Is this descriptor a terminal?
    fn is_terminal(&self, fd: u8) -> bool;
}

/// Evaluates the expression in `words` (without the program's name and without `]`).
pub fn evaluate(words: &[String], files: &dyn Files) -> Result<bool, String> {
    // The number of words decides how up to three of them are read, whatever they look like
    // (POSIX).
    match words {
        [] => return Ok(false),
        [text] => return Ok(!text.is_empty()),
        [not, text] if not == "!" => return Ok(text.is_empty()),
        [left, operator, right] if is_binary(operator) => {
            return binary(left, operator, right, files);
        }
        _ => {}
    }
    let mut parser = Parser {
        words,
        files,
        depth: 0,
    };
    let value = parser.or()?;
    match parser.words.first() {
        None => Ok(value),
        Some(word) => Err(format!("unexpected `{word}`")),
    }
}

fn is_binary(operator: &str) -> bool {
    matches!(
        operator,
        "=" | "=="
            | "!="
            | "<"
            | ">"
            | "-eq"
            | "-ne"
            | "-lt"
            | "-le"
            | "-gt"
            | "-ge"
            | "-nt"
            | "-ot"
    )
}

fn is_unary(operator: &str) -> bool {
    let mut bytes = operator.bytes();
    bytes.next() == Some(b'-')
        && bytes.next().is_some_and(|b| b"nzefdcpsrwxt".contains(&b))
        && bytes.next().is_none()
}

fn number(text: &str) -> Result<i64, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("`{text}` is not an integer"))
}

fn binary(left: &str, operator: &str, right: &str, files: &dyn Files) -> Result<bool, String> {
    let modified = |path| files.facts(path).map(|facts| facts.modified);
    Ok(match operator {
        "=" | "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        ">" => left > right,
        "-eq" => number(left)? == number(right)?,
        "-ne" => number(left)? != number(right)?,
        "-lt" => number(left)? < number(right)?,
        "-le" => number(left)? <= number(right)?,
        "-gt" => number(left)? > number(right)?,
        "-ge" => number(left)? >= number(right)?,
        "-nt" => modified(left) > modified(right),
        _ => modified(left) < modified(right),
    })
}

fn unary(operator: &str, word: &str, files: &dyn Files) -> Result<bool, String> {
    let facts = || files.facts(word);
    let kind = |kind| facts().is_some_and(|facts| facts.kind == kind);
    let may = |bits| facts().is_some_and(|facts| facts.rights & bits != 0);
    Ok(match operator {
        "-n" => !word.is_empty(),
        "-z" => word.is_empty(),
        "-e" => facts().is_some(),
        "-f" => kind(Kind::File),
        "-d" => kind(Kind::Directory),
        "-p" => kind(Kind::Pipe),
        "-c" => kind(Kind::Other),
        "-s" => facts().is_some_and(|facts| facts.size > 0),
        "-r" => may(4),
        "-w" => may(2),
        "-x" => may(1),
        _ => {
            let fd = word
                .parse()
                .map_err(|_| format!("`{word}` is not a file descriptor"))?;
            files.is_terminal(fd)
        }
    })
}

/// How deeply `!` and parentheses may nest.
const MAX_DEPTH: u32 = 50;

struct Parser<'a> {
    words: &'a [String],
    files: &'a dyn Files,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, word: &str) -> bool {
        let found = self.words.first().is_some_and(|first| first == word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn or(&mut self) -> Result<bool, String> {
        let mut value = self.and()?;
        while self.eat("-o") {
            value |= self.and()?;
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<bool, String> {
        let mut value = self.primary()?;
        while self.eat("-a") {
            value &= self.primary()?;
        }
        Ok(value)
    }

    fn primary(&mut self) -> Result<bool, String> {
        match self.words {
            [] => Err("the expression ends too early".into()),
            [left, operator, right, rest @ ..] if is_binary(operator) => {
                self.words = rest;
                binary(left, operator, right, self.files)
            }
            [first, rest @ ..] if first == "!" && !rest.is_empty() => {
                self.words = rest;
                self.enter()?;
                let value = !self.primary()?;
                self.depth -= 1;
                Ok(value)
            }
            [first, rest @ ..] if first == "(" && !rest.is_empty() => {
                self.words = rest;
                self.enter()?;
                let value = self.or()?;
                self.depth -= 1;
                if !self.eat(")") {
                    return Err("`(` without `)`".into());
                }
                Ok(value)
            }
            [operator, word, rest @ ..] if is_unary(operator) => {
                self.words = rest;
                unary(operator, word, self.files)
            }
            [text, rest @ ..] => {
                self.words = rest;
                Ok(!text.is_empty())
            }
        }
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!(
                "the expression is nested deeper than {MAX_DEPTH} levels"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    struct Fake;

    impl Files for Fake {
        fn facts(&self, path: &str) -> Option<Facts> {
            let facts = |kind, size, rights, modified| {
                Some(Facts {
                    kind,
                    size,
                    rights,
                    modified,
                })
            };
            match path {
                "/dir" => facts(Kind::Directory, 0, 7, 1),
                "/full" => facts(Kind::File, 7, 4, 2),
                "/empty" => facts(Kind::File, 0, 7, 3),
                _ => None,
            }
        }

        fn is_terminal(&self, fd: u8) -> bool {
            fd == 0
        }
    }

    fn check(text: &str) -> Result<bool, String> {
        let words: Vec<String> = text
            .split(' ')
            .map(|w| w.trim_matches('"').to_string())
            .collect();
        evaluate(&words, &Fake)
    }

    #[test]
    fn conditions() {
        for (text, expected) in [
            ("a", true),
            ("\"\"", false),
            ("-n", true),
            ("! \"\"", true),
            ("-n \"\"", false),
            ("-z \"\"", true),
            ("a = a", true),
            ("! = !", true),
            ("( = )", false),
            ("a != a", false),
            ("3 -lt 10", true),
            ("-3 -ge 2", false),
            ("-e /full", true),
            ("-f /dir", false),
            ("-d /dir", true),
            ("-s /empty", false),
            ("-x /empty", true),
            ("-x /full", false),
            ("-r /full", true),
            ("-w /full", false),
            ("-e /none", false),
            ("/empty -nt /full", true),
            ("-t 0", true),
            ("-t 1", false),
            ("! -e /none", true),
            ("! a = a", false),
            ("a = a -a b = c", false),
            ("a = b -o b = b", true),
            ("( a = b -o b = b ) -a ! -d /full", true),
        ] {
            assert_eq!(check(text), Ok(expected), "{text}");
        }
        assert_eq!(evaluate(&[], &Fake), Ok(false));
    }

    #[test]
    fn rights_depend_on_who_asks() {
        let (owner, group) = (5, 6);
        for (mode, is_directory, asking, expected) in [
            (0o640, false, (5, 5), 6),
            (0o640, false, (7, 6), 4),
            (0o640, false, (7, 7), 0),
            (0o047, false, (5, 6), 0),
            (0o047, false, (7, 6), 4),
            (0o047, false, (7, 7), 7),
            (0o000, false, (0, 0), 6),
            (0o001, false, (0, 0), 7),
            (0o000, true, (0, 0), 7),
        ] {
            let found = rights(mode, is_directory, (owner, group), asking);
            assert_eq!(found, expected, "{mode:o} {asking:?}");
        }
    }

    #[test]
    fn errors() {
        for (text, message) in [
            ("a -eq 1", "`a` is not an integer"),
            ("1 -lt \"\"", "`` is not an integer"),
            ("a b", "unexpected `b`"),
            ("( a = a", "`(` without `)`"),
            ("a = a -a", "ends too early"),
            ("-t x", "not a file descriptor"),
        ] {
            assert!(
                check(text).unwrap_err().contains(message),
                "{text}: {:?}",
                check(text)
            );
        }
        let deep = "! ".repeat(1000) + "a";
        assert!(check(&deep).unwrap_err().contains("nested"));
    }
}
