//! The file `limits`: a line `name value` for each limit; root changes one by writing such lines.

use alloc::string::String;
use alloc::vec::Vec;

use scif_core::{Owner, Resource, Scope};
use syscall::error::{EINVAL, Error, Result};

use crate::handle::HandleId;
use crate::scif::{Fabric, RequestId, Scif, system};

/// All limits: of each resource for a user and for a process.
fn all() -> impl Iterator<Item = (Resource, Scope)> {
    let scopes = |resource| Scope::ALL.map(|scope| (resource, scope));
    Resource::ALL.into_iter().flat_map(scopes)
}

fn name((resource, scope): (Resource, Scope)) -> String {
    alloc::format!("{}_{}", resource.quota().name, scope.name())
}

/// The limit a line sets, and its new value.
fn parse(line: &str) -> Option<((Resource, Scope), u64)> {
    let (word, value) = line.split_once(char::is_whitespace)?;
    let limit = all().find(|limit| name(*limit) == word)?;
    Some((limit, value.trim().parse().ok()?))
}

impl<F: Fabric, R: RequestId> Scif<F, R> {
    pub(crate) fn limits(&self) -> String {
        all()
            .map(|limit| {
                let value = self.engine.limit(limit.0, limit.1);
                alloc::format!("{} {value}\n", name(limit))
            })
            .collect()
    }

    /// Counts a request that is to wait, for the process it comes from and its user: the handle's
    /// opener where the request does not tell.
    ///
    /// # Errors
    /// `ENOMEM`: too many of theirs wait.
    pub fn begin_wait(
        &mut self,
        handle: HandleId,
        process: usize,
        user: Option<u32>,
        request: R,
    ) -> Result<()> {
        let opener = self.handle(handle).map(|handle| handle.caller.uid);
        let owner = Owner {
            process: process as u32,
            user: user.or(opener.ok()).unwrap_or_default(),
        };
        self.engine.charge_request(owner).map_err(system)?;
        self.charged.insert(request, owner);
        Ok(())
    }

    /// A request does not wait any more.
    pub fn end_of_wait(&mut self, request: R) {
        if let Some(owner) = self.charged.remove(&request) {
            self.engine.discharge_request(owner);
        }
    }

    /// Changes limits, all of those that are written or none.
    ///
    /// # Errors
    /// `EINVAL` when a line is not the name of a limit and a number.
    pub(crate) fn write_limits(&mut self, bytes: &[u8]) -> Result<usize> {
        let invalid = Error::new(EINVAL);
        let text = core::str::from_utf8(bytes).map_err(|_| invalid)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let changes: Option<Vec<_>> = lines.map(parse).collect();
        for ((resource, scope), value) in changes.ok_or(invalid)? {
            self.engine.set_limit(resource, scope, value);
        }
        Ok(bytes.len())
    }
}
