//! runtime: see docs/architecture.md.
#![no_std]
