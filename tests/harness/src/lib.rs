//! The harness: starts nodes in QEMU, joined by the fabric server, runs scripts on them and reports
//! how they end. `cargo xtask` calls it and passes it the builder of the image.
//!
//! Each folder uses those above it in this list only.

pub mod base;
pub mod network;
pub mod node;
pub mod suite;

pub mod command;
