//! Calls that may have to wait for the peer or for copies, found by their tickets.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use scif_abi::Error;
use scif_abi::limits::MAX_CALLS;

use crate::base::context::Context;
use crate::base::ids::{ChannelId, ConnectionId, EndpointId, Ticket, WindowId};
use crate::base::rule::{Violation, rule};
use crate::base::table::{Key, Table};

/// What a call waits for, which also tells what to undo when the call is abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingOn {
    /// Copies. Nothing to undo: they run on.
    Copies,
    /// The peer's answer; nothing to undo.
    Response,
    /// The peer's answer with a mark.
    Mark,
    /// This number of answers from the peer.
    Responses(usize),
    /// The end of this number of windows.
    Windows(usize),
    /// The registration of this window.
    Register(WindowId),
    /// The caller itself, which must carry out the job with this number.
    Virtual(ChannelId, u64),
}

impl PendingOn {
    /// Whether the call waits for an answer to a fence message.
    pub(crate) fn is_for_response(self) -> bool {
        matches!(
            self,
            PendingOn::Response | PendingOn::Mark | PendingOn::Responses(_)
        )
    }

    /// Whether the peer's driver can answer without waiting for anything. (`Response` is the
    /// answer to WAIT, which takes as long as the transfers.)
    fn expects_prompt_response(self) -> bool {
        matches!(self, PendingOn::Mark | PendingOn::Responses(_))
    }
}

/// One call.
#[derive(Debug)]
struct Call {
    endpoint: EndpointId,
    connection: ConnectionId,
    pending_on: PendingOn,
    result: Option<Result<u64, Error>>,
    /// When (ns) the call began.
    asked_at: u64,
}

/// The calls whose results have not been taken.
pub(crate) struct Calls {
    table: Table<Ticket, Call>,
    /// The calls without a result, by connection.
    waiting: BTreeSet<(ConnectionId, Ticket)>,
}

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls {
            table: Table::new(MAX_CALLS),
            waiting: BTreeSet::new(),
        }
    }

    /// Adds a call that waits.
    ///
    /// # Errors
    /// `ENOMEM`: too many calls.
    pub(crate) fn add(
        &mut self,
        cx: &mut Context,
        endpoint: EndpointId,
        connection: ConnectionId,
        pending_on: PendingOn,
    ) -> Result<Ticket, Error> {
        if pending_on.expects_prompt_response() {
            cx.expect_response();
        }
        let id = self.insert(cx, endpoint, connection, pending_on, None)?;
        self.waiting.insert((connection, id));
        Ok(id)
    }

    /// Adds a call that is done.
    ///
    /// # Errors
    /// `ENOMEM`: too many calls.
    pub(crate) fn add_done(
        &mut self,
        cx: &Context,
        endpoint: EndpointId,
        connection: ConnectionId,
        value: u64,
    ) -> Result<Ticket, Error> {
        self.insert(cx, endpoint, connection, PendingOn::Copies, Some(Ok(value)))
    }

    fn insert(
        &mut self,
        cx: &Context,
        endpoint: EndpointId,
        connection: ConnectionId,
        pending_on: PendingOn,
        result: Option<Result<u64, Error>>,
    ) -> Result<Ticket, Error> {
        let call = Call {
            endpoint,
            connection,
            pending_on,
            result,
            asked_at: cx.now,
        };
        self.table.insert(call).ok_or(Error::NoMemory)
    }

    /// Takes the result of a call; `None` if it has none yet. `EBADF` if there is no such call.
    pub(crate) fn finish(&mut self, id: Ticket) -> Option<Result<u64, Error>> {
        let Some(call) = self.table.get(id) else {
            return Some(Err(Error::BadDescriptor));
        };
        let result = call.result?;
        self.table.remove(id);
        Some(result)
    }

    /// Removes a call. Returns what it waits or waited for.
    pub(crate) fn remove(&mut self, id: Ticket) -> Option<PendingOn> {
        let call = self.table.remove(id)?;
        self.waiting.remove(&(call.connection, id));
        Some(call.pending_on)
    }

    /// What a call waits or waited for, and whether it has its result.
    pub(crate) fn state(&self, id: Ticket) -> Option<(PendingOn, bool)> {
        let call = self.table.get(id)?;
        Some((call.pending_on, call.result.is_some()))
    }

    /// The calls of a connection that wait, and what they wait for.
    pub(crate) fn waiting_on(&self, id: ConnectionId) -> Vec<(Ticket, PendingOn)> {
        let all = (id, Ticket::from_number(0))..=(id, Ticket::from_number(u64::MAX));
        let calls = self.waiting.range(all).filter_map(|(_, ticket)| {
            let call = self.table.get(*ticket)?;
            Some((*ticket, call.pending_on))
        });
        calls.collect()
    }

    /// The calls that a peer can answer at once: their connections, and since when (ns) they wait.
    pub(crate) fn prompt(&self) -> impl Iterator<Item = (ConnectionId, u64)> {
        let is_prompt =
            |call: &Call| call.result.is_none() && call.pending_on.expects_prompt_response();
        let calls = self.table.iter().map(|(_, call)| call);
        let calls = calls.filter(move |call| is_prompt(call));
        calls.map(|call| (call.connection, call.asked_at))
    }

    fn waiting_mut(&mut self, id: Ticket) -> Option<&mut Call> {
        self.table.get_mut(id).filter(|call| call.result.is_none())
    }

    /// Wakes the caller of a virtual transfer.
    pub(crate) fn wake(&self, cx: &mut Context, id: Ticket) {
        if let Some(call) = self.table.get(id) {
            cx.events.changed(call.endpoint);
        }
    }

    /// Ends a call with this result, unless it has ended.
    pub(crate) fn complete(&mut self, cx: &mut Context, id: Ticket, result: Result<u64, Error>) {
        let Some(call) = self.waiting_mut(id) else {
            return;
        };
        call.result = Some(result);
        let (endpoint, connection) = (call.endpoint, call.connection);
        self.waiting.remove(&(connection, id));
        cx.events.changed(endpoint);
    }

    /// Counts one window of an unregister call that has ended, or that is reported as still used.
    pub(crate) fn count_window(&mut self, cx: &mut Context, id: Ticket) {
        if let Some(call) = self.waiting_mut(id)
            && let PendingOn::Windows(left) = &mut call.pending_on
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.complete(cx, id, Ok(0));
            }
        }
    }

    /// Whether this ticket is that of a call of the connection that waits for an answer.
    pub(crate) fn expects_answer(
        &mut self,
        cx: &mut Context,
        connection: ConnectionId,
        id: Ticket,
    ) -> bool {
        let is_awaited = self
            .waiting_mut(id)
            .is_some_and(|call| call.connection == connection && call.pending_on.is_for_response());
        if !is_awaited {
            cx.stats.stale_ids += 1;
        }
        is_awaited
    }

    /// Handles one of the answers that a call waits for. The last answer, or an error, ends the
    /// call.
    pub(crate) fn answer(&mut self, cx: &mut Context, id: Ticket, result: Result<u64, Error>) {
        let more = match self.waiting_mut(id).map(|call| &mut call.pending_on) {
            Some(PendingOn::Responses(left)) => {
                *left = left.saturating_sub(1);
                *left > 0
            }
            // Only MARK_ACK ends it without an error.
            Some(PendingOn::Mark) => true,
            _ => false,
        };
        if !more || result.is_err() {
            self.complete(cx, id, result);
        }
    }

    /// Checks what must hold between any two calls of the engine.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let without_result = |id: Ticket| self.table.get(id).filter(|call| call.result.is_none());
        for (connection, id) in &self.waiting {
            let waits = without_result(*id).is_some_and(|call| call.connection == *connection);
            rule(waits, "a connection's calls wait", *id)?;
        }
        let count = self.table.iter().filter(|(_, call)| call.result.is_none());
        rule(
            count.count() == self.waiting.len(),
            "a call that waits is known to its connection",
            self.waiting.len() as u64,
        )
    }

    /// The connections on which calls wait.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.waiting.iter().map(|(connection, _)| *connection)
    }

    /// Number of calls.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}
