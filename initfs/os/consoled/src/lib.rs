//! The parts of `consoled` that need no system: [`keys`] decodes what a terminal sends, [`editor`]
//! edits a line, [`terminal`] keeps prompt, line and the output of programs apart on the screen,
//! and [`discipline`] decides who gets what is typed.
#![no_std]

extern crate alloc;

pub mod discipline;
pub mod editor;
pub mod keys;
pub mod terminal;
