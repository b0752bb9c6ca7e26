//! The parts of the PCI daemon: finding functions ([`scan`]), serving their drivers ([`driver`]),
//! and the `pci` scheme over both ([`scheme`]).
#![no_std]

extern crate alloc;

pub mod driver;
pub mod function;
pub mod mcfg;
pub mod scan;
pub mod scheme;

#[cfg(test)]
mod scheme_tests;
#[cfg(test)]
mod tests;
