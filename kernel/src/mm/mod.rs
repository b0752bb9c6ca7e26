//! Memory: physical frames, address spaces of programs, copies from and to them.

pub mod frame;
pub mod space;
pub mod user;
mod heap;

/// Bytes of a page and of a frame.
pub const PAGE_SIZE: usize = 4096;
/// First address above user space.
pub const USER_END: usize = 1 << 47;
/// Lowest address the kernel picks for a mapping (`mmap-min-addr`).
pub const MIN_ADDRESS: usize = 0x1000;
