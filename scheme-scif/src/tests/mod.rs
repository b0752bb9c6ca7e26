//! The scheme with the real engine, on one node and on several.

mod bed;
mod connections;
mod errors;
mod memory;
mod operations;
mod transfers;
mod windows;
