//! A seeded simulator: two or more real engines, connected by simulated memory, doorbells and
//! links, driven by random programs on a random schedule.
//!
//! Everything random comes from one seed, so a failure is repeated by its seed. After each step the
//! engines' invariants are checked; at the end everything must have ended and every port, endpoint
//! and page must be back. What is simulated is stricter than hardware: a write to a page that is
//! not shared any more is an error, and a program whose call found nothing to do is woken by
//! `Changed` events only, so a lost wake-up is a dead end that is noticed.

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
