//! The language of the start scripts: one directive per line.
//!
//! ```text
//! # comment
//! requires_weak 00_base 10_drivers   these come first if they exist (the order of names does it)
//! scheme <name> <command…>           start a daemon and register its scheme when it is ready
//! notify <command…>                  start a daemon and wait until it says that it is ready
//! restart [lease] scheme|notify …    as these; when the daemon ends it is started again, and so
//!                                    are those behind it in the same script, which build on it;
//!                                    `lease`: its memory stays until its successor gives it free
//! nowait <command…>                  start a program and go on
//! echo <text…>                       print
//! <command…>                         run a program to its end
//! ```
//! Leading words `VAR=value` set variables for the command, or for all that follows when there is
//! no command. A word `$VAR` stands for the variable's value.

use alloc::string::String;
use alloc::vec::Vec;

/// The meaning of a line of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Only set the variables.
    Set,
    /// Print the words.
    Echo(Vec<String>),
    /// Start a daemon that sends the root of its scheme, and register that under the name.
    Scheme(String, Vec<String>),
    /// Start a daemon and wait until it has written a byte.
    Notify(Vec<String>),
    /// Start a program.
    NoWait(Vec<String>),
    /// Run a program to its end.
    Run(Vec<String>),
}

/// What to do when a daemon has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It is not restarted.
    Never,
    /// It is restarted.
    Always,
    /// As `Always`, and its memory stays until the successor frees it.
    Lease,
}

/// A line with something to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Variables set by leading words.
    pub variables: Vec<(String, String)>,
    /// What to do when the daemon that the action starts has ended.
    pub restart: Restart,
    /// The action.
    pub action: Action,
}

/// Parses a line. `Ok(None)` means that there is nothing to do; the error says what is wrong.
pub fn parse(
    line: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Line>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut words = line
        .split_whitespace()
        .map(|word| match word.strip_prefix('$') {
            Some(name) if !name.is_empty() => variable(name).unwrap_or_default(),
            _ => String::from(word),
        });
    let mut variables = Vec::new();
    let mut restart = Restart::Never;
    let mut first = loop {
        let Some(word) = words.next() else {
            return Ok(Some(Line {
                variables,
                restart,
                action: Action::Set,
            }));
        };
        match assignment(&word) {
            Some(pair) => variables.push(pair),
            None => break word,
        }
    };
    let mut directive = || words.next().ok_or("restart needs a directive");
    if first == "restart" {
        (restart, first) = (Restart::Always, directive()?);
        if first == "lease" {
            (restart, first) = (Restart::Lease, directive()?);
        }
    }
    if restart != Restart::Never && !matches!(first.as_str(), "scheme" | "notify") {
        return Err(
            "only daemons that say when they are ready can be restarted: \
                    write `restart scheme` or `restart notify`",
        );
    }
    let mut rest: Vec<String> = words.collect();
    let command = |rest: Vec<String>| match rest.is_empty() {
        true => Err("the directive needs a command"),
        false => Ok(rest),
    };
    let action = match first.as_str() {
        // Scripts run in the order of their names, so those that come first have run already.
        "requires_weak" => return Ok(None),
        "echo" => Action::Echo(rest),
        "scheme" if rest.is_empty() => return Err("scheme needs a name and a command"),
        "scheme" => {
            let name = rest.remove(0);
            Action::Scheme(name, command(rest)?)
        }
        "notify" => Action::Notify(command(rest)?),
        "nowait" => Action::NoWait(command(rest)?),
        _ => {
            rest.insert(0, first);
            Action::Run(rest)
        }
    };
    Ok(Some(Line {
        variables,
        restart,
        action,
    }))
}

/// Splits `NAME=value` if the name is valid.
fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    valid.then(|| (name.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Line>, &'static str> {
        parse(line, |name| (name == "NODE").then(|| String::from("1")))
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    fn action(line: &str) -> Action {
        read(line).unwrap().unwrap().action
    }

    #[test]
    fn lines_without_an_order() {
        for line in ["", "   ", "# scheme x y", "  # x", "requires_weak 00_base"] {
            assert_eq!(read(line), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn directives() {
        assert_eq!(
            action("scheme scif micd -v"),
            Action::Scheme("scif".into(), words("micd -v"))
        );
        assert_eq!(action("notify  netd"), Action::Notify(words("netd")));
        assert_eq!(action("nowait sleep 1"), Action::NoWait(words("sleep 1")));
        assert_eq!(action("echo a  b"), Action::Echo(words("a b")));
        assert_eq!(action("echo"), Action::Echo(Vec::new()));
        assert_eq!(action("ls /tmp"), Action::Run(words("ls /tmp")));
    }

    #[test]
    fn variables() {
        let line = read("A=1 B=x=y run me").unwrap().unwrap();
        let pair = |name: &str, value: &str| (name.into(), value.into());
        assert_eq!(line.variables, [pair("A", "1"), pair("B", "x=y")]);
        assert_eq!(line.action, Action::Run(words("run me")));
        assert_eq!(read("A=").unwrap().unwrap().action, Action::Set);
        // `1A` is no name, so the word is a program.
        assert_eq!(action("1A=2"), Action::Run(words("1A=2")));
        assert_eq!(action("echo $NODE $ $NONE"), Action::Echo(words("1 $ ")));
        // The value of a variable is a word, not another assignment in front of nothing.
        assert_eq!(action("run A=1"), Action::Run(words("run A=1")));
    }

    #[test]
    fn daemons_that_are_started_again() {
        for (line, restart, rest) in [
            ("scheme scif micd", Restart::Never, "micd"),
            ("restart scheme scif micd -v", Restart::Always, "micd -v"),
            ("A=1 restart lease scheme scif micd", Restart::Lease, "micd"),
        ] {
            let line = read(line).unwrap().unwrap();
            assert_eq!(line.restart, restart);
            assert_eq!(line.action, Action::Scheme("scif".into(), words(rest)));
        }
        let line = read("restart notify lease x").unwrap().unwrap();
        assert_eq!(line.restart, Restart::Always);
        assert_eq!(line.action, Action::Notify(words("lease x")));
        // A program whose name is a keyword elsewhere.
        assert_eq!(action("lease scheme"), Action::Run(words("lease scheme")));
    }

    #[test]
    fn mistakes_are_named() {
        for line in [
            "scheme",
            "scheme scif",
            "notify",
            "nowait",
            "restart",
            "restart lease",
            "restart nowait x",
            "restart x",
            "restart lease echo",
        ] {
            assert!(read(line).is_err(), "{line:?}");
        }
    }
}
