//! The panic handler: one line on standard error, exit status 101.

use alloc::format;

use crate::{env, io, process};

/// Exit status of a program that panicked.
pub const EXIT_STATUS: i32 = 101;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::sync::atomic::{AtomicBool, Ordering};
    static PANICKING: AtomicBool = AtomicBool::new(false);
    if !PANICKING.swap(true, Ordering::Relaxed) {
        let name = env::program_name();
        let line = match info.location() {
            Some(at) => {
                format!(
                    "PANIC {name}: {} at {}:{}\n",
                    info.message(),
                    at.file(),
                    at.line()
                )
            }
            None => format!("PANIC {name}: {}\n", info.message()),
        };
        io::emergency(&line);
    }
    process::exit(EXIT_STATUS)
}
