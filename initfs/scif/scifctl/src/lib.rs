//! The parts of `scifctl` that need no machine: tables read from text and made text again, what
//! each program holds, and the driver's trace; and the daemon's files, which a program for another
//! daemon reads in the same way.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[cfg(target_os = "redox")]
pub mod files;
pub mod holdings;
pub mod rates;
pub mod table;
pub mod trace;
