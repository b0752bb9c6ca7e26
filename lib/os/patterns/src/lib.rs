//! Patterns of text as POSIX defines them, for the shell, the small programs and the C library:
//! those of file names ([`file_name`]), and regular expressions ([`expression`]). Also which texts
//! are names of machines ([`machine_name`]).
//!
//! A pattern and the text may come from anyone. No function calls itself, so no pattern takes more
//! stack than another one, and each says how its time grows.
#![no_std]

extern crate alloc;

pub mod expression;
pub mod file_name;
pub mod machine_name;
