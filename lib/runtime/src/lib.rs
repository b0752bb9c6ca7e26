//! The library that makes a static `no_std` program for `x86_64-unknown-redox` a whole one: entry
//! point, heap, panic message, the `redox_*` symbols that the published Redox crates call, and a
//! small mirror of the standard library (files, processes, environment, time).
//!
//! A program is
//! ```ignore
//! #![no_std]
//! #![no_main]
//! extern crate alloc;
//! runtime::main!(main);
//! fn main() -> i32 { runtime::println!("hello"); 0 }
//! ```
//! On a real Redox system relibc provides all of this; sources that use only `alloc`, the Redox
//! crates and their own types build there unchanged.
#![no_std]

extern crate alloc;

pub mod abi;
pub mod boot;
pub mod elf;
pub mod env;
pub mod fd;
mod fdtable;
pub mod fs;
mod heap;
pub mod io;
pub mod logging;
mod panicking;
pub mod path;
#[cfg(feature = "probe")]
pub mod probe;
pub mod process;
pub mod spawn;
mod start;
pub mod state;
pub mod sync;
pub mod sys;
pub mod thread;
pub mod time;

pub use syscall::error::{Error, Result};

/// Makes the function the program's `main`: it takes nothing and returns the exit status.
#[macro_export]
macro_rules! main {
    ($main:path) => {
        #[unsafe(no_mangle)]
        fn runtime_program_main() -> i32 {
            let main: fn() -> i32 = $main;
            main()
        }
    };
}

/// Prints to standard output; errors are ignored as there is nobody to tell.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::io::print_to(1, ::core::format_args!($($arg)*)) };
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($arg:tt)*) => {
        $crate::io::print_to(1, ::core::format_args!("{}\n", ::core::format_args!($($arg)*)))
    };
}

/// Prints to standard error.
#[macro_export]
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::io::print_to(2, ::core::format_args!($($arg)*)) };
}

/// Prints a line to standard error.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::eprint!("\n") };
    ($($arg:tt)*) => {
        $crate::io::print_to(2, ::core::format_args!("{}\n", ::core::format_args!($($arg)*)))
    };
}
