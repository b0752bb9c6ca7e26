//! The network between nodes: the fabric server, the faults it injects, and shared memory.

pub mod fabric;
pub mod faults;
pub mod shared_memory;
