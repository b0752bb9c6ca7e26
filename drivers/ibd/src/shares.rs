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
    use super::{surplus_of_node, users};

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
}
