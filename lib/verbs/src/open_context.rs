//! An open context: what the program's calls and the progress thread share.

use alloc::sync::Arc;

use hal::lock::Mutex;

use crate::bell::Bell;
use crate::daemon::Daemon;
use crate::events::{AsyncEvent, Events};
use crate::state::State;
use crate::waiter::Waiter;

/// The shared parts of a context; see the module.
pub(crate) struct SharedContext {
    /// Locked before `state`, by calls that make, change or end an object, and never by those that
    /// post or poll.
    pub(crate) daemon: Mutex<Daemon>,
    pub(crate) state: Mutex<State>,
    /// Locked by the thread that waits for a completion event; no other thread waits for this
    /// lock.
    pub(crate) waiter: Mutex<Option<Waiter>>,
    pub(crate) bell: Bell,
    pub(crate) events: Arc<Events<AsyncEvent>>,
}

impl Drop for SharedContext {
    fn drop(&mut self) {
        self.state.lock().leave();
        self.report();
        self.bell.ring();
    }
}

impl SharedContext {
    /// Reports to the daemon what the objects have done.
    pub(crate) fn report(&self) {
        let mut daemon = self.daemon.lock();
        let changes = self.state.lock().changes();
        daemon.report(&changes);
    }
}
