//! Derive macros for ABI descriptions (docs/architecture.md, decision D10).
