//! The SCIF engine: endpoints, connections, registered memory and links between nodes, without any
//! input or output of its own.
//!
//! The engine contains no system call, clock, thread or global: time, memory and doorbells are
//! arguments ([`Engine::tick`], [`Memory`], [`Event::Ring`]), and calls never block. The scheme
//! daemon, the simulator and benchmarks drive the same code.
//!
//! # Folders
//! From the bottom to the top; each uses only folders before it (`config/layers.toml`). A part
//! owns its state, which other code reaches through the part's methods; the engine is all parts
//! together.
//!
//! | folder | state |
//! | --- | --- |
//! | `base` | `Context`: clock, settings, timers, events, outbox, quotas, counters; tables, ids |
//! | `queue_pair` | a pair of rings, its memory, and the control page shared with bypass clients |
//! | `window` | `Windows`: local and remote windows, registered address spaces, page references |
//! | `call` | `Calls`: calls that wait, by their tickets |
//! | `endpoint` | `Endpoints`: endpoints, their queued requests, ports |
//! | `node` | `Nodes`: the links to other nodes, lost nodes, failures to act on |
//! | `connection` | `Connections`: phases, rings, pending notifications, waits for room |
//! | `rma` | `Transfers`: channels, jobs, marks, waits for copies |
//! | `bypass` | `Bypass`: bypass handles, and what waits for copies of their clients |
//! | `engine.rs` | [`Engine`]: the parts, put together |
//! | `flow` | none: one file for one exchange of the protocol, with access to all parts |
//! | `view` | none: rows of the text files, invariants |
//! | `run.rs` | none: the driver's loop |
//!
//! # An iteration of the driver's loop
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
//! A call that would have to wait returns that at once: [`Engine::send`] and [`Engine::recv`]
//! return 0, [`Engine::connect_result`] and [`Engine::accept_finish`] are pending,
//! [`Engine::accept_start`] finds nothing to accept. The driver keeps its client waiting and
//! retries at the next `Changed` event of the endpoint. Calls on registered memory return a
//! [`Ticket`] for [`Engine::finish`] instead.
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

pub use base::config::Config;
pub use base::event::Event;
pub use base::fair_queue::FairQueue;
pub use base::ids::{BypassId, EndpointId, RemoteWindowId, Ticket};
pub use base::memory::{BadAddress, Memory, Place};
pub use base::owner::Owner;
pub use base::pages::{Pages, PinId, Run};
pub use base::quota::{Limits, Resource, Scope};
pub use base::rule::Violation;
pub use base::stats::{Stats, Traffic};
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
