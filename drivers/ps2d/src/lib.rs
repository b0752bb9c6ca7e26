//! The parts of the keyboard driver that need no operating system: [`controller`] sets up the PS/2
//! controller, [`keys`] turns scan codes into the bytes that a terminal sends.
#![cfg_attr(not(test), no_std)]

pub mod controller;
pub mod keys;
