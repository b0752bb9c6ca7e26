//! The file `peers`: the nodes that are there, then those that come and go, a line for each.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt::Write;

use scif_abi::NodeId;
use syscall::error::{EINVAL, Error, Result};

use crate::handle::{Handle, HandleId, Kind};
use crate::scif::{Fabric, RequestId, Scif, would_block};

/// What one reader has not been told yet.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    news: VecDeque<(NodeId, bool)>,
}

impl Peers {
    /// A node came, or went. At most two lines about one node wait: that it came and went again is
    /// no news to a reader who has heard of neither.
    fn tell(&mut self, node: NodeId, added: bool) {
        let last = self.news.iter().rposition(|&(about, _)| about == node);
        match last {
            Some(index) if !added && self.news.get(index) == Some(&(node, true)) => {
                self.news.remove(index);
            }
            _ => self.news.push_back((node, added)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.news.is_empty()
    }

    /// Stores as many whole lines as there is room for.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while let Some(&(node, added)) = self.news.front() {
            let mut line = String::new();
            let what = if added { "added" } else { "removed" };
            let _ = writeln!(line, "{what} {node}");
            let Some(place) = buffer.get_mut(done..done + line.len()) else {
                break;
            };
            place.copy_from_slice(line.as_bytes());
            done += line.len();
            self.news.pop_front();
        }
        // No line fits: more than 0 bytes must come, and half a line would be worse.
        if done == 0 {
            return Err(Error::new(EINVAL));
        }
        Ok(done)
    }
}

impl<F: Fabric, R: RequestId> Scif<F, R> {
    /// What a fresh reader is told first: every node that is online, the own one among them.
    pub(crate) fn present_peers(&self) -> Peers {
        let news = self.engine.online_nodes().map(|node| (node, true));
        Peers {
            news: news.collect(),
        }
    }

    /// Tells all readers.
    pub(crate) fn tell_peers(&mut self, node: NodeId, added: bool) {
        for &id in &self.peers {
            if let Some(Handle {
                kind: Kind::Peers(peers),
                ..
            }) = self.handles.get_mut(&id)
            {
                peers.tell(node, added);
                self.changes.handles.push(id);
            }
        }
    }

    /// `read` of the file; waits while there is no news.
    pub(crate) fn read_peers(&mut self, id: HandleId, buffer: &mut [u8]) -> Result<usize> {
        match &mut self.handle_mut(id)?.kind {
            Kind::Peers(_) if buffer.is_empty() => Ok(0),
            Kind::Peers(peers) if peers.is_empty() => would_block(),
            Kind::Peers(peers) => peers.read(buffer),
            _ => Err(Error::new(EINVAL)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_one_node_merge() {
        let mut peers = Peers::default();
        peers.tell(1, true);
        peers.tell(2, true);
        peers.tell(1, false);
        let mut buffer = [0; 64];
        assert_eq!(peers.read(&mut buffer), Ok(8));
        assert_eq!(&buffer[..8], b"added 2\n");
        // A node that went and came back is told: it has lost all connections.
        for _ in 0..5 {
            peers.tell(2, false);
            peers.tell(2, true);
        }
        assert_eq!(peers.news.len(), 2);
        assert_eq!(peers.read(&mut buffer[..17]), Ok(10));
        assert_eq!(&buffer[..10], b"removed 2\n");
        assert_eq!(peers.read(&mut buffer[..7]), Err(Error::new(EINVAL)));
        assert_eq!(peers.read(&mut buffer[..8]), Ok(8));
        assert!(peers.is_empty());
    }
}
