//! `sleep seconds`: waits; fractions are allowed.
#![no_std]
#![no_main]

use core::time::Duration;

use tools::io;

runtime::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let time = match arguments.as_slice() {
        [text] => tools::number::seconds(text),
        _ => None,
    };
    match time {
        Some(time) => {
            runtime::time::sleep(Duration::from_nanos(time));
            0
        }
        None => io::usage("sleep seconds (such as 2 or 0.25)"),
    }
}
