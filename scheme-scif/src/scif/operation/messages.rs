//! Reads and writes messages: files whose stream carries messages of Scheduled Transfers.
//!
//! A write sends one message. A read returns bytes of one message and the next read its rest, so
//! that nothing is lost when a file is read in pieces of any size. A read returns 0 bytes when the
//! peer has ended in order. Room in the ring for the frame that reports that end is always kept
//! free.

use scif_abi::PortId;
use scif_core::{EndpointState, Side};
use st_core::frame::{Frame, HEAD_BYTES, MOST_BYTES};
use syscall::error::{EAGAIN, ECONNRESET, EMSGSIZE, EWOULDBLOCK, Error, Result};
use syscall::flag::O_NONBLOCK;

use crate::error::{system, would_block};
use crate::handle::endpoint::Endpoint;
use crate::handle::messages::{Messages, Wanted};
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::request::PendingOn;
use crate::scif::Scif;

/// Bytes kept free in the peer's ring for the frame that ends the stream.
const SPARE: u32 = HEAD_BYTES as u32;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// Makes the endpoint of a new handle carry messages.
    pub(in crate::scif) fn carry_messages(&mut self, endpoint: &mut Endpoint<R>, is_server: bool) {
        let port = self.engine.local_port(endpoint.id());
        let key = self.memory.random() as u32;
        let messages = Messages::new(is_server, port.map_or(0, PortId::port), key);
        endpoint.set_messages(messages);
    }

    /// Finishes the `open` of a connection once its set-up is complete; at once if it carries
    /// bytes.
    ///
    /// # Errors
    /// Those of the set-up.
    pub(in crate::scif) fn finish_open_messages(
        &mut self,
        handle: HandleId,
        request: R,
    ) -> Result<HandleId> {
        let set_up = self.set_up(handle);
        if let Ok(false) = set_up {
            let endpoint = self.handles.endpoint_id(handle)?;
            self.requests.watch(endpoint, request);
            let pending = PendingOn::OpenMessages { handle };
            self.requests.suspend(request, pending);
            return would_block();
        }
        self.end_wait(request);
        set_up.map(|_| handle).inspect_err(|_| self.give_up(handle))
    }

    /// Closes a handle that no program has got. A request that uses its number nevertheless is
    /// answered.
    pub(in crate::scif) fn give_up(&mut self, handle: HandleId) {
        // The handle has an endpoint, unless such a request has closed it.
        let _ = self.close_early(handle);
        self.close(handle);
    }

    /// `read`: bytes of one message, 0 at the end.
    ///
    /// # Errors
    /// `ECONNRESET` when the peer is gone without an end, `ECONNREFUSED` and `EPROTO` when it uses
    /// another protocol; see docs/scheme.md, "Messages".
    pub(in crate::scif) fn read_messages(
        &mut self,
        id: HandleId,
        buffer: &mut [u8],
        flags: usize,
        request: R,
    ) -> Result<usize> {
        if flags & O_NONBLOCK == 0 {
            return self.transfer(id, Side::Receive, request, |scif, done| match done {
                0 => scif.receive_message(id, buffer).transpose(),
                _ => None,
            });
        }
        let received = self.collect_connect(id).and_then(|()| {
            match self.handles.endpoint(id)?.queue(Side::Receive).is_free() {
                true => self.receive_message(id, buffer),
                false => Ok(Some(0)),
            }
        });
        match received {
            Ok(Some(0)) | Err(Error { errno: EWOULDBLOCK }) => Err(Error::new(EAGAIN)),
            Ok(received) => Ok(received.unwrap_or(0)),
            Err(error) => Err(error),
        }
    }

    /// `write`: sends a message.
    ///
    /// # Errors
    /// Those of [`read_messages`](Self::read_messages); `EMSGSIZE`.
    pub(in crate::scif) fn write_message(
        &mut self,
        id: HandleId,
        bytes: &[u8],
        flags: usize,
        request: R,
    ) -> Result<usize> {
        if bytes.len() > MOST_BYTES {
            return Err(Error::new(EMSGSIZE));
        }
        let head = Frame::Message(bytes.len()).encode();
        let rest = |done: usize| match head.get(done..) {
            Some(rest @ [_, ..]) => Some(rest),
            _ => bytes
                .get(done - HEAD_BYTES..)
                .filter(|rest| !rest.is_empty()),
        };
        let sent = if flags & O_NONBLOCK == 0 {
            let step =
                |scif: &mut Self, done| rest(done).map(|part| scif.send_part(id, part, done));
            self.transfer(id, Side::Send, request, step)?
        } else {
            self.begin_at_once(id, head.len() + bytes.len())?;
            let mut sent = 0;
            while let Some(part) = rest(sent) {
                match self.send_part(id, part, sent)? {
                    0 => break,
                    count => sent += count,
                }
            }
            sent
        };
        if sent < HEAD_BYTES + bytes.len() {
            self.cut_message(id);
            return Err(Error::new(ECONNRESET));
        }
        Ok(bytes.len())
    }

    /// Checks that a frame of this length can be sent as a whole now.
    ///
    /// # Errors
    /// `EAGAIN` when it cannot be sent now, `EMSGSIZE` when it never can.
    fn begin_at_once(&mut self, id: HandleId, bytes: usize) -> Result<()> {
        let again = || Error::new(EAGAIN);
        match self.collect_connect(id) {
            Err(Error { errno: EWOULDBLOCK }) => return Err(again()),
            collected => collected?,
        }
        let is_free = self.handles.endpoint(id)?.queue(Side::Send).is_free();
        if !is_free || !self.set_up(id)? {
            return Err(again());
        }
        let endpoint = self.handles.endpoint_id(id)?;
        let (room, ring) = self
            .engine
            .room(&mut self.memory, endpoint)
            .map_err(system)?;
        let wanted = bytes + SPARE as usize;
        match () {
            () if wanted <= room as usize => Ok(()),
            () if wanted < ring as usize => Err(again()),
            () => Err(Error::new(EMSGSIZE)),
        }
    }

    /// Sends bytes of a frame of which `done` are sent. Returns 0 without room, or before the
    /// set-up is complete.
    fn send_part(&mut self, id: HandleId, part: &[u8], done: usize) -> Result<usize> {
        if !self.set_up(id)? {
            return Ok(0);
        }
        let endpoint = self.handles.endpoint(id)?;
        if let (0, Some(messages)) = (done, endpoint.messages()) {
            messages.may_begin()?;
        }
        let endpoint = endpoint.id();
        let sent = self
            .engine
            .send_beside(&mut self.memory, endpoint, part, SPARE);
        let count = sent.map_err(system)?;
        self.requests.note_progress(count > 0);
        Ok(count)
    }

    /// Receives bytes of a message. Returns 0 when there are none yet, `None` when none will come.
    fn receive_message(&mut self, id: HandleId, buffer: &mut [u8]) -> Result<Option<usize>> {
        if !self.set_up(id)? {
            return Ok(Some(0));
        }
        loop {
            let endpoint = self.handles.endpoint(id)?;
            let number = endpoint.id();
            let Some(messages) = endpoint.messages() else {
                return Ok(None);
            };
            let (target, is_data) = match messages.wanted() {
                Wanted::Head(head) => (head, false),
                Wanted::Data(rest) => {
                    let most = rest.min(buffer.len());
                    (buffer.get_mut(..most).unwrap_or_default(), true)
                }
                Wanted::Nothing => return Ok(None),
            };
            let received = self.engine.recv(&mut self.memory, number, target);
            let count = received.map_err(system)?;
            self.requests.note_progress(count > 0);
            messages.arrived(count)?;
            if count == 0 || is_data {
                return Ok(Some(count));
            }
        }
    }

    /// Continues the set-up of a connection that is new or whose peer has sent something.
    pub(in crate::scif) fn go_on_with_set_up(&mut self, id: HandleId) {
        // The next transfer reports a fault of the connection.
        let is_over = !matches!(self.set_up(id), Ok(false));
        if is_over && let Ok(endpoint) = self.handles.endpoint_id(id) {
            self.greeting.remove(&endpoint);
        }
    }

    /// Continues the set-up of a connection. Returns whether it is complete.
    ///
    /// # Errors
    /// The reason why there is no connection; `ECONNRESET` when the peer is gone.
    pub(in crate::scif) fn set_up(&mut self, id: HandleId) -> Result<bool> {
        let endpoint = self.handles.endpoint(id)?;
        let number = endpoint.id();
        let Some(messages) = endpoint.messages() else {
            return Ok(true);
        };
        // If the connect is still under way in the background, the first transfer collects it.
        let is_connected = self.engine.state(number) != Some(EndpointState::Connecting);
        if is_connected && let Some(request) = messages.request() {
            let sent = self.engine.send(&mut self.memory, number, &request);
            sent.map_err(system)?;
        }
        let mut is_new = false;
        while let Some(missing) = messages.missing()? {
            is_new = true;
            let received = self.engine.recv(&mut self.memory, number, missing);
            let count = received.map_err(system)?;
            if count == 0 {
                return Ok(false);
            }
            if let Some(answer) = messages.greet(count) {
                // An error means that the peer is gone. What it has sent can still be received.
                let _ = self.engine.send(&mut self.memory, number, &answer);
            }
        }
        if is_new {
            // Transfers of the other direction may have waited for the set-up.
            self.requests.wake_handle(id);
        }
        Ok(true)
    }

    /// Whether a handle's connection carries messages.
    pub(in crate::scif) fn has_messages(&mut self, id: HandleId) -> bool {
        let endpoint = self.handles.endpoint(id);
        endpoint.is_ok_and(|endpoint| endpoint.messages().is_some())
    }

    /// Records that the message that is being sent will not be completed.
    pub(in crate::scif) fn cut_message(&mut self, id: HandleId) {
        if let Ok(endpoint) = self.handles.endpoint(id)
            && let Some(messages) = endpoint.messages()
        {
            messages.cut();
        }
    }

    /// Sends this end's request, if it is still unsent, and the frame that ends the stream, before
    /// the endpoint is closed.
    pub(in crate::scif) fn end_messages(&mut self, endpoint: &mut Endpoint<R>) {
        let number = endpoint.id();
        let Some(messages) = endpoint.messages() else {
            return;
        };
        // A send fails only if the peer is gone, which then needs neither record; there is room
        // for both (`Messages::request`, `SPARE`).
        if let Some(request) = messages.request() {
            let _ = self.engine.send(&mut self.memory, number, &request);
        }
        if messages.has_end() {
            let end = Frame::End.encode();
            let _ = self.engine.send(&mut self.memory, number, &end);
        }
    }
}
