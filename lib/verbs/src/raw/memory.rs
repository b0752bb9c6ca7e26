//! Protection domains, memory regions and memory windows.

use verbs_core::keys;
use verbs_core::keys::WindowType;
use verbs_core::table::Id;

use super::{Context, Held};
use crate::error::{Error, Result};
use crate::state::State;

impl Context {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn alloc_pd(&self) -> Result<Id> {
        let mut state = self.lock();
        let pd = state.core.alloc_pd()?;
        state.users.insert(pd, 0);
        Ok(pd)
    }

    /// Ends a protection domain.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: something belongs to it.
    pub fn dealloc_pd(&self, pd: Id) -> Result<()> {
        let mut state = self.lock();
        match state.users.get(&pd) {
            None => return Err(Error::NotFound),
            Some(0) => {}
            Some(_) => return Err(Error::Busy),
        }
        state.close_lanes(pd);
        state.core.dealloc_pd(pd)?;
        state.users.remove(&pd);
        Ok(())
    }

    /// Registers memory: `region` says which, in addresses of `held`. Its key, local and remote.
    ///
    /// # Errors
    /// `NotFound`: the domain. `Invalid`: the length, the access, addresses with different offsets
    /// in a page, or not in `held`. `NoMemory`.
    pub fn register(&self, region: keys::Region, held: Held) -> Result<u32> {
        check(&region, &held)?;
        let mut state = self.lock();
        let key = state.core.register(region)?;
        state.lanes.memory.insert(key, held);
        state.count(region.pd, 1);
        Ok(key)
    }

    /// Ends a memory region; what it was made of. When this returns nobody copies to or from it.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: a memory window is bound to it.
    pub fn deregister(&self, key: u32) -> Result<Held> {
        let mut state = self.lock();
        let State { core, lanes, .. } = &mut *state;
        let pd = core.region(key).ok_or(Error::NotFound)?.pd;
        core.deregister(lanes, key)?;
        let held = lanes.memory.remove(key).ok_or(Error::NotFound)?;
        state.count(pd, -1);
        self.advance(&mut state);
        Ok(held)
    }

    /// Registers memory anew in place of a region, whose key is not valid any more; `held` is the
    /// memory if that changes. The new key.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: a memory window is bound to the region. As
    /// [`register`](Self::register).
    pub fn reregister(&self, key: u32, new: keys::Region, held: Option<Held>) -> Result<u32> {
        if let Some(held) = &held {
            check(&new, held)?;
        }
        let mut state = self.lock();
        let State { core, lanes, .. } = &mut *state;
        let old = *core.region(key).ok_or(Error::NotFound)?;
        let fresh = core.reregister(lanes, key, new)?;
        let former = lanes.memory.remove(key).ok_or(Error::NotFound)?;
        lanes.memory.insert(fresh, held.unwrap_or(former));
        state.count(old.pd, -1);
        state.count(new.pd, 1);
        self.advance(&mut state);
        Ok(fresh)
    }

    /// A memory region.
    pub fn region(&self, key: u32) -> Option<keys::Region> {
        self.lock().core.region(key).copied()
    }

    /// Makes a memory window; its key.
    ///
    /// # Errors
    /// `NotFound`: the domain. `NoMemory`.
    pub fn alloc_mw(&self, pd: Id, kind: WindowType) -> Result<u32> {
        let mut state = self.lock();
        let key = state.core.alloc_mw(pd, kind)?;
        state.count(pd, 1);
        Ok(key)
    }

    /// Ends a memory window of a protection domain by any of its keys.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn dealloc_mw(&self, pd: Id, key: u32) -> Result<()> {
        let mut state = self.lock();
        let State { core, lanes, .. } = &mut *state;
        core.dealloc_mw(lanes, key)?;
        state.count(pd, -1);
        self.advance(&mut state);
        Ok(())
    }
}

/// Checks that a region lies in memory.
fn check(region: &keys::Region, held: &Held) -> Result<()> {
    let range = held.range();
    let ahead = (region.start as usize).checked_sub(range.address());
    let inside = ahead.and_then(|ahead| range.part(ahead, region.length as usize).ok());
    inside.map(drop).ok_or(Error::Invalid)
}
