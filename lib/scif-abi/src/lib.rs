//! scif-abi: see docs/architecture.md.
#![no_std]
