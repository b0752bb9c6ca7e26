//! Memory of SCIF's clients: memory that they register and have pinned, windows of peers that they
//! map, and the daemon's access to their pages. docs/architecture.md, "Words", defines *pin* and
//! *window*.
#![cfg_attr(not(test), no_std)]
#![warn(clippy::missing_errors_doc)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod borrow;
pub mod borrow_thread;
mod checked_copy;
pub mod descriptor;
pub mod fork;
pub mod mappings;
pub mod memory;
pub mod pages;
pub mod pin;
#[cfg_attr(not(any(test, feature = "placement")), path = "no_placement.rs")]
pub mod placement;
pub mod range;
mod reachable;
pub mod retire;
pub mod rights;
pub mod ring;
pub mod shared;
mod table;
pub mod window;
