//! Management datagrams without I/O (docs/mad.md): agents, requests that wait for an answer, long
//! messages in segments, and the agents that are built in.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`mad`], [`attributes`] | datagrams and their attributes as bytes |
//! | [`packet`], [`frame`] | a datagram with its addresses, and its form between two daemons |
//! | [`fabric`] | the topology, and where a directed route leads |
//! | [`agents`] | which agents have registered for which datagrams |
//! | [`rmpp`] | messages that are longer than a datagram |
//! | [`port`] | the agents of a port: sending, waiting, receiving |
//! | [`sma`], [`pma`], [`sa`] | subnet management, counters, subnet administration |
//! | [`descriptor`], [`descriptors`] | an open `umad0`, and all of them |
//! | [`node`] | a node: all of the above together |
//! | [`demo`] | nodes with programs for tests |
//!
//! Nothing here makes a system call, reads a clock or keeps a global: time is an argument, in
//! nanoseconds.
#![no_std]
#![warn(clippy::missing_errors_doc)]

extern crate alloc;

pub mod agents;
pub mod attributes;
pub mod demo;
pub mod descriptor;
pub mod descriptors;
pub mod error;
pub mod fabric;
pub mod frame;
pub mod mad;
pub mod node;
pub mod packet;
pub mod pma;
pub mod port;
pub mod rmpp;
pub mod sa;
pub mod sma;
