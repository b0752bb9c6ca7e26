//! `clear`: clears the screen.
#![no_std]
#![no_main]

use tools::io;

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    match io::output(b"\x1b[H\x1b[2J\x1b[3J") {
        Ok(()) => 0,
        Err(error) => io::output_failed("clear", error),
    }
}
