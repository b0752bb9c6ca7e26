//! The scheme with the real engine, on one node and on several.

mod arbitrary;
mod bed;
mod connections;
mod errors;
mod mappings;
mod memory;
mod operations;
mod programs;
mod transfers;
mod windows;
