//! What bootstrap knows without the system: the boot [`image`]'s file system.
#![no_std]

extern crate alloc;

pub mod image;
