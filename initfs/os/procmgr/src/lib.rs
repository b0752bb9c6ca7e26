//! The state of the process manager, without the system calls: the [`table`] of processes and the
//! [`process`]es in it.
#![no_std]

extern crate alloc;

pub mod process;
pub mod table;
#[cfg(test)]
mod tests;
