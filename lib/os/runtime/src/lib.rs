//! Everything that a static `no_std` program for `x86_64-unknown-redox` needs besides its own
//! code: entry point, heap, panic handler, the `redox_*` symbols that the published Redox crates
//! call, and a small mirror of the standard library (files, processes, environment, time).
//!
//! A program is
//! ```ignore
//! #![no_std]
//! #![no_main]
//! extern crate alloc;
//! runtime::main!(main);
//! fn main() -> i32 { runtime::println!("hello"); 0 }
//! ```
//! On a Redox installation relibc provides all of this. With the feature `std`, the crate is only
//! the mirror, built on relibc and the standard library ([`hosted`]), so that the programs'
//! sources build there unchanged.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

// With or without `std`.
pub mod env;
mod exit_status;
pub mod fs;
pub mod io;
pub mod logging;
pub mod pages;
pub mod sync;
pub mod time;

#[cfg(feature = "std")]
mod hosted;
#[cfg(feature = "std")]
pub use hosted::{fd, path, process, start, sys, thread};

// Only without `std`, where the kernel is all there is below.
#[cfg(not(feature = "std"))]
pub mod abi;
#[cfg(not(feature = "std"))]
pub mod boot;
#[cfg(not(feature = "std"))]
pub mod elf;
#[cfg(not(feature = "std"))]
pub mod fd;
#[cfg(not(feature = "std"))]
mod fdtable;
#[cfg(not(feature = "std"))]
pub mod first;
#[cfg(not(feature = "std"))]
mod heap;
#[cfg(not(feature = "std"))]
mod panicking;
#[cfg(not(feature = "std"))]
pub mod path;
#[cfg(not(feature = "std"))]
pub mod power;
#[cfg(all(feature = "probe", not(feature = "std")))]
pub mod probe;
#[cfg(not(feature = "std"))]
pub mod process;
#[cfg(not(feature = "std"))]
mod roots;
#[cfg(not(feature = "std"))]
pub mod signals;
#[cfg(not(feature = "std"))]
pub mod spawn;
#[cfg(not(feature = "std"))]
mod start;
#[cfg(not(feature = "std"))]
pub mod state;
#[cfg(not(feature = "std"))]
pub mod sys;
#[cfg(not(feature = "std"))]
pub mod thread;

pub use syscall::error::{Error, Result};

/// Makes a function the program's `main`: it takes nothing and returns the exit status.
#[cfg(not(feature = "std"))]
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

/// Makes a function the program's `main`: it takes nothing and returns the exit status.
#[cfg(feature = "std")]
#[macro_export]
macro_rules! main {
    ($main:path) => {
        #[unsafe(export_name = "main")]
        extern "C" fn runtime_c_main(count: i32, words: *const *const ::core::ffi::c_char) -> i32 {
            // SAFETY: only the C library's start code calls this, with the program's arguments.
            unsafe { $crate::start::run(count, words, $main) }
        }
    };
}

/// Prints to standard output; errors are ignored because they cannot be reported.
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
