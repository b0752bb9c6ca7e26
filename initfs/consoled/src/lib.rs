//! The parts of `consoled` that need no system: [`keys`] decodes what a terminal sends, [`editor`]
//! edits a line, [`terminal`] keeps prompt, line and the output of programs apart on the screen.
#![no_std]

extern crate alloc;

pub mod editor;
pub mod keys;
pub mod terminal;
