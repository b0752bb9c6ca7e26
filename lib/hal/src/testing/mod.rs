//! What takes the system's place where it is another one: in unit tests, and in programs that run
//! on the development machine.

pub mod counting;
pub mod host;
#[cfg(target_os = "linux")]
pub mod linux;
