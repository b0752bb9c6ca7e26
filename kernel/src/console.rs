//! The serial console: output, input queue, kernel log.

use alloc::vec::Vec;

use crate::sched::WaitQueue;

/// Woken when input arrives; wait with `read_input` as condition.
pub static INPUT: WaitQueue = WaitQueue::new();

/// Writes bytes as they are.
pub fn write(bytes: &[u8]) {
    let _ = bytes;
}

/// Takes up to `bytes.len()` bytes of input; 0 when there is none.
pub fn read_input(bytes: &mut [u8]) -> usize {
    let _ = bytes;
    0
}

/// Sets what is called (from the interrupt, must not block) after input arrived.
pub fn on_input(hook: fn()) {
    let _ = hook;
}

/// The kernel's log so far (`sys/log`), the oldest lines dropped beyond 64 KiB.
pub fn log_text() -> Vec<u8> {
    Vec::new()
}
