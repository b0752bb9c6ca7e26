//! A seeded simulator: two or more real engines, connected by simulated memory, doorbells and
//! links, driven by random programs on a random schedule.
//!
//! Everything random comes from one seed, so a failure is repeated by its seed. The simulator
//! checks the engines' invariants after each step; at the end every program must have ended, and
//! every port, endpoint and page must be free again. The simulation is stricter than hardware: a
//! write to a page that is no longer shared is an error. A program whose call found nothing to do
//! is woken by `Changed` events only, so a lost wake-up leaves a program asleep, which the
//! simulator notices.

pub mod actor;
pub mod bypass;
mod bystander;
pub mod dma;
mod ending;
pub mod faults;
pub mod hostile;
mod hostile_windows;
mod links;
pub mod mads;
pub mod mainline;
pub mod mapping;
pub mod memory;
pub mod model;
pub mod peer;
mod rma;
pub mod rng;
mod rules;
pub mod runner;
mod schedule;
pub mod spaces;
pub mod st;
mod stores;
pub mod talk;
pub mod trace;
mod transfers;
pub mod verbs;
mod windows;
pub mod world;

pub use trace::Failure;
pub use world::{Canary, Report, Settings, Spoil, lonely_memory, run};
