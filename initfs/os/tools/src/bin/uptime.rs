//! `uptime`: prints the seconds since the machine started.
#![no_std]
#![no_main]

use tools::{io, number};

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    let text = number::show_seconds(runtime::time::Instant::now().as_nanos()) + " s\n";
    match io::output(text.as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("uptime", error),
    }
}
