//! `reboot`: starts the machine again (root only).
#![no_std]
#![no_main]

use core::time::Duration;

use tools::io;

runtime::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    // Text that was written to the console a moment ago shall still be seen.
    runtime::time::sleep(Duration::from_millis(50));
    match runtime::fs::write("/scheme/sys/kstop", "reset") {
        Ok(()) => 0,
        Err(error) => io::report("reboot", "/scheme/sys/kstop", error),
    }
}
