//! The MIC driver's parts: what a MIC function is ([`function`]), its kinds ([`vmic`], [`x100`]),
//! what copies for which of them ([`copier`]), the links of a node ([`links`]) and the memory the
//! SCIF engine works on ([`memory`], [`object`]), when the driver sleeps ([`patience`]), how it
//! leaves ([`farewell`]), and where it writes down what happens ([`trace`]).
#![no_std]

extern crate alloc;

pub mod copier;
pub mod farewell;
pub mod function;
pub mod links;
pub mod memory;
pub mod object;
pub mod patience;
pub mod trace;
pub mod vmic;
pub mod x100;
