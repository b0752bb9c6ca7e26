//! Descriptors of this library's making: the counters of `eventfd`, and the sets of `epoll`.
//!
//! To the system each is the reading end of a pipe, which is all that it has for telling event
//! queues that something has changed. What a descriptor is besides is known here alone, so a
//! program that is started anew does not get it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use runtime::{Error, Result};
use syscall::error::EINVAL;

use crate::bell::Bell;
use crate::counter::{self, Counter};
use crate::sync::Shared;

/// What a descriptor is.
#[derive(Clone)]
pub enum Kind {
    /// A counter of `eventfd`.
    Counter(Arc<Counter>),
    /// A set of `epoll`: its number, and its bell.
    Set(usize, Arc<Bell>),
}

/// The descriptors, by their numbers.
pub static KINDS: Shared<Vec<(c_int, Kind)>> = Shared::new(Vec::new());

/// A bit for each descriptor: whether it is one of these.
static OWN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Changes with all that a wait for a set has to know of.
static VERSION: AtomicU32 = AtomicU32::new(0);

fn bit(number: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    let word = OWN.get(number / 64)?;
    Some((word, 1 << (number % 64)))
}

/// Whether the descriptor is one of these.
pub fn is_own(number: c_int) -> bool {
    bit(number).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// The descriptor, which is new, is this.
pub fn insert(number: c_int, kind: Kind) {
    KINDS.with(|kinds| kinds.push((number, kind)));
    if let Some((word, bit)) = bit(number) {
        word.fetch_or(bit, Ordering::SeqCst);
    }
}

/// What a descriptor is, if it is one of these.
pub fn kind(number: c_int) -> Option<Kind> {
    if !is_own(number) {
        return None;
    }
    KINDS.with(|kinds| find(kinds, number).map(|index| kinds[index].1.clone()))
}

/// The set that a descriptor is.
pub fn set_of(number: c_int) -> Option<usize> {
    match kind(number) {
        Some(Kind::Set(set, _)) => Some(set),
        _ => None,
    }
}

fn find(kinds: &[(c_int, Kind)], number: c_int) -> Option<usize> {
    kinds.iter().position(|(other, _)| *other == number)
}

/// The counter that a descriptor is.
///
/// # Errors
/// `EINVAL`: it is a set.
fn counter_of(number: c_int) -> Result<Arc<Counter>> {
    match kind(number) {
        Some(Kind::Counter(counter)) => Ok(counter),
        _ => Err(Error::new(EINVAL)),
    }
}

/// `read` of one of these.
///
/// # Errors
/// Those of counters; `EINVAL` a set.
///
/// # Safety
/// The caller's buffer.
pub unsafe fn read(number: c_int, buffer: *mut c_void, size: usize) -> Result<usize> {
    let counter = counter_of(number)?;
    // SAFETY: the same contract.
    unsafe { counter::read(number as usize, &counter, buffer, size) }
}

/// `write` to one of these.
///
/// # Errors
/// Those of counters; `EINVAL` a set.
///
/// # Safety
/// The caller's bytes.
pub unsafe fn write(number: c_int, buffer: *const c_void, size: usize) -> Result<usize> {
    let counter = counter_of(number)?;
    // SAFETY: the same contract.
    unsafe { counter::write(number as usize, &counter, buffer, size) }
}

/// The copy is the same as the descriptor.
pub fn copied(number: c_int, copy: c_int) {
    if let Some(kind) = kind(number) {
        insert(copy, kind);
    }
}

/// The number means, or is about to mean, something else.
pub fn forget(number: c_int) {
    if !is_own(number) {
        return;
    }
    if let Some((word, bit)) = bit(number) {
        word.fetch_and(!bit, Ordering::SeqCst);
    }
    let gone = KINDS.with(|kinds| find(kinds, number).map(|index| kinds.swap_remove(index).1));
    if let Some(Kind::Set(_, bell)) = &gone {
        changed();
        bell.ring();
    }
    // It may end with this, and its memory and its pipe with it.
    drop(gone);
}

/// The sets that have descriptors.
pub fn sets() -> Vec<usize> {
    let set = |(_, kind): &(c_int, Kind)| match kind {
        Kind::Set(set, _) => Some(*set),
        Kind::Counter(_) => None,
    };
    KINDS.with(|kinds| kinds.iter().filter_map(set).collect())
}

/// The number that changes with all that waits for sets have to know of.
pub fn version() -> u32 {
    VERSION.load(Ordering::SeqCst)
}

/// Says that there is something that waits have to know of; they do when a bell rings.
pub fn changed() {
    VERSION.fetch_add(1, Ordering::SeqCst);
}

/// Has those who wait for a set, or for any, look again.
pub fn wake(set: Option<usize>) {
    let bells = |(_, kind): &(c_int, Kind)| match kind {
        Kind::Set(other, bell) if set.is_none_or(|set| set == *other) => Some(bell.clone()),
        _ => None,
    };
    let bells: Vec<Arc<Bell>> = KINDS.with(|kinds| kinds.iter().filter_map(bells).collect());
    bells.iter().for_each(|bell| bell.ring());
}
