//! Contexts that wait for changes of words to which another machine may store, while this machine
//! has nothing else to do (docs/architecture.md, "Words that an idle processor looks at").
//!
//! Such a store wakes nobody. Usually an interrupt follows it, which wakes a driver, which wakes
//! the program. Under an emulator, or with a driver in an address space of its own, that takes
//! longer than the answer. So a processor without work looks at the words for a while before it
//! halts, as kernels do before they halt a processor of a virtual machine. Beside a context that
//! computes it looks now and then. The contexts wait as in any other wait: whatever can run does
//! so at once, and they are charged nothing.

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
/// Longest wait, in nanoseconds: during a wait no processor halts, and contexts that compute are
/// interrupted.
const LONGEST_NS: u64 = 1_000_000;
/// Most words of all waits together, because every look reads all of them.
const MOST_LOOKED_AT: usize = 128;
/// Most words in one address space.
const MOST_OF_A_SPACE: usize = 64;
/// Nanoseconds until the first look of a processor that runs a context without a break. The next
/// looks come each time the wait has lasted twice as long: most answers come soon, and a timer
/// interrupt takes some microseconds under an emulator.
const FIRST_LOOK_NS: u64 = 10_000;
/// Looks at all words before the kernel's lock is taken again and the clock is read.
const LOOKS: usize = 64;

/// A word whose change a context waits for.
#[derive(Clone, Copy, Default)]
pub struct Word {
    /// The word's address in the context's space.
    pub address: usize,
    /// The word's physical address, in RAM.
    pub phys: usize,
    /// The word's former value.
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
    /// Adds a word; `EINVAL` for more than [`MAX_WORDS`].
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

    /// Whether all words are where they were: a frame that the context has unmapped may have
    /// another owner by now, and after a fork the word may be in another frame.
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
    /// Whether its context has not been woken since the wait began.
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
/// The number of waiters, readable without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Whether a processor looks at the words.
static IS_LOOKED_AT: AtomicBool = AtomicBool::new(false);
/// Waits so far, and waits that a look has ended in time.
static WAITS: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);

/// The numbers of waits since the boot and of those that a look has ended in time, for `sys/stat`.
pub fn counts() -> (u64, u64) {
    (WAITS.load(Ordering::Relaxed), SEEN.load(Ordering::Relaxed))
}

/// Another condition that ends a wait: the queue whose contexts are woken when it may be met, and
/// the check whether it is met.
pub struct Beside<'a> {
    /// The queue.
    pub queue: &'a WaitQueue,
    /// Whether the condition is met. Must not block.
    pub has_come: &'a dyn Fn() -> bool,
}

/// Blocks the current context until one of the words has changed or is no longer where it was, or
/// the condition of `beside` is met: true. False after `longest` nanoseconds, [`LONGEST_NS`] at
/// most. `EAGAIN`: all contexts together would wait for too many words; `EINTR`; `ENOMEM`.
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
        // Do not look at a word that is no longer there.
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
    // Drop it after the lock.
    let gone = waiters
        .iter()
        .position(is_its)
        .map(|place| waiters.swap_remove(place));
    COUNT.store(waiters.len(), Ordering::Relaxed);
    drop(waiters);
    drop(gone);
}

/// Wakes the contexts whose waits are over. Calls `now` for the time if a context waits.
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

/// The first wait from this place on that is over and whose context has not been woken.
fn next_over(first: usize, now: u64) -> Option<(usize, ContextRef)> {
    let waiters = WAITERS.lock();
    let mut waiting = waiters.iter().enumerate().skip(first);
    let (place, waiter) = waiting.find(|(_, waiter)| waiter.sleeps() && waiter.ends(now))?;
    Some((place, waiter.context.clone()))
}

/// The time of this processor's next look beside a context that it runs. `u64::MAX` when no
/// context waits, or a processor without work looks.
pub fn next_look(now: u64) -> u64 {
    if COUNT.load(Ordering::Relaxed) == 0 || IS_LOOKED_AT.load(Ordering::Relaxed) {
        return u64::MAX;
    }
    let waiters = WAITERS.lock();
    let sleeping = waiters.iter().filter(|waiter| waiter.sleeps());
    let looks = sleeping.map(|waiter| waiter.next_look(now));
    looks.min().unwrap_or(u64::MAX)
}

/// Called instead of a halt: looks at the words for a while, with interrupts on, until one changes
/// or this processor `is_called`. False when there are no words, or another processor looks. A
/// processor that gets work continues to look beside it ([`next_look`]).
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

/// Whether contexts wait for looks that no processor without work makes at present.
pub fn needs_looks() -> bool {
    next_look(time::now_ns()) != u64::MAX
}
