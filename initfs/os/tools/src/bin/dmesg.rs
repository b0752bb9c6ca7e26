//! `dmesg`: prints the log.
#![no_std]
#![no_main]

use tools::io;

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    match runtime::fs::read("/scheme/log") {
        Ok(text) => match io::output(&text) {
            Ok(()) => 0,
            Err(error) => io::output_failed("dmesg", error),
        },
        Err(error) => io::report("dmesg", "/scheme/log", error),
    }
}
