//! Names of nodes, as prompts, `hostname` and `uname` show them: `host`, or `card1` for the card
//! that is node 1. Elsewhere Xeon Phi cards are called `mic0` and so on, with numbers one less
//! than their nodes'; here the number is the node's, which is the one that paths and commands
//! take.
//!
//! An administrator may give the machine another name in [`FILE`]. If there is none at boot, init
//! puts the node's name there, so that C programs, which read that file, have the same one.

use alloc::format;
use alloc::string::String;

/// The table of nodes.
pub const NODES: &str = "/scheme/scif/nodes";
/// The file whose first line is the name of the machine.
pub const FILE: &str = "/etc/hostname";
/// The same file among the files of the image, which counts if [`FILE`] does not exist.
pub const IMAGE_FILE: &str = "/scheme/initfs/etc/hostname";

/// The name of the machine: that of its administrator, or the node's. `None`: neither is known.
#[cfg(target_os = "redox")]
pub fn name() -> Option<String> {
    let read = |path| runtime::fs::read_to_string(path).ok();
    configured().or_else(|| of_node(&read(NODES)?))
}

/// The name that an administrator has given to the machine.
#[cfg(target_os = "redox")]
pub fn configured() -> Option<String> {
    let read = |path| runtime::fs::read_to_string(path).ok();
    let text = read(FILE).or_else(|| read(IMAGE_FILE))?;
    patterns::machine_name::in_file(&text).map(String::from)
}

/// The name of this node, from the table of nodes; `None` if this node is not in it.
pub fn of_node(nodes: &str) -> Option<String> {
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
        assert_eq!(of_node(host).as_deref(), Some("host"));
        let card = "node role state self since why\n0 host online - - -\n12 card online * - -\n";
        assert_eq!(of_node(card).as_deref(), Some("card12"));
        for odd in [
            "",
            "node self\n",
            "node self\n0 -\n",
            "a b\n0 *\n",
            "self node\n*\n",
        ] {
            assert_eq!(of_node(odd), None, "{odd}");
        }
    }
}
