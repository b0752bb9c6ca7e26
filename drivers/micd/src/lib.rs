//! The MIC driver's parts: MIC functions ([`function`]), their hardware ([`hardware`]) and kinds
//! ([`vmic`], [`x100`]), which engine copies for which of them ([`copy_router`]), the links of a
//! node ([`links`]), the memory the SCIF engine works on ([`memory`], [`memory_object`],
//! [`block_pool`]), when the driver sleeps ([`busy_poll`]), how it leaves ([`node_exit`]), and its
//! event log ([`trace`]).
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
