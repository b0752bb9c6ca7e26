//! The parts of init that need no operating system: the [`script`] language, and how often a
//! daemon may end.
#![no_std]

extern crate alloc;

pub mod deaths;
pub mod script;
