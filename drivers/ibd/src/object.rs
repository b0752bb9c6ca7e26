//! The objects of a context, by handle. A handle is an index into one table for all types, as on
//! Linux: 0 is one, the type is checked, the lowest free one is given next.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use syscall::error::{EINVAL, ENOENT, ENOMEM, Error, Result};
use verbs_abi::records::{CqReport, Destination, QpReport, SrqReport};
use verbs_core::address::Gid;
use verbs_core::keys::Region;
use verbs_core::table::Id;

use crate::error::fail;

/// Most handles of a context: more than all the types of objects allow together.
const MAX_HANDLES: usize = 1 << 17;

/// A memory region.
#[derive(Clone, Copy, Debug)]
pub struct Mr {
    /// Its key here.
    pub key: u32,
    /// Its key as its program knows it: the same, or the one that the library gave.
    pub shown: u32,
    /// The registered memory.
    pub region: Region,
    /// The handle of its protection domain.
    pub pd: u32,
    /// Pages that were counted for it.
    pub pages: u64,
}

/// A completion queue.
#[derive(Clone, Copy, Debug)]
pub struct Cq {
    /// Its name in the rules.
    pub id: Id,
    /// The program's name for it.
    pub user_handle: u64,
    /// The number of its channel.
    pub channel: Option<u32>,
    /// Completions that it holds.
    pub cqe: u32,
    /// The last report of its library.
    pub report: CqReport,
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct Qp {
    /// Its number, which is its name in the rules.
    pub number: u32,
    /// The program's name for it.
    pub user_handle: u64,
    /// Handle of its protection domain, or of its XRC domain if it has that instead.
    pub pd: u32,
    /// Handles of the queues for sends and receives.
    pub send_cq: Option<u32>,
    /// As above.
    pub recv_cq: Option<u32>,
    /// Handle of the shared receive queue.
    pub srq: Option<u32>,
    /// Where its peer is, and the other path there.
    pub destination: Destination,
    /// As above.
    pub other: Destination,
    /// Multicast groups that it is in, with their local identifiers.
    pub groups: BTreeMap<Gid, u16>,
    /// Places for elements that were counted for it.
    pub slots: u64,
    /// The last report of its library.
    pub report: QpReport,
}

/// A shared receive queue.
#[derive(Clone, Copy, Debug)]
pub struct Srq {
    /// Its name in the rules.
    pub id: Id,
    /// The program's name for it.
    pub user_handle: u64,
    /// Handle of its protection domain.
    pub pd: u32,
    /// Places for elements that were counted for it.
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
    /// A memory window, by a key of it.
    Mw(u32),
    /// A domain of shared receive queues.
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
    /// Handles by the names of their objects in the rules.
    named: BTreeMap<Name, u32>,
}

/// The name of an object in the rules, of those that events are about.
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
            /// The object of this type.
            ///
            /// # Errors
            /// `ENOENT`: no object has the handle. `EINVAL`: one of another type has it.
            pub fn $get(&self, handle: u32) -> Result<&$kind> {
                match self.get(handle)? {
                    Object::$variant(object) => Ok(object),
                    _ => fail(EINVAL),
                }
            }

            /// The same, to be changed.
            ///
            /// # Errors
            /// As above.
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
    /// Puts an object in; its handle.
    ///
    /// # Errors
    /// `ENOMEM`.
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

    /// Takes an object out.
    pub fn remove(&mut self, handle: u32) -> Option<Object> {
        let (made, object) = self.slots.get_mut(handle as usize)?.take()?;
        self.order.remove(&made);
        if let Some(name) = object.name() {
            self.named.remove(&name);
        }
        self.free.insert(handle);
        Some(object)
    }

    /// The handle of the object with this name.
    pub fn handle_of(&self, name: Name) -> Option<u32> {
        self.named.get(&name).copied()
    }

    /// An object of any type.
    ///
    /// # Errors
    /// `ENOENT`.
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

    /// The name of an address handle in the rules.
    ///
    /// # Errors
    /// `ENOENT`, `EINVAL`.
    pub fn ah(&self, handle: u32) -> Result<Id> {
        match self.get(handle)? {
            Object::Ah(id) => Ok(*id),
            _ => fail(EINVAL),
        }
    }

    /// The name of a protection domain in the rules.
    ///
    /// # Errors
    /// `ENOENT`, `EINVAL`.
    pub fn pd(&self, handle: u32) -> Result<Id> {
        match self.get(handle)? {
            Object::Pd(id) => Ok(*id),
            _ => fail(EINVAL),
        }
    }

    /// The name of a domain of shared receive queues in the rules.
    ///
    /// # Errors
    /// `ENOENT`, `EINVAL`.
    pub fn xrcd(&self, handle: u32) -> Result<Id> {
        match self.get(handle)? {
            Object::Xrcd(id) => Ok(*id),
            _ => fail(EINVAL),
        }
    }

    /// A key of a memory window.
    ///
    /// # Errors
    /// `ENOENT`, `EINVAL`.
    pub fn mw(&self, handle: u32) -> Result<u32> {
        match self.get(handle)? {
            Object::Mw(key) => Ok(*key),
            _ => fail(EINVAL),
        }
    }

    /// All objects with their handles, those made last first.
    pub fn newest_first(&self) -> impl Iterator<Item = (u32, &Object)> {
        let handles = self.order.values().rev().copied();
        handles.filter_map(|handle| Some((handle, self.get(handle).ok()?)))
    }

    /// All objects with their handles, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Object)> {
        let slots = self.slots.iter().zip(0..);
        slots.filter_map(|(slot, handle)| slot.as_ref().map(|(_, object)| (handle, object)))
    }

    /// Objects.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
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
