//! Code that benchmarks share: samples and their percentiles, output with a line for each
//! measurement, the options of `scif-perf`, and, inside the image, its tests (`perf`), to which
//! another program can add its own.
#![no_std]

extern crate alloc;

pub mod arguments;
pub mod pattern;
#[cfg(target_os = "redox")]
pub mod perf;
pub mod pour;
pub mod report;
pub mod samples;
pub mod timing;
