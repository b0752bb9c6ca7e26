//! The sizes of new rings: large ones for a few connections, so that thousands have room.
//!
//! Each user has a budget, so that a user with many connections leaves the rings of others as
//! large as they were.

use alloc::collections::BTreeMap;

use scif_abi::limits::PAGE_BYTES;

use crate::base::config::Config;

/// A new ring takes at most one part in this many of what is left of a budget.
const SHARE: usize = 8;

/// Bytes of the rings of all connections.
#[derive(Debug, Default)]
pub(super) struct RingBudget {
    /// By user; users without rings are not listed.
    used: BTreeMap<u32, usize>,
    all: usize,
}

impl RingBudget {
    /// How many bytes the next ring of a user has.
    pub(super) fn share(&self, user: u32, config: &Config) -> u32 {
        let left_of_user = config.user_ring_bytes.saturating_sub(self.of(user));
        let left = config.all_ring_bytes.saturating_sub(self.all);
        ring_share(left.min(left_of_user), config.endpoint_ring_bytes)
    }

    /// Charges a ring of this size to a user.
    pub(super) fn take(&mut self, user: u32, bytes: u32) {
        *self.used.entry(user).or_default() += bytes as usize;
        self.all += bytes as usize;
    }

    /// Takes such a ring off the user's account.
    pub(super) fn give_back(&mut self, user: u32, bytes: u32) {
        self.all -= bytes as usize;
        if let Some(used) = self.used.get_mut(&user) {
            *used -= bytes as usize;
            if *used == 0 {
                self.used.remove(&user);
            }
        }
    }

    /// Bytes of a user's rings.
    fn of(&self, user: u32) -> usize {
        self.used.get(&user).copied().unwrap_or(0)
    }

    /// Whether these are the rings that were charged: the user and the bytes of each.
    pub(super) fn is_of(&self, rings: impl Iterator<Item = (u32, u32)>) -> bool {
        let mut same = Self::default();
        rings.for_each(|(user, bytes)| same.take(user, bytes));
        (&same.used, same.all) == (&self.used, self.all)
    }
}

/// How many bytes a new ring has when `left` bytes of a budget are left: a power of two, at most
/// `max` and at least a page or, if that is less, `max`.
fn ring_share(left: usize, max: u32) -> u32 {
    let least = max.min(PAGE_BYTES as u32);
    match (left / SHARE).checked_ilog2() {
        Some(order) => 1_u32.checked_shl(order).unwrap_or(max).clamp(least, max),
        None => least,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MAX: u32 = 1 << 18;
    const BUDGET: usize = 5 << 19;

    #[test]
    fn rings_share_what_is_left_and_thousands_fit() {
        assert_eq!(ring_share(usize::MAX, MAX), MAX);
        assert_eq!(ring_share(usize::MAX, 64), 64);
        assert_eq!(ring_share(0, 64), 64);
        assert_eq!(ring_share(0, MAX), 4096);
        let mut used = 0;
        let mut last = MAX;
        let mut largest = 0;
        for _ in 0..4000 {
            let ring = ring_share(BUDGET.saturating_sub(used), MAX);
            assert!(ring <= last && ring.is_power_of_two() && ring >= 4096);
            largest += usize::from(ring == MAX);
            used += ring as usize;
            last = ring;
        }
        assert_eq!(last, 4096);
        assert_eq!(largest, 3);
        assert!(used <= BUDGET + 4000 * 4096, "{used}");
    }

    #[test]
    fn users_do_not_take_from_each_other_until_all_is_used_up() {
        let config = Config {
            endpoint_ring_bytes: MAX,
            user_ring_bytes: BUDGET,
            all_ring_bytes: 4 * BUDGET,
            ..Config::new(0)
        };
        let mut budget = RingBudget::default();
        let take = |budget: &mut RingBudget, user| {
            let ring = budget.share(user, &config);
            budget.take(user, ring);
            ring
        };
        let first: Vec<u32> = (0..100).map(|_| take(&mut budget, 1)).collect();
        assert_eq!((first[0], first[99]), (MAX, 4096));
        assert_eq!(take(&mut budget, 2), MAX);
        // Many users together have no more than all may have, and a page each.
        for user in 3..100 {
            for _ in 0..40 {
                take(&mut budget, user);
            }
        }
        assert!(budget.all < 4 * BUDGET + 4200 * 4096, "{}", budget.all);
        assert_eq!(take(&mut budget, 200), 4096);
        for bytes in &first {
            budget.give_back(1, *bytes);
        }
        assert!(!budget.used.contains_key(&1));
        let mut budget = RingBudget::default();
        budget.take(1, 64);
        budget.take(2, 4096);
        assert!(budget.is_of([(2, 4096), (1, 64)].into_iter()));
        assert!(!budget.is_of([(1, 4096), (2, 64)].into_iter()));
    }
}
