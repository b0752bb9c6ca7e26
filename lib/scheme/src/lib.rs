//! The parts of a scheme daemon: its event loop, its handles, and its start. It is built on the
//! published Redox crates only, so the same source serves the programs of this image and programs
//! with the standard library on Redox.
#![cfg_attr(not(test), no_std)]
#![warn(clippy::missing_errors_doc)]

extern crate alloc;

pub mod daemon;
mod event_loop;
mod handles;
pub mod keeper;
pub mod locks;
mod shares;
pub mod tree;

#[cfg(not(target_os = "redox"))]
pub use event_loop::fake;
pub use event_loop::{
    Changes, Counters, NO_ID, SchemeDaemon, SchemeLoop, SocketTransport, Status, Transport, WAITS,
};
pub use handles::{Handles, ROOT};
pub use shares::Shares;
pub use tree::{list_directory, read_at};
