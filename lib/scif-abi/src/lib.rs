//! The numbers and layouts of SCIF: errors, flags, limits, wire records and scheme operations.
//!
//! A leaf without code of its own: everything here is either a constant, a record whose layout is
//! checked when it is compiled, or the (de)coding of such records. Nothing here blocks, allocates
//! or trusts what it decodes.
#![no_std]

// The derive macros name this crate by its outside name, here as everywhere.
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
pub mod qp;
pub mod trace;
pub mod window;

pub use error::Error;
pub use ids::{NodeId, Port, PortId};
