//! The calls that SCIF has for other drivers only: pinning pages, getting the addresses of the
//! peer's pages, and following nodes that come and go.
//!
//! On a microkernel a "kernel client" is a trusted driver task. Only root may make these calls;
//! other users get `EPERM` or `EACCES`. A driver whose device memory is the pages of a peer:
//!
//! ```no_run
//! # use std::rc::Rc;
//! # use scif::{Endpoint, MapFlags, Memory, Protection, Result};
//! # use scif::kernel::{PinnedPages, get_pages};
//! // The side that has the memory: it is registered with every connection that comes.
//! # fn serve(accepted: &Endpoint) -> Result<()> {
//! let memory = Memory::ordinary(1 << 20)?;
//! let pages = PinnedPages::pin(memory.range(), Protection::all(), MapFlags::empty())?;
//! let offset = pages.register(accepted, 0, MapFlags::empty())?;
//! # Ok(()) }
//! // The side that uses it.
//! # fn attach(connected: Endpoint, offset: i64) -> Result<()> {
//! let memory = get_pages(Rc::new(connected), offset, 1 << 20)?.map()?;
//! memory.write(0, b"a block")?;
//! memory.flush()?;
//! # Ok(()) }
//! ```
//!
//! To wait for several endpoints, a driver calls [`poll`], as all programs do.

mod client;
mod pages;
mod pin;

pub use crate::poll::{PollEntry, Pollable, poll};
pub use client::{Client, Registration};
pub use pages::{RemoteMemory, RemotePages, get_pages};
pub use pin::PinnedPages;
