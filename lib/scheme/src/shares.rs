//! What each user has of a resource that all users of a daemon share.

use alloc::collections::BTreeMap;

/// The user who has no limit.
const SUPERUSER: u32 = 0;

/// Amounts of a resource by user. Each user other than root has at most a share, so that none can
/// use up what others need.
#[derive(Debug)]
pub struct Shares {
    share: usize,
    users: BTreeMap<u32, usize>,
}

impl Shares {
    /// Nobody has anything; each user may have this much.
    pub const fn new(share: usize) -> Self {
        Self {
            share,
            users: BTreeMap::new(),
        }
    }

    /// Gives a user more. Returns whether the user may have that; if not, nothing changes.
    #[must_use]
    pub fn take(&mut self, uid: u32, amount: usize) -> bool {
        if uid == SUPERUSER || amount == 0 {
            return true;
        }
        let has = self.users.get(&uid).copied().unwrap_or(0);
        match has.checked_add(amount).filter(|sum| *sum <= self.share) {
            Some(sum) => {
                self.users.insert(uid, sum);
                true
            }
            None => false,
        }
    }

    /// Takes back from a user what [`take`](Self::take) gave.
    pub fn give_back(&mut self, uid: u32, amount: usize) {
        if let Some(has) = self.users.get_mut(&uid) {
            *has = has.saturating_sub(amount);
            if *has == 0 {
                self.users.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shares;

    #[test]
    fn a_user_leaves_others_their_share() {
        let mut shares = Shares::new(3);
        assert!(shares.take(7, 2) && shares.take(7, 1) && !shares.take(7, 1));
        assert!(!shares.take(7, usize::MAX) && shares.take(7, 0));
        assert!(shares.take(8, 3) && !shares.take(8, 1));
        shares.give_back(7, 2);
        assert!(!shares.take(7, 3) && shares.take(7, 2) && !shares.take(7, 1));
    }

    #[test]
    fn root_has_no_limit() {
        let mut shares = Shares::new(3);
        assert!(shares.take(0, 100) && shares.take(0, usize::MAX));
        shares.give_back(0, 100);
        assert!(shares.users.is_empty());
    }

    #[test]
    fn a_user_who_has_nothing_takes_no_memory() {
        let mut shares = Shares::new(3);
        assert!(shares.take(8, 0) && !shares.take(9, 4) && shares.users.is_empty());
        shares.give_back(8, 0);
        assert!(shares.take(7, 3));
        shares.give_back(7, 3);
        assert!(shares.users.is_empty());
    }
}
