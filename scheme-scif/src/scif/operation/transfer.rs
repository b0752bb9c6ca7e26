//! Moves bytes: `read` and `write` on a connection, and SCIF's `send` and `recv`.
//!
//! A blocking transfer keeps its place in the transfer queue of its direction until it is
//! complete, and the queue keeps its count of bytes; see
//! [`TransferQueue`](crate::request::transfer_queue::TransferQueue). The buffers are the client's
//! memory, mapped here until the request is answered. The client may change them meanwhile, so
//! bytes are only copied from and to them and never interpreted.

use scheme::read_at;
use scif_core::Side;
use syscall::error::{EAGAIN, EBADF, EINVAL, EISDIR, EWOULDBLOCK, Error, Result};
use syscall::flag::O_NONBLOCK;

use crate::error::{system, would_block};
use crate::handle::Kind;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::path::{Path, TextFile};
use crate::request::PendingOn;
use crate::scif::Scif;

/// When a receive is complete.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Until {
    /// With the first bytes that are there: files.
    Any,
    /// With a full buffer, or at the end of the connection: `SCIF_RECV_BLOCK`.
    Full,
}

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// `read` of a file: text from `offset` on, or the bytes that a connection has received.
    ///
    /// # Errors
    /// See docs/scheme.md, "Reading and writing".
    pub fn read(
        &mut self,
        id: HandleId,
        buffer: &mut [u8],
        offset: u64,
        flags: usize,
        request: R,
    ) -> Result<usize> {
        if let Some(ended) = self.requests.take_ended(request) {
            return ended;
        }
        let handle = self.handles.get(id)?;
        if matches!(handle.kind(), Kind::Directory) {
            return Err(Error::new(EISDIR));
        }
        handle.to_read()?;
        match handle.kind() {
            Kind::Text(text) => return Ok(read_at(text.as_bytes(), buffer, offset)),
            Kind::Peers(_) => return self.read_peers(id, buffer),
            Kind::Endpoint(_) => {}
            Kind::Closed => return Err(Error::new(EBADF)),
            _ => return Err(Error::new(EINVAL)),
        }
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.has_messages(id) {
            return self.read_messages(id, buffer, flags, request);
        }
        if flags & O_NONBLOCK == 0 {
            return self.receive(id, buffer, Until::Any, request);
        }
        match self.try_receive(id, buffer) {
            Ok(0) | Err(Error { errno: EWOULDBLOCK }) => Err(Error::new(EAGAIN)),
            result => result,
        }
    }

    /// `write` of a file: sends on a connection, commands cards, or changes limits.
    ///
    /// # Errors
    /// See docs/scheme.md, "Reading and writing".
    pub fn write(&mut self, id: HandleId, bytes: &[u8], flags: usize, request: R) -> Result<usize> {
        if let Some(ended) = self.requests.take_ended(request) {
            return ended;
        }
        let handle = self.handles.get(id)?;
        handle.to_write()?;
        match (handle.kind(), handle.path()) {
            (Kind::Endpoint(_), _) => {}
            (Kind::Closed, _) => return Err(Error::new(EBADF)),
            (_, Path::Text(TextFile::Cards)) => return self.write_cards(bytes),
            (_, Path::Text(TextFile::Limits)) => return self.write_limits(bytes),
            _ => return Err(Error::new(EINVAL)),
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.has_messages(id) {
            return self.write_message(id, bytes, flags, request);
        }
        if flags & O_NONBLOCK == 0 {
            return self.send(id, bytes, request);
        }
        match self.try_send(id, bytes) {
            Ok(0) | Err(Error { errno: EWOULDBLOCK }) => Err(Error::new(EAGAIN)),
            result => result,
        }
    }

    /// Sends what fits now; 0 when nothing fits, or while another request's blocking send is under
    /// way.
    pub(in crate::scif) fn try_send(&mut self, id: HandleId, bytes: &[u8]) -> Result<usize> {
        self.collect_connect(id)?;
        if !self.handles.endpoint(id)?.queue(Side::Send).is_free() {
            return Ok(0);
        }
        self.send_some(id, bytes)
    }

    /// Receives what is there; 0 when nothing is there, or another request's blocking receive
    /// comes first.
    pub(in crate::scif) fn try_receive(
        &mut self,
        id: HandleId,
        buffer: &mut [u8],
    ) -> Result<usize> {
        self.collect_connect(id)?;
        if !self.handles.endpoint(id)?.queue(Side::Receive).is_free() {
            return Ok(0);
        }
        self.receive_some(id, buffer)
    }

    /// Sends all of `bytes`, over as many tries as it takes.
    pub(in crate::scif) fn send(
        &mut self,
        id: HandleId,
        bytes: &[u8],
        request: R,
    ) -> Result<usize> {
        self.transfer(id, Side::Send, request, |scif, done| {
            let rest = bytes.get(done..).filter(|rest| !rest.is_empty())?;
            Some(scif.send_some(id, rest))
        })
    }

    /// Receives until `until` is met, over as many tries as it takes.
    pub(in crate::scif) fn receive(
        &mut self,
        id: HandleId,
        buffer: &mut [u8],
        until: Until,
        request: R,
    ) -> Result<usize> {
        self.transfer(id, Side::Receive, request, |scif, done| {
            let is_met = until == Until::Any && done > 0;
            let rest = buffer
                .get_mut(done..)
                .filter(|rest| !rest.is_empty() && !is_met)?;
            Some(scif.receive_some(id, rest))
        })
    }

    /// A blocking transfer. `step` moves bytes: it gets the number of bytes moved so far and
    /// returns how many more it has moved, 0 when it has to wait, or `None` when the transfer is
    /// complete.
    pub(in crate::scif) fn transfer(
        &mut self,
        id: HandleId,
        side: Side,
        request: R,
        mut step: impl FnMut(&mut Self, usize) -> Option<Result<usize>>,
    ) -> Result<usize> {
        self.collect_connect(id)?;
        let pending = PendingOn::Transfer { handle: id, side };
        let Some(mut done) = self.handles.endpoint(id)?.queue(side).enter(request) else {
            self.requests.suspend(request, pending);
            return would_block();
        };
        self.hold_ring(id, side, true);
        let error = loop {
            match step(self, done) {
                None => break None,
                Some(Ok(0)) => {
                    let queue = self.handles.endpoint(id)?.queue(side);
                    queue.wait(request, done);
                    self.requests.suspend(request, pending);
                    return would_block();
                }
                Some(Ok(count)) => done += count,
                Some(Err(error)) => break Some(error),
            }
        };
        self.hold_ring(id, side, false);
        self.leave_queue(id, request);
        // A transfer that ends early succeeds if it moved anything; the next one reports the
        // error.
        match error {
            Some(error) if done == 0 => Err(error),
            _ => Ok(done),
        }
    }

    /// Keeps bypass clients out from the first byte of a transfer to its last, or lets them in
    /// again: their bytes must not get between its pieces.
    fn hold_ring(&mut self, id: HandleId, side: Side, keeps: bool) {
        if let Ok(endpoint) = self.handles.endpoint_id(id) {
            self.engine
                .hold_ring(&mut self.memory, endpoint, side, keeps);
        }
    }

    fn send_some(&mut self, id: HandleId, bytes: &[u8]) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        let sent = self.engine.send(&mut self.memory, endpoint, bytes);
        let count = sent.map_err(system)?;
        self.requests.note_progress(count > 0);
        Ok(count)
    }

    fn receive_some(&mut self, id: HandleId, buffer: &mut [u8]) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        let received = self.engine.recv(&mut self.memory, endpoint, buffer);
        let count = received.map_err(system)?;
        self.requests.note_progress(count > 0);
        Ok(count)
    }

    /// Takes the request out of its queue, if it is in one. Returns the bytes that it has moved
    /// while it was in front.
    pub(in crate::scif) fn leave_queue(&mut self, id: HandleId, request: R) -> usize {
        let Some(PendingOn::Transfer { side, .. }) = self.requests.resume(request) else {
            return 0;
        };
        let Ok(endpoint) = self.handles.endpoint(id) else {
            return 0;
        };
        let queue = endpoint.queue(side);
        let was_front = queue.is_front(request);
        let (moved, others) = queue.leave(request);
        if was_front {
            self.hold_ring(id, side, false);
        }
        if others {
            // The next request in the queue waits under the same handle.
            self.requests.wake_handle(id);
        }
        moved
    }
}
