//! `env [-i] [name=value…] [program argument…]`: prints the environment or runs a program with
//! another one.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use runtime::process::Command;
use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    while let Some((letter, _)) = words.next() {
        match letter {
            'i' => runtime::env::clear_vars(),
            _ => return io::usage(Some(words.word())),
        }
    }
    let words = words.rest();
    let count = words.iter().take_while(|word| word.contains('=')).count();
    let (assignments, program) = words.split_at(count);
    for word in assignments {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        runtime::env::set_var(name, value);
    }
    let Some((name, rest)) = program.split_first() else {
        let text: String = runtime::env::vars()
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect();
        return match io::output(text.as_bytes()) {
            Ok(()) => 0,
            Err(error) => io::output_failed("env", error),
        };
    };
    // It becomes the program, so that signals for it reach the program.
    let error = Command::new(name).args(rest).exec();
    io::report("env", name, error);
    if error.errno == syscall::ENOENT {
        127
    } else {
        126
    }
}
