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

mod base;
mod bypass;
mod call;
mod connection;
mod endpoint;
mod engine;
mod flow;
mod node;
mod queue_pair;
mod rma;
mod run;
mod view;
mod window;

pub use base::config::{Config, Owner};
pub use base::event::Event;
pub use base::fair_queue::FairQueue;
pub use base::ids::{BypassId, EndpointId, RemoteWindowId, Ticket};
pub use base::memory::{BadAddress, Memory, Place};
pub use base::pages::{Pages, PinId, Run};
pub use base::quota::{Limits, Resource, Scope};
pub use base::rule::Violation;
pub use base::stats::Stats;
pub use base::trace::Tracer;
pub use endpoint::{ConnectMode, EndpointState};
pub use engine::Engine;
pub use flow::connect::Connect;
pub use flow::fence::Signal;
pub use flow::rma::{Local, Rma};
pub use node::LinkError;
pub use node::down::{DownReason, LostNode};
pub use node::link::LinkState;
pub use rma::copy_engine::{CopyEngine, CpuEngine, Descriptor, SubmitError, Submitted};
pub use rma::job::Direction;
pub use scif_ring::Side;
pub use view::snapshot::{ConnectionInfo, NodeInfo, PortInfo};
pub use window::local::{WindowInfo, WindowState};
pub use window::offsets::LocalPart;
pub use window::references::{Mapped, MappedPieces, ReferencedPages};
pub use window::remote::MappingInfo;

#[cfg(test)]
mod tests;
