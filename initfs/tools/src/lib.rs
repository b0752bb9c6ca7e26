//! tools.
#![no_std]
