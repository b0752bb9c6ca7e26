//! Handles that nobody may have: on Redox's kernel the answer to an open or dup whose caller was
//! killed meanwhile is dropped, and no message says that the handle is closed.
//!
//! A handle counts as unclaimed until the first request for it. When its maker's process has gone
//! by then, nobody is supposed to have it, and it is closed. A process that passed a descriptor on
//! untouched and ended may have a heir that has not used it either; so that this is unlikely, only
//! makers are looked for that end in the handle's first minute, and the heir has [`LEAST_AGE`]
//! looks' time for a first request of any kind.

use alloc::collections::BTreeMap;

/// Looks, one a second, before a maker is looked for at all.
const LEAST_AGE: u32 = 5;
/// Looks after which a handle counts as claimed.
const MOST_AGE: u32 = 60;

struct Unclaimed {
    /// The process it was made for.
    maker: usize,
    /// Looks since then.
    age: u32,
}

/// The handles that have had no request yet.
#[derive(Default)]
pub(super) struct UnclaimedHandles {
    /// Whether any are noted.
    is_on: bool,
    handles: BTreeMap<usize, Unclaimed>,
}

impl UnclaimedHandles {
    /// Notes handles from now on.
    pub fn start(&mut self) {
        self.is_on = true;
    }

    /// Whether a look has anything to look at.
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// A handle was made for a process.
    pub fn made(&mut self, handle: usize, maker: usize) {
        if self.is_on {
            self.handles.insert(handle, Unclaimed { maker, age: 0 });
        }
    }

    /// A request for a handle came.
    pub fn claim(&mut self, handle: usize) {
        if !self.handles.is_empty() {
            self.handles.remove(&handle);
        }
    }

    /// A look begins.
    pub fn age(&mut self) {
        self.handles.retain(|_, handle| {
            handle.age += 1;
            handle.age <= MOST_AGE
        });
    }

    /// The processes to look for, perhaps more than once.
    pub fn makers(&self) -> impl Iterator<Item = usize> {
        let old = |handle: &&Unclaimed| handle.age >= LEAST_AGE;
        self.handles.values().filter(old).map(|handle| handle.maker)
    }

    /// The handles whose makers are among `gone`, to be closed.
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
