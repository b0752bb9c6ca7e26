//! The rows of the table and the cases that show them, by subject.

pub mod accept;
pub mod connect;
pub mod endpoints;
pub mod fences;
pub mod mapping;
pub mod nodes;
pub mod pages;
pub mod pinned;
pub mod poll;
pub mod register;
pub mod rma;
pub mod states;
pub mod stream;
pub mod transfers;
pub mod unregister;
pub mod usage;
pub mod wire;
