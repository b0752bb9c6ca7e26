//! Threads on cores of their own.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Failure;

/// Binds the calling thread to the first (0) or second (1) processor that this program may use.
/// Both are the same if there is only one.
pub fn pin(number: usize) -> Result<(), Failure> {
    // The main thread's set shrinks when it is bound, so the whole set is remembered.
    static ALLOWED: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    if ALLOWED.get().is_none() {
        let set = sched_getaffinity(None)?;
        let all = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
        // If this fails, another thread has stored the same set.
        let _ = ALLOWED.set(all.collect());
    }
    let allowed = ALLOWED.get().map_or(&[][..], Vec::as_slice);
    let cpu = allowed.get(number).or(allowed.last());
    let mut one = CpuSet::new();
    one.set(*cpu.ok_or("no processor")?);
    Ok(sched_setaffinity(None, &one)?)
}
