//! Substitutes for the system, for unit tests and for programs that run on the development machine.

#[path = "../counting.rs"]
pub mod counting;
pub mod host;
#[cfg(target_os = "linux")]
pub mod linux;
