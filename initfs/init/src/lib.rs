//! What init knows without the system: the [`script`] language.
#![no_std]

extern crate alloc;

pub mod script;
