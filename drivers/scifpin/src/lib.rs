//! The parts of `scifpin` that need no machine: the `scifpin` scheme and its accounts.
//!
//! A program that wants memory registered where it is gives this daemon the descriptor of its
//! address space. The daemon borrows the pages, offers them to the SCIF daemon and ends the loan:
//! the SCIF daemon has the pages, nobody has the address space. It is a daemon of its own because
//! a borrowed page keeps the whole address space of its program alive, and whoever drops such a
//! space last has to tell the schemes that were mapped in it; the SCIF daemon would have to tell,
//! and wait for, itself. The client's side and the protocol are in `platform::pin`.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod ledger;
pub mod scheme;
