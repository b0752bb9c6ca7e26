//! The limits of each user; they hold for root, too.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use syscall::error::{EINVAL, ENOMEM, Error, Result};

use crate::error::fail;

/// The resources that are counted for each user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Open files `uverbs0`.
    Contexts,
    /// All other open files of the scheme.
    Files,
    /// Objects of all contexts.
    Objects,
    /// Pages of memory regions; a page in two regions counts twice.
    LockedPages,
    /// Places for completions, and for scatter/gather elements of work requests that commands can
    /// post.
    Slots,
    /// SCIF ports; 256 queue pairs of a protection domain that commands post to share one.
    Ports,
    /// Memberships of queue pairs in multicast groups.
    Memberships,
}

impl Kind {
    /// All resources, each with the name of its limit and the limit at start.
    pub const ALL: [(Kind, &'static str, u64); 7] = [
        (Kind::Contexts, "contexts_per_user", 256),
        (Kind::Files, "files_per_user", 1024),
        (Kind::Objects, "objects_per_user", 65536),
        (Kind::LockedPages, "locked_pages_per_user", 65536),
        (Kind::Slots, "slots_per_user", 1 << 20),
        (Kind::Ports, "ports_per_user", 128),
        (Kind::Memberships, "memberships_per_user", 256),
    ];
}

/// Bytes of a text that count as one more file.
const TEXT_UNIT_BYTES: usize = 512;

/// Number of files that a text counts as, which is kept until it is closed.
pub fn files_for(text: &str) -> u64 {
    1 + (text.len() / TEXT_UNIT_BYTES) as u64
}

/// The limits, and the amounts that each user holds.
#[derive(Debug)]
pub struct Accounts {
    limits: [u64; Kind::ALL.len()],
    users: BTreeMap<u32, [u64; Kind::ALL.len()]>,
}

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts {
            limits: Kind::ALL.map(|(_, _, limit)| limit),
            users: BTreeMap::new(),
        }
    }
}

impl Accounts {
    /// Charges a user `count` more.
    ///
    /// # Errors
    /// `ENOMEM`: that would be more than the limit; nothing is charged.
    pub fn charge(&mut self, uid: u32, kind: Kind, count: u64) -> Result<()> {
        let limit = self.limits[kind as usize];
        let has = self.used(uid, kind);
        let will = has
            .checked_add(count)
            .filter(|will| *will <= limit || count == 0);
        let will = will.ok_or(Error::new(ENOMEM))?;
        if count > 0 {
            self.users.entry(uid).or_default()[kind as usize] = will;
        }
        Ok(())
    }

    /// Charges a user `count` more, even beyond the limit.
    pub fn charge_anyway(&mut self, uid: u32, kind: Kind, count: u64) {
        let used = &mut self.users.entry(uid).or_default()[kind as usize];
        *used = used.saturating_add(count);
    }

    /// Releases `count` of what a user was charged.
    pub fn release(&mut self, uid: u32, kind: Kind, count: u64) {
        if let Some(user) = self.users.get_mut(&uid) {
            let used = &mut user[kind as usize];
            *used = used.saturating_sub(count);
            if *user == [0; Kind::ALL.len()] {
                self.users.remove(&uid);
            }
        }
    }

    /// The amount of a resource that a user holds.
    pub fn used(&self, uid: u32, kind: Kind) -> u64 {
        self.users.get(&uid).map_or(0, |user| user[kind as usize])
    }

    /// The amount of a resource that all users hold.
    pub fn total(&self, kind: Kind) -> u64 {
        self.users.values().map(|user| user[kind as usize]).sum()
    }

    /// The limits as text, a line for each.
    pub fn text(&self) -> String {
        let lines = Kind::ALL.iter().zip(self.limits);
        lines
            .map(|((_, name, _), limit)| format!("{name} {limit}\n"))
            .collect()
    }

    /// Changes limits by such lines: all of them, or none if one is wrong.
    ///
    /// # Errors
    /// `EINVAL`: a line is not a limit's name and a number.
    pub fn set(&mut self, text: &str) -> Result<()> {
        let mut limits = self.limits;
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(name), Some(number), None) = (words.next(), words.next(), words.next())
            else {
                return fail(EINVAL);
            };
            let known = Kind::ALL.iter().zip(&mut limits);
            let mut named = known.filter(|((_, known, _), _)| *known == name);
            let (_, limit) = named.next().ok_or(Error::new(EINVAL))?;
            *limit = number.parse().map_err(|_| Error::new(EINVAL))?;
        }
        self.limits = limits;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Accounts, Kind};
    use syscall::error::{EINVAL, ENOMEM, Error};

    #[test]
    fn users_have_limits_of_their_own() {
        let mut accounts = Accounts::default();
        assert_eq!(
            accounts.set("contexts_per_user 2\nfiles_per_user 1\n"),
            Ok(())
        );
        for uid in [0, 1000] {
            assert_eq!(accounts.charge(uid, Kind::Contexts, 2), Ok(()));
            let over = accounts.charge(uid, Kind::Contexts, 1);
            assert_eq!(over, Err(Error::new(ENOMEM)));
            assert_eq!(accounts.charge(uid, Kind::Contexts, u64::MAX), over);
            assert_eq!(accounts.charge(uid, Kind::Files, 1), Ok(()));
        }
        assert_eq!(accounts.total(Kind::Contexts), 4);
        // A user who has more than a new limit keeps it.
        assert_eq!(accounts.set("contexts_per_user 1"), Ok(()));
        assert_eq!(accounts.used(1000, Kind::Contexts), 2);
        accounts.release(1000, Kind::Contexts, 2);
        accounts.release(1000, Kind::Files, 1);
        assert_eq!(accounts.used(1000, Kind::Contexts), 0);
        assert_eq!(accounts.users.len(), 1);
    }

    #[test]
    fn lines_that_are_none_change_nothing() {
        let mut accounts = Accounts::default();
        let before = accounts.text();
        for bad in [
            "files_per_user",
            "files_per_user x",
            "files_per_user -1",
            "files_per_user 1 2",
            "no_such 1",
            "files_per_user 7\nno_such 1",
            "files_per_user 99999999999999999999",
            "\n",
        ] {
            assert_eq!(accounts.set(bad), Err(Error::new(EINVAL)), "{bad}");
            assert_eq!(accounts.text(), before);
        }
        assert!(before.contains("locked_pages_per_user 65536\n"));
        assert_eq!(accounts.set(&before), Ok(()));
    }
}
