//! Tickets: calls that may have to wait for the peer or for copies.

use alloc::vec::Vec;

use scif_abi::Error;

use crate::base::ids::{ChannelId, ConnectionId, EndpointId, Ticket, WindowId};
use crate::base::memory::Memory;
use crate::engine::Engine;

/// What a call waits for, and what there is to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingOn {
    /// Copies; nothing to undo, they run on.
    Copies,
    /// The peer's answer; nothing to undo.
    Response,
    /// The peer's answer with a mark.
    Mark,
    /// So many answers of the peer.
    Responses(usize),
    /// So many windows to end.
    Windows(usize),
    /// This window to be registered.
    Register(WindowId),
    /// The caller itself, to carry out the job with this number.
    Virtual(ChannelId, u64),
}

impl PendingOn {
    /// Whether it waits for an answer to a fence message.
    pub(crate) fn is_for_response(self) -> bool {
        matches!(
            self,
            PendingOn::Response | PendingOn::Mark | PendingOn::Responses(_)
        )
    }

    /// Whether the peer's driver can answer without waiting for anything. (WAIT, which cannot be,
    /// is all that has one plain answer.)
    pub(crate) fn expects_prompt_response(self) -> bool {
        matches!(self, PendingOn::Mark | PendingOn::Responses(_))
    }
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) endpoint: EndpointId,
    pub(crate) connection: ConnectionId,
    pub(crate) pending_on: PendingOn,
    pub(crate) result: Option<Result<u64, Error>>,
    /// When (ns) it began.
    pub(crate) asked_at: u64,
}

impl Engine {
    /// Takes the result of a call; `None` while it is under way. `Event::Changed` of the call's
    /// endpoint tells when to look again. When an endpoint is closed all its calls end, without an
    /// event: whoever closes it asks for them. A ticket whose result was taken is unknown:
    /// `EBADF`.
    pub fn finish(&mut self, _mem: &mut dyn Memory, ticket: Ticket) -> Option<Result<u64, Error>> {
        let Some(call) = self.calls.get(ticket) else {
            return Some(Err(Error::BadDescriptor));
        };
        let result = call.result?;
        self.calls.remove(ticket);
        Some(result)
    }

    /// Nobody waits for this call any more (its caller was interrupted or died): what can be undone
    /// is undone, what is running runs on, and everything is freed in the end.
    pub fn abandon(&mut self, mem: &mut dyn Memory, ticket: Ticket) {
        let Some(call) = self.calls.remove(ticket) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(call.connection) {
            connection.calls.remove(&ticket);
        }
        match call.pending_on {
            PendingOn::Register(window) => self.cancel_window(mem, window),
            PendingOn::Virtual(channel, number) => self.end_virtual(channel, number),
            _ => {}
        }
    }

    /// Adds a call that waits.
    pub(crate) fn add_call(
        &mut self,
        endpoint: EndpointId,
        connection: ConnectionId,
        pending_on: PendingOn,
    ) -> Result<Ticket, Error> {
        let call = Call {
            endpoint,
            connection,
            pending_on,
            result: None,
            asked_at: self.cx.now,
        };
        if pending_on.expects_prompt_response() {
            self.expect_response();
        }
        let id = self.calls.insert(call).ok_or(Error::NoMemory)?;
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.calls.insert(id);
        }
        Ok(id)
    }

    /// Adds a call that is done.
    pub(crate) fn add_done(
        &mut self,
        endpoint: EndpointId,
        connection: ConnectionId,
        value: u64,
    ) -> Result<Ticket, Error> {
        let call = Call {
            endpoint,
            connection,
            pending_on: PendingOn::Copies,
            result: Some(Ok(value)),
            asked_at: self.cx.now,
        };
        self.calls.insert(call).ok_or(Error::NoMemory)
    }

    /// The call with this id, while it has no result.
    pub(crate) fn waiting_call(&mut self, id: Ticket) -> Option<&mut Call> {
        self.calls.get_mut(id).filter(|call| call.result.is_none())
    }

    /// Ends a call, unless it has ended.
    pub(crate) fn complete(&mut self, id: Ticket, result: Result<u64, Error>) {
        let Some(call) = self.waiting_call(id) else {
            return;
        };
        call.result = Some(result);
        let (endpoint, connection) = (call.endpoint, call.connection);
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.calls.remove(&id);
        }
        self.cx.events.changed(endpoint);
    }

    /// Ends the calls of a connection that wait for the peer, which has gone. Copies run on: the
    /// pages they need stay.
    pub(crate) fn end_responses(&mut self, id: ConnectionId) {
        self.end_calls(id, Error::ConnectionReset, |pending_on| {
            pending_on.is_for_response() || matches!(pending_on, PendingOn::Register(_))
        });
    }

    /// Ends all calls of a connection.
    pub(crate) fn end_all_calls(&mut self, id: ConnectionId, error: Error) {
        self.end_calls(id, error, |_| true);
    }

    fn end_calls(&mut self, id: ConnectionId, error: Error, ends: impl Fn(PendingOn) -> bool) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let calls: Vec<Ticket> = connection.calls.iter().copied().collect();
        for call in calls {
            let Some(pending_on) = self.waiting_call(call).map(|call| call.pending_on) else {
                continue;
            };
            if !ends(pending_on) {
                continue;
            }
            match pending_on {
                PendingOn::Register(window) => {
                    if let Some(window) = self.windows.local.get_mut(window) {
                        window.is_cancelled = true;
                        window.call = None;
                    }
                }
                PendingOn::Virtual(channel, number) => self.end_virtual(channel, number),
                _ => {}
            }
            self.complete(call, Err(error));
        }
    }
}
