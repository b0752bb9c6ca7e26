//! The state that all contexts of the device share: accounts of users, counters, and numbers not
//! yet given out.

use alloc::collections::BTreeSet;

use syscall::error::{ENOMEM, Result};

use crate::error::fail;
use crate::identity::{MAX_MEMBERSHIPS, PortState};
use crate::limits::{Accounts, Kind};

/// The lowest number of a queue pair that a library runs. The daemon runs those with lower
/// numbers, which commands post to: the SCIF port in such a number is one that only root can bind.
pub const FIRST_LIBRARY_QPN: u32 = 1024 << 8;
/// The user who is not bound by what others hold.
const ROOT: u32 = 0;
/// The SCIF ports for protection domains of queue pairs that the daemon runs.
const PORTS: core::ops::Range<u16> = 256..512;

/// The counters since the daemon began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Commands, those that were refused included.
    pub commands: u64,
    /// Commands that were refused.
    pub refused: u64,
    /// Asynchronous events that were passed to descriptors.
    pub async_events: u64,
    /// Completion events that were passed to descriptors.
    pub completion_events: u64,
    /// Work requests that were posted by commands.
    pub posted: u64,
    /// Completions that were polled by commands.
    pub polled: u64,
    /// Sends of all kinds, of libraries' queue pairs by their reports and of those that the daemon
    /// runs.
    pub sends: u64,
    /// Bytes of these sends.
    pub sent_bytes: u64,
    /// Messages that were received.
    pub receives: u64,
    /// Bytes of these messages.
    pub received_bytes: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Bytes that queue pairs have stored into windows of peers.
    pub stored_bytes: u64,
    /// Bytes that they have loaded from windows of peers.
    pub loaded_bytes: u64,
}

/// Numbers to give out; the lowest free one is given next.
#[derive(Debug, Default)]
pub struct Numbers {
    free: BTreeSet<u32>,
    next: u32,
}

impl Numbers {
    /// Takes the lowest free number.
    pub fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Makes a number free again.
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
    /// Numbers of completion channels. All contexts share them, so that a number never names
    /// channels of two contexts.
    pub channels: Numbers,
    /// SCIF ports of protection domains that are in use.
    ports: BTreeSet<u16>,
    next_port: u16,
}

impl Shared {
    /// The state of a node with this number, with nothing in use.
    pub fn new(node: u16) -> Shared {
        Shared {
            node,
            port: PortState::Down,
            accounts: Accounts::default(),
            totals: Totals::default(),
            channels: Numbers::default(),
            ports: BTreeSet::new(),
            next_port: PORTS.start,
        }
    }

    /// Takes a SCIF port for a protection domain of a user. It tries the ports in turn, so that
    /// one that was given back is not reused at once: peers may still use it.
    ///
    /// # Errors
    /// `ENOMEM`: all ports are in use, or the user has too many.
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

    /// Counts a queue pair of a user as a member of a group. Only their own limit holds for root,
    /// so other users cannot keep root out.
    ///
    /// # Errors
    /// `ENOMEM`: there are too many memberships, or the user has too many.
    pub fn join(&mut self, uid: u32) -> Result<()> {
        if uid != ROOT && self.accounts.total(Kind::Memberships) >= MAX_MEMBERSHIPS {
            return fail(ENOMEM);
        }
        self.accounts.charge(uid, Kind::Memberships, 1)
    }

    /// Counts a membership of a user less.
    pub fn leave(&mut self, uid: u32) {
        self.accounts.release(uid, Kind::Memberships, 1);
    }
}
