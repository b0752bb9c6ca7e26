//! Completing the word before the cursor.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The source of names for completion.
pub trait Names {
    /// All commands.
    fn commands(&self) -> Vec<String>;
    /// All variables.
    fn variables(&self) -> Vec<String>;
    /// The entries of a directory (`.`: the current one), and whether each is a directory itself.
    fn files(&mut self, directory: &str) -> Vec<(String, bool)>;
    /// The home directory.
    fn home(&self) -> Option<String>;
}

/// The completion of a word.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The text to insert at the cursor.
    pub insert: String,
    /// The choices, if there is nothing to insert.
    pub choices: Vec<String>,
}

/// The word before the cursor.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    /// Without quotes.
    text: String,
    /// The quote that is open.
    quote: Option<char>,
    /// Whether a command is expected here.
    is_command: bool,
}

/// Completes the last word of `line`.
pub fn complete(line: &str, names: &mut impl Names) -> Completion {
    let word = last_word(line);
    if let Some(variable) = word.text.strip_prefix('$')
        && word.quote != Some('\'')
    {
        let all = names.variables().into_iter();
        return choose(variable, all.map(|name| (name, String::new())), None);
    }
    if word.is_command && !word.text.contains('/') {
        let all = names.commands().into_iter();
        return choose(&word.text, all.map(|name| (name, " ".into())), word.quote);
    }
    let (directory, prefix) = match word.text.rsplit_once('/') {
        None => (".".to_string(), word.text.as_str()),
        Some(("", prefix)) => ("/".into(), prefix),
        Some((directory, prefix)) => (directory.to_string(), prefix),
    };
    let directory = match directory.strip_prefix('~') {
        Some(below) if below.is_empty() || below.starts_with('/') => {
            format!("{}{below}", names.home().unwrap_or_default())
        }
        _ => directory,
    };
    let all = names.files(&directory).into_iter();
    // Names with a dot are asked for by one.
    let all = all.filter(|(name, _)| prefix.starts_with('.') || !name.starts_with('.'));
    let end = |is_directory| if is_directory { "/" } else { " " };
    let all = all.map(|(name, is_directory)| (name, end(is_directory).to_string()));
    choose(prefix, all, word.quote)
}

/// Chooses the names that begin with `prefix`. Each name comes with the text that follows it if it
/// is the only one.
fn choose(
    prefix: &str,
    all: impl Iterator<Item = (String, String)>,
    quote: Option<char>,
) -> Completion {
    let mut found: Vec<(String, String)> =
        all.filter(|(name, _)| name.starts_with(prefix)).collect();
    found.sort();
    found.dedup();
    let Some((first, end)) = found.first() else {
        return Completion::default();
    };
    let common = found.iter().fold(first.as_str(), |common, (name, _)| {
        let same = common.char_indices().zip(name.chars());
        let length = same.take_while(|((_, a), b)| a == b).last();
        &common[..length.map_or(0, |((at, c), _)| at + c.len_utf8())]
    });
    let mut insert = quoted(&common[prefix.len()..], quote);
    if found.len() == 1 {
        if let (Some(quote), " ") = (quote, end.as_str()) {
            insert.push(quote);
        }
        insert.push_str(end);
    }
    let choices = match insert.is_empty() {
        true => found
            .into_iter()
            .map(|(name, end)| name + end.trim_end())
            .collect(),
        false => Vec::new(),
    };
    Completion { insert, choices }
}

/// Text with the quotes by which it must be typed.
fn quoted(text: &str, quote: Option<char>) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let special = match quote {
            None => c.is_whitespace() || "|&;<>()$`\\\"'*?[]#~!{}".contains(c),
            Some('"') => "$`\\\"".contains(c),
            Some(_) => false,
        };
        if special {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Words behind which a command is expected.
const BEFORE_COMMANDS: [&str; 10] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "{", "time",
];

fn last_word(line: &str) -> Word {
    let mut word = Word {
        text: String::new(),
        quote: None,
        is_command: true,
    };
    let mut any = false;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (word.quote, c) {
            (Some(quote), c) if c == quote => word.quote = None,
            (None, '\'' | '"') => {
                word.quote = Some(c);
                any = true;
            }
            (None | Some('"'), '\\') => {
                word.text.extend(characters.next());
                any = true;
            }
            (None, c) if c.is_whitespace() || ";|&()<>`".contains(c) => {
                if any && word.is_command {
                    let assigns = word.text.split_once('=').is_some_and(|(name, _)| {
                        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    });
                    word.is_command = assigns || BEFORE_COMMANDS.contains(&word.text.as_str());
                }
                match c {
                    ';' | '|' | '&' | '(' | '`' | '\n' => word.is_command = true,
                    '<' | '>' => word.is_command = false,
                    _ => {}
                }
                word.text.clear();
                any = false;
            }
            (_, c) => {
                word.text.push(c);
                any = true;
            }
        }
    }
    // The word is a path after the sign of an assignment or option, and only the path is
    // completed.
    if word.quote.is_none()
        && let Some((_, value)) = word.text.split_once('=')
    {
        word.text = value.to_string();
        word.is_command = false;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Example;

    impl Names for Example {
        fn commands(&self) -> Vec<String> {
            ["cat", "cmp", "cp", "scifctl", "scifrun"]
                .map(String::from)
                .into()
        }

        fn variables(&self) -> Vec<String> {
            ["HOME", "HOSTNAME"].map(String::from).into()
        }

        fn files(&mut self, directory: &str) -> Vec<(String, bool)> {
            let names: &[(&str, bool)] = match directory {
                "." => &[
                    ("boot", true),
                    ("big file", false),
                    (".hidden", false),
                    ("bäh", false),
                ],
                "/" => &[("tmp", true)],
                "/home" => &[("notes", false)],
                "boot" => &[("kernel", false)],
                _ => &[],
            };
            names
                .iter()
                .map(|(name, is)| (name.to_string(), *is))
                .collect()
        }

        fn home(&self) -> Option<String> {
            Some("/home".into())
        }
    }

    fn insert(line: &str) -> String {
        complete(line, &mut Example).insert
    }

    fn choices(line: &str) -> String {
        complete(line, &mut Example).choices.join(" ")
    }

    #[test]
    fn commands() {
        assert_eq!(insert("ca"), "t ");
        assert_eq!(insert("sc"), "if");
        assert_eq!(choices("scif"), "scifctl scifrun");
        assert_eq!(insert("cat x | ca"), "t ");
        assert_eq!(insert("A=b ca"), "t ");
        assert_eq!(insert("if ca"), "t ");
        assert_eq!(insert("$(ca"), "t ");
        assert_eq!(choices("c"), "cat cmp cp");
        assert_eq!(complete("none", &mut Example), Completion::default());
    }

    #[test]
    fn files() {
        assert_eq!(insert("cat boo"), "t/");
        assert_eq!(insert("cat boot/"), "kernel ");
        assert_eq!(insert("cat bi"), "g\\ file ");
        assert_eq!(insert("cat big\\ f"), "ile ");
        assert_eq!(insert("cat \"bi"), "g file\" ");
        assert_eq!(insert("cat 'big f"), "ile' ");
        assert_eq!(choices("cat b"), "big file boot/ bäh");
        assert_eq!(insert("cat .h"), "idden ");
        assert_eq!(insert("/t"), "mp/");
        assert_eq!(insert("ls ~/n"), "otes ");
        assert_eq!(insert("echo x >boo"), "t/");
        assert_eq!(insert("dd if=boo"), "t/");
        assert_eq!(insert("cat nothing"), "");
    }

    #[test]
    fn variables() {
        assert_eq!(insert("echo $HOS"), "TNAME");
        assert_eq!(choices("echo $HO"), "HOME HOSTNAME");
        assert_eq!(insert("echo '$HOS"), "");
    }
}
