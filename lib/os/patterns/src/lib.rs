//! Patterns of text as POSIX defines them: those of file names ([`file_name`]), for the shell,
//! `find` and the C library.
//!
//! A pattern and the text may come from anyone. No function calls itself, so no pattern takes more
//! stack than another one, and each says how its time grows.
#![no_std]

extern crate alloc;

pub mod file_name;
