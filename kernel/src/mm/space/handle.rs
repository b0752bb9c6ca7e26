//! References of those who may change an address space without running in it.

use alloc::sync::Arc;
use core::ops::Deref;
use core::sync::atomic::Ordering;

use super::AddrSpace;

/// Such a reference. A space that has neither these nor contexts is only borrowed from: nobody can
/// change it any more, and it needs no pages of others.
#[derive(Debug)]
pub struct SpaceHandle(Arc<AddrSpace>);

impl SpaceHandle {
    /// A handle of this space.
    pub fn new(space: Arc<AddrSpace>) -> Self {
        space.handles.fetch_add(1, Ordering::Relaxed);
        Self(space)
    }
}

impl Clone for SpaceHandle {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for SpaceHandle {
    fn drop(&mut self) {
        let is_last = self.0.handles.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && self.0.users.load(Ordering::Relaxed) == 0 {
            self.0.cut_ties();
        }
    }
}

impl Deref for SpaceHandle {
    type Target = Arc<AddrSpace>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
