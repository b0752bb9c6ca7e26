//! `sed`: edits a stream.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use tools::io::{self, CopyError};
use tools::regex::{Options, Syntax};
use tools::sed::Script;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "e");
    let mut scripts: Vec<&str> = Vec::new();
    let (mut quiet, mut options) = (false, Options::default());
    while let Some((letter, value)) = words.next() {
        match (letter, value) {
            ('n', None) => quiet = true,
            ('E' | 'r', None) => options.syntax = Syntax::Extended,
            ('e', Some(script)) => scripts.push(script),
            _ => return io::usage(Some(words.word())),
        }
    }
    let mut paths = words.rest();
    if scripts.is_empty() {
        let Some((script, rest)) = paths.split_first() else {
            return io::usage(None);
        };
        scripts.push(script);
        paths = rest;
    }
    let mut script = match Script::parse(&scripts.join("\n"), quiet, options) {
        Ok(script) => script,
        Err(wrong) => {
            runtime::eprintln!("sed: {wrong}");
            return 2;
        }
    };
    // A line waits until it is known whether it is the last one, if that matters.
    let waits = script.needs_last();
    let mut waiting: Option<String> = None;
    let mut quit = false;
    let status = io::for_each_line("sed", paths, |line, out| {
        let line = String::from_utf8_lossy(line).into_owned();
        let next = match waits {
            true => waiting.replace(line),
            false => Some(line),
        };
        if let Some(line) = next
            && !quit
        {
            let answer = script.line(&line, false);
            out.extend_from_slice(answer.text.as_bytes());
            quit = answer.quit;
        }
        if quit { Err(CopyError::Enough) } else { Ok(()) }
    });
    if let Some(line) = waiting
        && !quit
        && let Err(error) = io::output(script.line(&line, true).text.as_bytes())
    {
        return io::output_failed("sed", error);
    }
    status
}
