//! `grep`: prints the lines that match one of some regular expressions. The status is 0 if there
//! are any.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tools::io::{self, CopyError};
use tools::regex::{self, Options, Regex, Syntax};

tools::main!(main);

#[derive(Default)]
struct Output {
    count_only: bool,
    names_only: bool,
    quiet: bool,
    invert: bool,
    numbers: bool,
    matches_only: bool,
    no_names: bool,
}

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "e");
    let (mut options, mut show) = (Options::default(), Output::default());
    let mut expressions = Vec::new();
    while let Some((letter, value)) = words.next() {
        match (letter, value) {
            ('E', None) => options.syntax = Syntax::Extended,
            ('F', None) => options.syntax = Syntax::Fixed,
            ('i', None) => options.ignore_case = true,
            ('w', None) => options.words = true,
            ('x', None) => options.lines = true,
            ('c', None) => show.count_only = true,
            ('l', None) => show.names_only = true,
            ('q', None) => show.quiet = true,
            ('v', None) => show.invert = true,
            ('n', None) => show.numbers = true,
            ('o', None) => show.matches_only = true,
            ('h', None) => show.no_names = true,
            ('e', Some(text)) => expressions.extend(text.split('\n')),
            _ => return io::usage(Some(words.word())),
        }
    }
    let mut paths = words.rest();
    if expressions.is_empty() {
        let Some((text, rest)) = paths.split_first() else {
            return io::usage(None);
        };
        expressions.extend(text.split('\n'));
        paths = rest;
    }
    match regex::parse_any(&expressions, options) {
        Ok(regex) => search(paths, &regex, &show),
        Err(wrong) => {
            runtime::eprintln!("grep: {wrong}");
            2
        }
    }
}

/// Searches all files, standard input if there are none. Returns the exit status.
fn search(paths: &[String], regex: &Regex, show: &Output) -> i32 {
    let several = paths.len() > 1 && !show.no_names;
    let input = [String::from("-")];
    let (mut found, mut has_failed) = (false, false);
    for path in if paths.is_empty() { &input } else { paths } {
        let prefix = match several {
            true => format!("{path}:"),
            false => String::new(),
        };
        let (matches, status) = search_file(path, &prefix, regex, show);
        found |= matches > 0;
        // Nothing that comes behind it changes the answer, nor does what failed before.
        if found && show.quiet {
            return 0;
        }
        has_failed |= status != 0;
        if let Err(error) = io::output(show.summary(path, &prefix, matches).as_bytes()) {
            return io::output_failed("grep", error);
        }
    }
    match has_failed {
        true => 2,
        false => i32::from(!found),
    }
}

/// Prints the lines of a file that match. Returns their number, and a status that is not 0 if the
/// file cannot be read.
fn search_file(path: &String, prefix: &str, regex: &Regex, show: &Output) -> (u64, i32) {
    let (mut matches, mut number) = (0, 0u64);
    let status = io::for_each_line("grep", core::slice::from_ref(path), |line, out| {
        number += 1;
        let text = String::from_utf8_lossy(line);
        if regex.is_match(&text) == show.invert {
            return Ok(());
        }
        matches += 1;
        if show.quiet || show.names_only {
            return Err(CopyError::Enough);
        }
        if show.count_only {
            return Ok(());
        }
        let mut put = |part: &[u8]| {
            out.extend_from_slice(prefix.as_bytes());
            if show.numbers {
                out.extend_from_slice(format!("{number}:").as_bytes());
            }
            out.extend_from_slice(part);
            out.push(b'\n');
        };
        if show.matches_only {
            let parts = regex.find_iter(&text).map(|found| found.as_str());
            parts
                .filter(|part| !part.is_empty())
                .for_each(|part| put(part.as_bytes()));
        } else {
            put(line);
        }
        Ok(())
    });
    (matches, status)
}

impl Output {
    /// The line that a file gets in place of its matches, if it gets one.
    fn summary(&self, path: &str, prefix: &str, matches: u64) -> String {
        if self.quiet {
            String::new()
        } else if self.names_only && matches > 0 {
            format!("{path}\n")
        } else if self.count_only && !self.names_only {
            format!("{prefix}{matches}\n")
        } else {
            String::new()
        }
    }
}
