//! Contexts that wait on words of memory. Words are identified by physical address, so this works
//! across address spaces that share memory.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use super::{WaitError, WaitQueue};
use crate::mm::PAGE_SIZE;

#[derive(Default)]
struct Waiter {
    woken: AtomicBool,
    queue: WaitQueue,
}

static WAITERS: Mutex<BTreeMap<usize, Vec<Arc<Waiter>>>> = Mutex::new(BTreeMap::new());

/// The numbers of words with waiters and of waiting contexts, for `sys/stat`.
pub fn counts() -> (usize, usize) {
    let waiters = WAITERS.lock();
    (waiters.len(), waiters.values().map(Vec::len).sum())
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
    WAITERS.lock().entry(key).or_default().push(waiter.clone());
    let woken = || waiter.woken.load(Ordering::Acquire).then_some(());
    let ended = waiter.queue.wait(deadline, woken);
    if ended.is_err() {
        forget(key, &waiter);
    }
    ended
}

fn forget(key: usize, waiter: &Arc<Waiter>) {
    let mut all = WAITERS.lock();
    if let Some(list) = all.get_mut(&key) {
        list.retain(|other| !Arc::ptr_eq(other, waiter));
        if list.is_empty() {
            all.remove(&key);
        }
    }
}

/// Wakes at most `most` waiters, those first that have waited longest.
pub fn wake(key: usize, most: usize) -> usize {
    let woken: Vec<_> = {
        let mut all = WAITERS.lock();
        let Some(list) = all.get_mut(&key) else {
            return 0;
        };
        let woken = list.drain(..most.min(list.len())).collect();
        if list.is_empty() {
            all.remove(&key);
        }
        woken
    };
    for waiter in &woken {
        waiter.woken.store(true, Ordering::Release);
        waiter.queue.wake_all();
    }
    woken.len()
}
