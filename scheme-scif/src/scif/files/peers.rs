//! The file `peers`: the nodes that are online, then those that come and go, one line for each.

use scif_abi::NodeId;
use syscall::error::{EINVAL, Error, Result};

use crate::error::would_block;
use crate::handle::Kind;
use crate::handle::peer_lines::PeerLines;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// The first lines of a new reader: every node that is online, this one included.
    pub(in crate::scif) fn present_peers(&self) -> PeerLines {
        PeerLines::new(self.engine.online_nodes())
    }

    /// Adds a line for all readers: a node came or went.
    pub(in crate::scif) fn notify_peers(&mut self, node: NodeId, added: bool) {
        for id in self.handles.notify_peers(node, added) {
            self.requests.wake_handle(id);
        }
    }

    /// `read` of the file; waits while there is no unread line.
    pub(in crate::scif) fn read_peers(&mut self, id: HandleId, buffer: &mut [u8]) -> Result<usize> {
        match self.handles.get_mut(id)?.kind_mut() {
            Kind::Peers(_) if buffer.is_empty() => Ok(0),
            Kind::Peers(peers) if peers.is_empty() => would_block(),
            Kind::Peers(peers) => peers.read(buffer),
            _ => Err(Error::new(EINVAL)),
        }
    }
}
