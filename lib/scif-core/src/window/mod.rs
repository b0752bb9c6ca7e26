//! Windows: registered memory as its owner knows it, and as the other end does.
//!
//! Each end of a connection has a registered address space. The owner of a window keeps it in its
//! *own* space; the other end keeps a copy of its page list, the *remote* window. Both tables are
//! the engine's, not the connection's: a window lives on after its connection as long as pages of
//! it are mapped or copied.

pub(crate) mod page_list;

use alloc::collections::BTreeMap;

use scif_abi::flags::Protection;
use scif_abi::limits::MAX_WINDOWS;
use scif_abi::{Error, NodeId};

use crate::base::config::Owner;
use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, EndpointId, RemoteWindowId, Ticket, WindowId};
use crate::base::pages::{Chunks, PinId};
use crate::base::table::Table;
use crate::window::page_list::PageListBuffer;

/// Where an own window stands with the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// ALLOC_REQ sent, not answered.
    Requested,
    /// REGISTER sent, not answered.
    Announced,
    /// Registered.
    Live,
    /// UNREGISTER sent, not answered. From here on nothing new may use the window.
    Unregistering,
    /// The peer still uses it, and will say when it no longer does.
    Used,
    /// The peer has forgotten it; own copies are still running.
    Gone,
}

impl WindowState {
    /// One word for the text files.
    pub fn name(self) -> &'static str {
        match self {
            WindowState::Requested | WindowState::Announced => "registering",
            WindowState::Live => "registered",
            WindowState::Unregistering => "unregistering",
            WindowState::Used | WindowState::Gone => "used",
        }
    }
}

/// An own window.
#[derive(Debug)]
pub(crate) struct Window {
    /// The connection in whose own space it is, while that space exists and until its offsets
    /// are free for another one.
    pub(crate) connection: Option<ConnectionId>,
    /// Both ends of that connection, for messages after it.
    pub(crate) ends: Ends,
    /// The peer's id of its end.
    pub(crate) peer: u64,
    /// Who registered it.
    pub(crate) owner: Owner,
    pub(crate) pin: PinId,
    pub(crate) is_charged: bool,
    pub(crate) offset: i64,
    pub(crate) protection: Protection,
    pub(crate) chunks: Chunks,
    pub(crate) state: WindowState,
    /// The peer's id of the window, once granted.
    pub(crate) remote: u64,
    /// Nobody wants it any more although it is still being registered: it goes as soon as it can.
    pub(crate) is_cancelled: bool,
    /// Own jobs that read or write it.
    pub(crate) jobs: u32,
    /// The call that waits for it.
    pub(crate) call: Option<Ticket>,
    /// The endpoint that was closed while the peer could read or write it.
    pub(crate) departing: Option<EndpointId>,
    /// When (ns) the peer was asked last.
    pub(crate) asked_at: u64,
}

/// A window of a peer, or the structure lent to a peer that is about to register one. Both have the
/// same id on the wire.
#[derive(Debug)]
pub(crate) enum Remote {
    Granted(PageListBuffer),
    Window(RemoteWindow),
}

/// What the owner of a remote window is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingReply {
    /// Nothing: it is registered.
    None,
    /// UNREGISTER_ACK.
    UnregisterAck,
    /// MUNMAP, as UNREGISTER has been answered by "still in use".
    Munmap,
}

/// A window of a peer.
#[derive(Debug)]
pub(crate) struct RemoteWindow {
    /// The connection in whose remote space it is; none once it is being unregistered or our end
    /// was closed.
    pub(crate) connection: Option<ConnectionId>,
    /// The connection whose clients copy to and from it, also after our end was closed.
    pub(crate) through: ConnectionId,
    pub(crate) ends: Ends,
    /// The owner's id of its end.
    pub(crate) owner: u64,
    /// The owner's id of the window.
    pub(crate) owner_window: u64,
    pub(crate) offset: i64,
    pub(crate) protection: Protection,
    pub(crate) chunks: Chunks,
    pub(crate) pending_reply: PendingReply,
    /// Clients may still copy to or from it on their own, so the owner has no answer yet.
    pub(crate) is_quiescing: bool,
    /// Pages mapped or got; a page mapped twice counts twice.
    pub(crate) mapped: u64,
    /// Those of them that libraries have mapped for copies, of which their programs do not know.
    pub(crate) cached: u64,
    /// Own jobs that read or write it.
    pub(crate) jobs: u32,
}

/// A stretch of a registered address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot<K> {
    /// The window.
    pub(crate) id: K,
    pub(crate) bytes: u64,
}

/// A registered address space: its windows by offset. They never overlap and end below 2^63.
#[derive(Debug)]
pub(crate) struct Space<K> {
    slots: BTreeMap<i64, Slot<K>>,
}

impl<K> Default for Space<K> {
    fn default() -> Space<K> {
        Space {
            slots: BTreeMap::new(),
        }
    }
}

impl<K: Copy> Space<K> {
    pub(crate) fn insert(&mut self, offset: i64, slot: Slot<K>) {
        self.slots.insert(offset, slot);
    }

    pub(crate) fn remove(&mut self, offset: i64) {
        self.slots.remove(&offset);
    }

    /// Forgets all windows; their ids.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = K> + use<K> {
        core::mem::take(&mut self.slots)
            .into_values()
            .map(|slot| slot.id)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Slot<K>)> {
        self.slots.iter().map(|(offset, slot)| (*offset, *slot))
    }

    /// The window that holds `offset`.
    pub(crate) fn holding(&self, offset: i64) -> Option<(i64, Slot<K>)> {
        let (start, slot) = self.slots.range(..=offset).next_back()?;
        let into = offset.checked_sub(*start)?;
        (into.unsigned_abs() < slot.bytes).then_some((*start, *slot))
    }

    /// The windows that have bytes in `offset..end`, ascending.
    pub(crate) fn overlapping(
        &self,
        offset: i64,
        end: i64,
    ) -> impl Iterator<Item = (i64, Slot<K>)> + '_ {
        let before = self.holding(offset).filter(|(start, _)| *start < offset);
        let inside = self.slots.range(offset..end.max(offset));
        before
            .into_iter()
            .chain(inside.map(|(start, slot)| (*start, *slot)))
    }

    /// The windows that hold `offset..offset + length` without a gap, ascending.
    ///
    /// # Errors
    /// `ENXIO`: there is a gap, or the range has an end that is no offset. Known only once the
    /// iterator comes to it.
    pub(crate) fn covering(
        &self,
        offset: i64,
        length: u64,
    ) -> impl Iterator<Item = Result<(i64, Slot<K>), Error>> + '_ {
        let end = range_end(offset, length);
        let mut next = offset;
        core::iter::from_fn(move || {
            let Some(end) = end else {
                // Said once: the caller stops at an error.
                return Some(Err(Error::NoSuchAddress));
            };
            if next >= end {
                return None;
            }
            let found = self.holding(next);
            let Some((start, slot)) = found.filter(|(start, _)| next == offset || *start == next)
            else {
                return Some(Err(Error::NoSuchAddress));
            };
            next = start.saturating_add_unsigned(slot.bytes);
            Some(Ok((start, slot)))
        })
    }
}

/// The end of a range of offsets; `None` when it is negative or has none.
pub(crate) fn range_end(offset: i64, length: u64) -> Option<i64> {
    if offset < 0 {
        return None;
    }
    offset.checked_add_unsigned(length)
}

/// What one node makes us keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerUsage {
    /// Pages lent for window structures.
    pub(crate) granted_pages: usize,
    /// Windows and loans.
    pub(crate) windows: usize,
    /// Chunks of its windows.
    pub(crate) chunks: usize,
    /// Fences of it that wait here.
    pub(crate) fences: usize,
}

/// All windows of an engine.
pub(crate) struct Windows {
    pub(crate) local: Table<WindowId, Window>,
    pub(crate) remote: Table<RemoteWindowId, Remote>,
    peer_usages: BTreeMap<NodeId, PeerUsage>,
}

impl Windows {
    pub(crate) fn new() -> Windows {
        Windows {
            local: Table::new(MAX_WINDOWS),
            // Each node has a limit of its own; this one only keeps indices in range.
            remote: Table::new(u32::MAX as usize),
            peer_usages: BTreeMap::new(),
        }
    }

    /// The window of a peer with this id.
    pub(crate) fn remote(&self, id: RemoteWindowId) -> Option<&RemoteWindow> {
        match self.remote.get(id) {
            Some(Remote::Window(window)) => Some(window),
            _ => None,
        }
    }

    /// The window of a peer with this id.
    pub(crate) fn remote_mut(&mut self, id: RemoteWindowId) -> Option<&mut RemoteWindow> {
        match self.remote.get_mut(id) {
            Some(Remote::Window(window)) => Some(window),
            _ => None,
        }
    }

    /// The structure with this id that is lent.
    pub(crate) fn page_list(&self, id: RemoteWindowId) -> Option<&PageListBuffer> {
        match self.remote.get(id) {
            Some(Remote::Granted(page_list)) => Some(page_list),
            _ => None,
        }
    }

    /// What `node` makes us keep.
    pub(crate) fn peer_usage(&self, node: NodeId) -> PeerUsage {
        self.peer_usages.get(&node).copied().unwrap_or_default()
    }

    pub(crate) fn peer_usage_mut(&mut self, node: NodeId) -> &mut PeerUsage {
        self.peer_usages.entry(node).or_default()
    }

    pub(crate) fn peer_usages(&self) -> impl Iterator<Item = (NodeId, PeerUsage)> {
        self.peer_usages
            .iter()
            .map(|(node, peer_usage)| (*node, *peer_usage))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::{Slot, Space};
    use scif_abi::Error;

    fn space(slots: &[(i64, u64)]) -> Space<u64> {
        let mut space = Space::default();
        for (id, (offset, bytes)) in slots.iter().enumerate() {
            let id = id as u64;
            space.insert(*offset, Slot { id, bytes: *bytes });
        }
        space
    }

    fn ids(space: &Space<u64>, offset: i64, length: u64) -> Result<Vec<u64>, Error> {
        space
            .covering(offset, length)
            .map(|slot| slot.map(|(_, slot)| slot.id))
            .collect()
    }

    #[test]
    fn a_range_may_cover_neighbours_but_no_gap() {
        let space = space(&[(0, 10), (10, 20), (40, 5)]);
        assert_eq!(ids(&space, 0, 10), Ok(vec![0]));
        assert_eq!(ids(&space, 9, 2), Ok(vec![0, 1]));
        assert_eq!(ids(&space, 5, 25), Ok(vec![0, 1]));
        assert_eq!(ids(&space, 44, 1), Ok(vec![2]));
        for (offset, length) in [
            (5, 26),
            (30, 1),
            (-1, 2),
            (44, 2),
            (i64::MAX, 2),
            (0, 1 << 63),
        ] {
            assert_eq!(ids(&space, offset, length), Err(Error::NoSuchAddress));
        }
    }

    #[test]
    fn overlap_is_found_at_both_ends_and_inside() {
        let space = space(&[(0, 10), (20, 10), (40, 10)]);
        let found = |offset, end| -> Vec<i64> {
            space
                .overlapping(offset, end)
                .map(|(start, _)| start)
                .collect()
        };
        assert_eq!(found(10, 20), []);
        assert_eq!(found(9, 20), [0]);
        assert_eq!(found(10, 21), [20]);
        assert_eq!(found(5, 45), [0, 20, 40]);
        assert_eq!(found(22, 23), [20]);
        assert_eq!(found(50, i64::MAX), []);
    }
}
