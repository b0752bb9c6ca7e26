//! The parts of `ibd`, the daemon of the RDMA verbs device, that need no machine: the device and
//! its contexts, the commands of user verbs, the text files, the scheme `infiniband`
//! (docs/infiniband.md).
//!
//! | module | what it has |
//! | --- | --- |
//! | [`identity`] | what the device and its port report of themselves |
//! | [`limits`] | the limits of each user |
//! | [`events`] | the queues behind descriptors of events |
//! | [`object`] | the objects of a context, by handle |
//! | [`pages`] | pages of programs that register memory |
//! | [`context`] | an open `uverbs0` |
//! | [`command`] | the commands |
//! | [`shared`] | what all contexts share: accounts, totals, numbers |
//! | [`device`] | all contexts, and their progress |
//! | [`mad`] | `umad0` and `issm0`: management datagrams |
//! | [`streams`] | how much SCIF has moved between nodes |
//! | [`files`] | the text files and the class tree |
//! | [`group`] | datagrams for multicast groups, put together from records |
//! | [`shares`] | which connection is ended when a user or a node has too many |
//! | `listening` | a listener of the daemon's own; on Redox only, and in tests |
//! | `relay` | passes datagrams for groups to programs and nodes; on Redox only, and in tests |
//! | `wire` | carries management datagrams between nodes; on Redox only, and in tests |
//! | [`scheme`](mod@scheme) | paths, descriptors, requests |
//!
//! The rules of verbs are in `verbs-core`; this crate reads commands, keeps handles, counts
//! resources, and cleans up.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod command;
pub mod context;
pub mod device;
pub mod error;
pub mod events;
pub mod files;
pub mod group;
pub mod identity;
pub mod limits;
#[cfg(any(test, target_os = "redox"))]
pub mod listening;
pub mod mad;
pub mod object;
pub mod pages;
#[cfg(any(test, target_os = "redox"))]
pub mod relay;
pub mod scheme;
pub mod shared;
pub mod shares;
pub mod streams;
#[cfg(any(test, target_os = "redox"))]
pub mod wire;

#[cfg(test)]
mod tests;

/// Name of the scheme.
pub const SCHEME: &str = "infiniband";
