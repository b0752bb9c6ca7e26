//! Quotas: how much of each resource a user or a process holds, and may hold.

use alloc::collections::BTreeMap;

use scif_abi::Error;
use scif_abi::limits::{QUOTAS, Quota};

use crate::base::owner::Owner;
use crate::base::rule::{Violation, rule};

/// A resource that has a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Endpoints, in any state.
    Endpoints,
    /// Connection requests that the other side has not answered, withdrawn requests too.
    Connects,
    /// Requests that may wait at all listeners together.
    Backlog,
    /// Own windows, until their last use has ended.
    Windows,
    /// Pages of own windows, except those that kernel-mode clients pinned.
    Pages,
    /// Transfers and fences that are queued.
    Transfers,
    /// Calls that wait; counted by the scheme.
    Requests,
    /// Bypass handles.
    Bypass,
    /// Open files that are neither endpoints nor bypass handles; counted by the scheme.
    Files,
}

impl Resource {
    /// All resources, in the order of [`QUOTAS`].
    pub const ALL: [Resource; QUOTAS.len()] = [
        Resource::Endpoints,
        Resource::Connects,
        Resource::Backlog,
        Resource::Windows,
        Resource::Pages,
        Resource::Transfers,
        Resource::Requests,
        Resource::Bypass,
        Resource::Files,
    ];

    /// The resource's name and usual limits.
    pub fn quota(self) -> Quota {
        QUOTAS[self as usize]
    }

    /// The error of a call that exceeds the quota.
    fn error(self) -> Error {
        match self {
            // The documents' error for memory that cannot be mapped or locked.
            Resource::Pages => Error::WouldBlock,
            _ => Error::NoMemory,
        }
    }
}

/// The holder of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All processes of a user together.
    User,
    /// One process.
    Process,
}

impl Scope {
    /// Both scopes.
    pub const ALL: [Scope; 2] = [Scope::User, Scope::Process];

    /// The last part of a limit's name in the file `limits`.
    pub fn name(self) -> &'static str {
        match self {
            Scope::User => "per_user",
            Scope::Process => "per_process",
        }
    }
}

/// The limits of all resources. They are the same for all users, root included.
#[derive(Clone, Copy, Debug)]
pub struct Limits([[u64; 2]; QUOTAS.len()]);

impl Default for Limits {
    fn default() -> Self {
        Limits(QUOTAS.map(|quota| [quota.per_user, quota.per_process]))
    }
}

impl Limits {
    /// The limit of `resource` for one `scope`.
    pub fn get(&self, resource: Resource, scope: Scope) -> u64 {
        self.0[resource as usize][scope as usize]
    }

    /// Removes the limits of a resource.
    pub fn lift(&mut self, resource: Resource) {
        self.0[resource as usize] = [u64::MAX; 2];
    }

    /// Changes a limit. What is already in use beyond the limit stays.
    pub fn set(&mut self, resource: Resource, scope: Scope, value: u64) {
        self.0[resource as usize][scope as usize] = value;
    }
}

/// The resources that each user, or each process, holds.
type Used = BTreeMap<u32, [u64; QUOTAS.len()]>;

/// The quotas of all users and processes.
#[derive(Debug)]
pub(crate) struct Quotas {
    pub(crate) limits: Limits,
    /// By [`Scope`], then by the number of the user or process. Those that hold nothing are not
    /// listed.
    used: [Used; 2],
}

/// The user's and the process's number of an owner, by [`Scope`].
fn holders(owner: Owner) -> [u32; 2] {
    [owner.user, owner.process]
}

impl Quotas {
    pub(crate) fn new(limits: Limits) -> Quotas {
        Quotas {
            limits,
            used: Default::default(),
        }
    }

    /// How much of a resource a user, or a process, holds.
    pub(crate) fn used(&self, resource: Resource, scope: Scope, number: u32) -> u64 {
        let used = self.used[scope as usize].get(&number);
        used.map_or(0, |used| used[resource as usize])
    }

    /// Checks that an owner may hold `amount` more.
    ///
    /// # Errors
    /// The error of the resource, when the user or the process would hold too much.
    pub(crate) fn check(&self, owner: Owner, resource: Resource, amount: u64) -> Result<(), Error> {
        for (scope, number) in Scope::ALL.into_iter().zip(holders(owner)) {
            let sum = self.used(resource, scope, number).saturating_add(amount);
            if sum > self.limits.get(resource, scope) {
                return Err(resource.error());
            }
        }
        Ok(())
    }

    /// Charges `amount` to an owner.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub(crate) fn charge(
        &mut self,
        owner: Owner,
        resource: Resource,
        amount: u64,
    ) -> Result<(), Error> {
        self.check(owner, resource, amount)?;
        self.add(owner, resource, amount);
        Ok(())
    }

    /// Charges `amount` to an owner, whatever the limits are.
    pub(crate) fn add(&mut self, owner: Owner, resource: Resource, amount: u64) {
        for (used, number) in self.used.iter_mut().zip(holders(owner)) {
            let sum = &mut used.entry(number).or_default()[resource as usize];
            *sum = sum.saturating_add(amount);
        }
    }

    /// Takes `amount` off an owner's account.
    pub(crate) fn discharge(&mut self, owner: Owner, resource: Resource, amount: u64) {
        for (all, number) in self.used.iter_mut().zip(holders(owner)) {
            if let Some(used) = all.get_mut(&number) {
                let rest = &mut used[resource as usize];
                *rest = rest.saturating_sub(amount);
                if used.iter().all(|rest| *rest == 0) {
                    all.remove(&number);
                }
            }
        }
    }

    /// Checks that all users together, and all processes together, hold `there_is` of a resource.
    ///
    /// # Errors
    /// They hold another amount.
    pub(crate) fn check_total(&self, resource: Resource, there_is: u64) -> Result<(), Violation> {
        Scope::ALL.into_iter().try_for_each(|scope| {
            rule(
                self.total(resource, scope) == there_is,
                "quotas count what there is",
                there_is,
            )
        })
    }

    /// How much of a resource all users, or all processes, hold together.
    pub(crate) fn total(&self, resource: Resource, scope: Scope) -> u64 {
        let all = self.used[scope as usize].values();
        all.map(|used| used[resource as usize]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(user: u32, process: u32) -> Owner {
        Owner { process, user }
    }

    #[test]
    fn a_process_and_its_user_are_limited() {
        let mut limits = Limits::default();
        limits.set(Resource::Pages, Scope::User, 5);
        limits.set(Resource::Pages, Scope::Process, 3);
        let mut quotas = Quotas::new(limits);
        let mut charge = |owner, amount| quotas.charge(owner, Resource::Pages, amount);
        assert_eq!(charge(owner(1, 10), 3), Ok(()));
        assert_eq!(charge(owner(1, 10), 1), Err(Error::WouldBlock));
        assert_eq!(charge(owner(1, 11), 3), Err(Error::WouldBlock));
        assert_eq!(charge(owner(1, 11), 2), Ok(()));
        assert_eq!(charge(owner(2, 12), 3), Ok(()));
        assert_eq!(charge(owner(2, 13), u64::MAX), Err(Error::WouldBlock));
        assert_eq!(quotas.used(Resource::Pages, Scope::User, 1), 5);
        assert_eq!(quotas.total(Resource::Pages, Scope::Process), 8);
        quotas.discharge(owner(1, 10), Resource::Pages, 3);
        assert_eq!(quotas.charge(owner(1, 11), Resource::Pages, 1), Ok(()));
    }

    #[test]
    fn who_has_nothing_is_forgotten() {
        let mut quotas = Quotas::new(Limits::default());
        for resource in Resource::ALL {
            quotas.charge(owner(1, 2), resource, 4).unwrap();
        }
        for resource in Resource::ALL {
            quotas.discharge(owner(1, 2), resource, 4);
        }
        assert!(quotas.used.iter().all(BTreeMap::is_empty));
    }

    #[test]
    fn one_resource_does_not_count_for_another() {
        let mut limits = Limits::default();
        limits.set(Resource::Endpoints, Scope::User, 0);
        let mut quotas = Quotas::new(limits);
        let refused = quotas.charge(owner(1, 2), Resource::Endpoints, 1);
        assert_eq!(refused, Err(Error::NoMemory));
        assert_eq!(quotas.charge(owner(1, 2), Resource::Connects, 1), Ok(()));
    }
}
