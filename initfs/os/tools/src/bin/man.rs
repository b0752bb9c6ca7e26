//! `man`: prints the page of a program, or a list of all.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use tools::{io, manual};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let text: String = match io::behind_dashes(&arguments) {
        [] => manual::PAGES.iter().map(manual::Page::line).collect(),
        [name] => match manual::page(name) {
            Some(page) => page.text(),
            None => {
                runtime::eprintln!("man: {name} has no page; the shell's own commands: help");
                return 1;
            }
        },
        [_, word, ..] => return io::usage(Some(word)),
    };
    match io::output(text.as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("man", error),
    }
}
