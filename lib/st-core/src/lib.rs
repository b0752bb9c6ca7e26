//! Scheduled Transfers without I/O: headers, queues of headers, connection set-up and announced
//! memory, as SGI's OS-bypass API has them, over any memory that two nodes share (docs/st.md).
//!
//! | module | what it has |
//! | --- | --- |
//! | [`header`] | the 40-byte Schedule Header, its operations and flags |
//! | [`descriptor`] | what a slot of a queue carries |
//! | [`queue`] | the queues of headers: slots of one cache line, credits, sleeping and waking |
//! | [`record`] | control messages that travel as bytes of the connection |
//! | [`frame`] | messages in the byte stream, for ends whose bypass is off |
//! | [`setup`] | the parameters that both ends exchange before the first transfer, and agree on |
//! | [`region`] | the peer's announced memory, and positions in it |
//! | [`connection`] | the state of a connection at one end, fed with the bytes of its stream |
//! | [`level0`] | the effect of an operation that a program gives as a header |
//! | [`combination`] | the six ways of push and pull |
//! | [`reliable`] | level 2: sessions, whose transfers survive the loss of a connection |
//! | [`demo`] | memory for examples and tests |
//!
//! Nothing here makes a system call, reads a clock or keeps a global. The crate `st` joins it to
//! SCIF: control messages go through the connection's byte stream, queues lie in registered
//! windows that the peer has mapped, and data is copied by RMA.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod combination;
pub mod connection;
pub mod demo;
pub mod descriptor;
pub mod frame;
pub mod header;
pub mod level0;
pub mod queue;
pub mod record;
pub mod region;
pub mod reliable;
pub mod setup;
