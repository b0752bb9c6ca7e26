//! Functions that the small programs share.
//!
//! Most modules are pure and tested on the host; [`io`], [`power`] and [`trees`], which exist only
//! on the target, read, write and report. The shell uses [`echo`], [`printf`] and [`condition`]
//! for its builtins, so that a builtin and the program of the same name cannot differ.
#![no_std]

extern crate alloc;

pub mod condition;
pub mod cut;
pub mod echo;
pub mod host;
#[cfg(target_os = "redox")]
pub mod io;
pub mod lines;
pub mod manual;
pub mod number;
pub mod pager;
#[cfg(target_os = "redox")]
pub mod power;
pub mod printf;
pub mod regex;
pub mod sed;
pub mod signal;
pub mod sort;
pub mod tr;
#[cfg(target_os = "redox")]
pub mod trees;

/// Makes a function the `main` of a small program, which gets its page of the [manual].
#[cfg(target_os = "redox")]
#[macro_export]
macro_rules! main {
    ($main:path) => {
        ::runtime::main!(program_main);

        fn program_main() -> i32 {
            const PAGE: $crate::manual::Page =
                $crate::manual::page_of_program(env!("CARGO_BIN_NAME"));
            $crate::io::set_page(PAGE);
            ::runtime::path::keep_colons();
            $main()
        }
    };
}
