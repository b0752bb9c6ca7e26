//! RDMA verbs for Rust programs (docs/verbs.md): queue pairs, completion queues and memory regions
//! over SCIF connections, between programs of one node or two.
//!
//! ```no_run
//! # use scif::{Listener, Memory, PortId};
//! # use verbs::{Access, QpType, QueuePair, Result, Settings};
//! # fn main() -> Result<()> {
//! let device = verbs::devices()?.remove(0);
//! let context = device.open(|worker| {
//!     std::thread::spawn(move || worker.run());
//!     Ok(())
//! })?;
//! let domain = context.protection_domain()?;
//! let queue = context.completion_queue(16)?;
//! let pair = domain.queue_pair(QpType::Rc, &queue, &queue).build()?;
//! let settings = Settings::default();
//! pair.init(&settings)?;
//! let region = domain.register(Memory::new(4096)?, Access::LOCAL_WRITE)?;
//! pair.receive(1, &[region.segment(0..4096)?])?;
//! // The other program has a `Listener`, accepts, and does the same.
//! pair.meet(&verbs::connect(PortId::new(1, 2050))?, &settings)?;
//! let mut completions = Vec::new();
//! while queue.poll(16, &mut completions)? == 0 {}
//! assert_eq!(completions[0].id, 1);
//! # Ok(()) }
//! ```
//!
//! A program that polls completion queues does all the work in its own calls, without the driver
//! and without its progress thread. While it does other things, or waits for the descriptor of a
//! [`CompletionChannel`], the thread serves its peers; a call of [`CompletionChannel::next`] that
//! waits serves them itself.
#![cfg_attr(not(test), no_std)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod bell;
mod clock;
mod connect;
mod daemon;
pub mod device;
pub mod engine;
mod error;
mod events;
mod lanes;
mod links;
mod memory;
mod objects;
mod open_context;
#[cfg(test)]
mod played;
mod queue_pair;
pub mod raw;
pub mod relay;
pub mod report;
pub mod shares;
mod state;
#[cfg(feature = "std")]
mod std_io;
mod stream;
mod waiter;
mod watch;
mod worker;

pub use connect::connect;
pub use device::{Device, devices};
pub use error::{Error, Result};
pub use events::Events;
pub use objects::{
    CompletionChannel, CompletionQueue, Context, MemoryRegion, ProtectionDomain, SharedReceiveQueue,
};
pub use queue_pair::{Address, QueuePair, QueuePairBuilder, Settings};
pub use raw::AsyncEvent;
pub use verbs_core::address::{self, AddressVector, Datagram, GlobalRoute};
pub use verbs_core::attributes::Attributes;
pub use verbs_core::keys::{Region, WindowType};
pub use verbs_core::srq::Xrc;
pub use verbs_core::types::{
    Access, AttributeMask, EventType, Opcode, QpState, QpType, SendFlags, WcFlags, WcOpcode,
    WcStatus,
};
pub use verbs_core::work::QpInit;
pub use verbs_core::work::{
    Bind, Capacity, Data, ReceiveRequest, Remote, Segment, Segments, SendRequest, ShortData,
    ShortSend, WorkCompletion,
};
pub use verbs_core::{Subject, context, table};
pub use worker::Worker;
