//! The part of bootstrap that needs no operating system: the file system of the boot [`image`].
#![no_std]

extern crate alloc;

pub mod image;
