//! placeholder
/// x
pub fn debug_fd() -> usize {
    crate::sys::NO_FD
}
