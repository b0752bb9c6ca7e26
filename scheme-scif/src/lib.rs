//! The `scif:` scheme: paths, handles, waiting requests and text files over the protocol engine.
//!
//! [`Scif`] is the whole of it and makes no system call: memory and doorbells are a [`Fabric`],
//! requests are function calls that answer at once. So the tests here drive it on the development
//! machine with the real engine. `Daemon` (for the target only) is the thin layer that the event
//! loop of `scheme` calls. Nothing here knows a device.
#![cfg_attr(not(any(test, feature = "bed")), no_std)]

extern crate alloc;

mod accept;
mod access;
mod cards;
mod connect;
#[cfg(target_os = "redox")]
mod daemon;
mod direct;
mod end;
mod files;
mod handle;
mod lane;
mod limits;
mod object;
mod open;
mod operation;
pub mod path;
mod peers;
mod ranges;
mod rma;
mod scif;
mod text;
mod transfer;
mod window;

/// What the tests play on; the fuzz targets do, too.
#[cfg(any(test, feature = "bed"))]
#[path = "tests/bed/mod.rs"]
#[allow(missing_docs, reason = "for tests only")]
pub mod bed;
#[cfg(test)]
mod tests;

pub use access::Caller;
pub use cards::{Card, CardCommand, CardState};
#[cfg(target_os = "redox")]
pub use daemon::Daemon;
pub use files::{Entry, SCHEME};
pub use handle::HandleId;
pub use object::Token;
pub use scif::{
    Changes, DEFAULT_BACKLOG, Fabric, JoinId, LoopCounters, MAX_HANDLES, News, Progress, ROOT,
    RequestId, Scif, View,
};
