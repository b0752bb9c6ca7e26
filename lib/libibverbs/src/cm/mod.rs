//! The functions of `rdma/rdma_cma.h`: they connect queue pairs by address and port.
//!
//! An id that listens is a listener of SCIF. A connected id has a SCIF connection besides its
//! queue pair, on which the two ends exchange [`frame`]s. A thread of the library serves these
//! connections and puts events into event channels: [`link`]. The call that takes an event out
//! also does what the event requires: [`event`]. An id of a port space of datagrams asks once,
//! over its connection, where to send them, and joins multicast groups by address: [`group`].

mod address;
mod event;
mod fork;
mod frame;
mod group;
mod id;
mod link;
mod multicast;
mod port_space;
mod queue_pair;
mod structures;
