//! The kernel: boots the machine, then offers the Redox system call interface to the programs of
//! the image.
#![no_std]
#![no_main]

extern crate alloc;

// Unsafe code is allowed in three modules; the compiler forbids it in all others.
mod arch;
mod boot;
mod mm;

#[forbid(unsafe_code)]
mod console;
#[forbid(unsafe_code)]
mod object;
#[forbid(unsafe_code)]
mod proc;
#[forbid(unsafe_code)]
mod sched;
#[forbid(unsafe_code)]
mod scheme;
#[forbid(unsafe_code)]
mod syscall;
#[forbid(unsafe_code)]
mod time;
#[forbid(unsafe_code)]
mod trap;

use core::fmt::Write as _;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

/// Called by the entry code in 64-bit mode, on the boot stack and the boot page tables, with
/// interrupts off. `loader` is the loader's protocol, `info` the physical address of its
/// information.
extern "C" fn start(loader: u32, info: u32) -> ! {
    console::init();
    arch::init_cpu();
    trap::init();
    let mut args = boot::kernel_args(loader, info);
    boot::init_memory(&mut args);
    boot::init_environment(&args);
    arch::init_interrupts(args.rsdp);
    time::init(sched::tick);
    console::enable_input();
    arch::start_others(args.start_page);
    boot::start_first_program(&args);
    sched::run()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    static PANICKING: AtomicBool = AtomicBool::new(false);
    let others = arch::quiesce();
    // A panic during the report of the first one must not be reported as well, again and again.
    if !PANICKING.swap(true, Ordering::Relaxed) {
        let mut out = console::Emergency::new();
        // Output to port and screen does not fail.
        let _ = match info.location() {
            Some(at) => writeln!(out, "\nKERNEL PANIC: {} ({at})", info.message()),
            None => writeln!(out, "\nKERNEL PANIC: {}", info.message()),
        };
        if let Some((stopped, all)) = others {
            let _ = writeln!(out, "{stopped} of {all} other processors have stopped");
        }
    }
    arch::power::stop_after_panic()
}
