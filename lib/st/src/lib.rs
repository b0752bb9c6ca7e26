//! Scheduled Transfers for Rust programs: push and pull between two programs, of one node or two,
//! without the operating system (docs/st.md).
//!
//! A connection has *channels*, each with queues of its own in both directions. A queue carries
//! headers of up to 32 bytes, which the program defines. A program that [maps](Sender::map) memory
//! on a channel lets its peer put data there and get data from there; a header that is pushed
//! after a put tells the peer's program that the data is there.
//!
//! ```no_run
//! # use st::{Deadline, Listener, Memory, Options, PortId, Result};
//! # use zerocopy::{FromBytes, Immutable, IntoBytes};
//! #[derive(IntoBytes, FromBytes, Immutable)]
//! #[repr(C)]
//! struct Message { at: u64, length: u64 }
//!
//! # fn server() -> Result<()> {
//! // The server, on node 1.
//! let link = Listener::bind(2050)?.accept()?;
//! let (mut tx, mut rx) = link.channel(0)?.split();
//! let region = tx.map(Memory::new(1 << 20)?)?;
//! let message: Message = rx.pull()?;
//! // What was put before the header is there: `message.length` bytes at `message.at`.
//! let mut first = [0; 8];
//! region.copy_out(message.at as usize, &mut first)?;
//! # Ok(()) }
//! # fn client() -> Result<()> {
//! // The client, on any node.
//! let link = st::connect(PortId::new(1, 2050), &Options::new())?;
//! let (mut tx, mut rx) = link.channel(0)?.split();
//! let remote = tx.remote(Deadline::Never)?;
//! tx.put_with(b"hello", remote.at(4096)?, &Message { at: 4096, length: 5 })?;
//! # Ok(()) }
//! ```
//!
//! | call | what it does |
//! | --- | --- |
//! | [`Sender::push`] | sends a header |
//! | [`Sender::push_all`], [`Receiver::pull_some`] | several headers in one call |
//! | [`Sender::put`] | copies data into the peer's memory; the peer's program does not notice |
//! | [`Sender::put_with`] | does the same, then sends a header |
//! | [`Receiver::pull`] | receives a header |
//! | [`Receiver::get`] | copies data from the peer's memory; the peer's program does not notice |
//! | [`Receiver::pull_get`] | receives a header, then copies data from the place that it names |
//! | [`Sender::fence`] | returns when everything put before is in the peer's memory |
//! | [`Sender::fetch_add`] … | changes a word of the peer's memory in one step |
//! | [`Sender::raw`], [`Receiver::raw`] | level 0: Schedule Headers as the program makes them |
//! | [`Session`], [`SessionListener`] | level 2: sessions, which outlive connections and drivers |
//!
//! Headers of a channel arrive once and in order, and everything put before a header is there when
//! the header is pulled. Between channels there is no order without [`Sender::fence`].
//!
//! Calls that wait poll for about as long as a wake-up takes, then sleep ([`Options::waiting`]).
//! While both ends poll, no call makes a request to the driver, except one about every second, by
//! which a program learns that the driver has died.
#![cfg_attr(not(test), no_std)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod channel;
mod connection;
mod deadline;
mod error;
mod half;
mod handshake;
mod level0;
mod listener;
mod memory;
mod options;
#[cfg(test)]
mod played;
mod receiver;
mod region;
mod sender;
mod session;
mod shared;
#[cfg(feature = "std")]
mod std_io;
mod wait;
mod wait_set;

pub use channel::Channel;
pub use connection::Connection;
pub use deadline::Deadline;
pub use error::{Error, Result};
pub use handshake::Handshake;
pub use level0::{Arrived, Local, Payload};
pub use listener::{Listener, connect};
pub use options::Options;
pub use receiver::Receiver;
pub use region::{Mapper, Place, Region, Registered, Remote};
pub use scif::raw::{Range, Source, Target};
pub use scif::{Endpoint, Memory, NodeId, Port, PortId, View, Waiting};
pub use sender::Sender;
pub use session::{Level, Session, SessionListener, Token};
pub use st_core::header::{Flags, Header, Operation};
pub use st_core::region::{NotMapped, names_mapped};
pub use st_core::setup::Refused;
pub use wait_set::{Interest, WaitSet};

/// Most bytes of a program's header.
pub const MAX_HEADER_BYTES: usize = st_core::header::PAYLOAD_BYTES;
