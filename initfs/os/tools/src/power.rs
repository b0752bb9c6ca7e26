//! What `poweroff` and `reboot` have in common.

use core::time::Duration;

use crate::io;

/// The kernel's file that ends the running of the machine.
const STOP: &str = "/scheme/sys/kstop";

/// Writes a word to the kernel's file, for a program that takes no arguments. Returns the exit
/// status.
pub fn run(program: &str, word: &str) -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    // Text that was written to the console a moment ago shall still be seen.
    runtime::time::sleep(Duration::from_millis(50));
    match runtime::fs::write(STOP, word) {
        Ok(()) => 0,
        Err(error) => io::report(program, STOP, error),
    }
}
