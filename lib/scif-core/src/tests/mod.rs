//! Tests of registered memory: nodes with plain memory in one process.

extern crate std;

mod bypass;
mod closing;
mod engine;
mod failures;
mod fences;
mod fixture;
mod hostile;
mod leaving;
mod lifetimes;
mod mappings;
mod notifications;
mod random;
mod registering;
mod responses;
mod scarcity;
mod timers;
mod transfers;
