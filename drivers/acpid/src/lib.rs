//! The parts of the ACPI daemon: the firmware's tables by name ([`table`]) and the `acpi` scheme
//! over them ([`scheme`]).
#![no_std]

extern crate alloc;

pub mod scheme;
pub mod table;

#[cfg(test)]
mod tests;
