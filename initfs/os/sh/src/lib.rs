//! A small POSIX-like shell.
//!
//! All decisions are in this library, which needs no operating system: [`parser`] makes a tree
//! ([`ast`]), [`expand`] turns words into fields, [`shell`] runs the tree by means of the few
//! operations of [`system::System`]. The binary supplies those: over `runtime` in the image, over
//! std on the development machine, where the same scripts are tested (`cargo test -p sh`).
//!
//! The system has no `fork`. Most of what POSIX calls a subshell therefore runs in this process,
//! whose state is restored afterwards; parts that must run concurrently are printed and given to a
//! new shell ([`shell`] has the rules).
#![no_std]

extern crate alloc;

pub mod arith;
pub mod ast;
mod builtins;
pub mod cli;
pub mod complete;
pub mod expand;
pub mod parser;
pub mod shell;
pub mod system;
