//! `uname`: prints the system's name.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use tools::{host, io};

tools::main!(main);

/// The letters, in the order in which their words are printed.
const LETTERS: &str = "snrvm";

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let mut wanted = String::new();
    while let Some((letter, _)) = words.next() {
        match letter {
            'a' => wanted.push_str(LETTERS),
            letter if LETTERS.contains(letter) => wanted.push(letter),
            _ => return io::usage(Some(words.word())),
        }
    }
    if let Some(word) = words.rest().first() {
        return io::usage(Some(word));
    }
    if wanted.is_empty() {
        wanted.push('s');
    }
    let parts = LETTERS.chars().filter(|letter| wanted.contains(*letter));
    let parts: Vec<String> = parts
        .map(|letter| match letter {
            's' => "Skiff".into(),
            'n' => host::name().unwrap_or_else(|| "unknown".into()),
            'r' => env!("CARGO_PKG_VERSION").into(),
            'v' => "microkernel with SCIF".into(),
            _ => "x86_64".into(),
        })
        .collect();
    match io::output((parts.join(" ") + "\n").as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("uname", error),
    }
}
