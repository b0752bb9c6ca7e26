//! The kernel: boots the machine, then offers the Redox system call interface to the programs of
//! the image.
#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod console;
mod mm;
mod object;
mod proc;
mod sched;
mod scheme;
mod syscall;
mod time;

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // not filled yet
    loop {}
}
