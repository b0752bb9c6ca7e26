//! The parts of `consoled` that need no operating system: [`keys`] decodes the bytes of a
//! terminal, [`editor`] edits a line, [`terminal`] keeps prompt, line and the output of programs
//! apart, [`discipline`] decides which reader gets what is typed, and [`screen`] is the terminal
//! on the machine's own screen.
#![no_std]

extern crate alloc;

pub mod discipline;
pub mod editor;
pub mod keys;
pub mod screen;
pub mod terminal;
