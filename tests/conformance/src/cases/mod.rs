//! The rows of the table and the cases that show them, by subject.

pub mod accept;
pub mod connect;
pub mod endpoints;
pub mod nodes;
pub mod poll;
pub mod states;
pub mod stream;
pub mod wire;
