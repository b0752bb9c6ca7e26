//! SCIF for Rust programs: endpoints, listeners and connections through the `scif:` scheme.
//!
//! The calls, their results and their errors are those of the SCIF header (`scif_bind`,
//! `scif_connect`, `scif_send`, ...); a value that goes out of scope is closed. A server and its
//! client:
//!
//! ```ignore
//! // The server, on node 1.
//! let listener = Listener::bind(2050)?;
//! let (endpoint, peer) = listener.accept()?;
//! endpoint.recv(&mut buffer, RecvFlags::BLOCK)?;
//!
//! // The client, on any node.
//! let endpoint = scif::connect(PortId::new(1, 2050))?;
//! endpoint.send(b"hello", SendFlags::BLOCK)?;
//! ```
//!
//! There are no message boundaries, and no end of stream but [`Errno::ConnectionReset`].
#![no_std]

extern crate alloc;

mod endpoint;
mod error;
mod poll;

pub use endpoint::{DEFAULT_BACKLOG, Endpoint, Listener, Nodes, connect, nodes};
pub use error::{Error, Result};
pub use poll::{PollEntry, Pollable, poll};
pub use scif_abi::error::Error as Errno;
pub use scif_abi::flags::{Readiness, RecvFlags, SendFlags};
pub use scif_abi::{NodeId, Port, PortId};
