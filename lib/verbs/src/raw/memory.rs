//! Protection domains, memory regions and memory windows.

use verbs_abi::command::Command;
use verbs_abi::records as abi;
use verbs_core::keys;
use verbs_core::keys::WindowType;
use verbs_core::table::Id;

use super::{Backing, Context};
use crate::daemon::{Daemon, Name};
use crate::engine::Engine;
use crate::error::{Error, Result};

impl Context {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn alloc_pd(&self) -> Result<Id> {
        let mut daemon = self.daemon();
        let pd = self.lock().engine.core.alloc_pd()?;
        let request = abi::AllocPd::default();
        let name = Name::Pd(pd);
        let made = daemon.make::<_, abi::AllocPdAnswer>(name, Command::AllocPd, &request, &[]);
        let mut state = self.lock();
        if let Err(error) = made {
            state.engine.core.dealloc_pd(pd)?;
            return Err(error);
        }
        state.users.insert(pd, 0);
        Ok(pd)
    }

    /// Frees a protection domain.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: an object belongs to it.
    pub fn dealloc_pd(&self, pd: Id) -> Result<()> {
        let mut daemon = self.daemon();
        let mut state = self.lock();
        match state.users.get(&pd) {
            None => return Err(Error::NotFound),
            Some(0) => {}
            Some(_) => return Err(Error::Busy),
        }
        state.close_lanes(pd);
        state.engine.core.dealloc_pd(pd)?;
        state.users.remove(&pd);
        drop(state);
        daemon.end(Name::Pd(pd));
        Ok(())
    }

    /// Registers memory: `region`, whose addresses lie in `held`. Returns its key, which is both
    /// the local and the remote one.
    ///
    /// # Errors
    /// `NotFound`: there is no such domain. `Invalid`: the length, the access, addresses with
    /// different offsets in a page unless they count from 0, or not in `held`. `NoMemory`.
    pub fn register(&self, region: keys::Region, held: Backing) -> Result<u32> {
        check(&region, &held)?;
        let mut daemon = self.daemon();
        let request = abi::RegMr {
            response: 0,
            start: region.start,
            length: region.length,
            hca_va: region.iova,
            pd_handle: daemon.handle(Name::Pd(region.pd))?,
            access_flags: region.access.bits(),
        };
        let key = self.lock().engine.core.register(region)?;
        let (name, command) = (Name::region(key), Command::RegMr);
        let made = daemon.make::<_, abi::RegMrAnswer>(name, command, &request, &[key, 0]);
        let mut state = self.lock();
        if let Err(error) = made {
            let Engine { core, lanes, .. } = &mut state.engine;
            core.deregister(lanes, key)?;
            return Err(error);
        }
        let start = held.range().address();
        state.engine.lanes.memory.insert(key, start, held);
        state.count(region.pd, 1);
        Ok(key)
    }

    /// Deregisters memory, and returns it. Once this returns, no peer copies to or from it.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: a memory window is bound to it.
    pub fn deregister(&self, key: u32) -> Result<Backing> {
        let mut daemon = self.daemon();
        let mut state = self.lock();
        let Engine { core, lanes, .. } = &mut state.engine;
        let pd = core.region(key).ok_or(Error::NotFound)?.pd;
        core.deregister(lanes, key)?;
        let held = lanes.memory.remove(key).ok_or(Error::NotFound)?;
        state.count(pd, -1);
        self.advance(&mut state);
        drop(state);
        daemon.end(Name::region(key));
        Ok(held)
    }

    /// Registers memory again in place of a region, whose key is no longer valid, and returns the
    /// new key. `held`: the memory, if that changes.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: a memory window is bound to the region. Those of
    /// [`register`](Self::register).
    pub fn reregister(&self, key: u32, new: keys::Region, held: Option<Backing>) -> Result<u32> {
        if let Some(held) = &held {
            check(&new, held)?;
        }
        let mut daemon = self.daemon();
        let state = self.lock();
        let old = *state.engine.core.region(key).ok_or(Error::NotFound)?;
        state.engine.core.check_unbound(key)?;
        drop(state);
        rereg(&mut daemon, key, &new, keys::next_key(key))?;
        let mut state = self.lock();
        let Engine { core, lanes, .. } = &mut state.engine;
        let fresh = match core.reregister(lanes, key, new) {
            Ok(fresh) => fresh,
            Err(error) => {
                // A window was bound in the meantime.
                drop(state);
                rereg(&mut daemon, key, &old, key)?;
                return Err(error.into());
            }
        };
        let former = lanes.memory.remove(key).ok_or(Error::NotFound)?;
        let held = held.unwrap_or(former);
        lanes.memory.insert(fresh, held.range().address(), held);
        state.count(old.pd, -1);
        state.count(new.pd, 1);
        self.advance(&mut state);
        Ok(fresh)
    }

    /// The memory region that has this key.
    pub fn region(&self, key: u32) -> Option<keys::Region> {
        self.lock().engine.core.region(key).copied()
    }

    /// Makes a memory window and returns its key.
    ///
    /// # Errors
    /// `NotFound`: there is no such domain. `NoMemory`.
    pub fn alloc_mw(&self, pd: Id, kind: WindowType) -> Result<u32> {
        let mut daemon = self.daemon();
        let request = abi::AllocMw {
            pd_handle: daemon.handle(Name::Pd(pd))?,
            mw_type: match kind {
                WindowType::One => 1,
                WindowType::Two => 2,
            },
            ..abi::AllocMw::default()
        };
        let key = self.lock().engine.core.alloc_mw(pd, kind)?;
        let name = Name::window(key);
        let made = daemon.make::<_, abi::AllocMwAnswer>(name, Command::AllocMw, &request, &[]);
        let mut state = self.lock();
        if let Err(error) = made {
            let Engine { core, lanes, .. } = &mut state.engine;
            core.dealloc_mw(lanes, key)?;
            return Err(error);
        }
        state.count(pd, 1);
        Ok(key)
    }

    /// Frees a memory window of a protection domain, named by any of its keys.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn dealloc_mw(&self, pd: Id, key: u32) -> Result<()> {
        let mut daemon = self.daemon();
        let mut state = self.lock();
        let Engine { core, lanes, .. } = &mut state.engine;
        core.dealloc_mw(lanes, key)?;
        state.count(pd, -1);
        self.advance(&mut state);
        drop(state);
        daemon.end(Name::window(key));
        Ok(())
    }
}

/// Makes the daemon change the memory region of a key to `new`, whose key is `fresh`.
fn rereg(daemon: &mut Daemon, key: u32, new: &keys::Region, fresh: u32) -> Result<()> {
    let request = abi::ReregMr {
        response: 0,
        mr_handle: daemon.handle(Name::region(key))?,
        flags: abi::REREG_TRANSLATION | abi::REREG_PD | abi::REREG_ACCESS,
        start: new.start,
        length: new.length,
        hca_va: new.iova,
        pd_handle: daemon.handle(Name::Pd(new.pd))?,
        access_flags: new.access.bits(),
    };
    daemon.reregister(&request, fresh)
}

/// Checks that a region lies in the memory `held`.
fn check(region: &keys::Region, held: &Backing) -> Result<()> {
    let range = held.range();
    let ahead = (region.start as usize).checked_sub(range.address());
    let inside = ahead.and_then(|ahead| range.part(ahead, region.length as usize).ok());
    inside.map(drop).ok_or(Error::Invalid)
}
