//! What benchmarks share: samples and their percentiles, one line of output per measurement, and
//! the options of `scif-perf`.
#![no_std]

extern crate alloc;

pub mod arguments;
pub mod pattern;
pub mod report;
pub mod samples;
pub mod timing;
