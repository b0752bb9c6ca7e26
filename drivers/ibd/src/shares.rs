//! Which connection is ended when a user or a node has too many, so that it keeps out no others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Most connections of a node's daemon: one, and an earlier one whose end is not known here yet.
const MOST_OF_NODE: usize = 2;

/// The numbers in the two columns with these names. The first line of the table names the columns.
fn columns<'a>(text: &'a str, names: [&str; 2]) -> impl Iterator<Item = [u32; 2]> + use<'a> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let places = names.map(|name| first.split_ascii_whitespace().position(|of| of == name));
    lines.filter_map(move |line| {
        let word = |place: Option<usize>| line.split_ascii_whitespace().nth(place?)?.parse().ok();
        let [first, second] = places.map(word);
        Some([first?, second?])
    })
}

/// The users of SCIF ports. `ports` is the driver's table, which names the process of each port;
/// `contexts` is the kernel's, which names the user of each process.
pub fn users(ports: &str, contexts: &str) -> BTreeMap<u16, u32> {
    let users: BTreeMap<u32, u32> = columns(contexts, ["PID", "EUID"])
        .map(|[pid, uid]| (pid, uid))
        .collect();
    columns(ports, ["port", "pid"])
        .filter_map(|[port, pid]| Some((u16::try_from(port).ok()?, *users.get(&pid)?)))
        .collect()
}

/// Chooses the connection to close: the oldest of a user who has most. `users` has the user of
/// each connection, the oldest first. Connections whose user is unknown count as one user's.
pub fn surplus(users: &[Option<u32>]) -> Option<usize> {
    let mut counts = BTreeMap::new();
    for user in users {
        *counts.entry(user).or_insert(0) += 1;
    }
    let most = counts.values().copied().max()?;
    users
        .iter()
        .position(|user| counts.get(user) == Some(&most))
}

/// Chooses the connection to close before another one from `node` is taken: the node's oldest, if
/// it has as many as a node may have. `nodes` has the node of each connection, the oldest first.
pub fn surplus_of_node(nodes: impl Iterator<Item = u16>, node: u16) -> Option<usize> {
    let all = nodes.enumerate().filter(|(_, of)| *of == node);
    let places: Vec<usize> = all.map(|(place, _)| place).collect();
    let oldest = places.first().copied();
    oldest.filter(|_| places.len() >= MOST_OF_NODE)
}

#[cfg(test)]
mod tests {
    use super::{surplus, surplus_of_node, users};

    #[test]
    fn ports_have_users() {
        let ports = "port   state      waiting  pid  endpoint\n60     listening  3        7    1\n\
                     1030   connected  0        8    2\n1031   connected  0        9    3\n";
        let contexts = "PID   EUID  EGID  STAT  NAME\n7     0     0     UB    ibd\n\
                        8     1000  1000  UR+   a b\n";
        let found = users(ports, contexts);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [(60, 0), (1030, 1000)]
        );
        assert!(users("", contexts).is_empty() && users(ports, "PID\n7\n").is_empty());
    }

    #[test]
    fn who_has_most_loses_the_oldest() {
        let [root, one, other] = [Some(0), Some(1000), Some(1001)];
        assert_eq!(surplus(&[root, one, other, one]), Some(1));
        // This holds for the newest connection's user, too.
        assert_eq!(surplus(&[root, one, root, one, one]), Some(1));
        assert_eq!(surplus(&[root, None, one, None]), Some(1));
        // Nobody has more than the others.
        assert_eq!(surplus(&[other, root, one]), Some(0));
        assert_eq!(surplus(&[]), None);
    }

    #[test]
    fn a_node_loses_its_own_oldest() {
        for (nodes, expected) in [
            (&[][..], None),
            (&[2, 1, 3], None),
            (&[2, 1, 3, 1], Some(1)),
            (&[1, 1, 1], Some(0)),
            (&[2, 2, 2], None),
        ] {
            let nodes = nodes.iter().copied();
            assert_eq!(surplus_of_node(nodes, 1), expected);
        }
    }

    #[test]
    fn one_of_few_stays_whatever_another_makes() {
        let mut lanes = vec![Some(0)];
        for _ in 0..600 {
            lanes.push(Some(1000));
            if lanes.len() > 512 {
                lanes.remove(surplus(&lanes).unwrap());
            }
        }
        lanes.push(Some(1001));
        lanes.remove(surplus(&lanes).unwrap());
        assert_eq!(
            (lanes[0], lanes[511], lanes.len()),
            (Some(0), Some(1001), 512)
        );
    }
}
