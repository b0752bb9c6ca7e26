//! Processes: what the upper half keeps with each context. (Placeholder: hooks the lower half calls.)

use alloc::string::String;
use alloc::vec::Vec;

use crate::mm::space::Unmapped;
use crate::sched::{Context, ContextRef};

/// What the upper half keeps with a context: file table, identity, name, status …
#[derive(Default)]
pub struct ProcData {}

/// Called once at boot, before the first context runs: sets `first` up (name "[bootstrap]", file
/// table with the scheme roots and the creation capability in the upper table) and returns the
/// bytes of the metadata pages (at most four pages; the rest is zero).
pub fn bootstrap_metadata(first: &ContextRef) -> Vec<u8> {
    let _ = first;
    Vec::new()
}

/// Name and pid for reports, e.g. `[bootstrap] (pid 0)`.
pub fn describe(context: &Context) -> String {
    let _ = context;
    String::new()
}

/// A context ends: called in that context (or, when it never ran, by the one that kills it),
/// before its address space is left. May block, but not for ever: `is_killed` may be set.
pub fn on_exit(context: &ContextRef) {
    let _ = context;
}

/// An unhandled exception in user mode, after the report was printed and before `on_exit`:
/// records the status. `address` is the faulting address of a page fault, else 0.
pub fn on_exception(context: &ContextRef, vector: u8, code: u64, address: usize) {
    let _ = (context, vector, code, address);
}

/// Scheme mappings that vanished with an address space (nobody waits for the Munmap answers).
/// Must not block.
pub fn on_unmapped(pieces: Vec<Unmapped>) {
    let _ = pieces;
}
