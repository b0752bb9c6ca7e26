//! The SCIF engine: endpoints, connections, node queue pairs and node management without any
//! input or output of its own.
//!
//! No system call, clock, thread or global: time, memory and doorbells are arguments
//! ([`Engine::tick`], [`Memory`], [`Event::Ring`]), and calls never block. The scheme daemon, the
//! simulator and benchmarks drive the very same code.
#![no_std]

extern crate alloc;

mod config;
mod endpoint;
mod engine;
mod event;
mod memory;

pub use config::{Config, Owner};
pub use endpoint::EndpointId;
pub use engine::{Connect, ConnectMode, Engine, LinkError};
pub use event::Event;
pub use memory::{BadAddress, Memory};
