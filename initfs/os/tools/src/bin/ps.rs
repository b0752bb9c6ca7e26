//! `ps`: lists the processes, as the process manager (or the kernel, without one) tells them.
#![no_std]
#![no_main]

use tools::io;

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    let text = runtime::fs::read("/scheme/proc/ps")
        .or_else(|error| runtime::fs::read("/scheme/sys/context").map_err(|_| error));
    match text {
        Ok(text) => match io::output(&text) {
            Ok(()) => 0,
            Err(error) => io::output_failed("ps", error),
        },
        Err(error) => io::report("ps", "/scheme/proc/ps", error),
    }
}
