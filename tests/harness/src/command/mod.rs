//! The commands about nodes, each with its settings checked.

pub mod conformance;
pub mod console;
pub mod demo;
pub mod node_kills;
pub mod run;
pub mod serve;
pub mod soak;
pub mod start;
mod terminal;
