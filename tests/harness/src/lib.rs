//! The harness: starts nodes in QEMU, joined by the fabric server, runs scripts on them and judges
//! how they end. `cargo xtask` is the command that calls it; what nodes boot comes from the builder
//! in `xtask`.
//!
//! Each folder uses those above it in this list only.

pub mod base;
pub mod network;
pub mod node;
pub mod suite;

pub mod command;
