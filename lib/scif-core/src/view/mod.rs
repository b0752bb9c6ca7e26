//! Views of an engine: rows for the text files, and invariants.

pub(crate) mod invariants;
pub(crate) mod snapshot;
