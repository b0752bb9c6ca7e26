//! Which connection ends when there are too many.

use alloc::collections::BTreeMap;

/// Chooses the connection to end: the oldest of an owner who has most. `owners` has the owner of
/// each connection, the oldest first. So nobody pushes out the connections of others by making
/// many.
pub fn surplus<T: Ord>(owners: &[T]) -> Option<usize> {
    let mut counts = BTreeMap::new();
    for owner in owners {
        *counts.entry(owner).or_insert(0) += 1;
    }
    let most = counts.values().copied().max()?;
    owners
        .iter()
        .position(|owner| counts.get(owner) == Some(&most))
}

#[cfg(test)]
mod tests {
    use super::surplus;

    #[test]
    fn who_has_most_loses_the_oldest() {
        assert_eq!(surplus(&[0, 1, 2, 1]), Some(1));
        // This holds for the newest connection's owner, too.
        assert_eq!(surplus(&[0, 1, 0, 1, 1]), Some(1));
        // Nobody has more than the others.
        assert_eq!(surplus(&[2, 0, 1]), Some(0));
        assert_eq!(surplus::<u32>(&[]), None);
    }

    #[test]
    fn one_of_few_stays_whatever_another_makes() {
        let mut lanes = vec![0];
        for owner in core::iter::repeat_n(1000, 600) {
            lanes.push(owner);
            if lanes.len() > 512 {
                lanes.remove(surplus(&lanes).unwrap());
            }
        }
        lanes.push(1001);
        lanes.remove(surplus(&lanes).unwrap());
        assert_eq!((lanes[0], lanes[511], lanes.len()), (0, 1001, 512));
    }
}
