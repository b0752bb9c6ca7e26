//! The builtin `getopts`, which reads the options of a script one by one.

use alloc::format;
use alloc::string::{String, ToString};

use crate::arith::Variables;
use crate::ast::is_name;
use crate::shell::Shell;
use crate::system::System;

impl<S: System> Shell<S> {
    pub(super) fn next_option(&mut self, rest: &[String]) -> Result<i32, String> {
        let [known, name, words @ ..] = rest else {
            return Err("letters and a variable are expected".into());
        };
        if !is_name(name) {
            return Err(format!("`{name}` is not a valid variable name"));
        }
        let words = if words.is_empty() {
            self.parameters.clone()
        } else {
            words.into()
        };
        let (silent, known) = match known.strip_prefix(':') {
            Some(known) => (true, known),
            None => (false, known.as_str()),
        };
        let index = self.get("OPTIND").and_then(|text| text.parse().ok());
        let mut index: usize = index.unwrap_or(1).max(1);
        // A script that sets OPTIND begins with the first letter of that word.
        let mut at = match self.option_place {
            (word, at) if word == index => at,
            _ => 0,
        };
        let word = words.get(index - 1).map_or("", String::as_str);
        if at == 0 {
            let end = word == "--";
            if end || !word.starts_with('-') || word == "-" {
                self.set("OPTIND", (index + usize::from(end)).to_string())?;
                self.variables.remove("OPTARG");
                self.set(name, "?".into())?;
                return Ok(1);
            }
            at = 1;
        }
        let mut letters = word.chars().skip(at);
        let letter = letters.next().unwrap_or('?');
        let others: String = letters.collect();
        let mut definition = known.split(letter).skip(1);
        let definition = definition.next().filter(|_| letter != ':');
        let takes_value = definition.is_some_and(|behind| behind.starts_with(':'));
        if others.is_empty() || takes_value {
            index += 1;
            at = 0;
        } else {
            at += 1;
        }
        let mut value = None;
        let mut found = letter;
        if definition.is_none() {
            found = '?';
            if silent {
                value = Some(letter.to_string());
            } else {
                self.complain(&format!("getopts: unknown option `-{letter}`"));
            }
        } else if takes_value && !others.is_empty() {
            value = Some(others);
        } else if takes_value {
            value = words.get(index - 1).cloned();
            index += 1;
            if value.is_none() && silent {
                found = ':';
                value = Some(letter.to_string());
            } else if value.is_none() {
                found = '?';
                self.complain(&format!("getopts: `-{letter}` needs a value"));
            }
        }
        self.option_place = (index, at);
        self.set("OPTIND", index.to_string())?;
        match value {
            Some(value) => self.set("OPTARG", value)?,
            None => {
                self.variables.remove("OPTARG");
            }
        }
        self.set(name, found.into())?;
        Ok(0)
    }
}
