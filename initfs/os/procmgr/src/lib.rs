//! The parts of the process manager that make no system calls: the [`table`] of processes, and the
//! [`process`]es in it.
#![no_std]

extern crate alloc;

pub mod process;
pub mod table;
#[cfg(test)]
mod tests;
