//! Clocks and timers.

use alloc::boxed::Box;

/// Nanoseconds since boot.
pub fn now_ns() -> u64 {
    0
}

/// Nanoseconds since 1970 (read from the CMOS clock at boot, plus `now_ns`, plus `adjust`).
pub fn realtime_ns() -> u128 {
    0
}

/// Sets what is added to the CMOS time (`sys/update_time_offset`), in nanoseconds.
pub fn set_offset(ns: i128) {
    let _ = ns;
}

/// Names a pending timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(u64);

/// Calls `action` once when the monotonic clock reaches `deadline_ns` (at once-ish when it is
/// past). Runs from the timer interrupt: it must not block; it may take any lock, as interrupts are
/// taken only in user mode and in the idle loop.
pub fn at(deadline_ns: u64, action: Box<dyn FnOnce() + Send>) -> TimerId {
    let _ = (deadline_ns, action);
    TimerId(0)
}

/// Forgets a timer; false when it has run already.
pub fn cancel(timer: TimerId) -> bool {
    let _ = timer;
    false
}
