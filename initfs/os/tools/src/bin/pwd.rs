//! `pwd`: prints the current directory.
#![no_std]
#![no_main]

use tools::io;

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    let text = runtime::env::current_dir() + "\n";
    match io::output(text.as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("pwd", error),
    }
}
