//! Views of an engine: rows for people, and the rules that hold between any two calls.

pub(crate) mod invariants;
pub(crate) mod snapshot;
