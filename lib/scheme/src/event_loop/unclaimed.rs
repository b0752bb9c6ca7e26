//! Handles that perhaps no process has: Redox's kernel drops the answer to an open or dup whose
//! caller was killed meanwhile, and no message says that the handle is closed.
//!
//! A handle counts as unclaimed until the first request for it. If the process that it was made
//! for has ended by then, presumably no process has it, and the loop closes it. But a process may
//! have passed on an unused descriptor and ended, and the receiver may not have used the
//! descriptor either. To make that unlikely, only processes that end in the handle's first minute
//! count, and the receiver has the time of [`LEAST_AGE`] looks for a first request of any kind.

use alloc::collections::BTreeMap;

/// Looks, one a second, before the process of a handle is checked at all.
const LEAST_AGE: u32 = 5;
/// Looks after which a handle counts as claimed.
const MOST_AGE: u32 = 60;

struct Unclaimed {
    /// The process that the handle was made for.
    maker: usize,
    /// Looks since the handle was made.
    age: u32,
}

/// The handles for which no request has come yet.
#[derive(Default)]
pub(super) struct UnclaimedHandles {
    /// Whether handles are recorded.
    is_on: bool,
    handles: BTreeMap<usize, Unclaimed>,
}

impl UnclaimedHandles {
    /// Records handles from now on.
    pub fn start(&mut self) {
        self.is_on = true;
    }

    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Records a handle that was made for a process.
    pub fn made(&mut self, handle: usize, maker: usize) {
        if self.is_on {
            self.handles.insert(handle, Unclaimed { maker, age: 0 });
        }
    }

    /// Forgets a handle: a request for it has come.
    pub fn claim(&mut self, handle: usize) {
        if !self.handles.is_empty() {
            self.handles.remove(&handle);
        }
    }

    /// Counts a look, and forgets the handles that are too old.
    pub fn age(&mut self) {
        self.handles.retain(|_, handle| {
            handle.age += 1;
            handle.age <= MOST_AGE
        });
    }

    /// The processes to check, perhaps with duplicates.
    pub fn makers(&self) -> impl Iterator<Item = usize> {
        let old = |handle: &&Unclaimed| handle.age >= LEAST_AGE;
        self.handles.values().filter(old).map(|handle| handle.maker)
    }

    /// The handles of processes in `gone`, which the loop closes.
    pub fn of_gone(&self, gone: &[usize]) -> impl Iterator<Item = usize> {
        let is_of_gone =
            |handle: &Unclaimed| handle.age >= LEAST_AGE && gone.contains(&handle.maker);
        let found = self
            .handles
            .iter()
            .filter(move |(_, handle)| is_of_gone(handle));
        found.map(|(&handle, _)| handle)
    }
}
