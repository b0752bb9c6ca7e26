//! `sort`: sorts lines.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;

use tools::io::{self, CopyError};
use tools::sort::{Key, Sorting};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "tk");
    let mut sorting = Sorting::default();
    while let Some((letter, value)) = words.next() {
        match (letter, value) {
            ('u', None) => sorting.unique = true,
            ('t', Some(text)) if text.len() == 1 => sorting.separator = Some(text.as_bytes()[0]),
            ('k', Some(text)) => match Key::parse(text) {
                Some(key) => sorting.keys.push(key),
                None => return io::usage(Some(text)),
            },
            (letter, None) if sorting.comparison.set(letter) => {}
            _ => return io::usage(Some(words.word())),
        }
    }
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let status = io::for_each_line("sort", words.rest(), |line, _| {
        lines.push(line.into());
        Ok::<_, CopyError>(())
    });
    sorting.sort(&mut lines);
    // The last one ends, too.
    lines.push(Vec::new());
    match io::output(&lines.join(&b'\n')) {
        Ok(()) => status,
        Err(error) => io::output_failed("sort", error),
    }
}
