//! Expands words to fields: parameters, command substitution, arithmetic, splitting and path
//! names.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use patterns::file_name::{self, Pattern};

use crate::arith::{self, Variables};
use crate::ast::{List, Operation, Part, Word};

/// The interface of expansion to the shell. Variables come from [`Variables`].
pub trait Context: Variables {
    /// The value of a special parameter (`? $ ! # - 0`).
    fn special(&self, name: char) -> Option<String>;
    /// The positional parameters.
    fn positional(&self) -> Vec<String>;
    /// The output of the commands, without the line ends at its end.
    fn substitute(&mut self, body: &List) -> Result<String, String>;
    /// The names in a directory (`""` is the current one), without `.` and `..`; `None` if it
    /// cannot be read.
    fn names(&mut self, directory: &str) -> Option<Vec<String>>;
    /// Does something exist under this path?
    fn exists(&mut self, path: &str) -> bool;
    /// Is a parameter that is not set an error (`set -u`)?
    fn strict(&self) -> bool;
    /// Are path names expanded (not `set -f`)?
    fn globbing(&self) -> bool;
}

/// Expands words to fields.
pub fn fields(words: &[Word], context: &mut dyn Context) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for word in words {
        let mut builder = Builder::new(context, true);
        builder.word(word, false)?;
        let fields = builder.finish();
        for field in fields {
            if context.globbing() && Pattern::plain(&field.pattern).is_special() {
                let paths = paths(&field.pattern, context);
                if !paths.is_empty() {
                    out.extend(paths);
                    continue;
                }
            }
            out.push(field.text);
        }
    }
    Ok(out)
}

/// Expands a word to exactly one text, for redirections and `case`.
pub fn text(word: &Word, context: &mut dyn Context) -> Result<String, String> {
    Ok(single(word, false, context)?.text)
}

/// Expands the value of an assignment: as [`text`], but `~` counts behind each colon, too.
pub fn value(word: &Word, context: &mut dyn Context) -> Result<String, String> {
    Ok(single(word, true, context)?.text)
}

/// Expands a word to a pattern, in which quoted characters stand for themselves.
pub fn pattern(word: &Word, context: &mut dyn Context) -> Result<String, String> {
    Ok(single(word, false, context)?.pattern)
}

fn single(word: &Word, assigned: bool, context: &mut dyn Context) -> Result<Field, String> {
    let mut builder = Builder::new(context, false);
    builder.assigned = assigned;
    builder.word(word, false)?;
    let mut fields = builder.finish().into_iter();
    Ok(fields.next().unwrap_or_default())
}

/// A field in two spellings.
#[derive(Default)]
struct Field {
    text: String,
    /// With quoted pattern characters escaped.
    pattern: String,
}

struct Builder<'a> {
    context: &'a mut dyn Context,
    /// Whether unquoted expansions are split into fields.
    split: bool,
    /// Whether the word is the value of an assignment.
    assigned: bool,
    separators: String,
    done: Vec<Field>,
    current: Option<Field>,
    /// Whether the last separator was not white space: another of that kind then makes an empty
    /// field.
    after_separator: bool,
}

impl<'a> Builder<'a> {
    fn new(context: &'a mut dyn Context, split: bool) -> Self {
        let separators = context.get("IFS").unwrap_or_else(|| " \t\n".into());
        Builder {
            context,
            split,
            assigned: false,
            separators,
            done: Vec::new(),
            current: None,
            after_separator: false,
        }
    }

    fn finish(mut self) -> Vec<Field> {
        self.done.extend(self.current.take());
        self.done
    }

    /// Adds text that is not split; its pattern characters count unless it is quoted.
    fn add(&mut self, text: &str, quoted: bool) {
        let field = self.current.get_or_insert_default();
        field.text.push_str(text);
        if quoted {
            file_name::escape(text, &mut field.pattern);
        } else {
            field.pattern.push_str(text);
        }
        self.after_separator = false;
    }

    /// Adds the result of an expansion.
    fn add_value(&mut self, value: &str, quoted: bool) {
        if quoted {
            self.add(value, true);
            return;
        }
        for c in value.chars() {
            if self.split && self.separators.contains(c) {
                if c.is_whitespace() {
                    self.done.extend(self.current.take());
                } else {
                    match self.current.take() {
                        Some(field) => self.done.push(field),
                        None if self.after_separator || self.done.is_empty() => {
                            self.done.push(Field::default());
                        }
                        None => {}
                    }
                    self.after_separator = true;
                }
            } else {
                let field = self.current.get_or_insert_default();
                field.text.push(c);
                if c == '\\' {
                    field.pattern.push('\\');
                }
                field.pattern.push(c);
                self.after_separator = false;
            }
        }
    }

    fn end_field(&mut self) {
        self.done.extend(self.current.take());
    }

    /// `inside`: the word is part of an expansion, so its unquoted text is split, too.
    fn word(&mut self, word: &Word, inside: bool) -> Result<(), String> {
        for (index, part) in word.parts.iter().enumerate() {
            match part {
                Part::Literal(text) => {
                    let last = index + 1 == word.parts.len();
                    if self.assigned && !inside {
                        let pieces = text.split_inclusive(':').enumerate();
                        let count = pieces.clone().count();
                        for (number, piece) in pieces {
                            let (begins, ends) =
                                (number > 0 || index == 0, last && number + 1 == count);
                            self.literal(piece, begins, ends, inside);
                        }
                    } else {
                        self.literal(text, index == 0, last, inside);
                    }
                }
                Part::Quoted(text) => self.add(text, true),
                Part::Command { body, quoted } => {
                    let value = self.context.substitute(body)?;
                    self.add_value(&value, *quoted);
                }
                Part::Arithmetic { expression, quoted } => {
                    let expression = text(expression, self.context)?;
                    let value = arith::evaluate(&expression, self.context)?;
                    self.add_value(&value.to_string(), *quoted);
                }
                Part::Parameter {
                    name,
                    operation,
                    quoted,
                } => {
                    self.parameter(name, operation, *quoted)?;
                }
            }
        }
        Ok(())
    }

    /// Adds unquoted text. A `~` for the home directory stands at the place that `begins` says,
    /// and before a slash, a colon of an assignment or the end of the word.
    fn literal(&mut self, text: &str, begins: bool, ends: bool, inside: bool) {
        let mut text = text;
        if begins
            && let Some(rest) = text.strip_prefix('~')
            && (rest.starts_with('/')
                || (rest == ":" && self.assigned)
                || (rest.is_empty() && ends))
            && let Some(home) = self.context.get("HOME")
        {
            self.add(&home, true);
            text = rest;
        }
        if inside {
            self.add_literal_split(text);
        } else if !text.is_empty() {
            self.add(text, false);
        }
    }

    /// Adds unquoted text of the word in `${x-word}`, which is split like a value but keeps its
    /// pattern characters.
    fn add_literal_split(&mut self, text: &str) {
        for c in text.chars() {
            if self.split && self.separators.contains(c) {
                self.end_field();
            } else {
                let mut buffer = [0; 4];
                self.add(c.encode_utf8(&mut buffer), false);
            }
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        if let Ok(number) = name.parse::<usize>() {
            if number == 0 {
                return self.context.special('0');
            }
            return self.context.positional().into_iter().nth(number - 1);
        }
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some('@' | '*'), None) => {
                let all = self.context.positional();
                let joint: String = self.separators.chars().take(1).collect();
                (!all.is_empty()).then(|| all.join(&joint))
            }
            (Some(c @ ('?' | '$' | '!' | '#' | '-')), None) => self.context.special(c),
            _ => self.context.get(name),
        }
    }

    fn parameter(&mut self, name: &str, operation: &Operation, quoted: bool) -> Result<(), String> {
        let value = self.value(name);
        let usable = |colon: bool, value: &Option<String>| match value {
            Some(text) => !(colon && text.is_empty()),
            None => false,
        };
        match operation {
            Operation::Value => {
                if matches!(name, "@" | "*") && (name == "@" || !quoted) && self.split {
                    self.all_positional(quoted);
                    return Ok(());
                }
                match value {
                    Some(value) => self.add_value(&value, quoted),
                    None => self.missing(name, quoted)?,
                }
            }
            Operation::Length => {
                let length = match (name, value) {
                    ("@" | "*", _) => self.context.positional().len(),
                    (_, Some(value)) => value.chars().count(),
                    (_, None) => {
                        self.strict(name)?;
                        0
                    }
                };
                self.add_value(&length.to_string(), quoted);
            }
            Operation::Default(colon, word) => match value {
                Some(text) if usable(*colon, &Some(text.clone())) => {
                    self.given(name, &text, quoted);
                }
                _ => self.word(word, !quoted)?,
            },
            Operation::Alternative(colon, word) => {
                if usable(*colon, &value) {
                    self.word(word, !quoted)?;
                } else if quoted {
                    self.add("", true);
                }
            }
            Operation::Assign(colon, word) => match value {
                Some(text) if usable(*colon, &Some(text.clone())) => {
                    self.given(name, &text, quoted);
                }
                _ => {
                    let text = text(word, self.context)?;
                    if !crate::ast::is_name(name) {
                        return Err(format!("${name} cannot be assigned in this way"));
                    }
                    self.context.set(name, text.clone())?;
                    self.add_value(&text, quoted);
                }
            },
            Operation::Error(colon, word) => match value {
                Some(text) if usable(*colon, &Some(text.clone())) => {
                    self.given(name, &text, quoted);
                }
                _ => {
                    let text = text(word, self.context)?;
                    let text = if text.is_empty() {
                        "is not set".into()
                    } else {
                        text
                    };
                    return Err(format!("{name}: {text}"));
                }
            },
            Operation::RemovePrefix(longest, word) | Operation::RemoveSuffix(longest, word) => {
                let Some(value) = value else {
                    return self.missing(name, quoted);
                };
                let pattern = self::pattern(word, self.context)?;
                let prefix = matches!(operation, Operation::RemovePrefix(..));
                let rest = remove(&value, &pattern, prefix, *longest);
                self.add_value(rest, quoted);
            }
        }
        Ok(())
    }

    /// Adds the value of a parameter that is set.
    fn given(&mut self, name: &str, value: &str, quoted: bool) {
        if name == "@" && self.split {
            self.all_positional(quoted);
        } else {
            self.add_value(value, quoted);
        }
    }

    fn all_positional(&mut self, quoted: bool) {
        for (index, value) in self.context.positional().iter().enumerate() {
            if index > 0 {
                self.end_field();
            }
            self.add_value(value, quoted);
        }
    }

    fn strict(&self, name: &str) -> Result<(), String> {
        if self.context.strict() && !matches!(name, "@" | "*" | "!") {
            return Err(format!("{name}: is not set"));
        }
        Ok(())
    }

    fn missing(&mut self, name: &str, quoted: bool) -> Result<(), String> {
        self.strict(name)?;
        if quoted {
            self.add("", true);
        }
        Ok(())
    }
}

/// `value` without the part at its beginning or end that matches the pattern.
fn remove<'v>(value: &'v str, pattern: &str, prefix: bool, longest: bool) -> &'v str {
    let mut cuts: Vec<usize> = value.char_indices().map(|(at, _)| at).collect();
    cuts.push(value.len());
    // Shortest first: from the front for a prefix, from the end for a suffix.
    if prefix == longest {
        cuts.reverse();
    }
    let pattern = Pattern::plain(pattern);
    for cut in cuts {
        let (front, back) = value.split_at(cut);
        if prefix && pattern.matches(front.as_bytes()) {
            return back;
        }
        if !prefix && pattern.matches(back.as_bytes()) {
            return front;
        }
    }
    value
}

/// The existing paths that match, sorted; none if nothing matches.
fn paths(pattern: &str, context: &mut dyn Context) -> Vec<String> {
    let mut found = Vec::from([String::new()]);
    let components: Vec<&str> = pattern.split('/').collect();
    for (index, component) in components.iter().enumerate() {
        let last = index + 1 == components.len();
        let pattern = Pattern::plain(component);
        let is_special = pattern.is_special();
        let mut next = Vec::new();
        for base in &found {
            if is_special {
                let mut names = context.names(base).unwrap_or_default();
                names.sort();
                for name in names {
                    // A leading dot must be written.
                    if name.starts_with('.') && !component.starts_with('.') {
                        continue;
                    }
                    if pattern.matches(name.as_bytes()) {
                        next.push(format!("{base}{name}"));
                    }
                }
            } else {
                let name = pattern.literal();
                next.push(format!("{base}{}", String::from_utf8_lossy(&name)));
            }
        }
        if !last {
            for path in &mut next {
                path.push('/');
            }
        }
        found = next;
        if found.is_empty() {
            return found;
        }
    }
    // If the last pattern character is before the last component, as in `*/name`, the path may not
    // exist.
    let last = components.last();
    if !last.is_some_and(|last| Pattern::plain(last).is_special()) {
        found.retain(|path| context.exists(path));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::CommandKind;
    use crate::parser::parse;
    use alloc::collections::BTreeMap;

    #[derive(Default)]
    struct Fake {
        variables: BTreeMap<String, String>,
        positional: Vec<String>,
        strict: bool,
    }

    impl Variables for Fake {
        fn get(&self, name: &str) -> Option<String> {
            self.variables.get(name).cloned()
        }

        fn set(&mut self, name: &str, value: String) -> Result<(), String> {
            self.variables.insert(name.into(), value);
            Ok(())
        }
    }

    impl Context for Fake {
        fn special(&self, name: char) -> Option<String> {
            match name {
                '?' => Some("0".into()),
                '#' => Some(self.positional.len().to_string()),
                '0' => Some("sh".into()),
                _ => None,
            }
        }

        fn positional(&self) -> Vec<String> {
            self.positional.clone()
        }

        /// Gives the text of the commands.
        fn substitute(&mut self, body: &List) -> Result<String, String> {
            Ok(body.to_string())
        }

        fn names(&mut self, directory: &str) -> Option<Vec<String>> {
            let names: &[&str] = match directory {
                "" => &["b.txt", "a.txt", ".hidden", "sub", "we*ird"],
                "sub/" | "/abs/" => &["x1", "x2"],
                _ => return None,
            };
            Some(names.iter().map(|name| name.to_string()).collect())
        }

        fn exists(&mut self, path: &str) -> bool {
            path == "sub/x1" || path == "/abs/x1"
        }

        fn strict(&self) -> bool {
            self.strict
        }

        fn globbing(&self) -> bool {
            true
        }
    }

    fn expand(source: &str, context: &mut Fake) -> Result<Vec<String>, String> {
        let list = parse(&format!("cmd {source}")).unwrap();
        let CommandKind::Simple { words, .. } = &list.items[0].body.first.commands[0].kind else {
            panic!("{source} is not a simple command");
        };
        fields(&words[1..], context)
    }

    fn context() -> Fake {
        let mut fake = Fake::default();
        for (name, value) in [
            ("x", "a  b"),
            ("empty", ""),
            ("path", "/usr/lib/name.tar.gz"),
            ("star", "*.txt"),
            ("back", "a\\*"),
            ("n", "7"),
            ("HOME", "/h"),
        ] {
            fake.variables.insert(name.into(), value.into());
        }
        fake.positional = ["one", "two words", ""].map(String::from).into();
        fake
    }

    #[test]
    fn words_become_fields() {
        let cases: &[(&str, &[&str])] = &[
            ("a 'b c' \"d\"e\\ f", &["a", "b c", "de f"]),
            ("$x \"$x\" '$x'", &["a", "b", "a  b", "$x"]),
            ("$empty \"$empty\" $none \"$none\" ''", &["", "", ""]),
            ("1$x\"2\"", &["1a", "b2"]),
            ("$@", &["one", "two", "words"]),
            ("\"$@\"", &["one", "two words", ""]),
            ("\"<$@>\"", &["<one", "two words", ">"]),
            ("\"$*\" $#", &["one two words ", "3"]),
            ("$1 \"$2\" $0 ${10}", &["one", "two words", "sh"]),
            (
                "${none:-d e} \"${none:-d e}\" ${empty-d}",
                &["d", "e", "d e"],
            ),
            (
                "${empty:-d} ${x:+alt} ${none+alt} \"${none+alt}\"",
                &["d", "alt", ""],
            ),
            ("${new:=v w} \"$new\"", &["v", "w", "v w"]),
            ("${#x} ${#none} ${#@}", &["4", "0", "3"]),
            (
                "${path##*/} ${path%.*} ${path%%.*} ${path#*/}",
                &[
                    "name.tar.gz",
                    "/usr/lib/name.tar",
                    "/usr/lib/name",
                    "usr/lib/name.tar.gz",
                ],
            ),
            ("$((n*6)) $(( $n + 1 )) \"$((n))\"", &["42", "8", "7"]),
            ("$(echo hi) \"$(echo hi)\"", &["echo", "hi", "echo hi"]),
            ("*.txt", &["a.txt", "b.txt"]),
            ("[[:alpha:]].txt", &["a.txt", "b.txt"]),
            ("[[:digit:]].txt", &["[[:digit:]].txt"]),
            (
                "$star \"$star\" '*.txt'",
                &["a.txt", "b.txt", "*.txt", "*.txt"],
            ),
            (
                "*.none s?b sub/x[12] */x1",
                &["*.none", "sub", "sub/x1", "sub/x2", "sub/x1"],
            ),
            (
                "/abs/* .h* $back",
                &["/abs/x1", "/abs/x2", ".hidden", "a\\*"],
            ),
            ("we\\*i*", &["we*ird"]),
            ("~ ~/x a~ '~'", &["/h", "/h/x", "a~", "~"]),
            ("a=~", &["a=~"]),
            ("$", &["$"]),
        ];
        for (source, expected) in cases {
            assert_eq!(
                expand(source, &mut context()).unwrap(),
                *expected,
                "{source}"
            );
        }
    }

    #[test]
    fn separators() {
        let mut fake = context();
        fake.variables.insert("IFS".into(), ":".into());
        fake.variables.insert("p".into(), "/bin::/usr/bin:".into());
        assert_eq!(expand("$p", &mut fake).unwrap(), ["/bin", "", "/usr/bin"]);
        assert_eq!(expand("\"$*\"", &mut fake).unwrap(), ["one:two words:"]);
        fake.variables.insert("IFS".into(), String::new());
        assert_eq!(expand("$x", &mut fake).unwrap(), ["a  b"]);
    }

    #[test]
    fn no_positional_parameters_give_no_field() {
        let mut fake = Fake::default();
        assert!(expand("\"$@\" $@ $*", &mut fake).unwrap().is_empty());
        assert_eq!(expand("\"$*\"", &mut fake).unwrap(), [""]);
    }

    #[test]
    fn errors() {
        let mut fake = context();
        assert_eq!(
            expand("${none?}", &mut fake).unwrap_err(),
            "none: is not set"
        );
        assert_eq!(
            expand("${empty:?give one}", &mut fake).unwrap_err(),
            "empty: give one"
        );
        assert!(
            expand("$((1/0))", &mut fake)
                .unwrap_err()
                .contains("division by zero")
        );
        assert!(
            expand("${5=x}", &mut fake)
                .unwrap_err()
                .contains("cannot be assigned")
        );
        fake.strict = true;
        assert_eq!(expand("$none", &mut fake).unwrap_err(), "none: is not set");
        assert_eq!(expand("${none-x} $empty", &mut fake).unwrap(), ["x"]);
    }
}
