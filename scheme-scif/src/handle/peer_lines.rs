//! The reader of the file `peers`: first a line for each node that is online, then one for each
//! node that comes or goes.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt::Write;

use scif_abi::NodeId;
use syscall::error::{EINVAL, Error, Result};

/// The lines that one reader of the file `peers` has not read: nodes, and whether each came or
/// went.
#[derive(Debug, Default)]
pub(crate) struct PeerLines {
    lines: VecDeque<(NodeId, bool)>,
}

impl PeerLines {
    /// The lines of a new reader, which begin with these nodes.
    pub fn new(nodes: impl Iterator<Item = NodeId>) -> Self {
        Self {
            lines: nodes.map(|node| (node, true)).collect(),
        }
    }

    /// Adds a line: a node came, or went. At most two lines about a node wait. If a node came and
    /// went again before the reader has read of either, both lines are dropped.
    pub fn notify(&mut self, node: NodeId, added: bool) {
        let last = self.lines.iter().rposition(|&(about, _)| about == node);
        match last {
            Some(index) if !added && self.lines.get(index) == Some(&(node, true)) => {
                self.lines.remove(index);
            }
            _ => self.lines.push_back((node, added)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Stores as many whole lines as there is room for.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while let Some(&(node, added)) = self.lines.front() {
            let mut line = String::new();
            let what = if added { "added" } else { "removed" };
            let _ = writeln!(line, "{what} {node}");
            let Some(place) = buffer.get_mut(done..done + line.len()) else {
                break;
            };
            place.copy_from_slice(line.as_bytes());
            done += line.len();
            self.lines.pop_front();
        }
        // No line fits: the read must return more than 0 bytes, and half a line would be worse.
        if done == 0 {
            return Err(Error::new(EINVAL));
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_one_node_merge() {
        let mut peers = PeerLines::default();
        peers.notify(1, true);
        peers.notify(2, true);
        peers.notify(1, false);
        let mut buffer = [0; 64];
        assert_eq!(peers.read(&mut buffer), Ok(8));
        assert_eq!(&buffer[..8], b"added 2\n");
        // A node that went and came back is shown: it has lost all connections.
        for _ in 0..5 {
            peers.notify(2, false);
            peers.notify(2, true);
        }
        assert_eq!(peers.lines.len(), 2);
        assert_eq!(peers.read(&mut buffer[..17]), Ok(10));
        assert_eq!(&buffer[..10], b"removed 2\n");
        assert_eq!(peers.read(&mut buffer[..7]), Err(Error::new(EINVAL)));
        assert_eq!(peers.read(&mut buffer[..8]), Ok(8));
        assert!(peers.is_empty());
    }
}
