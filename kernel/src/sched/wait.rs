//! Wait queues.

use alloc::boxed::Box;
use alloc::sync::Arc;

use kernel_core::line::Line;
use spin::Mutex;

use super::{ContextRef, State, current, make_ready, switch, with_current};
use crate::time;

/// Why a wait ended without its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// `interrupt` or `kill`. After `kill` every later wait also ends at once
    /// (`Context::is_killed`).
    Interrupted,
    /// The deadline passed.
    TimedOut,
}

/// [`WaitQueue::wait`] without a queue: the waker has a reference to the context ([`wake`]).
pub fn wait_alone<T>(condition: impl FnMut() -> Option<T>) -> Result<T, WaitError> {
    wait_alone_until(None, condition)
}

/// [`wait_alone`] with a deadline in absolute monotonic nanoseconds.
pub fn wait_alone_until<T>(
    deadline: Option<u64>,
    condition: impl FnMut() -> Option<T>,
) -> Result<T, WaitError> {
    wait(None, deadline, condition)
}

/// Makes a waiting context check its condition; no effect on other contexts.
pub fn wake(context: &ContextRef) -> bool {
    let waits = context.state() == State::Blocked;
    if waits {
        make_ready(context);
    }
    waits
}

fn wait<T>(
    queue: Option<&WaitQueue>,
    deadline: Option<u64>,
    condition: impl FnMut() -> Option<T>,
) -> Result<T, WaitError> {
    // An interrupt from before the wait does not end this wait.
    with_current(|context| {
        context.set_interrupted(false);
        context.set_waiting(true);
    });
    let result = wait_for(queue, deadline, condition);
    with_current(|context| context.set_waiting(false));
    result
}

fn wait_for<T>(
    queue: Option<&WaitQueue>,
    deadline: Option<u64>,
    mut condition: impl FnMut() -> Option<T>,
) -> Result<T, WaitError> {
    loop {
        if let Some(value) = condition() {
            return Ok(value);
        }
        let context = current();
        if context.take_interrupted() {
            return Err(WaitError::Interrupted);
        }
        if deadline.is_some_and(|deadline| time::now_ns() >= deadline) {
            return Err(WaitError::TimedOut);
        }
        let timer = deadline.map(|deadline| {
            let sleeper = Arc::downgrade(&context);
            let wake = move || {
                if let Some(sleeper) = sleeper.upgrade() {
                    wake(&sleeper);
                }
            };
            time::at(deadline, Box::new(wake))
        });
        context.set_state(State::Blocked);
        let place = queue.map(|queue| (queue, queue.waiters.lock().join(context)));
        switch();
        if let Some(timer) = timer {
            time::cancel(timer);
        }
        if let Some((queue, place)) = place {
            // Woken by other means than `wake_*`, it is still there. Dropped after the lock.
            let left = queue.waiters.lock().leave(place);
            drop(left);
        }
    }
}

/// Contexts that wait for a condition.
#[derive(Default)]
pub struct WaitQueue {
    waiters: Mutex<Line<ContextRef>>,
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        WaitQueue {
            waiters: Mutex::new(Line::new()),
        }
    }

    /// Blocks the current context until `condition` returns a value. The condition is checked at
    /// once and after each wake-up. `deadline` is absolute monotonic nanoseconds. The condition is
    /// called without locks of this module held and must not block.
    pub fn wait<T>(
        &self,
        deadline: Option<u64>,
        condition: impl FnMut() -> Option<T>,
    ) -> Result<T, WaitError> {
        wait(Some(self), deadline, condition)
    }

    /// Wakes the context that has waited longest. False when none waits.
    pub fn wake_one(&self) -> bool {
        loop {
            let Some(context) = self.waiters.lock().take_first() else {
                return false;
            };
            // A context that was woken in another way and has not run yet does not need this
            // wake-up.
            if wake(&context) {
                return true;
            }
        }
    }

    /// Wakes all contexts.
    pub fn wake_all(&self) {
        while self.wake_one() {}
    }
}
