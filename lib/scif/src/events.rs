//! Events for nodes that come and go.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use hal::event::Queue;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDONLY};
use scif_abi::NodeId;
use scif_abi::error::Error as Errno;
use syscall::error::EIO;
use syscall::flag::EventFlags;

use crate::error::{Error, Result};
use crate::raw::Deadline;

/// Most bytes that one read of the file takes.
const READ_BYTES: usize = 512;

/// The coming or going of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeEvent {
    /// The node is there: connects to it can succeed.
    Added(NodeId),
    /// The node is gone, and all connections with it.
    Removed(NodeId),
}

/// The events of nodes that come and go. The first ones name the nodes that are there already.
pub struct NodeEvents {
    file: Fd,
    lines: PeerLines,
}

impl NodeEvents {
    /// Begins to watch the nodes.
    ///
    /// # Errors
    /// Those of opening the scheme.
    pub fn open() -> Result<Self> {
        let flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
        let file = Fd::open("/scheme/scif/peers", flags, 0)?;
        let lines = PeerLines::default();
        Ok(Self { file, lines })
    }

    /// The descriptor, for event queues: readable when [`next`](Self::next) would not wait.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }

    /// Returns the next event. Waits for it at most for `limit` (none: without limit); `None` once
    /// that time is over.
    ///
    /// # Errors
    /// Those of the scheme; `EIO` for a line that is no event.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<NodeEvent>> {
        if let Some(event) = self.take()? {
            return Ok(Some(event));
        }
        let mut queue = Queue::new()?;
        queue.subscribe(self.fd(), EventFlags::EVENT_READ, ())?;
        let end = Deadline::after(limit)?;
        let mut ready = Vec::new();
        loop {
            // Taken after subscribing, so that nothing that happens in between is missed.
            if let Some(event) = self.take()? {
                return Ok(Some(event));
            }
            if !end.wait(&mut queue, &mut ready)? {
                return Ok(None);
            }
        }
    }

    /// Takes an event that has already arrived.
    fn take(&mut self) -> Result<Option<NodeEvent>> {
        loop {
            if let Some(event) = self.lines.next() {
                return Ok(Some(event));
            }
            let mut bytes = [0; READ_BYTES];
            let count = match self.file.read(&mut bytes).map_err(Error::from) {
                Ok(0) | Err(Error::Scif(Errno::WouldBlock)) => return Ok(None),
                Ok(count) => count,
                Err(error) => return Err(error),
            };
            self.lines.add(bytes.get(..count).unwrap_or(&[]))?;
        }
    }
}

/// The lines of the file, put together from reads, which may end in the middle of a line.
#[derive(Debug, Default)]
struct PeerLines {
    begun: Vec<u8>,
    events: VecDeque<NodeEvent>,
}

impl PeerLines {
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        for &byte in bytes {
            if byte != b'\n' {
                self.begun.push(byte);
                continue;
            }
            let event = parse(&self.begun).ok_or(Error::System(EIO))?;
            self.events.push_back(event);
            self.begun.clear();
        }
        Ok(())
    }

    fn next(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }
}

/// Parses `added <node>` or `removed <node>`.
fn parse(line: &[u8]) -> Option<NodeEvent> {
    let (word, node) = core::str::from_utf8(line).ok()?.split_once(' ')?;
    let node = node.parse().ok()?;
    match word {
        "added" => Some(NodeEvent::Added(node)),
        "removed" => Some(NodeEvent::Removed(node)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_come_in_pieces() {
        let mut lines = PeerLines::default();
        for piece in ["added 0\nad", "ded 12", "\nremoved 12\nr"] {
            lines.add(piece.as_bytes()).unwrap();
        }
        assert_eq!(lines.next(), Some(NodeEvent::Added(0)));
        assert_eq!(lines.next(), Some(NodeEvent::Added(12)));
        assert_eq!(lines.next(), Some(NodeEvent::Removed(12)));
        assert_eq!(lines.next(), None);
        lines.add(b"emoved 0\n").unwrap();
        assert_eq!(lines.next(), Some(NodeEvent::Removed(0)));
    }

    #[test]
    fn other_lines_are_errors() {
        for line in ["", "added", "added x", "added 70000", "came 1", "added  1"] {
            let line = alloc::format!("{line}\n");
            let error = PeerLines::default().add(line.as_bytes());
            assert_eq!(error, Err(Error::System(EIO)), "{line:?}");
        }
    }
}
