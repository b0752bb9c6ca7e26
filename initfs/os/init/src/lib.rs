//! The parts of init that need no operating system: the [`script`] language, and when a
//! daemon that ended is started again.
#![no_std]

extern crate alloc;

pub mod deaths;
pub mod script;
