//! The name of the machine, as prompts, `hostname` and `uname` show it: `host`, or `card1` for the
//! card that is node 1. Elsewhere Xeon Phi cards are called `mic0` and so on, with numbers one
//! less than their nodes'; here the number is the node's, which is the one that paths and commands
//! take.

use alloc::format;
use alloc::string::String;

/// The table of nodes.
pub const NODES: &str = "/scheme/scif/nodes";

/// The name, from the table of nodes; `None` if this node is not in it.
pub fn name(nodes: &str) -> Option<String> {
    let mut lines = nodes.lines().map(str::split_whitespace);
    let header = lines.next()?;
    let column = |name| header.clone().position(|word| word == name);
    let (node, own) = (column("node")?, column("self")?);
    let row = lines.find(|row| row.clone().nth(own) == Some("*"))?;
    Some(match row.clone().nth(node)? {
        "0" => "host".into(),
        node => format!("card{node}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_row_tells() {
        let host = "node role state self since why\n0 host online * - -\n1 card online - - -\n";
        assert_eq!(name(host).as_deref(), Some("host"));
        let card = "node role state self since why\n0 host online - - -\n12 card online * - -\n";
        assert_eq!(name(card).as_deref(), Some("card12"));
        for odd in [
            "",
            "node self\n",
            "node self\n0 -\n",
            "a b\n0 *\n",
            "self node\n*\n",
        ] {
            assert_eq!(name(odd), None, "{odd}");
        }
    }
}
