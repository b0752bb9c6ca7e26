//! The copy routines of processors that have none of their own: one loop in the language.

pub fn saves_avx() -> bool {
    false
}

pub fn prefetch(_address: *const u8) {}

/// The accesses are volatile, so that the compiler does not turn the loop into a call.
pub unsafe fn words(from: *const u8, to: *mut u8, bytes: usize) {
    for index in 0..bytes {
        // SAFETY: below the `bytes` the caller vouches for.
        unsafe {
            to.add(index)
                .write_volatile(from.add(index).read_volatile())
        };
    }
}

pub use words as avx;
pub use words as short;
pub use words as sse2;
pub use words as streaming;
pub use words as string_bytes;
pub use words as string_words;
