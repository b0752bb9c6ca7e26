//! The objects of a context, by handle.
//!
//! A handle is an index into one table for objects of all types, as on Linux: 0 is a valid handle,
//! each use checks the type, and the lowest free handle is given next.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use syscall::error::{EINVAL, ENOENT, ENOMEM, Error, Result};
use verbs_abi::records::{CqReport, Destination, QpReport, SrqReport};
use verbs_core::address::Gid;
use verbs_core::keys::Region;
use verbs_core::table::Id;

use crate::error::fail;

/// Most handles of a context. It is more than the limits of all object types allow together.
const MAX_HANDLES: usize = 1 << 17;

/// A memory region.
#[derive(Clone, Copy, Debug)]
pub struct Mr {
    /// Its key in `verbs-core`.
    pub key: u32,
    /// The key that the program sees: `key`, or the one that its library has chosen.
    pub shown: u32,
    /// The registered memory.
    pub region: Region,
    /// The handle of its protection domain.
    pub pd: u32,
    /// Number of pages charged for it.
    pub pages: u64,
}

/// A completion queue.
#[derive(Clone, Copy, Debug)]
pub struct Cq {
    /// Its id in `verbs-core`.
    pub id: Id,
    /// The program's name for it.
    pub user_handle: u64,
    /// The number of its completion channel, if it has one.
    pub channel: Option<u32>,
    /// Number of completions that it has room for.
    pub cqe: u32,
    /// The last report of its library.
    pub report: CqReport,
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct Qp {
    /// Its number, which is also its name in `verbs-core`.
    pub number: u32,
    /// The program's name for it.
    pub user_handle: u64,
    /// Handle of its protection domain; of its XRC domain if it is of the type XRC_RECV.
    pub pd: u32,
    /// Handle of the completion queue for sends.
    pub send_cq: Option<u32>,
    /// Handle of the completion queue for receives.
    pub recv_cq: Option<u32>,
    /// Handle of its shared receive queue, if it has one.
    pub srq: Option<u32>,
    /// The address of its peer.
    pub destination: Destination,
    /// The address of its peer on the alternate path.
    pub other: Destination,
    /// The multicast groups it has joined, each with the local identifier (LID) it was joined by.
    pub groups: BTreeMap<Gid, u16>,
    /// Number of places for scatter/gather elements charged for it.
    pub slots: u64,
    /// The last report of its library.
    pub report: QpReport,
}

/// A shared receive queue.
#[derive(Clone, Copy, Debug)]
pub struct Srq {
    /// Its id in `verbs-core`.
    pub id: Id,
    /// The program's name for it.
    pub user_handle: u64,
    /// Handle of its protection domain.
    pub pd: u32,
    /// Number of places for scatter/gather elements charged for it.
    pub slots: u64,
    /// The last report of its library.
    pub report: SrqReport,
}

/// An object.
#[derive(Clone, Debug)]
pub enum Object {
    /// A protection domain.
    Pd(Id),
    /// A memory region.
    Mr(Mr),
    /// A completion queue.
    Cq(Cq),
    /// A queue pair.
    Qp(Qp),
    /// A shared receive queue.
    Srq(Srq),
    /// An address handle.
    Ah(Id),
    /// A memory window, by one of its keys.
    Mw(u32),
    /// An XRC domain.
    Xrcd(Id),
}

/// Objects by handle.
#[derive(Debug, Default)]
pub struct Table {
    slots: Vec<Option<(u64, Object)>>,
    free: BTreeSet<u32>,
    /// Handles by the order in which their objects were made.
    order: BTreeMap<u64, u32>,
    made: u64,
    /// Handles by the names of their objects in `verbs-core`.
    named: BTreeMap<Name, u32>,
}

/// The name in `verbs-core` of an object that events can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A completion queue.
    Cq(Id),
    /// A queue pair.
    Qp(u32),
    /// A shared receive queue.
    Srq(Id),
}

impl Object {
    fn name(&self) -> Option<Name> {
        match self {
            Object::Cq(cq) => Some(Name::Cq(cq.id)),
            Object::Qp(qp) => Some(Name::Qp(qp.number)),
            Object::Srq(srq) => Some(Name::Srq(srq.id)),
            _ => None,
        }
    }
}

macro_rules! typed {
    ($($get:ident, $get_mut:ident: $variant:ident($kind:ty);)*) => {
        $(
            /// Returns the object of this type with this handle.
            ///
            /// # Errors
            /// `ENOENT`: no object has the handle. `EINVAL`: one of another type has it.
            pub fn $get(&self, handle: u32) -> Result<&$kind> {
                match self.get(handle)? {
                    Object::$variant(object) => Ok(object),
                    _ => fail(EINVAL),
                }
            }

            /// Returns the object of this type with this handle, for changes.
            ///
            /// # Errors
            /// `ENOENT`: no object has the handle. `EINVAL`: one of another type has it.
            pub fn $get_mut(&mut self, handle: u32) -> Result<&mut $kind> {
                match self.get_mut(handle)? {
                    Object::$variant(object) => Ok(object),
                    _ => fail(EINVAL),
                }
            }
        )*
    };
}

impl Table {
    /// Puts an object into the table and returns its handle.
    ///
    /// # Errors
    /// `ENOMEM`: the table is full.
    pub fn insert(&mut self, object: Object) -> Result<u32> {
        let handle = match self.free.pop_first() {
            Some(handle) => handle,
            None if self.slots.len() < MAX_HANDLES => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
            None => return fail(ENOMEM),
        };
        self.made += 1;
        self.order.insert(self.made, handle);
        if let Some(name) = object.name() {
            self.named.insert(name, handle);
        }
        if let Some(slot) = self.slots.get_mut(handle as usize) {
            *slot = Some((self.made, object));
        }
        Ok(handle)
    }

    /// Takes an object out of the table.
    pub fn remove(&mut self, handle: u32) -> Option<Object> {
        let (made, object) = self.slots.get_mut(handle as usize)?.take()?;
        self.order.remove(&made);
        if let Some(name) = object.name() {
            self.named.remove(&name);
        }
        self.free.insert(handle);
        Some(object)
    }

    /// Returns the handle of the object with this name.
    pub fn handle_of(&self, name: Name) -> Option<u32> {
        self.named.get(&name).copied()
    }

    /// Returns the object with this handle, of whatever type.
    ///
    /// # Errors
    /// `ENOENT`: no object has the handle.
    pub fn get(&self, handle: u32) -> Result<&Object> {
        let slot = self.slots.get(handle as usize).and_then(Option::as_ref);
        slot.map(|(_, object)| object).ok_or(Error::new(ENOENT))
    }

    fn get_mut(&mut self, handle: u32) -> Result<&mut Object> {
        let slot = self.slots.get_mut(handle as usize).and_then(Option::as_mut);
        slot.map(|(_, object)| object).ok_or(Error::new(ENOENT))
    }

    typed! {
        mr, mr_mut: Mr(Mr);
        cq, cq_mut: Cq(Cq);
        qp, qp_mut: Qp(Qp);
        srq, srq_mut: Srq(Srq);
    }

    /// Returns the id in `verbs-core` of an address handle.
    ///
    /// # Errors
    /// `ENOENT`: no object has the handle. `EINVAL`: one of another type has it.
    pub fn ah(&self, handle: u32) -> Result<Id> {
        match self.get(handle)? {
            Object::Ah(id) => Ok(*id),
            _ => fail(EINVAL),
        }
    }

    /// Returns the id in `verbs-core` of a protection domain.
    ///
    /// # Errors
    /// `ENOENT`: no object has the handle. `EINVAL`: one of another type has it.
    pub fn pd(&self, handle: u32) -> Result<Id> {
        match self.get(handle)? {
            Object::Pd(id) => Ok(*id),
            _ => fail(EINVAL),
        }
    }

    /// Returns the id in `verbs-core` of an XRC domain.
    ///
    /// # Errors
    /// `ENOENT`: no object has the handle. `EINVAL`: one of another type has it.
    pub fn xrcd(&self, handle: u32) -> Result<Id> {
        match self.get(handle)? {
            Object::Xrcd(id) => Ok(*id),
            _ => fail(EINVAL),
        }
    }

    /// Returns a key of a memory window.
    ///
    /// # Errors
    /// `ENOENT`: no object has the handle. `EINVAL`: one of another type has it.
    pub fn mw(&self, handle: u32) -> Result<u32> {
        match self.get(handle)? {
            Object::Mw(key) => Ok(*key),
            _ => fail(EINVAL),
        }
    }

    /// Iterates over all objects with their handles; the object that was made last comes first.
    pub fn newest_first(&self) -> impl Iterator<Item = (u32, &Object)> {
        let handles = self.order.values().rev().copied();
        handles.filter_map(|handle| Some((handle, self.get(handle).ok()?)))
    }

    /// Iterates over all objects with their handles, in the order of the handles.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Object)> {
        let slots = self.slots.iter().zip(0..);
        slots.filter_map(|(slot, handle)| slot.as_ref().map(|(_, object)| (handle, object)))
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Object, Table};
    use syscall::error::{EINVAL, ENOENT, Error};
    use verbs_core::table::Id;

    #[test]
    fn the_lowest_free_handle_is_given_next() {
        let mut table = Table::default();
        for handle in 0..4 {
            assert_eq!(table.insert(Object::Xrcd(Id(0))), Ok(handle));
        }
        assert!(table.remove(2).is_some() && table.remove(0).is_some());
        assert!(table.remove(2).is_none() && table.remove(9).is_none());
        assert_eq!(table.insert(Object::Pd(Id(5))), Ok(0));
        assert_eq!((table.pd(0), table.len()), (Ok(Id(5)), 3));
        assert_eq!(table.xrcd(0), Err(Error::new(EINVAL)));
        assert_eq!(table.xrcd(2), Err(Error::new(ENOENT)));
        let newest: Vec<u32> = table.newest_first().map(|(handle, _)| handle).collect();
        assert_eq!(newest, [0, 3, 1]);
        assert_eq!(table.insert(Object::Xrcd(Id(0))), Ok(2));
    }
}
