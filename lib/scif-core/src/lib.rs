//! scif-core: see docs/architecture.md.
#![no_std]
