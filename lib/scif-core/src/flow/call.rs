//! Tickets: taking the results of calls, abandoning calls, and ending the calls of a connection.

use scif_abi::Error;

use crate::base::ids::{ConnectionId, Ticket};
use crate::base::memory::Memory;
use crate::call::PendingOn;
use crate::engine::Engine;

impl Engine {
    /// Takes the result of a call; `None` while the call is under way. `Event::Changed` of the
    /// call's endpoint reports when to try again. When an endpoint is closed, all its calls end
    /// without an event: the caller that closes it must take their results. A ticket whose result
    /// was taken is unknown: `EBADF`.
    pub fn finish(&mut self, ticket: Ticket) -> Option<Result<u64, Error>> {
        self.calls.finish(ticket)
    }

    /// Abandons a call, because its caller was interrupted or died. What can be undone is undone,
    /// copies run on, and everything is freed in the end.
    pub fn abandon(&mut self, mem: &mut dyn Memory, ticket: Ticket) {
        match self.calls.remove(ticket) {
            Some(PendingOn::Register(window)) => self.cancel_window(mem, window),
            Some(PendingOn::Virtual(channel, number)) => {
                self.transfers.end_virtual(channel, number)
            }
            _ => {}
        }
    }

    /// Ends the calls of a connection that wait for the peer, which has gone. Copies run on, and
    /// the pages that they need stay.
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
        for (call, pending_on) in self.calls.waiting_on(id) {
            if !ends(pending_on) {
                continue;
            }
            match pending_on {
                PendingOn::Register(window) => {
                    self.windows.cancel_local(window);
                }
                PendingOn::Virtual(channel, number) => self.transfers.end_virtual(channel, number),
                _ => {}
            }
            self.calls.complete(&mut self.cx, call, Err(error));
        }
    }
}
