//! RDMA verbs without I/O (docs/verbs.md): the rules of queue pairs, keys, work requests and
//! completions.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`address`] | ports, address handles, and where a datagram comes from |
//! | [`types`] | the enumerations and flags of the verbs, with their numbers |
//! | [`attributes`] | what a program can change of a queue pair |
//! | [`transition`] | the states of a queue pair and the attributes of each change |
//! | [`table`] | objects by handle |
//! | [`keys`] | memory regions and their keys |
//! | [`work`] | work requests and completions |
//! | [`completion`], [`srq`] | completion queues and shared receive queues |
//! | [`record`] | the records that the two ends of a lane send each other |
//! | [`host`] | what a context needs from the system around it |
//! | [`context`] | the objects of a program, and the calls on them |
//! | [`demo`] | memory, lanes and usual attributes, for examples and tests |
//!
//! A *lane* is one SCIF connection between two protection domains; the *short way* is the fast
//! path of usual requests (docs/verbs.md defines both).
//!
//! Nothing here makes a system call, reads a clock or keeps a global. The owner of a
//! [`context::Context`] drives it by calls; those that reach memory or connections take a
//! [`host::Host`], which does that for them.
#![no_std]

extern crate alloc;

pub mod address;
pub mod attributes;
pub mod completion;
pub mod context;
pub mod demo;
pub mod host;
pub mod keys;
mod numbered;
mod objects;
mod queue;
mod queue_pair;
pub mod record;
pub mod srq;
pub mod table;
pub mod transition;
pub mod types;
pub mod work;

pub use objects::{Destination, Event, Subject};
pub use queue_pair::{MAX_MESSAGE, Traffic};
