//! Descriptors that this library makes itself: the counters of `eventfd`, the timers of
//! `timerfd_create` and the sets of `epoll`.
//!
//! To the system each is the reading end of a pipe, as only a file of the system can raise events
//! in a queue. What the descriptor means is recorded only in this table, so a program that is
//! started by `exec` or `posix_spawn` does not inherit it.

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
use crate::timer::{self, Timer};

/// What a descriptor of this library means.
#[derive(Clone)]
pub enum Kind {
    /// A counter of `eventfd`.
    Counter(Arc<Counter>),
    /// A timer of `timerfd_create`.
    Timer(Arc<Timer>),
    /// A set of `epoll`: its id and its bell.
    Set(usize, Arc<Bell>),
}

impl Kind {
    /// Whether the program has set `O_NONBLOCK`.
    pub fn is_nonblocking(&self) -> bool {
        match self {
            Self::Counter(counter) => counter.page().is_nonblocking(),
            Self::Timer(timer) => timer.page().is_nonblocking(),
            Self::Set(_, bell) => bell.is_nonblocking(),
        }
    }

    /// Sets or clears `O_NONBLOCK`.
    pub fn set_nonblocking(&self, set: bool) {
        match self {
            Self::Counter(counter) => counter.page().set_nonblocking(set),
            Self::Timer(timer) => timer.page().set_nonblocking(set),
            Self::Set(_, bell) => bell.set_nonblocking(set),
        }
    }
}

/// The descriptors, with their numbers.
pub static KINDS: Shared<Vec<(c_int, Kind)>> = Shared::new(Vec::new());

/// A bit for each descriptor: whether it is in [`KINDS`].
static OWN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Changes when waits for sets have to make a new plan.
static VERSION: AtomicU32 = AtomicU32::new(0);

/// Counts how often a number was added to [`KINDS`], replaced or removed.
static TURNS: AtomicU32 = AtomicU32::new(0);

/// A number that changes when a descriptor is added to [`KINDS`], replaced or removed.
pub fn turns() -> u32 {
    TURNS.load(Ordering::SeqCst)
}

fn bit(number: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    let word = OWN.get(number / 64)?;
    Some((word, 1 << (number % 64)))
}

/// Whether the descriptor is one of this library's.
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

/// Records what a number means now, `None` for a file of the system. Returns what it meant before.
fn put(kinds: &mut Vec<(c_int, Kind)>, number: c_int, kind: Option<Kind>) -> Option<Kind> {
    let former = find(kinds, number).map(|index| kinds.swap_remove(index).1);
    if kind.is_some() || former.is_some() {
        set_bit(number, kind.is_some());
        // Last: a thread that finds the new count also finds the bit.
        TURNS.fetch_add(1, Ordering::SeqCst);
    }
    kinds.extend(kind.map(|kind| (number, kind)));
    former
}

/// Records what a new descriptor means.
pub fn insert(number: c_int, kind: Kind) {
    drop(KINDS.with(|kinds| put(kinds, number, Some(kind))));
}

/// What a descriptor means, if it is one of this library's.
pub fn kind(number: c_int) -> Option<Kind> {
    if !is_own(number) {
        return None;
    }
    KINDS.with(|kinds| find(kinds, number).map(|index| kinds[index].1.clone()))
}

/// The id of the set that a descriptor means.
pub fn set_of(number: c_int) -> Option<usize> {
    match kind(number) {
        Some(Kind::Set(set, _)) => Some(set),
        _ => None,
    }
}

fn find(kinds: &[(c_int, Kind)], number: c_int) -> Option<usize> {
    kinds.iter().position(|(other, _)| *other == number)
}

/// Reads one of these descriptors; `None` if the number no longer means one.
///
/// # Errors
/// Those of [`counter::read`] and [`timer::read`]; `EINVAL` for a set.
///
/// # Safety
/// The caller's buffer.
pub unsafe fn read(number: c_int, buffer: *mut c_void, size: usize) -> Option<Result<usize>> {
    Some(match kind(number)? {
        // SAFETY: the same contract.
        Kind::Counter(counter) => unsafe { counter::read(&counter, buffer, size) },
        // SAFETY: the same contract.
        Kind::Timer(timer) => unsafe { timer::read(&timer, buffer, size) },
        Kind::Set(..) => Err(Error::new(EINVAL)),
    })
}

/// Writes to one of these descriptors; `None` if the number no longer means one.
///
/// # Errors
/// Those of [`counter::write`]; `EINVAL` for a timer or a set.
///
/// # Safety
/// The caller's bytes.
pub unsafe fn write(number: c_int, buffer: *const c_void, size: usize) -> Option<Result<usize>> {
    Some(match kind(number)? {
        // SAFETY: the same contract.
        Kind::Counter(counter) => unsafe { counter::write(&counter, buffer, size) },
        Kind::Timer(_) | Kind::Set(..) => Err(Error::new(EINVAL)),
    })
}

/// Gives a new descriptor, the copy, the meaning of the other one.
pub fn copied(number: c_int, copy: c_int) {
    if let Some(kind) = kind(number) {
        insert(copy, kind);
    }
}

/// Puts a copy of a descriptor at a number by calling `replace`, and records its meaning. As long
/// as the pipe of such a descriptor is at a number, the table has to say so. Hence a new meaning
/// is recorded before `replace`, and an old one removed afterwards. All of it happens under the
/// lock, so that neither another thread nor the child of a `fork` finds a part of it.
///
/// # Errors
/// Those of `replace`; the number means what it did then.
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
    // What was removed from the table is dropped outside the lock, as this may be its last
    // reference.
    gone.map(end).map_err(|(error, _)| error)
}

/// Removes a number from the table because it means, or is about to mean, something else.
pub fn forget(number: c_int) {
    if is_own(number) {
        end(KINDS.with(|kinds| put(kinds, number, None)));
    }
}

/// Drops what a number has meant, perhaps with its memory and its pipe. Makes waits for a set look
/// again.
fn end(gone: Option<Kind>) {
    if let Some(Kind::Set(_, bell)) = &gone {
        changed();
        bell.ring();
    }
}

/// The ids of the sets that have descriptors.
pub fn sets() -> Vec<usize> {
    let set = |(_, kind): &(c_int, Kind)| match kind {
        Kind::Set(set, _) => Some(*set),
        Kind::Counter(_) | Kind::Timer(_) => None,
    };
    KINDS.with(|kinds| kinds.iter().filter_map(set).collect())
}

/// A number that changes when waits for sets have to make a new plan.
pub fn version() -> u32 {
    VERSION.load(Ordering::SeqCst)
}

/// The word of [`version`], for short sleeps.
pub fn version_word() -> Watched {
    Watched::new(&VERSION, version())
}

/// Makes waits for sets plan anew; they notice when a bell rings.
pub fn changed() {
    VERSION.fetch_add(1, Ordering::SeqCst);
}

/// Wakes the threads that wait for this set, or for any set if `None`.
pub fn wake(set: Option<usize>) {
    let bells = |(_, kind): &(c_int, Kind)| match kind {
        Kind::Set(other, bell) if set.is_none_or(|set| set == *other) => Some(bell.clone()),
        _ => None,
    };
    let bells: Vec<Arc<Bell>> = KINDS.with(|kinds| kinds.iter().filter_map(bells).collect());
    bells.iter().for_each(|bell| bell.ring());
}
