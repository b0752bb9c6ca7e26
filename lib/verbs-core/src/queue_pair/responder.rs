//! The receiving half: puts messages into receives, and refuses those that are wrong.

use core::mem::take;

use super::{Incoming, Peer, Pool, QueuePair};
use crate::host::{Host, LaneId, Target};
use crate::objects::{Objects, Subject};
use crate::record::{Ack, Address, Broken, Fault, Marks, Piece, Record, Refusal};
use crate::table::Id;
use crate::types::{EventType, WcFlags, WcOpcode, WcStatus};
use crate::work::{ReceiveRequest, WorkCompletion, total};

impl QueuePair {
    /// Whether a record on this lane is from the peer, and for this generation of the queue pair.
    #[inline(always)]
    pub fn is_for_us(&self, lane: LaneId, address: &Address) -> bool {
        self.is_connected_to(lane, address) && address.generation == self.generation
    }

    /// Whether a record on this lane is from the peer of this queue pair.
    #[inline]
    pub fn is_connected_to(&self, lane: LaneId, address: &Address) -> bool {
        self.is_receiving()
            && self.lane == Some(lane)
            && self.attributes.dest_qpn == address.source
            && self.number == address.destination
    }

    /// Whether the peer that has announced itself is of this generation.
    pub fn knows(&self, generation: u32) -> bool {
        matches!(self.peer, Peer::Ready(ready) if ready.generation == generation)
    }

    /// Receives a piece of a message, whose bytes have arrived.
    pub fn receive_piece<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        lane: LaneId,
        piece: &Piece,
    ) -> Result<(), Broken> {
        if let Some(ack) = piece.ack.filter(|_| self.is_reliable()) {
            self.acknowledged(objects, ack)?;
        }
        // With this acknowledgement a failed request may have completed, which ends receiving.
        let taken = self.is_receiving() && self.take_piece(objects, host, lane, piece)?;
        if !taken {
            drop_bytes(host, lane, piece.payload as usize);
        }
        Ok(())
    }

    /// Receives a piece, if it is the expected one and has a receive. Returns whether its bytes
    /// were received.
    fn take_piece<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        lane: LaneId,
        piece: &Piece,
    ) -> Result<bool, Broken> {
        if self.is_reliable() && piece.number != self.expected {
            // The peer sends messages again that it has sent behind a refused one.
            return Ok(false);
        }
        if piece.marks.contains(Marks::FIRST) {
            // A message of an unreliable peer may stop in the middle.
            if self.incoming.is_some() && self.is_reliable() {
                return Err(Broken);
            }
            self.return_incoming(objects);
            if !self.begin(objects, lane, piece) {
                return Ok(false);
            }
        }
        let Some(incoming) = &mut self.incoming else {
            return Ok(false);
        };
        let is_written = piece.marks.contains(Marks::WRITTEN);
        let from = incoming.got;
        let end = from.checked_add(piece.payload).ok_or(Broken)?;
        let is_last = piece.marks.contains(Marks::LAST);
        let is_same = piece.number == incoming.number && piece.total == incoming.total;
        let is_whole = is_written || end == incoming.total;
        // Empty pieces in the middle would let a message go on without end.
        let is_empty = piece.payload == 0 && !is_last;
        if !is_same || end > incoming.total || is_last != is_whole || is_empty {
            return Err(Broken);
        }
        incoming.got = end;
        let mut places = take(&mut objects.places);
        places.clear();
        let range = (u64::from(from), u64::from(piece.payload));
        let segments = &incoming.receive.segments;
        let pd = incoming.pool.pd;
        let resolved = objects.keys.resolve(pd, segments, range, true, &mut places);
        let stored = resolved.map(|()| host.receive(lane, Target::Memory(&places)).is_ok());
        objects.places = places;
        if stored != Ok(true) {
            if let Some(incoming) = self.incoming.take() {
                self.spoil(objects, &incoming, WcStatus::LocProtErr, Refusal::Unusable);
            }
            // Bytes that could not be stored have left the lane all the same.
            return Ok(stored.is_ok());
        }
        if is_last {
            self.deliver(objects, host, piece);
        }
        Ok(true)
    }

    /// Takes a receive for a new message. Returns whether there is one that fits.
    fn begin(&mut self, objects: &mut Objects, lane: LaneId, piece: &Piece) -> bool {
        let is_written = piece.marks.contains(Marks::WRITTEN);
        let is_too_long = |receive: &ReceiveRequest| {
            !is_written && u64::from(piece.total) > total(&receive.segments)
        };
        let Some(pool) = self.pool(objects, piece.srq) else {
            self.refuse(objects, Refusal::NoQueue);
            objects.event(EventType::QpReqErr, Subject::Qp(self.number));
            self.enter_error(objects);
            return false;
        };
        let Some(receive) = self.take_receive(objects, pool) else {
            if self.is_reliable() {
                let refused = Record::Refused(self.address(), self.expected, Refusal::NotReady);
                objects.tell(lane, refused);
            }
            return false;
        };
        let is_too_long = is_too_long(&receive);
        let incoming = Incoming {
            receive,
            pool,
            number: piece.number,
            total: piece.total,
            got: 0,
        };
        if !is_too_long {
            self.incoming = Some(incoming);
        } else if self.is_reliable() {
            self.spoil(objects, &incoming, WcStatus::LocLenErr, Refusal::TooLong);
        } else if pool.srq.is_none() {
            self.receives.push_front(incoming.receive);
        } else {
            self.complete_receive(objects, pool, &incoming.receive, WcStatus::LocLenErr);
        }
        !is_too_long
    }

    /// The pool of this queue pair's receives: its own queue or its shared one. XRC messages
    /// choose theirs.
    #[inline]
    pub(super) fn own_pool(&self) -> Pool {
        Pool {
            srq: self.init.srq,
            pd: self.init.pd,
            cq: self.init.recv_cq,
        }
    }

    /// The pool for a message; one to an XRC queue pair chooses it by `chosen`.
    fn pool(&self, objects: &Objects, chosen: u32) -> Option<Pool> {
        let Some(xrcd) = self.init.xrcd else {
            return Some(self.own_pool());
        };
        let id = Id(chosen);
        let queue = objects.srqs.get(id).ok()?;
        let xrc = queue.xrc.filter(|xrc| xrc.domain == xrcd)?;
        Some(Pool {
            srq: Some(id),
            pd: queue.pd,
            cq: xrc.cq,
        })
    }

    pub(super) fn take_receive(
        &mut self,
        objects: &mut Objects,
        pool: Pool,
    ) -> Option<ReceiveRequest> {
        let Some(srq) = pool.srq else {
            return self.receives.pop_front();
        };
        let (receive, is_below) = objects.srqs.get_mut(srq).ok()?.take()?;
        if is_below {
            objects.event(EventType::SrqLimitReached, Subject::Srq(srq));
        }
        Some(receive)
    }

    /// Puts back the receive of a message that will not be continued.
    pub fn return_incoming(&mut self, objects: &mut Objects) {
        let Some(incoming) = self.incoming.take() else {
            return;
        };
        match incoming.pool.srq {
            None => self.receives.push_front(incoming.receive),
            Some(srq) => {
                if let Ok(queue) = objects.srqs.get_mut(srq) {
                    queue.put_back(incoming.receive);
                }
            }
        }
    }

    /// Whether a message is arriving in a receive of this shared queue.
    pub fn has_begun_with(&self, srq: Id) -> bool {
        let incoming = self.incoming.as_ref();
        incoming.is_some_and(|incoming| incoming.pool.srq == Some(srq))
    }

    /// Handles the end of a shared receive queue: a message that is arriving in one of its
    /// receives fails, and this queue pair with it.
    pub fn lose_queue(&mut self, objects: &mut Objects, srq: Id) {
        let is_its = |incoming: &mut Incoming| incoming.pool.srq == Some(srq);
        if self.incoming.take_if(is_its).is_some() {
            self.refuse(objects, Refusal::NoQueue);
            objects.event(EventType::QpReqErr, Subject::Qp(self.number));
            self.enter_error(objects);
        }
    }

    /// Fails a receive and this queue pair, and tells the peer why.
    fn spoil(
        &mut self,
        objects: &mut Objects,
        incoming: &Incoming,
        status: WcStatus,
        refusal: Refusal,
    ) {
        self.complete_receive(objects, incoming.pool, &incoming.receive, status);
        self.refuse(objects, refusal);
        self.enter_error(objects);
    }

    /// Tells the peer that its next message is refused.
    fn refuse(&mut self, objects: &mut Objects, refusal: Refusal) {
        let Some(lane) = self.lane.filter(|_| self.is_reliable()) else {
            return;
        };
        let refused = Record::Refused(self.address(), self.expected, refusal);
        objects.tell(lane, refused);
        // The refusal also acknowledges the messages before it.
        self.settle_ack(objects);
    }

    /// Completes the receive of a message that has arrived as a whole.
    fn deliver<H: Host>(&mut self, objects: &mut Objects, host: &mut H, piece: &Piece) {
        let Some(incoming) = self.incoming.take() else {
            return;
        };
        let invalidates = piece.marks.contains(Marks::INVALIDATE);
        if invalidates {
            let (pd, key) = (incoming.pool.pd, piece.immediate);
            if objects.keys.invalidate(pd, self.number, key).is_err() {
                let (status, refusal) = (WcStatus::LocQpOpErr, Refusal::Unusable);
                return self.spoil(objects, &incoming, status, refusal);
            }
            objects.withdraw(host, key);
        }
        let (pool, id) = (incoming.pool, incoming.receive.id);
        self.complete_message(objects, pool, id, piece.marks, piece.total, piece.immediate);
    }

    /// Completes the receive `id` with a message of `bytes` bytes.
    #[inline(always)]
    pub(super) fn complete_message(
        &mut self,
        objects: &mut Objects,
        pool: Pool,
        id: u64,
        marks: Marks,
        bytes: u32,
        immediate: u32,
    ) {
        self.expected = self.expected.wrapping_add(1);
        self.owe_ack(objects);
        objects.is_waited_for |= marks.contains(Marks::WAITED_FOR);
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::WITH_IMM, marks.contains(Marks::IMMEDIATE));
        flags.set(WcFlags::WITH_INV, marks.contains(Marks::INVALIDATE));
        let opcode = match marks.contains(Marks::WRITTEN) {
            true => WcOpcode::RecvRdmaWithImm,
            false => WcOpcode::Recv,
        };
        let completion = WorkCompletion {
            byte_len: bytes,
            immediate,
            src_qp: self.attributes.dest_qpn,
            flags,
            ..WorkCompletion::new(id, self.number, opcode, WcStatus::Success)
        };
        let is_solicited = marks.contains(Marks::SOLICITED);
        self.count_receive(bytes);
        let slots = self.receive_slot(pool);
        objects.complete(pool.cq, completion, slots, is_solicited);
    }

    /// Notes that the peer is owed an acknowledgement, which the next message or a record of its
    /// own will carry. A peer that has not announced itself would not accept it.
    #[inline(always)]
    pub fn owe_ack(&mut self, objects: &mut Objects) {
        if self.owes_ack || !self.is_reliable() || !matches!(self.peer, Peer::Ready(_)) {
            return;
        }
        if self.is_listed {
            self.owes_ack = true;
            objects.owed = objects.owed.wrapping_add(1);
            return;
        }
        if let Some(lane) = self.lane.and_then(|lane| objects.lanes.get_mut(lane)) {
            lane.acks.push(self.number);
            (self.owes_ack, self.is_listed) = (true, true);
            objects.owed += 1;
        }
    }

    /// Notes that the peer is owed no acknowledgement any more. Returns whether it was. The queue
    /// pair stays in its lane's list.
    #[inline(always)]
    pub fn settle_ack(&mut self, objects: &mut Objects) -> bool {
        objects.owed -= usize::from(self.owes_ack);
        objects.is_waited_for &= objects.owed > 0;
        take(&mut self.owes_ack)
    }

    /// The acknowledgement to send now.
    #[inline(always)]
    pub fn acknowledgement(&mut self) -> Ack {
        self.published = self.limit();
        Ack {
            taken: self.expected,
            limit: self.published,
        }
    }

    /// Fails this queue pair because a one-sided request of the peer was wrong.
    pub fn fault(&mut self, objects: &mut Objects, fault: Fault) {
        let event = match fault {
            Fault::Access => EventType::QpAccessErr,
            Fault::Request => EventType::QpReqErr,
        };
        objects.event(event, Subject::Qp(self.number));
        self.enter_error(objects);
    }
}

/// Drops bytes that have arrived on a lane.
pub(crate) fn drop_bytes<H: Host>(host: &mut H, lane: LaneId, count: usize) {
    // It cannot fail: nothing is stored.
    let _ = host.receive(lane, Target::Nowhere(count));
}
