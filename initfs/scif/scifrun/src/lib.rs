//! Programs on other nodes, over SCIF: what `scifrun` and `scifrund` share.
//!
//! `scifrun` connects to [`protocol::PORT`] of the node, from a port that only root may bind; that
//! is how `scifrund` knows that root asks. It sends what is to be run, and files; `scifrund` runs
//! the program in a process group of its own, and the two pass its standard streams on until it
//! ends. When the connection ends before, so does the program, with all it has started.
#![no_std]

extern crate alloc;

#[cfg(target_os = "redox")]
pub mod connection;
pub mod options;
pub mod protocol;
