//! Contexts that wait on words of memory. Words are identified by physical address, so this works
//! across address spaces that share memory.
//!
//! A frame does not stay because a context waits for a word in it. If the context's page goes, the
//! frame may become another program's, whose words nobody but its own contexts must be woken for.
//! So a wake-up passes over contexts that do not have the frame at the address they gave.

use alloc::{collections::BTreeMap, sync::Arc};
use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use super::{ContextRef, WaitError, current, wait::wait_alone_until, wake as wake_context};
use crate::mm::PAGE_SIZE;

struct Waiter {
    context: ContextRef,
    /// The word's address in the context's space.
    address: usize,
    woken: AtomicBool,
}

impl Waiter {
    /// Whether the word is still where it was.
    fn is_at(&self, word: usize) -> bool {
        let space = self.context.space();
        let frame = space.and_then(|space| space.translate(self.address));
        frame == Some(word - word % PAGE_SIZE)
    }
}

/// A word's physical address, and the number of the wait.
type Place = (usize, u64);

struct Waiters {
    /// In the order of the waits for each word. There may be more than contiguous memory has room
    /// for.
    list: BTreeMap<Place, Arc<Waiter>>,
    next: u64,
}

static WAITERS: Mutex<Waiters> = Mutex::new(Waiters {
    list: BTreeMap::new(),
    next: 0,
});

/// The numbers of words with waiters and of waiting contexts, for `sys/stat`.
pub fn counts() -> (usize, usize) {
    let waiters = WAITERS.lock();
    let (mut words, mut last) = (0, None);
    for &(word, _) in waiters.list.keys() {
        words += usize::from(last != Some(word));
        last = Some(word);
    }
    (words, waiters.list.len())
}

/// Whether a context waits for a word in a frame, which must then stay in the space of that
/// context.
pub fn is_waited_for(frame: usize) -> bool {
    let words = (frame, 0)..(frame + PAGE_SIZE, 0);
    WAITERS.lock().list.range(words).next().is_some()
}

/// Blocks the current context until [`wake`] reaches it. The word at physical address `word` is at
/// `address` in its space. `deadline` is absolute monotonic nanoseconds.
pub fn wait(word: usize, address: usize, deadline: Option<u64>) -> Result<(), WaitError> {
    let waiter = Arc::new(Waiter {
        context: current(),
        address,
        woken: AtomicBool::new(false),
    });
    let place = {
        let mut waiters = WAITERS.lock();
        let place = (word, waiters.next);
        waiters.next += 1;
        waiters.list.insert(place, waiter.clone());
        place
    };
    let woken = || waiter.woken.load(Ordering::Acquire).then_some(());
    let ended = wait_alone_until(deadline, woken);
    if ended.is_err() {
        WAITERS.lock().list.remove(&place);
    }
    ended
}

/// Wakes at most `most` waiters, those first that have waited longest.
pub fn wake(word: usize, most: usize) -> usize {
    let mut first = 0;
    let mut count = 0;
    while count < most {
        let Some((number, waiter)) = take(word, first) else {
            break;
        };
        waiter.woken.store(true, Ordering::Release);
        wake_context(&waiter.context);
        first = number + 1;
        count += 1;
    }
    count
}

/// Takes the first waiter for a word out of the list, from wait number `first` on.
fn take(word: usize, first: u64) -> Option<(u64, Arc<Waiter>)> {
    let mut waiters = WAITERS.lock();
    let mut all = waiters.list.range((word, first)..=(word, u64::MAX));
    let place = *all.find(|(_, waiter)| waiter.is_at(word))?.0;
    let waiter = waiters.list.remove(&place)?;
    Some((place.1, waiter))
}
