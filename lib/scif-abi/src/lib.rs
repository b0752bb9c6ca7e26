//! The numbers and layouts of SCIF: errors, flags, limits, wire records and scheme operations.
//!
//! A leaf crate without behaviour of its own. Everything here is a constant, a record whose layout
//! is checked at compile time, or the encoding and decoding of such records. Nothing here blocks,
//! allocates or trusts what it decodes.
#![no_std]

// The derive macros name this crate by its outside name, in this crate, too.
extern crate self as scif_abi;

pub mod bypass;
pub mod call;
pub mod codec;
pub mod error;
pub mod flags;
pub mod ids;
pub mod ioctl;
pub mod limits;
pub mod link;
pub mod message;
pub mod own_pages;
pub mod qp;
pub mod trace;
pub mod window;

pub use error::Error;
pub use ids::{NodeId, Port, PortId, node_by_name};
