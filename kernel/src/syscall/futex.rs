//! FUTEX: sleeping on a word of memory. Keyed by physical address, so that it works across
//! address spaces that share the memory.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};

use ::syscall::{
    data::TimeSpec,
    error::{EAGAIN, EINTR, EINVAL, ETIMEDOUT, Error, Result},
    flag::{FUTEX_WAIT, FUTEX_WAIT64, FUTEX_WAKE},
};
use spin::Mutex;

use super::clock;
use crate::mm::UserBuf;
use crate::sched::{self, WaitError, WaitQueue};

#[derive(Default)]
struct Waiter {
    woken: AtomicBool,
    queue: WaitQueue,
}

static WAITERS: Mutex<BTreeMap<usize, Vec<Arc<Waiter>>>> = Mutex::new(BTreeMap::new());

/// Words that are waited for and who waits, for `sys/stat`.
pub fn counts() -> (usize, usize) {
    let waiters = WAITERS.lock();
    (waiters.len(), waiters.values().map(Vec::len).sum())
}

/// Arguments: address, operation, value, address of an absolute monotonic deadline or 0.
pub fn futex(address: usize, operation: usize, value: usize, deadline: usize) -> Result<usize> {
    let width = match operation {
        FUTEX_WAIT | FUTEX_WAKE => 4,
        FUTEX_WAIT64 => 8,
        _ => return Err(Error::new(EINVAL)),
    };
    let word = UserBuf::new(address, width)?;
    let key = sched::current_space()?.phys_at(address)?;
    if operation == FUTEX_WAKE {
        return Ok(wake(key, value));
    }
    if !address.is_multiple_of(width) {
        return Err(Error::new(EINVAL));
    }
    let deadline = UserBuf::optional(deadline, size_of::<TimeSpec>())?.map(read_deadline);
    let deadline = deadline.transpose()?;
    if load(word)? != value as u64 & mask(width) {
        return Err(Error::new(EAGAIN));
    }
    wait(key, deadline)
}

fn mask(width: usize) -> u64 {
    if width == 4 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    }
}

fn read_deadline(buf: UserBuf) -> Result<u64> {
    let mut time = TimeSpec::default();
    buf.read_exact(&mut time)?;
    Ok(u64::try_from(clock::to_nanos(&time)).unwrap_or(u64::MAX))
}

/// The word's value. Nothing else runs between this and the wait, so no wake-up is lost.
fn load(word: UserBuf) -> Result<u64> {
    let mut bytes = [0_u8; 8];
    word.read(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn wait(key: usize, deadline: Option<u64>) -> Result<usize> {
    let waiter = Arc::new(Waiter::default());
    WAITERS.lock().entry(key).or_default().push(waiter.clone());
    let woken = || waiter.woken.load(Ordering::Acquire).then_some(());
    let ended = waiter.queue.wait(deadline, woken);
    if ended.is_err() {
        forget(key, &waiter);
    }
    match ended {
        Ok(()) => Ok(0),
        Err(WaitError::TimedOut) => Err(Error::new(ETIMEDOUT)),
        Err(WaitError::Interrupted) => Err(Error::new(EINTR)),
    }
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

/// Wakes up to `most` waiters, those first that wait longest.
fn wake(key: usize, most: usize) -> usize {
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
