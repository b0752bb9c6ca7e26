//! `watch`: runs a program again and again.
#![no_std]
#![no_main]

use core::time::Duration;

use tools::{io, number};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "n");
    let mut pause = Duration::from_secs(2);
    while let Some((letter, value)) = words.next() {
        match (letter, value.and_then(number::seconds)) {
            ('n', Some(time)) => pause = Duration::from_nanos(time),
            _ => return io::usage(Some(words.word())),
        }
    }
    match words.rest() {
        [] => io::usage(None),
        program => io::repeat("watch", program, pause),
    }
}
