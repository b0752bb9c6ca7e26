//! Waiting for completion events.

use alloc::sync::{Arc, Weak};

use super::{Channel, Context};
use crate::error::Result;
use crate::open_context::SharedContext;
use crate::waiter::Waiter;

/// The same context, which ends when nobody else has it.
#[derive(Clone)]
pub struct WeakContext {
    shared: Weak<SharedContext>,
}

impl WeakContext {
    /// The context, if it is there.
    pub fn upgrade(&self) -> Option<Context> {
        let shared = self.shared.upgrade()?;
        Some(Context { shared })
    }
}

impl Context {
    /// The same context for what does not keep it.
    pub fn downgrade(&self) -> WeakContext {
        let shared = Arc::downgrade(&self.shared);
        WeakContext { shared }
    }

    /// Waits for the next event of a channel as [`Channel::next`](crate::Events::next) does, and
    /// serves the lanes meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn next_event(&self, channel: &Channel) -> Result<u64> {
        self.next_event_with(channel, |_| {})
    }

    /// The same; `note` as for [`Channel::next_with`](crate::Events::next_with).
    ///
    /// # Errors
    /// As there.
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

    /// The same beside another thread that waits. When that one works, the progress thread serves
    /// the lanes.
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

    /// Waits until there is an event; it, if it comes by this thread's own doing.
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
            // What comes behind this ends the sleep.
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
