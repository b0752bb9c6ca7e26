//! The sets of processors on which threads may run, as the kernel keeps them. Threads are given by
//! their descriptors.

use runtime::{Error, Result, fd};
use syscall::error::EINVAL;

use crate::machine;

/// The kernel's set of processors, one bit each.
pub type Set = [u8; 32];

/// Runs `action` on a handle of a thread's set of processors.
fn with_set<T>(thread: usize, action: impl FnOnce(usize) -> Result<T>) -> Result<T> {
    let handle = fd::dup_upper(thread, b"sched-affinity")?;
    let result = action(handle);
    fd::close(handle)?;
    result
}

/// Restricts a thread to a set of processors.
///
/// # Errors
/// Those of the kernel.
pub fn bind(thread: usize, set: &Set) -> Result<()> {
    with_set(thread, |handle| fd::write(handle, set)).map(|_| ())
}

/// Widens a set of the first processors to the kernel's size.
pub fn widened(processors: &[u8]) -> Set {
    let mut set: Set = [0; size_of::<Set>()];
    set.iter_mut()
        .zip(processors)
        .for_each(|(to, from)| *to = *from);
    set
}

/// Stores a set in C's form.
///
/// # Errors
/// `EINVAL`: there is too little room. Those of reading the number of processors.
///
/// # Safety
/// `place` is the caller's set of `size` bytes.
pub unsafe fn write_set(mut set: Set, size: usize, place: *mut u8) -> Result<()> {
    // Sets have no processors that the machine does not have.
    let count = machine::processors()? as usize;
    for (index, byte) in set.iter_mut().enumerate() {
        let left = count.saturating_sub(8 * index).min(8);
        *byte &= ((1_u16 << left) - 1) as u8;
    }
    // C's sets consist of whole words.
    if size.saturating_mul(8) < count || !size.is_multiple_of(size_of::<u64>()) {
        return Err(Error::new(EINVAL));
    }
    // SAFETY: the caller's promise; what is longer than the kernel's set is empty, and what is
    // shorter has all processors.
    unsafe {
        place.write_bytes(0, size);
        place.copy_from_nonoverlapping(set.as_ptr(), size.min(set.len()));
    }
    Ok(())
}

/// Reads the caller's set.
///
/// # Errors
/// `EINVAL`: no processor of this machine is in it.
///
/// # Safety
/// `place` is the caller's set of `size` bytes.
pub unsafe fn read_set(size: usize, place: *const u8) -> Result<Set> {
    let mut set: Set = [0; 32];
    // SAFETY: the caller's promise; no more than both have.
    unsafe {
        set.as_mut_ptr()
            .copy_from_nonoverlapping(place, size.min(set.len()));
    }
    let count = machine::processors()? as usize;
    let known = |cpu: usize| set[cpu / 8] >> (cpu % 8) & 1 != 0;
    match (0..count.min(8 * set.len())).any(known) {
        true => Ok(set),
        false => Err(Error::new(EINVAL)),
    }
}

/// Stores the set of a thread in C's form.
///
/// # Errors
/// Those of the kernel; `EINVAL`: there is too little room.
///
/// # Safety
/// `place` is the caller's set of `size` bytes.
pub unsafe fn get_set(thread: usize, size: usize, place: *mut u8) -> Result<()> {
    let mut set: Set = [0; 32];
    with_set(thread, |handle| fd::read(handle, &mut set))?;
    // SAFETY: the same contract.
    unsafe { write_set(set, size, place) }
}

/// Restricts a thread to the caller's set.
///
/// # Errors
/// Those of the kernel; `EINVAL`: no processor of this machine is in it.
///
/// # Safety
/// `place` is the caller's set of `size` bytes.
pub unsafe fn set_set(thread: usize, size: usize, place: *const u8) -> Result<()> {
    // SAFETY: the same contract.
    let set = unsafe { read_set(size, place) }?;
    bind(thread, &set)
}
