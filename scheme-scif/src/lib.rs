//! The `scif:` scheme: paths, handles, waiting requests and text files over the protocol engine.
//!
//! [`Scif`] is the scheme's state and makes no system call: memory and doorbells are a
//! [`NodeMemory`], and requests are function calls that answer at once. So the tests here drive it
//! on the development machine with the real engine. `Daemon` (for the target only) is the thin
//! layer that the event loop of `scheme` calls. Nothing here depends on a device. docs/scheme.md
//! describes the scheme, docs/architecture.md its terms ("Words").
#![cfg_attr(not(any(test, feature = "fixture")), no_std)]

extern crate alloc;

mod access;
mod card;
#[cfg(target_os = "redox")]
mod daemon;
mod error;
mod handle;
mod ids;
mod listener;
mod memory;
mod node_memory;
pub mod path;
mod request;
mod scif;
mod spaces;

/// The fixture of the tests and of the fuzz targets.
#[cfg(any(test, feature = "fixture"))]
#[path = "tests/fixture/mod.rs"]
#[allow(missing_docs, reason = "for tests only")]
pub mod fixture;
#[cfg(test)]
mod tests;

pub use access::Caller;
pub use card::{Card, CardCommand, CardState};
#[cfg(target_os = "redox")]
pub use daemon::Daemon;
pub use handle::table::{MAX_HANDLES, ROOT};
pub use ids::{HandleId, RequestId};
pub use node_memory::{Doorbells, JoinId, NodeMemory, ObjectMemory, Progress, Token, View};
pub use request::Changes;
pub use scif::files::{DirectoryEntry, SCHEME};
pub use scif::{DEFAULT_BACKLOG, LoopCounters, NodeEvent, Scif};
