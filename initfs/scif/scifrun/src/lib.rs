//! Programs on other nodes, over SCIF: the code that `scifrun` and `scifrund` share.
//!
//! `scifrun` connects to [`protocol::PORT`] of the node, from a port that only root may bind; this
//! proves to `scifrund` that root asks. It sends the request and files. `scifrund` runs the
//! program in a process group of its own, and the two pass its standard streams on until it ends.
//! If the connection ends first, the program ends, too, with all processes it has started.
#![no_std]

extern crate alloc;

#[cfg(target_os = "redox")]
pub mod connection;
pub mod options;
pub mod protocol;
