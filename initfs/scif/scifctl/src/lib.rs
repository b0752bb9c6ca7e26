//! The parts of `scifctl` that need no machine: parsing and printing tables, the objects that each
//! program holds, and the driver's trace. The module `files`, on Redox, reads the text files of a
//! daemon; programs for other daemons use it, too.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[cfg(target_os = "redox")]
pub mod files;
pub mod holdings;
pub mod rates;
pub mod table;
pub mod trace;
