//! The scheme with the real engine, on one node and on several.

mod abandoned;
mod arbitrary;
mod bypass;
mod cards;
mod client;
mod closing;
mod connections;
mod counts;
mod errors;
mod granting;
mod later;
mod mappings;
mod memory;
mod messages;
mod operations;
mod own_pages;
mod programs;
mod rights;
mod transfers;
mod waiting;
mod window_limits;
mod windows;

use crate::fixture;

#[global_allocator]
static HEAP: hal::testing::counting::Heap = hal::testing::counting::Heap;
