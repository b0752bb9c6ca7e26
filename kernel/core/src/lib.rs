//! The parts of the kernel that need no hardware: pure bookkeeping, tested on the host.
//!
//! This crate touches only memory that it was given, so nothing in it is unsafe. The kernel proper
//! (`kernel/src`) adds the machine: it maps what these structures describe.
#![cfg_attr(not(test), no_std)]
#![warn(clippy::missing_errors_doc)]

extern crate alloc;

pub mod acpi_power;
pub mod acpi_tables;
pub mod area;
pub mod bitset;
pub mod bootinfo;
pub mod buddy;
pub mod calendar;
pub mod calibration;
pub mod events;
pub mod history;
pub mod irq_counts;
pub mod line;
pub mod memmap;
pub mod memory_path;
pub mod pipe;
pub mod queue;
pub mod rate;
pub mod ready;
pub mod requests;
pub mod screen;
pub mod slots;
pub mod timers;
