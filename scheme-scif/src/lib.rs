//! The `scif:` scheme: paths, handles, waiting requests and text files over the protocol engine.
//!
//! [`Scif`] is the whole of it and makes no system call: memory and doorbells are a [`Fabric`],
//! requests are function calls that answer at once. So the tests here drive it on the development
//! machine with the real engine. `Daemon` (for the target only) is the thin layer that the event
//! loop of `scheme` calls. Nothing here knows a device.
#![cfg_attr(not(any(test, feature = "bed")), no_std)]

extern crate alloc;

mod access;
#[cfg(target_os = "redox")]
mod daemon;
mod handle;
mod memory;
pub mod path;
mod request;
mod scif;

/// What the tests play on; the fuzz targets do, too.
#[cfg(any(test, feature = "bed"))]
#[path = "tests/bed/mod.rs"]
#[allow(missing_docs, reason = "for tests only")]
pub mod bed;
#[cfg(test)]
mod tests;

pub use access::Caller;
#[cfg(target_os = "redox")]
pub use daemon::Daemon;
pub use handle::HandleId;
pub use memory::Token;
pub use scif::files::cards::{Card, CardCommand, CardState};
pub use scif::files::{Entry, SCHEME};
pub use scif::{
    Changes, DEFAULT_BACKLOG, Fabric, JoinId, LoopCounters, MAX_HANDLES, News, Progress, ROOT,
    RequestId, Scif, View,
};
