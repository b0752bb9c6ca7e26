//! The state that all contexts of the device share: accounts, totals, and numbers to be given.

use alloc::collections::{BTreeMap, BTreeSet};

use syscall::error::{ENOMEM, Result};
use verbs_core::address::Gid;

use crate::error::fail;
use crate::identity::{MAX_GROUP_MEMBERS, MAX_GROUPS, MAX_MEMBERSHIPS, PortState};
use crate::limits::{Accounts, Kind};

/// Numbers of queue pairs below this one are of those that the daemon runs, which commands post to:
/// the ports of SCIF in them are ports that only root binds.
pub const FIRST_LIBRARY_QPN: u32 = 1024 << 8;
/// The ports of SCIF for protection domains of such queue pairs.
const PORTS: core::ops::Range<u16> = 256..512;

/// The counters since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Commands, and those of them that were refused.
    pub commands: u64,
    /// As above.
    pub refused: u64,
    /// Events that were passed to descriptors.
    pub async_events: u64,
    /// As above.
    pub completion_events: u64,
    /// Work requests that were posted by commands.
    pub posted: u64,
    /// Completions that were polled by commands.
    pub polled: u64,
    /// The traffic of libraries' queue pairs, by their reports: sends of all kinds and their
    /// bytes.
    pub sends: u64,
    /// As above.
    pub sent_bytes: u64,
    /// Messages that came, and their bytes.
    pub receives: u64,
    /// As above.
    pub received_bytes: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Bytes that libraries stored into windows of peers, and loaded from there.
    pub stored_bytes: u64,
    /// As above.
    pub loaded_bytes: u64,
}

/// Numbers, of which the lowest free one is given next.
#[derive(Debug, Default)]
pub struct Numbers {
    free: BTreeSet<u32>,
    next: u32,
}

impl Numbers {
    /// The lowest free number.
    pub fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// A number is free again.
    pub fn give_back(&mut self, number: u32) {
        self.free.insert(number);
    }
}

/// The state that all contexts share.
pub struct Shared {
    /// The number of this node.
    pub node: u16,
    /// The state of the port.
    pub port: PortState,
    /// The accounts of users.
    pub accounts: Accounts,
    /// The counters.
    pub totals: Totals,
    /// Numbers of completion channels: of all contexts, so that none is taken for another one's.
    pub channels: Numbers,
    /// Members of multicast groups.
    groups: BTreeMap<Gid, usize>,
    /// Ports of protection domains, and the one that is tried next.
    ports: BTreeSet<u16>,
    next_port: u16,
}

impl Shared {
    /// Of the node of this number, with nothing in use.
    pub fn new(node: u16) -> Shared {
        Shared {
            node,
            port: PortState::Down,
            accounts: Accounts::default(),
            totals: Totals::default(),
            channels: Numbers::default(),
            groups: BTreeMap::new(),
            ports: BTreeSet::new(),
            next_port: PORTS.start,
        }
    }

    /// A port for a protection domain of a user. One that was given back is not given at once:
    /// peers may still use it.
    ///
    /// # Errors
    /// `ENOMEM`: all are in use, or the user has too many.
    pub fn take_port(&mut self, uid: u32) -> Result<u16> {
        if self.ports.len() >= PORTS.len() {
            return fail(ENOMEM);
        }
        self.accounts.charge(uid, Kind::Ports, 1)?;
        loop {
            let port = self.next_port;
            self.next_port = match port + 1 {
                next if PORTS.contains(&next) => next,
                _ => PORTS.start,
            };
            if self.ports.insert(port) {
                return Ok(port);
            }
        }
    }

    /// Gives a port back.
    pub fn return_port(&mut self, uid: u32, port: u16) {
        if self.ports.remove(&port) {
            self.accounts.release(uid, Kind::Ports, 1);
        }
    }

    /// Counts a member of a group.
    ///
    /// # Errors
    /// `ENOMEM`: too many groups or members.
    pub fn join(&mut self, group: Gid) -> Result<()> {
        let members = self.groups.get(&group).copied().unwrap_or(0);
        let is_full = members >= MAX_GROUP_MEMBERS
            || (members == 0 && self.groups.len() >= MAX_GROUPS)
            || self.memberships() >= MAX_MEMBERSHIPS;
        if is_full {
            return fail(ENOMEM);
        }
        self.groups.insert(group, members + 1);
        Ok(())
    }

    /// Counts one less.
    pub fn leave(&mut self, group: &Gid) {
        if let Some(members) = self.groups.get_mut(group) {
            *members -= 1;
            if *members == 0 {
                self.groups.remove(group);
            }
        }
    }

    /// Members of all groups.
    pub fn memberships(&self) -> usize {
        self.groups.values().sum()
    }
}
