//! The parts of `ramfs` that need no system: [`fs`], the tree of files in memory, and [`random`],
//! the generator behind the scheme `rand`.
#![no_std]

extern crate alloc;

mod chunk;
pub mod data;
pub mod fs;
mod mapped;
mod node;
pub mod random;
mod sparse;
