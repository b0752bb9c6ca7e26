//! The parts of the keyboard's driver that need no system: [`controller`] sets the PS/2 controller
//! up, [`keys`] turns its bytes into what a terminal sends.
#![cfg_attr(not(test), no_std)]

pub mod controller;
pub mod keys;
