//! What drivers and scheme daemons need from the machine and the system: the scheme event loop,
//! daemon start-up, event queues, shared and device memory, DMA buffers, interrupts and PCI
//! functions. Built on the published Redox crates only, so the same source serves the programs
//! of this image and programs with the standard library on Redox.
//!
//! Unsafe code in user space is at home here, in `runtime`, and in the C side (`lib/libc`,
//! `lib/libscif`); no other crate may contain any. What this one offers is safe: memory that a
//! device, a peer or a client can change is never seen through a reference, every access is checked
//! against the region's length, and values are copied out once.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod aperture;
pub mod borrow;
pub mod clock;
pub mod copy;
#[cfg(not(target_os = "redox"))]
pub mod counting;
pub mod daemon;
pub mod direct;
pub mod directory;
pub mod dma;
pub mod event;
#[cfg(feature = "acpi")]
pub mod firmware;
#[cfg(not(target_os = "redox"))]
pub mod host;
pub mod irq;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod lock;
pub mod mem;
pub mod mmio;
pub mod pause;
pub mod pci;
pub mod pin;
pub mod port;
pub mod power;
pub mod random;
pub mod retire;
pub mod scheme;
pub mod shared;
pub mod trace;

/// Errors are the system's error numbers.
pub use syscall::error::{Error, Result};
