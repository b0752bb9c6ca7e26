//! SCIF for Rust programs, through the `scif:` scheme: endpoints, connections, registered memory,
//! transfers, mappings and fences.
//!
//! The calls, their results and their errors are those of the SCIF header (`scif_bind`,
//! `scif_connect`, `scif_send`, ...). A value that goes out of scope is closed, unregistered or
//! unmapped. A server and its client:
//!
//! ```no_run
//! # use scif::{Listener, PortId, RecvFlags, Result, SendFlags};
//! # fn server(mut buffer: [u8; 5]) -> Result<()> {
//! // The server, on node 1.
//! let listener = Listener::bind(2050)?;
//! let (endpoint, peer) = listener.accept()?;
//! endpoint.recv(&mut buffer, RecvFlags::BLOCK)?;
//! # Ok(()) }
//! # fn client() -> Result<()> {
//! // The client, on any node.
//! let endpoint = scif::connect(PortId::new(1, 2050))?;
//! endpoint.send(b"hello", SendFlags::BLOCK)?;
//! # Ok(()) }
//! ```
//!
//! There are no message boundaries. The end of the stream is the error [`Errno::ConnectionReset`].
//!
//! To let the peer reach memory, a program allocates [`Memory`] and
//! [registers](Endpoint::register) it as a [`Window`]. The program sends the window's offset to
//! the peer, which then copies from and to the window ([`Endpoint::read_from`],
//! [`Endpoint::write_to`]) or [maps](Endpoint::map) it:
//!
//! ```no_run
//! # use scif::{Endpoint, Initiator, Memory, Protection, Result, RmaFlags, Signal};
//! # fn f(endpoint: Endpoint, remote: i64) -> Result<()> {
//! let memory = Memory::new(1 << 20)?;
//! let window = endpoint.register(&memory)?;
//! memory.copy_in(0, b"data")?;
//! endpoint.write_to(window.all(), remote, RmaFlags::empty())?;
//! // The value arrives after the data.
//! let done = Signal { offset: remote + (1 << 20), value: 1 };
//! endpoint.fence_signal(Initiator::Own, None, Some(done))?;
//!
//! let mapping = endpoint.map(remote, 4096, Protection::READ)?;
//! let first: u32 = mapping.read(0)?;
//! # Ok(()) }
//! ```
//!
//! [`raw`] has the same calls with plain numbers as arguments, for other languages and for tests.
#![cfg_attr(not(test), no_std)]
#![warn(clippy::missing_errors_doc)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod bypass;
mod endpoint;
mod error;
mod events;
mod io;
pub mod kernel;
mod options;
mod poll;
pub mod raw;
mod rma;
#[cfg(feature = "std")]
mod std_io;
mod window;

pub use bypass::{BusyPoll, Peeked, ShortWrite, Waiting};
pub use client_memory::memory::{Memory, View};
pub use endpoint::{Arrived, DEFAULT_BACKLOG, Endpoint, Listener, Nodes, connect, nodes};
pub use error::{Error, Result};
pub use events::{NodeEvent, NodeEvents};
pub use options::Options;
pub use poll::{PollEntry, Pollable, poll};
pub use rma::{Initiator, Mark, Signal};
pub use scif_abi::error::Error as Errno;
pub use scif_abi::flags::{MapFlags, Protection, Readiness, RecvFlags, RmaFlags, SendFlags};
pub use scif_abi::{NodeId, Port, PortId};
pub use window::{Mapping, Part, RegisterOptions, Window};
