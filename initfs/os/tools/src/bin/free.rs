//! `free`: prints the memory of the machine in KiB.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;

use tools::io;

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    let (total, free) = match io::memory() {
        Ok(memory) => memory,
        Err(error) => return io::report("free", "/scheme/memory", error),
    };
    let used = total.saturating_sub(free);
    let text = format!(
        "total {} KiB\nused {} KiB\nfree {} KiB\n",
        total >> 10,
        used >> 10,
        free >> 10
    );
    match io::output(text.as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("free", error),
    }
}
