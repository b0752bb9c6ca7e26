//! A small POSIX-like shell.
//!
//! Everything that decides is in this library and needs no system: [`parser`] makes a tree
//! ([`ast`]), [`expand`] turns words into fields, [`shell`] runs the tree over the few operations
//! of [`system::System`]. The binary supplies those: over `runtime` in the image, over std on the
//! development machine, where the same scripts are tested (`cargo test -p sh`).
//!
//! There is no `fork` in the system below. Most of what POSIX calls a subshell therefore runs in
//! this process with its state put back afterwards; what must run at the same time as the rest is
//! printed and given to a new shell (`docs` of [`shell`] has the rules).
#![no_std]

extern crate alloc;

pub mod arith;
pub mod ast;
mod builtins;
pub mod cli;
pub mod complete;
pub mod expand;
pub mod parser;
pub use tools::glob as pattern;
pub mod shell;
pub mod system;
