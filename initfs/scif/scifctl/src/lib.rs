//! The parts of `scifctl` that need no machine: tables read from text and made text again, what
//! each program holds, and the driver's trace.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod holdings;
pub mod table;
pub mod trace;
