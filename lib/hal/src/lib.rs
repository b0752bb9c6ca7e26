//! The machine and the system, for drivers: shared and device memory, copies, DMA buffers,
//! interrupts, PCI functions, clocks and event queues. It is built on the published Redox crates
//! only, so the same source serves the programs of this image and programs with the standard
//! library on Redox.
//!
//! CONTRIBUTING.md lists the crates that may contain unsafe code; this is one. Its interface is
//! safe, except for a few functions that the others build on. Memory that a device, a peer or a
//! client can change is never seen through a reference to plain data, every access is checked
//! against the region's length, and values are copied out once.
#![cfg_attr(not(test), no_std)]
#![warn(clippy::missing_errors_doc)]

extern crate alloc;

pub mod aperture;
pub mod clock;
pub mod copy;
#[cfg(not(target_os = "redox"))]
pub mod counting;
pub mod directory;
pub mod dma;
pub mod event;
#[cfg(feature = "acpi")]
pub mod firmware;
pub mod idle_poll;
pub mod irq;
pub mod kernel;
pub mod lock;
pub mod measure;
pub mod mem;
pub mod mmio;
pub mod pause;
pub mod pci;
pub mod port;
pub mod power;
pub mod random;
#[cfg(not(target_os = "redox"))]
pub mod testing;

/// Errors are the system's error numbers.
pub use syscall::error::{Error, Result};
