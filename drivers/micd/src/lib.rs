//! The MIC driver's parts: MIC functions ([`function`]) and their kinds ([`vmic`], [`x100`]), which
//! engine copies for which of them ([`copy_router`]), the links of a node ([`links`]), the memory
//! the SCIF engine works on ([`memory`], [`memory_object`]), when the driver sleeps
//! ([`busy_poll`]), its orderly end ([`departure`]), and its event log ([`trace`]).
#![no_std]

extern crate alloc;

pub mod busy_poll;
pub mod copy_router;
pub mod departure;
pub mod function;
pub mod links;
pub mod memory;
pub mod memory_object;
pub mod trace;
pub mod vmic;
pub mod x100;
