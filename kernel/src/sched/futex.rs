//! Contexts that wait on words of memory. Words are identified by physical address, so this works
//! across address spaces that share memory.

use alloc::{collections::BTreeMap, sync::Arc};
use core::sync::atomic::{AtomicBool, Ordering};

use kernel_core::line::Line;
use spin::Mutex;

use super::{WaitError, WaitQueue};
use crate::mm::PAGE_SIZE;

#[derive(Default)]
struct Waiter {
    woken: AtomicBool,
    queue: WaitQueue,
}

/// The lines of those that wait for a word, none of them empty.
static WAITERS: Mutex<BTreeMap<usize, Line<Arc<Waiter>>>> = Mutex::new(BTreeMap::new());

/// The numbers of words with waiters and of waiting contexts, for `sys/stat`.
pub fn counts() -> (usize, usize) {
    let waiters = WAITERS.lock();
    (waiters.len(), waiters.values().map(Line::len).sum())
}

/// Whether a context waits for a word in a frame, which must then stay in the space of that
/// context.
pub fn is_waited_for(frame: usize) -> bool {
    let words = frame..frame + PAGE_SIZE;
    WAITERS.lock().range(words).next().is_some()
}

/// Blocks the current context until [`wake`] reaches it. `deadline` is absolute monotonic
/// nanoseconds.
pub fn wait(key: usize, deadline: Option<u64>) -> Result<(), WaitError> {
    let waiter = Arc::new(Waiter::default());
    let place = WAITERS.lock().entry(key).or_default().join(waiter.clone());
    let woken = || waiter.woken.load(Ordering::Acquire).then_some(());
    let ended = waiter.queue.wait(deadline, woken);
    if ended.is_err() {
        // Not woken, so it is in that line still.
        take(key, |line| line.leave(place));
    }
    ended
}

/// Takes one of those that wait for a word.
fn take(
    key: usize,
    which: impl FnOnce(&mut Line<Arc<Waiter>>) -> Option<Arc<Waiter>>,
) -> Option<Arc<Waiter>> {
    let mut all = WAITERS.lock();
    let line = all.get_mut(&key)?;
    let taken = which(line);
    if line.is_empty() {
        all.remove(&key);
    }
    taken
}

/// Wakes at most `most` waiters, those first that have waited longest.
pub fn wake(key: usize, most: usize) -> usize {
    let mut woken = 0;
    while woken < most
        && let Some(waiter) = take(key, Line::take_first)
    {
        waiter.woken.store(true, Ordering::Release);
        waiter.queue.wake_all();
        woken += 1;
    }
    woken
}
