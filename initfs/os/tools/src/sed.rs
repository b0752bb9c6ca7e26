//! `sed`: commands for each line of a stream.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::regex::{self, Options, Regex};

/// The lines that a command applies to.
#[derive(Debug)]
enum Address {
    Line(u64),
    Last,
    Match(Regex),
}

#[derive(Debug)]
enum Verb {
    Substitute {
        regex: Regex,
        replacement: Vec<Piece>,
        global: bool,
        print: bool,
        /// The number of the match to replace, from 1.
        number: usize,
    },
    Translate(Vec<(char, char)>),
    Delete,
    Print,
    Number,
    Quit,
    Append(String),
    Insert(String),
    Change(String),
}

/// A part of a replacement.
#[derive(Debug)]
enum Piece {
    Text(String),
    /// 0: all of the match.
    Group(usize),
}

#[derive(Debug)]
struct Command {
    from: Option<Address>,
    to: Option<Address>,
    others: bool,
    verb: Verb,
    /// Whether the line is between its two addresses; up to this line, if the second one is known.
    active: bool,
}

/// A script, and its position in the stream.
#[derive(Debug)]
pub struct Script {
    commands: Vec<Command>,
    quiet: bool,
    number: u64,
}

/// The outcome of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Text to print, line ends included.
    pub text: String,
    /// Whether the rest of the stream is not needed.
    pub quit: bool,
}

impl Script {
    /// Parses a script. With `quiet`, only commands print.
    ///
    /// # Errors
    /// The error, as text for people.
    pub fn parse(text: &str, quiet: bool, options: Options) -> Result<Self, String> {
        let mut parser = Parser {
            rest: text,
            options,
        };
        let mut commands = Vec::new();
        while parser.skip_separators() {
            commands.push(parser.command()?);
        }
        Ok(Script {
            commands,
            quiet,
            number: 0,
        })
    }

    /// Whether it matters that a line is the last one.
    pub fn needs_last(&self) -> bool {
        let is_last = |address: &Option<Address>| matches!(address, Some(Address::Last));
        self.commands.iter().any(|command| {
            is_last(&command.from)
                || is_last(&command.to)
                || matches!(command.verb, Verb::Change(_))
        })
    }

    /// Handles the next line, without its end. `last` says that no line follows.
    pub fn line(&mut self, line: &str, last: bool) -> Answer {
        self.number += 1;
        let mut answer = Answer::default();
        let mut space = line.to_string();
        let mut behind = String::new();
        let mut deleted = false;
        for command in &mut self.commands {
            if !command.applies(&space, self.number, last) {
                continue;
            }
            match &command.verb {
                Verb::Substitute {
                    regex,
                    replacement,
                    global,
                    print,
                    number,
                } => {
                    if let Some(new) = substitute(&space, regex, replacement, *number, *global) {
                        space = new;
                        if *print {
                            put(&mut answer.text, &space);
                        }
                    }
                }
                Verb::Translate(pairs) => {
                    let other = |c| pairs.iter().find(|(from, _)| *from == c).map_or(c, |p| p.1);
                    space = space.chars().map(other).collect();
                }
                Verb::Print => put(&mut answer.text, &space),
                Verb::Number => put(&mut answer.text, &self.number.to_string()),
                Verb::Append(text) => put(&mut behind, text),
                Verb::Insert(text) => put(&mut answer.text, text),
                Verb::Delete => deleted = true,
                Verb::Change(text) => {
                    // At the end of a range its lines are replaced; before the end they are
                    // dropped.
                    if !command.active {
                        put(&mut answer.text, text);
                    }
                    deleted = true;
                }
                Verb::Quit => answer.quit = true,
            }
            if deleted || answer.quit {
                break;
            }
        }
        if !deleted && !self.quiet {
            put(&mut answer.text, &space);
        }
        answer.text.push_str(&behind);
        answer
    }
}

fn put(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

impl Command {
    fn applies(&mut self, space: &str, number: u64, last: bool) -> bool {
        let meets = |address: &Address| match address {
            Address::Line(line) => *line == number,
            Address::Last => last,
            Address::Match(regex) => regex.is_match(space),
        };
        let inside = match (&self.from, &self.to) {
            (None, _) => true,
            (Some(from), None) => meets(from),
            (Some(_), Some(to)) if self.active => {
                let over = match to {
                    Address::Line(line) => number >= *line,
                    to => meets(to),
                };
                self.active = !over;
                true
            }
            (Some(from), Some(to)) => {
                let begins = meets(from);
                // If the end of a range has passed already, the range is one line.
                let one = matches!(to, Address::Line(line) if *line <= number);
                self.active = begins && !one && !last;
                begins
            }
        };
        inside != self.others
    }
}

/// Replaces matches from the `number`th on, or only that one; `None` if there is none.
fn substitute(
    text: &str,
    regex: &Regex,
    replacement: &[Piece],
    number: usize,
    global: bool,
) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut found = false;
    for (index, captures) in regex.captures_iter(text).enumerate() {
        if index + 1 < number {
            continue;
        }
        let Some(all) = captures.get(0) else { continue };
        found = true;
        out.push_str(&text[copied..all.start()]);
        for piece in replacement {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Group(group) => {
                    out.push_str(captures.get(*group).map_or("", |group| group.as_str()));
                }
            }
        }
        copied = all.end();
        if !global {
            break;
        }
    }
    out.push_str(&text[copied..]);
    found.then_some(out)
}

struct Parser<'a> {
    rest: &'a str,
    options: Options,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// To the next command; false at the end.
    fn skip_separators(&mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', ';']);
            match self.rest.strip_prefix('#') {
                Some(comment) => self.rest = comment.find('\n').map_or("", |end| &comment[end..]),
                None => return !self.rest.is_empty(),
            }
        }
    }

    fn command(&mut self) -> Result<Command, String> {
        let from = self.address()?;
        let mut to = None;
        self.skip_blanks();
        if from.is_some() && self.rest.starts_with(',') {
            self.next();
            self.skip_blanks();
            to = Some(
                self.address()?
                    .ok_or("an address is missing behind the comma")?,
            );
            self.skip_blanks();
        }
        let others = self.rest.starts_with('!');
        if others {
            self.next();
            self.skip_blanks();
        }
        let verb = match self
            .next()
            .ok_or("a command is missing behind the address")?
        {
            's' => self.substitution()?,
            'y' => self.translation()?,
            'd' => Verb::Delete,
            'p' => Verb::Print,
            '=' => Verb::Number,
            'q' => Verb::Quit,
            'a' => Verb::Append(self.text()?),
            'i' => Verb::Insert(self.text()?),
            'c' => Verb::Change(self.text()?),
            other => return Err(format!("`{other}` is no command that sed has here")),
        };
        self.skip_blanks();
        if !self.rest.is_empty() && !self.rest.starts_with([';', '\n', '#']) {
            return Err(format!("`{}`: something is left over", self.rest));
        }
        Ok(Command {
            from,
            to,
            others,
            verb,
            active: false,
        })
    }

    fn address(&mut self) -> Result<Option<Address>, String> {
        let delimiter = match self.rest.chars().next() {
            Some('$') => {
                self.next();
                return Ok(Some(Address::Last));
            }
            Some('0'..='9') => {
                let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
                let (number, rest) = self.rest.split_at(count);
                self.rest = rest;
                let line = number
                    .parse()
                    .map_err(|_| format!("`{number}`: too large"))?;
                return Ok(Some(Address::Line(line)));
            }
            Some('/') => {
                self.next();
                '/'
            }
            Some('\\') => {
                self.next();
                self.next().ok_or("an expression is missing")?
            }
            _ => return Ok(None),
        };
        let expression = self.until(delimiter, false)?;
        let mut options = self.options;
        if self.rest.starts_with('I') {
            self.next();
            options.ignore_case = true;
        }
        Ok(Some(Address::Match(self.regex(&expression, options)?)))
    }

    fn regex(&self, expression: &str, options: Options) -> Result<Regex, String> {
        if expression.is_empty() {
            return Err("an empty expression means nothing here".into());
        }
        regex::parse(expression, options)
    }

    /// Reads text up to the delimiter. After a backslash the delimiter is part of the text; in an
    /// expression it is that within `[…]`, too.
    fn until(&mut self, delimiter: char, is_text: bool) -> Result<String, String> {
        let mut out = String::new();
        loop {
            match self.next() {
                None => return Err(format!("`{delimiter}` is missing")),
                Some(c) if c == delimiter => return Ok(out),
                Some('\\') => match self.next() {
                    Some(c) if c == delimiter && delimiter != '\\' => out.push(c),
                    Some(c) => out.extend(['\\', c]),
                    None => return Err(format!("`{delimiter}` is missing")),
                },
                Some(c) => {
                    out.push(c);
                    if c == '[' && !is_text {
                        let set = set_length(self.rest).ok_or("`]` is missing")?;
                        let (set, rest) = self.rest.split_at(set);
                        out.push_str(set);
                        self.rest = rest;
                    }
                }
            }
        }
    }

    fn substitution(&mut self) -> Result<Verb, String> {
        let delimiter = self.next().ok_or("s needs /expression/text/")?;
        if matches!(delimiter, '\n' | '\\') {
            return Err("s needs /expression/text/".into());
        }
        let expression = self.until(delimiter, false)?;
        let text = self.until(delimiter, true)?;
        let (mut global, mut print, mut number) = (false, false, 1);
        let mut options = self.options;
        loop {
            match self.rest.chars().next() {
                Some('g') => global = true,
                Some('p') => print = true,
                Some('i' | 'I') => options.ignore_case = true,
                Some('1'..='9') => {
                    let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
                    let (digits, rest) = self.rest.split_at(count);
                    number = digits
                        .parse()
                        .map_err(|_| format!("`{digits}`: too large"))?;
                    self.rest = rest;
                    continue;
                }
                _ => break,
            }
            self.next();
        }
        let regex = self.regex(&expression, options)?;
        let replacement = pieces(&text);
        let groups = regex.captures_len();
        for piece in &replacement {
            if let Piece::Group(group) = piece
                && *group >= groups
            {
                return Err(format!("\\{group}: the expression has no such part"));
            }
        }
        Ok(Verb::Substitute {
            regex,
            replacement,
            global,
            print,
            number,
        })
    }

    fn translation(&mut self) -> Result<Verb, String> {
        let delimiter = self.next().ok_or("y needs /abc/xyz/")?;
        let members = |text: &str| -> Vec<char> {
            let mut members = Vec::new();
            let mut characters = text.chars();
            while let Some(c) = characters.next() {
                match (c, characters.clone().next()) {
                    ('\\', Some('n')) => members.push('\n'),
                    ('\\', Some('\\')) => members.push('\\'),
                    _ => {
                        members.push(c);
                        continue;
                    }
                }
                characters.next();
            }
            members
        };
        let from = members(&self.until(delimiter, true)?);
        let to = members(&self.until(delimiter, true)?);
        if from.len() != to.len() {
            return Err("the two texts of y must have the same length".into());
        }
        Ok(Verb::Translate(from.into_iter().zip(to).collect()))
    }

    /// The text of a, i and c: to the end of the line, or the line behind a backslash.
    fn text(&mut self) -> Result<String, String> {
        self.skip_blanks();
        if let Some(rest) = self.rest.strip_prefix('\\') {
            self.rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
        let mut out = String::new();
        loop {
            match self.next() {
                None | Some('\n') => break,
                Some('\\') => out.extend(self.next()),
                Some(c) => out.push(c),
            }
        }
        Ok(out)
    }
}

/// The length of the rest of a `[…]`, with its end. In it a backslash means nothing else than
/// itself, a `]` at the beginning is a member, and `[:…:]` has an end of its own.
fn set_length(text: &str) -> Option<usize> {
    let mut rest = text.strip_prefix('^').unwrap_or(text);
    rest = rest.strip_prefix(']').unwrap_or(rest);
    loop {
        let at = rest.find([']', '['])?;
        let (is_end, behind) = (rest[at..].starts_with(']'), &rest[at + 1..]);
        if is_end {
            return Some(text.len() - behind.len());
        }
        let ends = [(':', ":]"), ('.', ".]"), ('=', "=]")];
        rest = match ends.iter().find(|(kind, _)| behind.starts_with(*kind)) {
            Some((_, end)) => behind[1..].split_once(end)?.1,
            None => behind,
        };
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        let group = match c {
            '&' => 0,
            '\\' => match characters.next() {
                Some(digit @ '0'..='9') => digit as usize - '0' as usize,
                Some('n') => {
                    literal.push('\n');
                    continue;
                }
                Some('t') => {
                    literal.push('\t');
                    continue;
                }
                other => {
                    literal.extend(other);
                    continue;
                }
            },
            c => {
                literal.push(c);
                continue;
            }
        };
        pieces.push(Piece::Text(core::mem::take(&mut literal)));
        pieces.push(Piece::Group(group));
    }
    pieces.push(Piece::Text(literal));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regex::Syntax;

    fn sed(script: &str, input: &str) -> Result<String, String> {
        run(script, input, false, Syntax::Basic)
    }

    fn run(script: &str, input: &str, quiet: bool, syntax: Syntax) -> Result<String, String> {
        let options = Options {
            syntax,
            ..Options::default()
        };
        let mut script = Script::parse(script, quiet, options)?;
        let lines: Vec<&str> = input.lines().collect();
        let mut out = String::new();
        for (index, line) in lines.iter().enumerate() {
            let answer = script.line(line, index + 1 == lines.len());
            out.push_str(&answer.text);
            if answer.quit {
                break;
            }
        }
        Ok(out)
    }

    #[test]
    fn substitutions() {
        for (script, input, expected) in [
            ("s/a/b/", "aa\nca", "ba\ncb\n"),
            ("s/a/b/g", "aab", "bbb\n"),
            ("s/a/b/2", "aaa", "aba\n"),
            ("s/a/b/2g", "aaa", "abb\n"),
            ("s|/|:|g", "/a/b", ":a:b\n"),
            ("s/\\//x/", "a/b", "axb\n"),
            ("s/[/]/x/", "a/b", "axb\n"),
            ("s/\\(a*\\)\\(b\\)/\\2\\1/", "aab", "baa\n"),
            ("s/b/[&]\\&/", "abc", "a[b]&c\n"),
            ("s/x*/-/g", "ab", "-a-b-\n"),
            ("s/A/z/I", "a", "z\n"),
            ("s/,/\\n/", "a,b", "a\nb\n"),
            ("s/a/b/;s/b/c/", "a", "c\n"),
            ("y/abc/xyz/", "cab", "zxy\n"),
            ("y/\\\\n/ab/", "\\n", "ab\n"),
            ("y/\\n\\//ab/", "/", "b\n"),
            ("s/[[]/(/", "a[b", "a(b\n"),
            ("s/[^[]*//", "ab[c", "[c\n"),
            ("s/[\\]/x/", "a\\b", "axb\n"),
            ("s/[[:digit:]/]/x/g", "1/a", "xxa\n"),
            ("s/[^][:alpha:]]/x/g", "a]1", "a]x\n"),
            ("s/[]/]/x/", "a]", "ax\n"),
        ] {
            assert_eq!(sed(script, input).as_deref(), Ok(expected), "{script}");
        }
        let extended = run("s/(a|b)+/<\\0>/", "xab", false, Syntax::Extended);
        assert_eq!(extended.as_deref(), Ok("x<ab>\n"));
    }

    #[test]
    fn addresses_and_commands() {
        let five = "1\n2\n3\n4\n5\n";
        for (script, expected) in [
            ("2d", "1\n3\n4\n5\n"),
            ("$d", "1\n2\n3\n4\n"),
            ("2,4d", "1\n5\n"),
            ("2,4!d", "2\n3\n4\n"),
            ("/3/,$d", "1\n2\n"),
            ("/2/,/4/d", "1\n5\n"),
            ("4,2d", "1\n2\n3\n5\n"),
            ("3q", "1\n2\n3\n"),
            ("2p", "1\n2\n2\n3\n4\n5\n"),
            ("$=", "1\n2\n3\n4\n5\n5\n"),
            ("2a two and a half", "1\n2\ntwo and a half\n3\n4\n5\n"),
            ("2i\\\nmore", "1\nmore\n2\n3\n4\n5\n"),
            ("2,4c\\gone", "1\ngone\n5\n"),
            ("# nothing\n1d\n2,3d # more", "4\n5\n"),
        ] {
            assert_eq!(sed(script, five).as_deref(), Ok(expected), "{script}");
        }
        let printed = run("/[24]/p", five, true, Syntax::Basic);
        assert_eq!(printed.as_deref(), Ok("2\n4\n"));
        let counted = run("s/2/two/p", five, true, Syntax::Basic);
        assert_eq!(counted.as_deref(), Ok("two\n"));
    }

    #[test]
    fn only_some_scripts_wait_for_the_last_line() {
        for (script, expected) in [
            ("1q", false),
            ("$d", true),
            ("2,$p", true),
            ("1,2c\\x", true),
        ] {
            let script = Script::parse(script, false, Options::default()).unwrap();
            assert_eq!(script.needs_last(), expected);
        }
    }

    #[test]
    fn what_is_wrong() {
        for script in [
            "s/a/b",
            "s/a",
            "s",
            "s/(/x/\\",
            "s/\\(a/x/",
            "s/a/\\1/",
            "y/ab/c/",
            "z",
            "1,d",
            "2",
            "s//x/",
            "dx",
            "p}",
            "/a",
        ] {
            assert!(sed(script, "a").is_err(), "{script}");
        }
    }
}
