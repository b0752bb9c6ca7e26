//! Descriptors of this library's making: the counters of `eventfd`, and the sets of `epoll`.
//!
//! To the system each is the reading end of a pipe, which is all that it has for telling event
//! queues that something has changed. What a descriptor is besides is known here alone, so a
//! program that is started anew does not get it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hal::idle_poll::Watched;
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

impl Kind {
    /// Whether the program has set `O_NONBLOCK`.
    pub fn is_nonblocking(&self) -> bool {
        match self {
            Self::Counter(counter) => counter.is_nonblocking(),
            Self::Set(_, bell) => bell.is_nonblocking(),
        }
    }

    /// Takes note of that.
    pub fn set_nonblocking(&self, set: bool) {
        match self {
            Self::Counter(counter) => counter.set_nonblocking(set),
            Self::Set(_, bell) => bell.set_nonblocking(set),
        }
    }
}

/// The descriptors, by their numbers.
pub static KINDS: Shared<Vec<(c_int, Kind)>> = Shared::new(Vec::new());

/// A bit for each descriptor: whether it is one of these.
static OWN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Changes with all that a wait for a set has to know of.
static VERSION: AtomicU32 = AtomicU32::new(0);

/// Counts how often a number has become one of these, or ceased to be one.
static TURNS: AtomicU32 = AtomicU32::new(0);

/// A number that is another one when any descriptor has become one of these since, or ceased to
/// be one.
pub fn turns() -> u32 {
    TURNS.load(Ordering::SeqCst)
}

fn bit(number: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    let word = OWN.get(number / 64)?;
    Some((word, 1 << (number % 64)))
}

/// Whether the descriptor is one of these.
pub fn is_own(number: c_int) -> bool {
    bit(number).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

fn set_bit(number: c_int, set: bool) {
    if let Some((word, bit)) = bit(number) {
        match set {
            true => word.fetch_or(bit, Ordering::SeqCst),
            false => word.fetch_and(!bit, Ordering::SeqCst),
        };
    }
}

/// Makes a number mean this, or none of these; what it meant.
fn put(kinds: &mut Vec<(c_int, Kind)>, number: c_int, kind: Option<Kind>) -> Option<Kind> {
    let former = find(kinds, number).map(|index| kinds.swap_remove(index).1);
    if kind.is_some() || former.is_some() {
        set_bit(number, kind.is_some());
        // Last: who finds this number finds the bit.
        TURNS.fetch_add(1, Ordering::SeqCst);
    }
    kinds.extend(kind.map(|kind| (number, kind)));
    former
}

/// The descriptor, which is new, is this.
pub fn insert(number: c_int, kind: Kind) {
    drop(KINDS.with(|kinds| put(kinds, number, Some(kind))));
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

/// `read` of one of these; `None`: it no longer is one.
///
/// # Errors
/// Those of counters; `EINVAL` a set.
///
/// # Safety
/// The caller's buffer.
pub unsafe fn read(number: c_int, buffer: *mut c_void, size: usize) -> Option<Result<usize>> {
    Some(match kind(number)? {
        // SAFETY: the same contract.
        Kind::Counter(counter) => unsafe { counter::read(&counter, buffer, size) },
        Kind::Set(..) => Err(Error::new(EINVAL)),
    })
}

/// `write` to one of these; `None`: it no longer is one.
///
/// # Errors
/// Those of counters; `EINVAL` a set.
///
/// # Safety
/// The caller's bytes.
pub unsafe fn write(number: c_int, buffer: *const c_void, size: usize) -> Option<Result<usize>> {
    Some(match kind(number)? {
        // SAFETY: the same contract.
        Kind::Counter(counter) => unsafe { counter::write(&counter, buffer, size) },
        Kind::Set(..) => Err(Error::new(EINVAL)),
    })
}

/// The copy, a new descriptor, is the same as the descriptor.
pub fn copied(number: c_int, copy: c_int) {
    if let Some(kind) = kind(number) {
        insert(copy, kind);
    }
}

/// Puts a copy of a descriptor at a number by `replace`, with what the descriptor is. As long as
/// the pipe of one of these is there the number is known to be one, so what is new is noted before,
/// and what was there forgotten afterwards; and all of it under the lock, so that nobody finds less
/// than the whole, nor does the child of a `fork`.
///
/// # Errors
/// Those of `replace`: the number is what it was.
pub fn replaced(number: c_int, copy: c_int, replace: impl FnOnce() -> Result<usize>) -> Result<()> {
    let gone = KINDS.with(|kinds| {
        let Some(index) = find(kinds, number) else {
            return replace()
                .map(|_| put(kinds, copy, None))
                .map_err(|error| (error, None));
        };
        let kind = kinds[index].1.clone();
        let former = put(kinds, copy, Some(kind));
        match replace() {
            Ok(_) => Ok(former),
            Err(error) => Err((error, put(kinds, copy, former))),
        }
    });
    // What is not in the table any more is let go of outside the lock: it may end with this.
    gone.map(end).map_err(|(error, _)| error)
}

/// The number means, or is about to mean, something else.
pub fn forget(number: c_int) {
    if is_own(number) {
        end(KINDS.with(|kinds| put(kinds, number, None)));
    }
}

/// A number has ceased to be this. Its memory and its pipe may end with that.
fn end(gone: Option<Kind>) {
    if let Some(Kind::Set(_, bell)) = &gone {
        changed();
        bell.ring();
    }
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

/// The word that changes with it.
pub fn version_word() -> Watched {
    Watched::new(&VERSION, version())
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
