//! The parts of the process manager that make no system calls: the [`table`] of processes, the
//! [`process`]es in it, their [`threads`] and their [`signals`].
#![no_std]

extern crate alloc;

pub mod process;
pub mod signals;
pub mod table;
#[cfg(test)]
mod tests;
pub mod threads;
