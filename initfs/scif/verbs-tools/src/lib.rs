//! The parts of the programs for RDMA verbs: the description of the device, the traffic of its
//! objects, and measurements between two programs.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod batches;
pub mod devinfo;
#[cfg(target_os = "redox")]
pub mod perf;
pub mod traffic;
