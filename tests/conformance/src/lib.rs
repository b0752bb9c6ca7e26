//! The behaviour of SCIF as a table of cases, and the conformance suite that runs them.
//!
//! [`table`] has one row for each call and condition: what the documents say, what the two known
//! drivers do, what Skiff does and why. Every row has its cases. A case is written once, against
//! [`Driver`](bench::Driver), and runs in three places: over the simulator, in one booted node,
//! and between two. `docs/behaviour.md` is written from the same rows ([`document`]), so table,
//! cases and page cannot diverge.
#![no_std]

extern crate alloc;

pub mod ask;
pub mod bench;
pub mod call;
pub mod cases;
pub mod document;
pub mod errno;
pub mod pattern;
pub mod run;
pub mod st;
pub mod table;
pub mod verbs;

pub use bench::{Bench, Driver, Place, Side};
pub use call::{Call, Counts, Errno, Reply};
pub use run::run;
