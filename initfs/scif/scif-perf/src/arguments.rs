//! Parses a benchmark's command line: `--option value`, `--option=value`, `--flag`, and words
//! without a dash.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::str::FromStr;

use crate::report;

/// A parsed command line.
#[derive(Debug, Default)]
pub struct Arguments {
    /// The words without a dash.
    pub words: Vec<String>,
    options: Vec<(&'static str, String)>,
}

/// A sentence that describes a mistake in a command line.
pub type Wrong = String;

impl Arguments {
    /// Parses the words after the program's name. `flags` stand alone, `options` have a value;
    /// both are given with their dashes.
    ///
    /// # Errors
    /// An unknown option, a missing value, or a value that a flag does not take.
    pub fn parse(
        line: impl IntoIterator<Item = String>,
        flags: &[&'static str],
        options: &[&'static str],
    ) -> Result<Self, Wrong> {
        let known = |list: &[&'static str], name: &str| {
            let found = list.iter().find(|option| **option == name);
            found.copied()
        };
        let mut parsed = Self::default();
        let mut line = line.into_iter();
        while let Some(word) = line.next() {
            if !word.starts_with('-') || word == "-" {
                parsed.words.push(word);
                continue;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (word.as_str(), None),
            };
            if let Some(flag) = known(flags, name) {
                if value.is_some() {
                    return Err(format!("{flag} takes no value"));
                }
                parsed.options.push((flag, String::new()));
            } else if let Some(option) = known(options, name) {
                let value = value.or_else(|| line.next());
                let value = value.ok_or_else(|| format!("{option} needs a value"))?;
                parsed.options.push((option, value));
            } else {
                return Err(format!("there is no option {name} (--help lists them)"));
            }
        }
        Ok(parsed)
    }

    /// Whether a flag or option was given.
    pub fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The value of an option, the last one if it was given several times.
    pub fn text(&self, name: &str) -> Option<&str> {
        let mut found = self.options.iter().rev();
        found
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The number that is the value of an option, or `default` if it was not given.
    ///
    /// # Errors
    /// The value is no number of the type.
    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, Wrong> {
        match self.text(name) {
            None => Ok(default),
            Some(word) => {
                let number = word.parse();
                number.map_err(|_| format!("{name}: '{word}' is no number that fits"))
            }
        }
    }

    /// The number that is the value of an option and between 1 and `most`, or `default` if it was
    /// not given.
    ///
    /// # Errors
    /// The value is no such number.
    pub fn count(&self, name: &str, default: u64, most: u64) -> Result<u64, Wrong> {
        let number = self.number(name, default)?;
        match (1..=most).contains(&number) {
            true => Ok(number),
            false => Err(format!("{name} {number}: it must be between 1 and {most}")),
        }
    }

    /// The sizes in an option's list (`64,4K,1M`), if it was given, each at most `most`.
    ///
    /// # Errors
    /// One of them is no size, is 0 or too large.
    pub fn sizes(&self, name: &str, most: u64) -> Result<Option<Vec<u64>>, Wrong> {
        let Some(list) = self.text(name) else {
            return Ok(None);
        };
        let size = |word: &str| {
            let size = report::parse_size(word).filter(|size| *size > 0);
            match size {
                Some(size) if size <= most => Ok(size),
                Some(_) => Err(format!("{name} {word}: at most {}", report::size(most))),
                None => Err(format!(
                    "{name}: '{word}' is no size, for example 64, 4K or 1M"
                )),
            }
        };
        list.split(',')
            .map(size)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, Wrong> {
        let words = line.split_whitespace().map(String::from);
        Arguments::parse(words, &["-s", "--json"], &["--size", "-n"])
    }

    #[test]
    fn words_flags_and_values() {
        let line = parse("1 --json -n 7 --size=64,4K two -n 8").unwrap();
        assert_eq!(line.words, ["1", "two"]);
        assert!(line.has("--json") && !line.has("-s"));
        assert_eq!(line.number("-n", 1_u32), Ok(8));
        assert_eq!(line.sizes("--size", 4096), Ok(Some(alloc::vec![64, 4096])));
        let empty = parse("").unwrap();
        assert_eq!(empty.number("-n", 1_u32), Ok(1));
        assert_eq!(empty.sizes("--size", 1), Ok(None));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            parse("--what").unwrap_err(),
            "there is no option --what (--help lists them)"
        );
        assert_eq!(parse("--size").unwrap_err(), "--size needs a value");
        assert_eq!(parse("--json=1").unwrap_err(), "--json takes no value");
        assert!(parse("-n x").unwrap().number("-n", 1_u32).is_err());
        assert!(parse("--size 4K,0").unwrap().sizes("--size", 4096).is_err());
    }

    #[test]
    fn numbers_have_bounds() {
        let count = |line| parse(line).unwrap().count("-n", 5, 10);
        assert_eq!(
            [count(""), count("-n 1"), count("-n 10")],
            [Ok(5), Ok(1), Ok(10)]
        );
        for line in ["-n 0", "-n 11", "-n 18446744073709551615"] {
            assert_eq!(
                count(line),
                Err(format!("{line}: it must be between 1 and 10"))
            );
        }
        assert!(count("-n 18446744073709551616").is_err());
        let large = parse("--size 1K,64G").unwrap().sizes("--size", 1 << 20);
        assert_eq!(large, Err("--size 64G: at most 1M".into()));
    }
}
