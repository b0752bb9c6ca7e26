//! Waiting for completion events.

use alloc::sync::{Arc, Weak};

use super::{Channel, Context};
use crate::error::Result;
use crate::open_context::SharedContext;
use crate::waiter::Waiter;

/// A reference to a context that does not keep it open.
#[derive(Clone)]
pub struct WeakContext {
    shared: Weak<SharedContext>,
}

impl WeakContext {
    /// The context, if it is still open.
    pub fn upgrade(&self) -> Option<Context> {
        let shared = self.shared.upgrade()?;
        Some(Context { shared })
    }
}

impl Context {
    /// A reference to this context that does not keep it open.
    pub fn downgrade(&self) -> WeakContext {
        let shared = Arc::downgrade(&self.shared);
        WeakContext { shared }
    }

    /// Waits for the next event of a channel as [`Channel::next`](crate::Events::next) does, and
    /// serves the lanes meanwhile.
    ///
    /// # Errors
    /// Those of [`Channel::next`](crate::Events::next).
    pub fn next_event(&self, channel: &Channel) -> Result<u64> {
        self.next_event_with(channel, |_| {})
    }

    /// [`next_event`](Self::next_event) with `note`, as for
    /// [`Channel::next_with`](crate::Events::next_with).
    ///
    /// # Errors
    /// Those of [`Channel::next`](crate::Events::next).
    pub fn next_event_with(&self, channel: &Channel, note: impl Fn(&u64)) -> Result<u64> {
        if channel.is_ready() || channel.is_nonblocking() {
            return channel.next_with(note);
        }
        let Some(mut waiter) = self.shared.waiter.try_lock() else {
            return self.sleep_at(channel, note);
        };
        let waiter = match &mut *waiter {
            Some(waiter) => waiter,
            none => none.insert(Waiter::new()?),
        };
        let waited = self.wait(waiter, channel, &note);
        let mut state = self.lock();
        state.is_waiting = false;
        let sleeps_long = core::mem::take(&mut state.sleeps_long);
        drop(state);
        if sleeps_long {
            self.shared.bell.ring();
        }
        match waited? {
            Some(event) => Ok(event),
            None => channel.next_with(note),
        }
    }

    /// Waits while another thread waits and serves the lanes. When that one works on something
    /// else, the progress thread serves them.
    fn sleep_at(&self, channel: &Channel, note: impl Fn(&u64)) -> Result<u64> {
        let count = |change: i32| {
            let mut state = self.lock();
            state.sleepers = state.sleepers.saturating_add_signed(change);
        };
        count(1);
        self.shared.bell.ring();
        let event = channel.next_with(note);
        count(-1);
        event
    }

    /// Waits until there is an event. Returns it if it was added by this thread's own work.
    fn wait(
        &self,
        waiter: &mut Waiter,
        channel: &Channel,
        note: impl Fn(&u64),
    ) -> Result<Option<u64>> {
        let mut state = self.lock();
        state.is_waiting = true;
        state.waits = state.waits.wrapping_add(1);
        loop {
            // What arrives after this ends the sleep.
            let sleeps_shortly = waiter.prepare_short_sleep(&mut state.engine, channel);
            state.sleeps_shortly = sleeps_shortly;
            if !sleeps_shortly {
                waiter.watch(&mut state.engine, Some(channel))?;
            }
            let found = channel.collect(&note, || self.advance(&mut state));
            if found.is_some() || channel.is_ready() {
                return Ok(found);
            }
            if !sleeps_shortly {
                // Records may have found no room.
                waiter.watch(&mut state.engine, Some(channel))?;
            }
            let is_busy = state.engine.left.is_busy;
            drop(state);
            match is_busy {
                true => {}
                false if sleeps_shortly => waiter.sleep_shortly()?,
                false => waiter.sleep()?,
            }
            state = self.lock();
            state.time.distrust();
        }
    }
}
