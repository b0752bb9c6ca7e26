//! scif: see docs/architecture.md.
#![no_std]
