//! The SCIF engine: endpoints, connections, node queue pairs and node management without any
//! input or output of its own.
//!
//! No system call, clock, thread or global: time, memory and doorbells are arguments
//! ([`Engine::tick`], [`Memory`], [`Event::Ring`]), and calls never block. The scheme daemon, the
//! simulator and benchmarks drive the very same code.
//!
//! # A turn of the driver's loop
//! 1. [`Engine::tick`] with the time.
//! 2. Any calls: those of clients, [`Engine::doorbell`] for every doorbell that rang, and the link
//!    steps [`Engine::attach`], [`Engine::link_up`], [`Engine::link_down`].
//! 3. [`Engine::pump`]: a slice of the queued copies.
//! 4. [`Engine::next_event`] until `None`: ring doorbells, retry what waits on changed endpoints
//!    (more calls), report nodes.
//! 5. Sleep until something happens, at most until [`Engine::next_deadline`]; not at all when
//!    `pump` has more to do.
//!
//! # Waiting
//! A call that would have to wait says so instead: [`Engine::send`] and [`Engine::recv`] return 0,
//! [`Engine::connect_result`] and [`Engine::accept_finish`] are pending, [`Engine::accept_start`]
//! has nothing to accept. The driver parks its client and retries at the next `Changed` event of
//! the endpoint. Calls on registered memory give a [`Ticket`] for [`Engine::finish`] instead.
#![no_std]

extern crate alloc;

mod accept;
mod bypass;
mod channel;
mod close;
mod config;
mod connect;
mod connection;
mod copy;
mod credit_waiters;
mod departure;
mod dispatch;
mod down;
mod endpoint;
mod engine;
mod event;
mod fair_queue;
mod fence;
mod invariants;
mod job;
mod link;
mod listen;
mod local;
mod local_part;
mod mapping;
mod memory;
mod memory_rules;
mod node;
mod page_list;
mod pages;
mod polling;
mod port;
mod probe;
mod quiesce;
mod quota;
mod remote;
mod response_timeouts;
mod ring;
mod rings;
mod rma;
mod slab;
mod snapshot;
mod span;
mod stats;
mod ticket;
mod trace;
mod transfer;
mod window;

pub use bypass::BypassId;
pub use config::{Config, Owner};
pub use connect::{Connect, ConnectMode};
pub use copy::{CopyEngine, CpuEngine, Descriptor, SubmitError, Submitted};
pub use down::{DownReason, LostNode};
pub use endpoint::{EndpointId, EndpointState};
pub use engine::Engine;
pub use event::Event;
pub use fair_queue::FairQueue;
pub use fence::Signal;
pub use invariants::Violation;
pub use link::LinkError;
pub use local_part::LocalPart;
pub use mapping::{Mapped, MappedPieces, ReferencedPages, RemoteWindowId};
pub use memory::{BadAddress, Memory, Place};
pub use node::LinkState;
pub use pages::{Pages, PinId, Run};
pub use quota::{Limits, Resource, Scope};
pub use rma::{Direction, Local, Rma};
pub use scif_ring::Side;
pub use snapshot::{ConnectionInfo, MappingInfo, NodeInfo, PortInfo, WindowInfo};
pub use stats::Stats;
pub use ticket::Ticket;
pub use trace::Tracer;
pub use window::WindowState;

#[cfg(test)]
mod tests;
