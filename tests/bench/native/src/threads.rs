//! Threads on cores of their own.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Failure;

/// Binds the calling thread to the first (0) or second (1) processor this program may use; both
/// are the same where there is only one.
pub fn pin(number: usize) -> Result<(), Failure> {
    // The main thread's set shrinks when it is bound; the whole one is remembered.
    static ALLOWED: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    if ALLOWED.get().is_none() {
        let set = sched_getaffinity(None)?;
        let all = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
        // The first thread has the same set.
        let _ = ALLOWED.set(all.collect());
    }
    let allowed = ALLOWED.get().map_or(&[][..], Vec::as_slice);
    let cpu = allowed.get(number).or(allowed.last());
    let mut one = CpuSet::new();
    one.set(*cpu.ok_or("no processor")?);
    Ok(sched_setaffinity(None, &one)?)
}
