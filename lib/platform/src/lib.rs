//! platform: see docs/architecture.md.
#![no_std]
