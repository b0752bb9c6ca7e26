//! The conformance suite on booted nodes. The process that runs the cases is one side; the others
//! are agents, processes here or on another node that execute calls over a control connection.
#![no_std]

extern crate alloc;

pub mod agent;
pub mod control;
pub mod driver;
pub mod executor;
mod memory;
mod node;
pub mod transfers;
pub mod verbs;
