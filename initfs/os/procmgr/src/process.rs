//! The process manager's record of a process.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use libredox::protocol::ProcMeta;

pub use crate::signals::Pid;
use crate::signals::Signals;

/// Real, effective and saved id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// Real.
    pub real: u32,
    /// Effective.
    pub effective: u32,
    /// Saved.
    pub saved: u32,
}

impl Ids {
    /// Changes the ids that are not all ones. `None` if the caller is not root and wants an id
    /// that it has not already.
    pub fn change(self, wanted: [u32; 3], root: bool) -> Option<Ids> {
        const KEEP: u32 = u32::MAX;
        let allowed =
            |id: u32| root || id == KEEP || [self.real, self.effective, self.saved].contains(&id);
        if !wanted.iter().all(|&id| allowed(id)) {
            return None;
        }
        let pick = |old: u32, new: u32| if new == KEEP { old } else { new };
        Some(Ids {
            real: pick(self.real, wanted[0]),
            effective: pick(self.effective, wanted[1]),
            saved: pick(self.saved, wanted[2]),
        })
    }
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Made but never started.
    New,
    /// Started.
    Running,
    /// Its threads are being killed; the status for its parent is fixed.
    Ending(usize),
    /// Ended; only the status that its parent has not fetched is left.
    Dead(usize),
}

/// The identity that the kernel keeps with a context.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Process.
    pub pid: Pid,
    /// Effective user.
    pub euid: u32,
    /// Effective group.
    pub egid: u32,
    /// Name for listings and reports.
    pub name: &'a str,
}

/// A process. `C` is the kernel's handle of a thread.
pub struct Process<C> {
    /// Its number.
    pub pid: Pid,
    /// Its parent's number.
    pub parent: Pid,
    /// Its process group.
    pub group: Pid,
    /// Its session.
    pub session: Pid,
    /// Users.
    pub users: Ids,
    /// Groups.
    pub groups: Ids,
    /// Name in listings.
    pub name: String,
    /// The state.
    pub state: State,
    /// The kernel's handles of its living threads, by number.
    pub threads: BTreeMap<usize, C>,
    /// Number of the next thread.
    pub next_thread: usize,
    /// Handles of this process that clients hold.
    pub handles: Vec<usize>,
    /// How many handles of each of its threads clients hold.
    pub thread_handles: BTreeMap<usize, usize>,
    /// Its signals.
    pub signals: Signals,
}

impl<C> Process<C> {
    /// The identity that its contexts carry.
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes {
            pid: self.pid,
            euid: self.users.effective,
            egid: self.groups.effective,
            name: &self.name,
        }
    }

    /// The record that clients read.
    pub fn meta(&self) -> ProcMeta {
        ProcMeta {
            pid: self.pid,
            pgid: self.group,
            ppid: self.parent,
            ruid: self.users.real,
            euid: self.users.effective,
            suid: self.users.saved,
            rgid: self.groups.real,
            egid: self.groups.effective,
            sgid: self.groups.saved,
            ens: 0,
            rns: 0,
        }
    }

    /// The name of the state in listings.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::New => "new",
            State::Running => "running",
            State::Ending(_) => "ending",
            State::Dead(_) => "dead",
        }
    }
}

/// The bytes of a record, in the form that clients read.
pub fn meta_bytes(meta: &ProcMeta) -> Vec<u8> {
    [
        meta.pid, meta.pgid, meta.ppid, meta.ruid, meta.euid, meta.suid, meta.rgid, meta.egid,
        meta.sgid, meta.ens, meta.rns,
    ]
    .iter()
    .flat_map(|word| word.to_ne_bytes())
    .collect()
}
