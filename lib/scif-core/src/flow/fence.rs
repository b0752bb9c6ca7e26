//! fence_mark, fence_wait and fence_signal, on this end and on behalf of the peer.

use scif_abi::flags::{FenceFlags, Protection};
use scif_abi::message::NodeMessage;
use scif_abi::{Error, NodeId};

use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, EndpointId, Ticket};
use crate::base::table::Key;
use crate::call::PendingOn;
use crate::connection::{Connection, Phase};
use crate::engine::Engine;
use crate::rma::channel::Waiter;
use crate::rma::job::Job;
use crate::rma::marks::{MARK_BITS, Marked};
use crate::rma::span::Span;

/// Bytes of a signal's value.
const SIGNAL_BYTES: u64 = 8;

/// The stores of fence_signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// Offset in the own registered address space; used with SIGNAL_LOCAL.
    pub local_offset: i64,
    /// The value to store there.
    pub local_value: u64,
    /// Offset in the peer's registered address space; used with SIGNAL_REMOTE.
    pub remote_offset: i64,
    /// The value to store there.
    pub remote_value: u64,
    /// `FenceFlags` bits.
    pub flags: u32,
}

/// The side whose address space an offset is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreSide {
    Own,
    Peer,
}

impl Engine {
    /// `scif_fence_mark`: the ticket's value is a mark (0 to 2^31 - 1) for all transfers started
    /// so far through this endpoint (INIT_SELF) or through the peer (INIT_PEER).
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: not exactly one INIT flag, or any other.
    /// `ENOMEM`. By the ticket: `ENOMEM`, `ECONNRESET`.
    pub fn fence_mark(&mut self, id: EndpointId, flags: u32) -> Result<Ticket, Error> {
        let connection = self.online_connection(id)?;
        match FenceFlags::from_bits(flags) {
            Some(FenceFlags::INIT_SELF) => {
                let mark = self.take_mark(connection)?;
                self.calls
                    .add_done(&self.cx, id, connection, u64::from(mark))
            }
            Some(FenceFlags::INIT_PEER) => {
                self.channel(connection)?;
                let waiter = self
                    .calls
                    .add(&mut self.cx, id, connection, PendingOn::Mark)?;
                let body = |peer| NodeMessage::Mark {
                    peer,
                    waiter: waiter.number(),
                };
                self.post_to_peer(connection, body);
                Ok(waiter)
            }
            _ => Err(Error::InvalidArgument),
        }
    }

    fn take_mark(&mut self, connection: ConnectionId) -> Result<u32, Error> {
        let (channel, _) = self.channel(connection)?;
        self.transfers.take_mark(channel).ok_or(Error::NoMemory)
    }

    /// `scif_fence_wait`: the ticket (value 0) is done when all transfers before `mark` are done.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: no mark of this endpoint. `ENOMEM`. By
    /// the ticket: `ENOMEM`, `ECONNRESET`.
    pub fn fence_wait(&mut self, id: EndpointId, mark: i32) -> Result<Ticket, Error> {
        let connection = self.online_connection(id)?;
        let mark = u32::try_from(mark).map_err(|_| Error::InvalidArgument)?;
        // Without a channel no mark has been given out.
        let marked = self.transfers.find_mark(connection, mark);
        match marked.ok_or(Error::InvalidArgument)? {
            Marked::Done => self.calls.add_done(&self.cx, id, connection, 0),
            Marked::Jobs(jobs) => {
                let call = (self.calls).add(&mut self.cx, id, connection, PendingOn::Copies)?;
                (self.transfers).add_wait(connection, jobs, Waiter::Call(call));
                Ok(call)
            }
            Marked::Remote(mark) => {
                let waiter = (self.calls).add(&mut self.cx, id, connection, PendingOn::Response)?;
                self.post_to_peer(connection, |peer| NodeMessage::Wait {
                    peer,
                    waiter: waiter.number(),
                    mark: u64::from(mark),
                });
                Ok(waiter)
            }
        }
    }

    /// `scif_fence_signal`: stores one or two values when all transfers so far are done. The
    /// ticket (value 0) is done when the stores are queued.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: not exactly one INIT flag, no SIGNAL
    /// flag, unknown flags, or an offset in use is not a multiple of 4. `ENXIO`: the eight bytes
    /// at an offset are not in one window. `EACCES`: that window may not be written. `ENOMEM`. By
    /// the ticket: `ENXIO`, `ECONNRESET`.
    pub fn fence_signal(&mut self, id: EndpointId, signal: Signal) -> Result<Ticket, Error> {
        let connection = self.online_connection(id)?;
        let flags = FenceFlags::from_bits(signal.flags).ok_or(Error::InvalidArgument)?;
        let by_self = flags.contains(FenceFlags::INIT_SELF);
        let is_local = flags.contains(FenceFlags::SIGNAL_LOCAL);
        let is_remote = flags.contains(FenceFlags::SIGNAL_REMOTE);
        if by_self == flags.contains(FenceFlags::INIT_PEER) || !(is_local || is_remote) {
            return Err(Error::InvalidArgument);
        }
        let local = (StoreSide::Own, signal.local_offset, signal.local_value);
        let remote = (StoreSide::Peer, signal.remote_offset, signal.remote_value);
        let stores = [is_local.then_some(local), is_remote.then_some(remote)];
        let is_aligned = |offset: i64| offset.cast_unsigned().is_multiple_of(4);
        if !stores
            .iter()
            .flatten()
            .all(|(_, offset, _)| is_aligned(*offset))
        {
            return Err(Error::InvalidArgument);
        }
        // Everything is checked before anything is done: both ranges before protections.
        let mut spans = [None, None];
        for need in [Protection::empty(), Protection::WRITE] {
            for (store, span) in stores.iter().zip(&mut spans) {
                if let Some((side, offset, value)) = store {
                    *span = Some((self.signal_span(connection, *side, *offset, need)?, *value));
                }
            }
        }
        if by_self {
            self.queue_signals(id, connection, spans)
        } else {
            self.ask_for_signals(id, connection, stores)
        }
    }

    /// The span of the eight bytes at an offset, which must be in one window that allows `need`.
    fn signal_span(
        &self,
        id: ConnectionId,
        side: StoreSide,
        offset: i64,
        need: Protection,
    ) -> Result<Span, Error> {
        let windows = &self.windows;
        let span = match side {
            StoreSide::Own => Span::local(windows, id, (offset, SIGNAL_BYTES), need),
            StoreSide::Peer => Span::remote(windows, id, (offset, SIGNAL_BYTES), need),
        }?;
        if span.windows() > 1 {
            return Err(Error::NoSuchAddress);
        }
        Ok(span)
    }

    fn queue_signals(
        &mut self,
        id: EndpointId,
        connection: ConnectionId,
        spans: [Option<(Span, u64)>; 2],
    ) -> Result<Ticket, Error> {
        let count = spans.iter().flatten().count();
        // The store of each value is in one window.
        let channel = self.channel_with_room(connection, (count, count as u64))?;
        let ticket = self.calls.add_done(&self.cx, id, connection, 0)?;
        for (to, value) in spans.into_iter().flatten() {
            self.queue(channel, Job::store(to, value))?;
        }
        Ok(ticket)
    }

    /// Asks the peer to store after its transfers. The messages name the sides as the peer sees
    /// them.
    fn ask_for_signals(
        &mut self,
        id: EndpointId,
        connection: ConnectionId,
        stores: [Option<(StoreSide, i64, u64)>; 2],
    ) -> Result<Ticket, Error> {
        let count = stores.iter().flatten().count();
        let waiter = self
            .calls
            .add(&mut self.cx, id, connection, PendingOn::Responses(count))?;
        for (side, offset, value) in stores.into_iter().flatten() {
            let offset = offset.cast_unsigned();
            self.post_to_peer(connection, |peer| match side {
                StoreSide::Own => NodeMessage::SignalRemote {
                    peer,
                    offset,
                    value,
                    waiter: waiter.number(),
                },
                StoreSide::Peer => NodeMessage::SignalLocal {
                    peer,
                    offset,
                    value,
                    waiter: waiter.number(),
                },
            });
        }
        Ok(waiter)
    }

    /// MARK: the peer asks for a mark of our channel.
    pub(crate) fn on_mark(&mut self, ends: Ends, peer: u64, waiter: u64) {
        let id = self.connection_in(ends.peer.node(), peer, &[Phase::Connected]);
        let mark = id.and_then(|id| self.take_mark(id).ok());
        let requester = self.requester(id);
        let body = match mark {
            Some(mark) => NodeMessage::MarkAck {
                requester,
                waiter,
                mark: u64::from(mark),
            },
            None => NodeMessage::MarkNack { requester, waiter },
        };
        self.cx.post(ends, body);
    }

    /// The id that the peer gave its end; 0 if the connection is not known.
    fn requester(&self, id: Option<ConnectionId>) -> u64 {
        let connection = id.and_then(|id| self.connections.get(id));
        connection.map_or(0, Connection::remote)
    }

    /// WAIT: the peer waits for jobs of ours.
    pub(crate) fn on_wait(&mut self, ends: Ends, peer: u64, (waiter, mark): (u64, u64)) {
        let node = ends.peer.node();
        let id = self.connection_in(node, peer, &[Phase::Connected]);
        let requester = self.requester(id);
        let mark = (mark & MARK_BITS) as u32;
        let marked = id.and_then(|id| Some((id, self.transfers.find_mark(id, mark)?)));
        let body = match marked {
            Some((_, Marked::Done)) => NodeMessage::WaitAck { requester, waiter },
            Some((id, Marked::Jobs(jobs))) if !self.transfers.has_many_fences(id) => {
                return self.transfers.add_wait(id, jobs, Waiter::Peer(waiter));
            }
            _ => NodeMessage::WaitNack { requester, waiter },
        };
        self.cx.post(ends, body);
    }

    /// SIG_LOCAL and SIG_REMOTE: the peer asks for a store after our jobs.
    pub(crate) fn on_signal(
        &mut self,
        ends: Ends,
        peer: u64,
        (side, offset, value): (StoreSide, u64, u64),
        waiter: u64,
    ) {
        let node = ends.peer.node();
        let id = self.connection_in(node, peer, &[Phase::Connected]);
        let requester = self.requester(id);
        let is_aligned = offset.is_multiple_of(4);
        let may_wait = |id: &ConnectionId| is_aligned && !self.transfers.has_many_fences(*id);
        let queued = id.filter(may_wait).and_then(|id| {
            let (offset, need) = (offset.cast_signed(), Protection::WRITE);
            let to = self.signal_span(id, side, offset, need).ok()?;
            let channel = self.channel(id).ok()?;
            self.queue(channel, Job::store(to, value).for_peer()).ok()
        });
        let body = match queued {
            Some(_) => NodeMessage::SignalAck { requester, waiter },
            None => NodeMessage::SignalNack { requester, waiter },
        };
        self.cx.post(ends, body);
    }

    /// MARK_ACK: the peer's mark, for our call `waiter`.
    pub(crate) fn on_mark_ack(&mut self, from: NodeId, requester: u64, (waiter, mark): (u64, u64)) {
        let Some(id) = self.connection_in(from, requester, &[Phase::Connected]) else {
            return;
        };
        let waiter = Ticket::from_number(waiter);
        if !self.calls.expects_answer(&mut self.cx, id, waiter) {
            return;
        }
        let mark = self.transfers.note_remote_mark(id, mark);
        let result = mark.ok_or(Error::NoMemory);
        self.calls.complete(&mut self.cx, waiter, result);
    }

    /// Any other answer to a fence message.
    pub(crate) fn on_fence_answer(
        &mut self,
        from: NodeId,
        requester: u64,
        waiter: u64,
        result: Result<u64, Error>,
    ) {
        let id = self.connection_in(from, requester, &[Phase::Connected]);
        let waiter = Ticket::from_number(waiter);
        if !id.is_some_and(|id| self.calls.expects_answer(&mut self.cx, id, waiter)) {
            return;
        }
        self.calls.answer(&mut self.cx, waiter, result);
    }

    /// Sends a message whose first word is the peer's id.
    fn post_to_peer(&mut self, id: ConnectionId, body: impl FnOnce(u64) -> NodeMessage) {
        if let Some(connection) = self.connections.identity(id) {
            self.cx.post(connection.ends, body(connection.remote));
        }
    }
}
