//! The file `limits`: a line `name value` for each limit. Root changes a limit by writing such a
//! line.

use alloc::string::String;
use alloc::vec::Vec;

use scif_abi::limits::LinkTiming;
use scif_core::{Resource, Scope};
use syscall::error::{EINVAL, Error, Result};

use crate::ids::RequestId;
use crate::node_memory::NodeMemory;
use crate::scif::Scif;

/// All limits: of each resource for a user and for a process.
fn all() -> impl Iterator<Item = (Resource, Scope)> {
    let scopes = |resource| Scope::ALL.map(|scope| (resource, scope));
    Resource::ALL.into_iter().flat_map(scopes)
}

fn name((resource, scope): (Resource, Scope)) -> String {
    alloc::format!("{}_{}", resource.quota().name, scope.name())
}

/// The limit that a line sets, and its new value.
fn parse(line: &str) -> Option<((Resource, Scope), u64)> {
    let (word, value) = line.split_once(char::is_whitespace)?;
    let limit = all().find(|limit| name(*limit) == word)?;
    Some((limit, value.trim().parse().ok()?))
}

/// Milliseconds between two polls of each link.
const HEARTBEAT: &str = "heartbeat_ms";

/// Milliseconds without a heartbeat of a peer until its link fails.
const SILENCE: &str = "silence_ms";

/// The longest time that can be set: a day.
const MAX_MS: u64 = 86_400_000;

const NS_PER_MS: u64 = 1_000_000;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    pub(in crate::scif) fn limits(&self) -> String {
        let resources = all().map(|limit| {
            let value = self.engine.limit(limit.0, limit.1);
            alloc::format!("{} {value}\n", name(limit))
        });
        let times = [
            (HEARTBEAT, self.timing.heartbeat_ns),
            (SILENCE, self.timing.silence_ns),
        ];
        let times = times.map(|(name, ns)| alloc::format!("{name} {}\n", ns / NS_PER_MS));
        resources.chain(times).collect()
    }

    /// Changes limits: all that are written, or none.
    ///
    /// # Errors
    /// `EINVAL` when a line is not the name of a limit and a number, or the time of silence would
    /// be shorter than two heartbeats, which a healthy peer could not keep.
    pub(in crate::scif) fn write_limits(&mut self, bytes: &[u8]) -> Result<usize> {
        let invalid = Error::new(EINVAL);
        let text = core::str::from_utf8(bytes).map_err(|_| invalid)?;
        let (mut changes, mut timing) = (Vec::new(), self.timing);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match parse(line) {
                Some(change) => changes.push(change),
                None => parse_time(line, &mut timing).ok_or(invalid)?,
            }
        }
        if timing.silence_ns < 2 * timing.heartbeat_ns {
            return Err(invalid);
        }
        self.timing = timing;
        for ((resource, scope), value) in changes {
            self.engine.set_limit(resource, scope, value);
        }
        Ok(bytes.len())
    }
}

/// Sets the time that a line names, 1 ms to a day.
fn parse_time(line: &str, timing: &mut LinkTiming) -> Option<()> {
    let (word, value) = line.split_once(char::is_whitespace)?;
    let time = match word {
        HEARTBEAT => &mut timing.heartbeat_ns,
        SILENCE => &mut timing.silence_ns,
        _ => return None,
    };
    let value: u64 = value.trim().parse().ok()?;
    if !(1..=MAX_MS).contains(&value) {
        return None;
    }
    *time = value * NS_PER_MS;
    Some(())
}
