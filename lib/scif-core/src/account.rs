//! Accounts: how many pages and windows each user has registered, and may.

use alloc::collections::BTreeMap;

use scif_abi::Error;

use crate::engine::Engine;

/// The pinned pages of all users.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// Limit of those who have none of their own.
    default_limit: u64,
    limits: BTreeMap<u32, u64>,
    used: BTreeMap<u32, u64>,
    /// Windows of each user at most.
    window_limit: u64,
    windows: BTreeMap<u32, u64>,
}

impl Accounts {
    pub(crate) fn new(default_limit: u64, window_limit: u64) -> Accounts {
        Accounts {
            default_limit,
            limits: BTreeMap::new(),
            used: BTreeMap::new(),
            window_limit,
            windows: BTreeMap::new(),
        }
    }

    fn limit(&self, user: u32) -> u64 {
        self.limits
            .get(&user)
            .copied()
            .unwrap_or(self.default_limit)
    }

    pub(crate) fn used(&self, user: u32) -> u64 {
        self.used.get(&user).copied().unwrap_or(0)
    }

    /// Adds pages to a user's account.
    ///
    /// # Errors
    /// `EAGAIN`: beyond the limit.
    pub(crate) fn charge(&mut self, user: u32, pages: u64) -> Result<(), Error> {
        let sum = self.used(user).saturating_add(pages);
        if sum > self.limit(user) {
            return Err(Error::WouldBlock);
        }
        if sum > 0 {
            self.used.insert(user, sum);
        }
        Ok(())
    }

    /// A user has one more window.
    ///
    /// # Errors
    /// `ENOMEM`: beyond the limit.
    pub(crate) fn add_window(&mut self, user: u32) -> Result<(), Error> {
        let count = self.windows(user);
        if count >= self.window_limit {
            return Err(Error::NoMemory);
        }
        self.windows.insert(user, count + 1);
        Ok(())
    }

    /// A user has one window less.
    pub(crate) fn remove_window(&mut self, user: u32) {
        match self.windows(user).saturating_sub(1) {
            0 => self.windows.remove(&user),
            rest => self.windows.insert(user, rest),
        };
    }

    fn windows(&self, user: u32) -> u64 {
        self.windows.get(&user).copied().unwrap_or(0)
    }

    /// Users with windows.
    pub(crate) fn iter_windows(&self) -> impl Iterator<Item = (u32, u64)> {
        self.windows.iter().map(|(user, count)| (*user, *count))
    }

    /// Takes pages off a user's account.
    pub(crate) fn discharge(&mut self, user: u32, pages: u64) {
        match self.used(user).saturating_sub(pages) {
            0 => self.used.remove(&user),
            rest => self.used.insert(user, rest),
        };
    }

    /// Users with pages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.used.iter().map(|(user, pages)| (*user, *pages))
    }
}

impl Engine {
    /// How many pages a user may have registered at one time; `None` as user sets what holds for
    /// all who have no number of their own. Windows that exist stay.
    pub fn set_pinned_limit(&mut self, user: Option<u32>, pages: u64) {
        match user {
            Some(user) => {
                self.accounts.limits.insert(user, pages);
            }
            None => self.accounts.default_limit = pages,
        }
    }

    /// How many pages a user may have registered; `None`: a user without a number of its own.
    pub fn pinned_limit(&self, user: Option<u32>) -> u64 {
        user.map_or(self.accounts.default_limit, |user| {
            self.accounts.limit(user)
        })
    }

    /// How many windows each user may have registered at one time. Windows that exist stay.
    pub fn set_window_limit(&mut self, windows: u64) {
        self.accounts.window_limit = windows;
    }

    /// How many windows of a user there are now.
    pub fn windows_of(&self, user: u32) -> u64 {
        self.accounts.windows(user)
    }

    /// How many pages of a user count as registered now.
    pub fn pinned_pages(&self, user: u32) -> u64 {
        self.accounts.used(user)
    }
}
