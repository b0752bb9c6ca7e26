//! The parts of the MIC driver: MIC functions ([`function`]), their hardware ([`hardware`]) and
//! kinds ([`vmic`], [`x100`]), the choice of a copy engine for each peer ([`copy_router`]), the
//! links of a node ([`links`]), the memory that the SCIF engine works on ([`memory`],
//! [`memory_object`], [`block_pool`]), the decision when the driver sleeps ([`busy_poll`]), the
//! exit of the node ([`node_exit`]), and the driver's event log ([`trace`]). docs/architecture.md,
//! "Words", defines the terms.
#![no_std]

extern crate alloc;

pub mod block_pool;
pub mod busy_poll;
pub mod copy_router;
pub mod function;
pub mod hardware;
pub mod links;
pub mod memory;
pub mod memory_object;
pub mod node_exit;
pub mod trace;
pub mod vmic;
pub mod x100;
