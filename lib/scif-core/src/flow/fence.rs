//! fence_mark, fence_wait and fence_signal, on this end and on behalf of the peer.
//!
//! A mark is a number from 1 to 2^30 - 1 that stands for "all jobs queued on this channel so far".
//! A mark of the peer's channel has bit 30 set besides.

use alloc::collections::VecDeque;

use scif_abi::flags::{FenceFlags, Protection};
use scif_abi::limits::MAX_PEER_FENCES;
use scif_abi::message::NodeMessage;
use scif_abi::{Error, NodeId};

use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, EndpointId, Ticket};
use crate::base::memory::Memory;
use crate::base::table::Key;
use crate::call::PendingOn;
use crate::connection::Phase;
use crate::engine::Engine;
use crate::rma::channel::Waiter;
use crate::rma::job::{Job, Work};
use crate::rma::span::Span;

/// Set in marks of the peer's channel.
const REMOTE_MARK: u32 = 1 << 30;

/// Marks are counted modulo this.
const MARK_MODULUS: u64 = 1 << 30;

/// The bits of a mark in a message; the mainline driver extends the sign of an `int`.
const MARK_BITS: u64 = 0x7fff_ffff;

/// Bytes of a signal's value.
const SIGNAL_BYTES: u64 = 8;

/// The marks of a channel.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// How many were given out; the last one's number.
    taken: u64,
    /// Number of each mark that is not reached, and of jobs it stands for; both ascending.
    open: VecDeque<(u64, u64)>,
    /// The highest mark of the peer's channel that was given out here.
    highest_remote: Option<u32>,
}

impl Marks {
    /// A mark for the first `issued` jobs.
    fn take(&mut self, issued: u64) -> u32 {
        if self.open.back().is_none_or(|(_, jobs)| *jobs != issued) {
            self.taken += 1;
            // 0 is no mark.
            if self.taken.is_multiple_of(MARK_MODULUS) {
                self.taken += 1;
            }
            self.open.push_back((self.taken, issued));
        }
        (self.taken % MARK_MODULUS) as u32
    }

    /// The jobs a mark stands for, 0 when these are long done; `None` when it was not given out.
    fn jobs(&self, mark: u32) -> Option<u64> {
        let mark = u64::from(mark);
        let age = (self.taken + MARK_MODULUS).wrapping_sub(mark) % MARK_MODULUS;
        if mark == 0 || mark >= MARK_MODULUS || age >= self.taken || age > MARK_MODULUS / 2 {
            return None;
        }
        let number = self.taken - age;
        let found = self
            .open
            .binary_search_by_key(&number, |(number, _)| *number);
        let jobs = found.ok().and_then(|index| self.open.get(index));
        Some(jobs.map_or(0, |(_, jobs)| *jobs))
    }

    /// Forgets marks that are reached when `retired` jobs are done.
    pub(crate) fn forget(&mut self, retired: u64) {
        while self
            .open
            .pop_front_if(|(_, jobs)| *jobs <= retired)
            .is_some()
        {}
    }

    /// Notes a mark of the peer's channel; what to give to the caller.
    fn note_remote(&mut self, mark: u64) -> Option<u64> {
        let mark = (mark & MARK_BITS) as u32;
        if mark >= REMOTE_MARK {
            return None;
        }
        self.highest_remote = self.highest_remote.max(Some(mark));
        Some(u64::from(REMOTE_MARK | mark))
    }

    /// Whether a mark of the peer's channel can have been given out here.
    fn is_known_remote(&self, mark: u32) -> bool {
        self.highest_remote.is_some_and(|highest| mark <= highest)
    }
}

/// What fence_signal shall store where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// Offset in the own registered address space; used with SIGNAL_LOCAL.
    pub local_offset: i64,
    /// What to store there.
    pub local_value: u64,
    /// Offset in the peer's registered address space; used with SIGNAL_REMOTE.
    pub remote_offset: i64,
    /// What to store there.
    pub remote_value: u64,
    /// `FenceFlags` bits.
    pub flags: u32,
}

/// Whose address space an offset is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreSide {
    Own,
    Peer,
}

impl Engine {
    /// `scif_fence_mark`: the ticket's value is a mark (0 to 2^31 - 1) for all transfers started so
    /// far through this endpoint (INIT_SELF) or through the peer (INIT_PEER).
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: not exactly one INIT flag, or any other.
    /// `ENOMEM`. By the ticket: `ENOMEM`, `ECONNRESET`.
    pub fn fence_mark(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        flags: u32,
    ) -> Result<Ticket, Error> {
        let connection = self.verify(id)?;
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
                self.post_to_peer(Some(connection), body);
                Ok(waiter)
            }
            _ => Err(Error::InvalidArgument),
        }
    }

    fn take_mark(&mut self, connection: ConnectionId) -> Result<u32, Error> {
        let channel = self.channel(connection)?;
        let channel = self.channels.get_mut(channel).ok_or(Error::NoMemory)?;
        let (issued, retired) = (channel.issued(), channel.retired);
        let mark = channel.marks.take(issued);
        channel.marks.forget(retired);
        Ok(mark)
    }

    /// `scif_fence_wait`: the ticket (value 0) is done when all transfers before `mark` are.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: no mark of this endpoint. `ENOMEM`. By
    /// the ticket: `ENOMEM`, `ECONNRESET`.
    pub fn fence_wait(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        mark: i32,
    ) -> Result<Ticket, Error> {
        let connection = self.verify(id)?;
        let mark = u32::try_from(mark).map_err(|_| Error::InvalidArgument)?;
        let known = self.connections.get(connection).and_then(|c| c.channel);
        // Where there is no channel no mark has been given out.
        let id_of_channel = known.ok_or(Error::InvalidArgument)?;
        let channel = self.channels.get(id_of_channel).ok_or(Error::NoMemory)?;
        if mark & REMOTE_MARK != 0 {
            let mark = mark & !REMOTE_MARK;
            if mark == 0 || !channel.marks.is_known_remote(mark) {
                return Err(Error::InvalidArgument);
            }
            let waiter = self
                .calls
                .add(&mut self.cx, id, connection, PendingOn::Response)?;
            let body = |peer| NodeMessage::Wait {
                peer,
                waiter: waiter.number(),
                mark: u64::from(mark),
            };
            self.post_to_peer(Some(connection), body);
            return Ok(waiter);
        }
        let jobs = channel.marks.jobs(mark).ok_or(Error::InvalidArgument)?;
        if jobs <= channel.retired {
            return self.calls.add_done(&self.cx, id, connection, 0);
        }
        let call = self
            .calls
            .add(&mut self.cx, id, connection, PendingOn::Copies)?;
        self.add_wait(id_of_channel, jobs, Waiter::Call(call));
        Ok(call)
    }

    /// `scif_fence_signal`: stores one or two values when all transfers so far are done. The ticket
    /// (value 0) is done when the stores are queued.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`, then `EINVAL`: not exactly one INIT flag, no SIGNAL
    /// flag, unknown flags, or an offset in use is not a multiple of 4. `ENXIO`: eight bytes there
    /// are not in one window. `EACCES`: it may not be written. `ENOMEM`. By the ticket: `ENXIO`,
    /// `ECONNRESET`.
    pub fn fence_signal(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        signal: Signal,
    ) -> Result<Ticket, Error> {
        let connection = self.verify(id)?;
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
        // Everything is checked before anything is done.
        let mut spans = [None, None];
        for (store, span) in stores.iter().zip(&mut spans) {
            if let Some((side, offset, value)) = store {
                *span = Some((self.signal_span(connection, *side, *offset)?, *value));
            }
        }
        if by_self {
            self.queue_signals(id, connection, spans)
        } else {
            self.ask_for_signals(id, connection, stores)
        }
    }

    /// The eight bytes at an offset, which must be in one window that may be written.
    fn signal_span(&self, id: ConnectionId, side: StoreSide, offset: i64) -> Result<Span, Error> {
        let (windows, need) = (&self.windows, Protection::WRITE);
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
        if !self.has_room(connection, count)? {
            return Err(Error::NoMemory);
        }
        let ticket = self.calls.add_done(&self.cx, id, connection, 0)?;
        for (to, value) in spans.into_iter().flatten() {
            self.queue(connection, Job::new(Work::Store { to, value }))?;
        }
        Ok(ticket)
    }

    /// Has the peer store after its transfers. The messages name sides as the peer sees them.
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
            self.post_to_peer(Some(connection), |peer| match side {
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

    /// Messages about fences; false when `body` is none of them.
    pub(crate) fn handle_fence_message(&mut self, ends: Ends, body: NodeMessage) -> bool {
        let from = ends.peer.node();
        match body {
            NodeMessage::Mark { peer, waiter } => self.on_mark(ends, peer, waiter),
            NodeMessage::Wait { peer, waiter, mark } => self.on_wait(ends, peer, waiter, mark),
            NodeMessage::SignalLocal {
                peer,
                offset,
                value,
                waiter,
            } => self.on_signal(ends, peer, (StoreSide::Own, offset, value), waiter),
            NodeMessage::SignalRemote {
                peer,
                offset,
                value,
                waiter,
            } => self.on_signal(ends, peer, (StoreSide::Peer, offset, value), waiter),
            NodeMessage::MarkAck {
                requester,
                waiter,
                mark,
            } => {
                if let Some(id) = self.expect(from, requester, &[Phase::Connected]) {
                    self.on_mark_ack(id, waiter, mark);
                }
            }
            NodeMessage::WaitAck { requester, waiter }
            | NodeMessage::SignalAck { requester, waiter } => {
                self.on_fence_answer(from, requester, waiter, Ok(0));
            }
            NodeMessage::MarkNack { requester, waiter }
            | NodeMessage::WaitNack { requester, waiter } => {
                self.on_fence_answer(from, requester, waiter, Err(Error::NoMemory));
            }
            NodeMessage::SignalNack { requester, waiter } => {
                self.on_fence_answer(from, requester, waiter, Err(Error::NoSuchAddress));
            }
            _ => return false,
        }
        true
    }

    /// MARK: the peer wants a mark of our channel.
    fn on_mark(&mut self, ends: Ends, peer: u64, waiter: u64) {
        let id = self.expect(ends.peer.node(), peer, &[Phase::Connected]);
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

    /// Fences of a node that wait here.
    fn fences(&self, node: NodeId) -> usize {
        self.peer_fences.get(&node).copied().unwrap_or(0)
    }

    /// The id by which the peer knows its end; 0 when the connection is not known.
    fn requester(&self, id: Option<ConnectionId>) -> u64 {
        let connection = id.and_then(|id| self.connections.get(id));
        connection.map_or(0, |connection| connection.remote)
    }

    /// WAIT: the peer waits for jobs of ours.
    fn on_wait(&mut self, ends: Ends, peer: u64, waiter: u64, mark: u64) {
        let node = ends.peer.node();
        let id = self.expect(node, peer, &[Phase::Connected]);
        let requester = self.requester(id);
        let channel_id = id
            .and_then(|id| self.connections.get(id))
            .and_then(|c| c.channel);
        let channel = channel_id.and_then(|id| self.channels.get(id));
        let mark = (mark & MARK_BITS) as u32;
        let state = channel.and_then(|c| Some((c.marks.jobs(mark)?, c.retired)));
        let is_crowded = self.fences(node) >= MAX_PEER_FENCES;
        let body = match (state, channel_id) {
            (Some((jobs, retired)), _) if jobs <= retired => {
                NodeMessage::WaitAck { requester, waiter }
            }
            (Some((jobs, _)), Some(channel)) if !is_crowded => {
                *self.peer_fences.entry(node).or_default() += 1;
                return self.add_wait(channel, jobs, Waiter::Peer(waiter));
            }
            _ => NodeMessage::WaitNack { requester, waiter },
        };
        self.cx.post(ends, body);
    }

    /// SIG_LOCAL and SIG_REMOTE: the peer wants a store after our jobs.
    fn on_signal(
        &mut self,
        ends: Ends,
        peer: u64,
        (side, offset, value): (StoreSide, u64, u64),
        waiter: u64,
    ) {
        let node = ends.peer.node();
        let id = self.expect(node, peer, &[Phase::Connected]);
        let requester = self.requester(id);
        let is_crowded = self.fences(node) >= MAX_PEER_FENCES;
        let is_aligned = offset.is_multiple_of(4);
        let queued = id.filter(|_| is_aligned && !is_crowded).and_then(|id| {
            let to = self.signal_span(id, side, offset.cast_signed()).ok()?;
            let mut job = Job::new(Work::Store { to, value });
            job.is_for_peer = true;
            self.queue(id, job).ok()
        });
        let body = match queued {
            Some(_) => NodeMessage::SignalAck { requester, waiter },
            None => NodeMessage::SignalNack { requester, waiter },
        };
        self.cx.post(ends, body);
    }

    /// MARK_ACK.
    fn on_mark_ack(&mut self, id: ConnectionId, waiter: u64, mark: u64) {
        let waiter = Ticket::from_number(waiter);
        if !self.calls.expects_answer(&mut self.cx, id, waiter) {
            return;
        }
        let channel = self.connections.get(id).and_then(|c| c.channel);
        let channel = channel.and_then(|id| self.channels.get_mut(id));
        let mark = channel.and_then(|channel| channel.marks.note_remote(mark));
        self.calls
            .complete(&mut self.cx, waiter, mark.ok_or(Error::NoMemory));
    }

    /// Any other answer to a fence message.
    fn on_fence_answer(
        &mut self,
        from: NodeId,
        requester: u64,
        waiter: u64,
        result: Result<u64, Error>,
    ) {
        let id = self.expect(from, requester, &[Phase::Connected]);
        let waiter = Ticket::from_number(waiter);
        if !id.is_some_and(|id| self.calls.expects_answer(&mut self.cx, id, waiter)) {
            return;
        }
        self.calls.answer(&mut self.cx, waiter, result);
    }
}
