//! Checks the kernel's interface against that of Redox: system calls, kernel schemes, user
//! schemes. docs/redox.md says what of it is used, and which check here asserts it. File names in
//! the modules' first lines are those of the upstream kernel.
//!
//! It is a first program (it takes bootstrap's place in the image), so it depends on nothing but
//! the kernel, and the same file runs on the upstream Redox kernel. It prints one line per check
//! and
//! `abi: N passed, M failed`, then powers the machine off.
#![no_std]
#![no_main]

extern crate alloc;

mod contexts;
mod daemon_ends;
mod files;
mod fuzz;
mod ipc;
mod loans;
mod memory;
mod misuse;
mod requests;
mod schemes;
mod serving;
mod suite;
mod surface;
mod sys;

use suite::Suite;

runtime::main!(main);

fn main() -> i32 {
    let Some(suite) = Suite::new() else {
        runtime::power::halt("no console for the ABI test")
    };
    files::run(&suite);
    memory::run(&suite);
    ipc::run(&suite);
    contexts::run(&suite);
    schemes::run(&suite);
    requests::run(&suite);
    loans::run(&suite);
    surface::run(&suite);
    misuse::run(&suite);
    daemon_ends::run(&suite);
    fuzz::run(&suite);
    suite.finish();
    runtime::power::halt("the ABI test has ended")
}
