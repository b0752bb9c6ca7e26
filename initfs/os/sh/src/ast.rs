//! The syntax tree, and its conversion back to text.
//!
//! Every tree prints itself as shell source (`Display`). This is more than a debugging aid: the
//! system has no `fork`, so a part of a script that must run concurrently is printed and given to
//! a new shell process. Printing and parsing again gives the same tree.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

/// Commands one after the other: `a; b & c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// In source order.
    pub items: Vec<Item>,
}

/// One element of a [`List`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The command.
    pub body: AndOr,
    /// It ended in `&`.
    pub background: bool,
}

/// Pipelines joined by `&&` and `||`, evaluated from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AndOr {
    /// The pipeline that always runs.
    pub first: Pipeline,
    /// The others, each with the connector before it.
    pub rest: Vec<(Connector, Pipeline)>,
}

/// The operator between two pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connector {
    /// `&&`: run the next one after success.
    And,
    /// `||`: run the next one after failure.
    Or,
}

/// Commands joined by `|`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// It began with `!`.
    pub negated: bool,
    /// It began with `time`.
    pub timed: bool,
    /// At least one.
    pub commands: Vec<Command>,
}

/// One command with its redirections.
#[derive(Clone, Debug)]
pub struct Command {
    /// The kind.
    pub kind: CommandKind,
    /// Applied from left to right.
    pub redirects: Vec<Redirect>,
    /// Line of its first word, from 1.
    pub line: u32,
}

/// Two commands are equal if they do the same; their lines do not count.
impl PartialEq for Command {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.redirects == other.redirects
    }
}

impl Eq for Command {}

/// The kinds of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// `A=1 program argument…`
    Simple {
        /// Leading `NAME=value` words.
        assignments: Vec<Assignment>,
        /// Program and arguments before expansion.
        words: Vec<Word>,
    },
    /// `if … then … elif … then … else … fi`
    If {
        /// Condition and body of `if` and of every `elif`.
        arms: Vec<(List, List)>,
        /// Body of `else`.
        otherwise: Option<List>,
    },
    /// `while … do … done`, `until … do … done`
    Loop {
        /// `until`: run while the condition fails.
        until: bool,
        /// The condition.
        condition: List,
        /// The body.
        body: List,
    },
    /// `for name in words; do … done`; without `in` over the positional parameters.
    For {
        /// The loop variable.
        name: String,
        /// Words before expansion.
        words: Option<Vec<Word>>,
        /// The body.
        body: List,
    },
    /// `case word in pattern | pattern) … ;; esac`
    Case {
        /// The word that is compared.
        word: Word,
        /// Patterns and body of every arm.
        arms: Vec<(Vec<Word>, List)>,
    },
    /// `{ …; }`
    Group(List),
    /// `( … )`: changes inside are not seen outside.
    Subshell(List),
    /// `name() command`
    Function {
        /// The name.
        name: String,
        /// Shared with the table of functions.
        body: Rc<Command>,
    },
}

/// `NAME=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// A valid variable name.
    pub name: String,
    /// Value before expansion.
    pub value: Word,
}

/// One redirection: `2>file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The descriptor that changes.
    pub fd: u8,
    /// To what.
    pub target: Target,
}

/// Where a redirection leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `<`, `>`, `>>` or `<>` and a path.
    File(OpenMode, Word),
    /// `>&word` or `<&word`: another descriptor, or `-` to close. The flag is set for `<&`.
    Duplicate(bool, Word),
    /// `<<<word`, and here-documents (whose last line end is the one that is added).
    HereString(Word),
}

/// How a redirection opens its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// `<`
    Read,
    /// `>`: create or truncate.
    Write,
    /// `>>`: create or append.
    Append,
    /// `<>`: create when missing, read and write.
    ReadWrite,
}

/// A word before expansion. An empty word is `Quoted("")`; only the word of `${name-}` outside
/// quotes has no parts, and gives no field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Adjacent parts.
    pub parts: Vec<Part>,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Unquoted text; may hold pattern characters.
    Literal(String),
    /// Text that was quoted or escaped.
    Quoted(String),
    /// `$name`, `${name…}`.
    Parameter {
        /// Variable name, digits of a positional parameter, or one of `? $ ! # @ * - 0`.
        name: String,
        /// The operation on it.
        operation: Operation,
        /// Inside double quotes.
        quoted: bool,
    },
    /// `$(…)` or `` `…` ``.
    Command {
        /// The commands.
        body: List,
        /// Inside double quotes.
        quoted: bool,
    },
    /// `$((…))`.
    Arithmetic {
        /// The expression; its own expansions come first.
        expression: Word,
        /// Inside double quotes.
        quoted: bool,
    },
}

/// The operators of `${name…}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `${name}`
    Value,
    /// `${#name}`
    Length,
    /// `${name-word}`, with a colon also for an empty value.
    Default(bool, Word),
    /// `${name=word}`
    Assign(bool, Word),
    /// `${name?word}`
    Error(bool, Word),
    /// `${name+word}`
    Alternative(bool, Word),
    /// `${name#word}`, doubled: the longest match.
    RemovePrefix(bool, Word),
    /// `${name%word}`, doubled: the longest match.
    RemoveSuffix(bool, Word),
}

impl Word {
    /// The text of a word that is one unquoted literal: the only form a reserved word may have.
    pub fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// A word that stands for exactly this text.
    pub fn quoted(text: &str) -> Self {
        Word {
            parts: [Part::Quoted(text.into())].into(),
        }
    }
}

/// `text` in single quotes, safe to parse again.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for c in text.chars() {
        if c == '\'' {
            out.push_str("'\\''");
        } else {
            out.push(c);
        }
    }
    out.push('\'');
    out
}

/// Words with a meaning where a command may begin.
pub const RESERVED: &[&str] = &[
    "if", "then", "elif", "else", "fi", "while", "until", "for", "in", "do", "done", "case",
    "esac", "{", "}", "!", "time",
];

/// Has the word a meaning where a command may begin?
pub fn is_reserved(text: &str) -> bool {
    RESERVED.contains(&text)
}

/// Is this a valid name of a variable or function?
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|b| b == b'_' || b.is_ascii_alphabetic())
        && bytes.all(|b| b == b'_' || b.is_ascii_alphanumeric())
}

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            let last = index + 1 == self.items.len();
            write!(f, "{}", item.body)?;
            match (item.background, last) {
                (true, true) => f.write_str(" &")?,
                (true, false) => f.write_str(" & ")?,
                (false, true) => {}
                (false, false) => f.write_str("; ")?,
            }
        }
        Ok(())
    }
}

/// A list where a reserved word follows, with the separator it needs.
struct Block<'a>(&'a List);

impl Display for Block<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.items.last() {
            None => f.write_str(" "),
            Some(last) if last.background => write!(f, " {} ", self.0),
            Some(_) => write!(f, " {}; ", self.0),
        }
    }
}

impl Display for AndOr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        for (connector, pipeline) in &self.rest {
            let text = match connector {
                Connector::And => "&&",
                Connector::Or => "||",
            };
            write!(f, " {text} {pipeline}")?;
        }
        Ok(())
    }
}

impl Display for Pipeline {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.negated {
            f.write_str("! ")?;
        }
        if self.timed {
            f.write_str("time ")?;
        }
        for (index, command) in self.commands.iter().enumerate() {
            if index > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{command}")?;
        }
        Ok(())
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut space = "";
        let mut redirects = self.redirects.iter();
        match &self.kind {
            CommandKind::Simple { assignments, words } => {
                // After a redirection a reserved word is a plain word: `<file do`.
                if words.first().and_then(Word::bare).is_some_and(is_reserved) {
                    for redirect in redirects.by_ref() {
                        write!(f, "{redirect} ")?;
                    }
                }
                for assignment in assignments {
                    write!(f, "{space}{}={}", assignment.name, assignment.value)?;
                    space = " ";
                }
                for word in words {
                    write!(f, "{space}{word}")?;
                    space = " ";
                }
            }
            CommandKind::If { arms, otherwise } => {
                for (index, (condition, body)) in arms.iter().enumerate() {
                    let keyword = if index == 0 { "if" } else { "elif" };
                    write!(f, "{keyword}{}then{}", Block(condition), Block(body))?;
                }
                if let Some(body) = otherwise {
                    write!(f, "else{}", Block(body))?;
                }
                f.write_str("fi")?;
            }
            CommandKind::Loop {
                until,
                condition,
                body,
            } => {
                let keyword = if *until { "until" } else { "while" };
                write!(f, "{keyword}{}do{}done", Block(condition), Block(body))?;
            }
            CommandKind::For { name, words, body } => {
                write!(f, "for {name}")?;
                if let Some(words) = words {
                    f.write_str(" in")?;
                    for word in words {
                        write!(f, " {word}")?;
                    }
                }
                write!(f, "; do{}done", Block(body))?;
            }
            CommandKind::Case { word, arms } => {
                write!(f, "case {word} in ")?;
                for (patterns, body) in arms {
                    f.write_str("(")?;
                    for (index, pattern) in patterns.iter().enumerate() {
                        let bar = if index > 0 { " | " } else { "" };
                        write!(f, "{bar}{pattern}")?;
                    }
                    write!(f, ") {body} ;; ")?;
                }
                f.write_str("esac")?;
            }
            CommandKind::Group(list) => write!(f, "{{{}}}", Block(list))?,
            CommandKind::Subshell(list) => write!(f, "( {list} )")?,
            CommandKind::Function { name, body } => write!(f, "{name}() {body}")?,
        }
        if !matches!(self.kind, CommandKind::Simple { .. }) {
            space = " ";
        }
        for redirect in redirects {
            write!(f, "{space}{redirect}")?;
            space = " ";
        }
        Ok(())
    }
}

impl Display for Redirect {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fd = self.fd;
        match &self.target {
            Target::File(OpenMode::Read, path) => write!(f, "{fd}<{path}"),
            Target::File(OpenMode::Write, path) => write!(f, "{fd}>{path}"),
            Target::File(OpenMode::Append, path) => write!(f, "{fd}>>{path}"),
            Target::File(OpenMode::ReadWrite, path) => write!(f, "{fd}<>{path}"),
            Target::Duplicate(true, word) => write!(f, "{fd}<&{word}"),
            Target::Duplicate(false, word) => write!(f, "{fd}>&{word}"),
            Target::HereString(word) => write!(f, "{fd}<<<{word}"),
        }
    }
}

impl Display for Word {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            write!(f, "{part}")?;
        }
        Ok(())
    }
}

/// The word of a `${name-word}`. Inside quotes all of it is quoted.
struct Inner<'a>(&'a Word, bool);

impl Display for Inner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.1 {
            return write!(f, "{}", self.0);
        }
        for part in &self.0.parts {
            match part {
                Part::Literal(text) | Part::Quoted(text) => {
                    for c in text.chars() {
                        if matches!(c, '$' | '`' | '"' | '\\' | '}') {
                            f.write_str("\\")?;
                        }
                        write!(f, "{c}")?;
                    }
                }
                Part::Parameter {
                    name, operation, ..
                } => parameter(f, name, operation, true)?,
                Part::Command { body, .. } => write!(f, "$( {body} )")?,
                Part::Arithmetic { expression, .. } => {
                    write!(f, "$(({}))", Expression(expression))?;
                }
            }
        }
        Ok(())
    }
}

/// The text of `$((…))`, where quotes have no meaning and are skipped.
struct Expression<'a>(&'a Word);

impl Display for Expression<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for part in &self.0.parts {
            match part {
                // The quote keeps a backslash apart from the line end that it would remove.
                Part::Literal(text) => f.write_str(&text.replace("\\\n", "\\\"\n"))?,
                // Lone dollar signs; the quote keeps each apart from what follows.
                Part::Quoted(text) => text.chars().try_for_each(|c| write!(f, "{c}\""))?,
                Part::Parameter {
                    name, operation, ..
                } => parameter(f, name, operation, true)?,
                Part::Command { body, .. } => write!(f, "$( {body} )")?,
                Part::Arithmetic { expression, .. } => {
                    write!(f, "$(({}))", Expression(expression))?;
                }
            }
        }
        Ok(())
    }
}

fn parameter(
    f: &mut Formatter<'_>,
    name: &str,
    operation: &Operation,
    quoted: bool,
) -> fmt::Result {
    let colon = |yes: &bool| if *yes { ":" } else { "" };
    match operation {
        Operation::Value => write!(f, "${{{name}}}"),
        Operation::Length => write!(f, "${{#{name}}}"),
        Operation::Default(c, w) => write!(f, "${{{name}{}-{}}}", colon(c), Inner(w, quoted)),
        Operation::Assign(c, w) => write!(f, "${{{name}{}={}}}", colon(c), Inner(w, quoted)),
        Operation::Error(c, w) => write!(f, "${{{name}{}?{}}}", colon(c), Inner(w, quoted)),
        Operation::Alternative(c, w) => write!(f, "${{{name}{}+{}}}", colon(c), Inner(w, quoted)),
        // The pattern of these two has its own quoting, also inside double quotes.
        Operation::RemovePrefix(longest, w) => {
            write!(f, "${{{name}{}{w}}}", if *longest { "##" } else { "#" })
        }
        Operation::RemoveSuffix(longest, w) => {
            write!(f, "${{{name}{}{w}}}", if *longest { "%%" } else { "%" })
        }
    }
}

impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mark = |quoted: &bool| if *quoted { "\"" } else { "" };
        match self {
            Part::Literal(text) => f.write_str(text),
            Part::Quoted(text) => f.write_str(&quote(text)),
            Part::Parameter {
                name,
                operation,
                quoted,
            } => {
                f.write_str(mark(quoted))?;
                parameter(f, name, operation, *quoted)?;
                f.write_str(mark(quoted))
            }
            Part::Command { body, quoted } => {
                write!(f, "{0}$( {body} ){0}", mark(quoted))
            }
            Part::Arithmetic { expression, quoted } => {
                write!(f, "{0}$(({1})){0}", mark(quoted), Expression(expression))
            }
        }
    }
}
