//! Substitutes for the system, for unit tests and for programs that run on the development machine.

pub mod host;
#[cfg(target_os = "linux")]
pub mod linux;

pub use crate::counting;
