//! Tests of registered memory: nodes with plain memory in one process.

extern crate std;

mod answers;
mod bed;
mod direct;
mod engine;
mod fences;
mod hostile;
mod lifetimes;
mod mappings;
mod random;
mod registering;
mod scarcity;
mod telling;
mod transfers;
