//! Contexts that wait on words which another machine may store to, while this one has nothing else
//! to do.
//!
//! Such a store wakes nobody. Usually an interrupt follows it, which wakes a driver, which wakes
//! the program: under an emulator, or with a driver in an address space of its own, that takes
//! longer than the answer. So a processor without work looks at the words for a while before it
//! halts, as kernels do before they halt a processor of a virtual machine; beside a context that
//! computes it looks now and then. The contexts wait as in any other wait: whatever can run does so
//! at once, and they are charged nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ::syscall::error::{EAGAIN, EINTR, EINVAL, ENOMEM, Error, Result};
use spin::Mutex;

use super::{Context, ContextRef, State, WaitQueue, current, wait_alone, wake};
use crate::arch::smp;
use crate::mm::{PAGE_SIZE, phys};
use crate::time;

/// Most words of a wait.
pub const MAX_WORDS: usize = 32;
/// Longest wait, in nanoseconds: as long as one lasts no processor halts, and those that compute
/// are interrupted.
const LONGEST_NS: u64 = 1_000_000;
/// Most words of all waits together, as every look is at all of them.
const MOST_LOOKED_AT: usize = 128;
/// Most of them in one address space.
const MOST_OF_A_SPACE: usize = 64;
/// Nanoseconds until the first look of a processor that runs a context without a break. The next
/// ones come when a wait has lasted twice as long as at the last one: most answers come soon, and
/// an interrupt of the timer takes some microseconds under an emulator.
const FIRST_LOOK_NS: u64 = 10_000;
/// Looks at all of them before the kernel's lock is taken again and the clock is read.
const LOOKS: usize = 64;

/// A word that a context waits for to change.
#[derive(Clone, Copy, Default)]
pub struct Word {
    /// Its address in the context's space.
    pub address: usize,
    /// Its physical address, in RAM.
    pub phys: usize,
    /// The value that it had.
    pub value: u32,
}

impl Word {
    fn has_changed(&self) -> bool {
        phys::word(self.phys) != self.value
    }
}

/// The words of a wait.
#[derive(Clone, Copy, Default)]
pub struct Words {
    list: [Word; MAX_WORDS],
    count: usize,
}

impl Words {
    /// Adds one; `EINVAL` for more than [`MAX_WORDS`].
    pub fn push(&mut self, word: Word) -> Result<()> {
        *self.list.get_mut(self.count).ok_or(Error::new(EINVAL))? = word;
        self.count += 1;
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = &Word> {
        self.list[..self.count].iter()
    }

    fn has_changed(&self) -> bool {
        self.iter().any(Word::has_changed)
    }

    /// Whether all are where they were: a frame that the context has unmapped may be anybody's by
    /// now, and after a fork the word may be in another one.
    fn are_there(&self, context: &Context) -> bool {
        let Some(space) = context.space() else {
            return false;
        };
        let is_there = |word: &Word| {
            let frame = word.phys - word.phys % PAGE_SIZE;
            space.translate(word.address) == Some(frame)
        };
        self.iter().all(is_there)
    }
}

struct Waiter {
    context: ContextRef,
    words: Words,
    begin: u64,
    deadline: u64,
}

impl Waiter {
    /// Whether its context was not woken since it waits.
    fn sleeps(&self) -> bool {
        self.context.state() == State::Blocked
    }

    fn next_look(&self, now: u64) -> u64 {
        let pause = now.saturating_sub(self.begin).max(FIRST_LOOK_NS);
        self.deadline.min(now.saturating_add(pause))
    }

    /// Whether the wait is over.
    fn ends(&self, now: u64) -> bool {
        now >= self.deadline || self.words.has_changed() || !self.words.are_there(&self.context)
    }
}

static WAITERS: Mutex<Vec<Waiter>> = Mutex::new(Vec::new());
/// Their number, to ask without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// A processor looks at the words.
static IS_LOOKED_AT: AtomicBool = AtomicBool::new(false);
/// Waits so far, and those that a look has ended in time.
static WAITS: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);

/// The numbers of waits since the boot and of those that a look has ended in time, for `sys/stat`.
pub fn counts() -> (u64, u64) {
    (WAITS.load(Ordering::Relaxed), SEEN.load(Ordering::Relaxed))
}

/// Something else that ends a wait: the queue whose contexts are woken when it may have come, and
/// whether it has.
pub struct Beside<'a> {
    /// The queue.
    pub queue: &'a WaitQueue,
    /// Does not block.
    pub has_come: &'a dyn Fn() -> bool,
}

/// Blocks the current context until one of the words has changed, or is not where it was, or what
/// is waited for beside them has come (true), or for this time (false; nanoseconds, [`LONGEST_NS`]
/// at most). `EAGAIN`: others wait for so many words that these would be too many; `EINTR`;
/// `ENOMEM`.
pub fn wait(words: &Words, longest: u64, beside: Option<Beside<'_>>) -> Result<bool> {
    let has_come = || beside.as_ref().is_some_and(|beside| (beside.has_come)());
    if words.has_changed() || has_come() {
        return Ok(true);
    }
    let context = current();
    let begin = time::now_ns();
    let deadline = begin.saturating_add(longest.min(LONGEST_NS));
    add(Waiter {
        context: context.clone(),
        words: *words,
        begin,
        deadline,
    })?;
    let is_over = || {
        // What is not there any more is not looked at.
        let is_seen = !words.are_there(&context) || words.has_changed();
        let is_late = time::now_ns() >= deadline;
        let has_come = has_come();
        (is_seen || is_late || has_come).then_some((is_seen, is_late, has_come))
    };
    let ended = match &beside {
        Some(beside) => beside.queue.wait(None, is_over),
        None => wait_alone(is_over),
    };
    remove(&context);
    let (is_seen, is_late, has_come) = ended.map_err(|_| Error::new(EINTR))?;
    SEEN.fetch_add(u64::from(is_seen && !is_late), Ordering::Relaxed);
    Ok(is_seen || has_come)
}

fn add(waiter: Waiter) -> Result<()> {
    let mut waiters = WAITERS.lock();
    let is_same = |other: &&Waiter| match (other.context.space(), waiter.context.space()) {
        (Some(other), Some(own)) => Arc::ptr_eq(&other, &own),
        _ => false,
    };
    let words = |waiter: &Waiter| waiter.words.count;
    let all: usize = waiters.iter().map(words).sum();
    let own: usize = waiters.iter().filter(is_same).map(words).sum();
    let more = waiter.words.count;
    if all + more > MOST_LOOKED_AT || own + more > MOST_OF_A_SPACE {
        return Err(Error::new(EAGAIN));
    }
    waiters.try_reserve(1).map_err(|_| Error::new(ENOMEM))?;
    waiters.push(waiter);
    COUNT.store(waiters.len(), Ordering::Relaxed);
    WAITS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn remove(context: &ContextRef) {
    let mut waiters = WAITERS.lock();
    let is_its = |waiter: &Waiter| Arc::ptr_eq(&waiter.context, context);
    // Dropped after the lock.
    let gone = waiters
        .iter()
        .position(is_its)
        .map(|place| waiters.swap_remove(place));
    COUNT.store(waiters.len(), Ordering::Relaxed);
    drop(waiters);
    drop(gone);
}

/// Wakes the contexts whose waits are over. `now` is asked for the time if somebody waits.
pub fn look(now: impl FnOnce() -> u64) {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let now = now();
    let mut first = 0;
    while let Some((place, context)) = next_over(first, now) {
        wake(&context);
        first = place + 1;
    }
}

/// The first wait from this place on that is over, of a context that was not woken yet.
fn next_over(first: usize, now: u64) -> Option<(usize, ContextRef)> {
    let waiters = WAITERS.lock();
    let mut waiting = waiters.iter().enumerate().skip(first);
    let (place, waiter) = waiting.find(|(_, waiter)| waiter.sleeps() && waiter.ends(now))?;
    Some((place, waiter.context.clone()))
}

/// When this processor is to look next beside a context that it runs; `u64::MAX` when nobody waits,
/// or a processor without work looks.
pub fn next_look(now: u64) -> u64 {
    if COUNT.load(Ordering::Relaxed) == 0 || IS_LOOKED_AT.load(Ordering::Relaxed) {
        return u64::MAX;
    }
    let waiters = WAITERS.lock();
    let sleeping = waiters.iter().filter(|waiter| waiter.sleeps());
    let looks = sleeping.map(|waiter| waiter.next_look(now));
    looks.min().unwrap_or(u64::MAX)
}

/// In place of a halt: looks at the words for a while, with interrupts on, until one changes or
/// this processor `is_called`. False: there are none, or another processor looks. When that one
/// gets work, it goes on looking beside that ([`next_look`]).
pub fn look_instead_of_halt(is_called: impl Fn() -> bool) -> bool {
    if COUNT.load(Ordering::Relaxed) == 0 || IS_LOOKED_AT.swap(true, Ordering::Relaxed) {
        return false;
    }
    let mut words = [Word::default(); MOST_LOOKED_AT];
    let mut count = 0;
    {
        let waiters = WAITERS.lock();
        let sleeping = waiters.iter().filter(|waiter| waiter.sleeps());
        let all = sleeping.flat_map(|waiter| waiter.words.iter());
        for (place, word) in words.iter_mut().zip(all) {
            *place = *word;
            count += 1;
        }
    }
    smp::idle_with(|| {
        core::hint::spin_loop();
        let is_over = || is_called() || words[..count].iter().any(Word::has_changed);
        let _ = (0..LOOKS).any(|_| is_over());
    });
    IS_LOOKED_AT.store(false, Ordering::Relaxed);
    look(time::now_ns);
    true
}

/// Whether threads wait for looks that no processor without work makes now.
pub fn needs_looks() -> bool {
    next_look(time::now_ns()) != u64::MAX
}
