//! The functions of `rdma/rdma_cma.h`: queue pairs connected by address and port.
//!
//! An id that listens is a listener of SCIF, one that is connected has a SCIF connection beside its
//! queue pair, for what the ends tell each other of it: [`frame`]. A thread of the library moves
//! these connections on and puts events into event channels: [`link`]. What an event does is done
//! in the call that takes it out: [`event`]. An id of a port space of datagrams asks by
//! its connection where they go, once, and joins groups by address: [`group`].

mod address;
mod event;
mod frame;
mod group;
mod id;
mod link;
mod multicast;
mod port_space;
mod queue_pair;
mod structures;
