//! The sending half: handing requests over in order, and completing them in order.

use alloc::vec::Vec;
use core::mem::take;

use super::{Peer, QueuePair, Rnr, Send, Stage, is_before};
use crate::host::{Atomic, Host, LaneId, NotMoved, Place, Source};
use crate::keys::Denied;
use crate::objects::{Known, Objects, record_bytes};
use crate::record::{Answer, Fault, Grant, MAX_PAYLOAD, Marks, Piece, Ready, Record};
use crate::types::{Access, Opcode, QpState, QpType, SendFlags, WcStatus};
use crate::work::{Data, SendRequest};

/// How long an unreliable queue pair keeps a request for a peer that was never there.
pub(super) const UNRELIABLE_PATIENCE_NS: u64 = 500_000_000;

/// What the next send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// A record or a call.
    Event,
    /// Room on the lane.
    Room,
    /// A time, or a record before.
    Until(u64),
    /// Room on the lane, until this time.
    RoomUntil(u64),
}

/// What became of a send.
pub(super) enum Step {
    /// It was handed over, or is over.
    Next,
    /// It waits.
    Stay(Pause),
}

impl QueuePair {
    /// Hands over what can be handed over now.
    pub fn advance<H: Host>(&mut self, objects: &mut Objects, host: &mut H, now: u64) -> Pause {
        loop {
            self.settle(objects);
            let Some(send) = self.sends.get(self.cursor) else {
                return Pause::Event;
            };
            if send.stage != Stage::Waiting {
                self.cursor += 1;
                continue;
            }
            let may_begin = match self.state {
                QpState::Rts => true,
                QpState::Sqd => send.has_begun,
                _ => false,
            };
            if !may_begin || self.is_failing {
                return Pause::Event;
            }
            match self.step(objects, host, now) {
                Step::Next => self.cursor += 1,
                Step::Stay(pause) => return pause,
            }
        }
    }

    /// Completes what is over, in order.
    pub(super) fn settle(&mut self, objects: &mut Objects) {
        while let Some(front) = self.sends.front() {
            let status = match front.stage {
                Stage::Done(status) => status,
                Stage::Sent(number) if is_before(number, self.acked) => WcStatus::Success,
                Stage::Sent(_) | Stage::Waiting => break,
            };
            let Some(send) = self.sends.pop_front() else {
                break;
            };
            self.cursor = self.cursor.saturating_sub(1);
            self.complete_send(objects, &send.request, status);
            if status != WcStatus::Success {
                self.is_failing = false;
                self.fail(objects);
            }
        }
        self.look_drained(objects);
    }

    /// What a failed send does to its queue pair.
    fn fail(&mut self, objects: &mut Objects) {
        if self.is_reliable() {
            self.enter_error(objects);
        } else {
            self.state = QpState::Sqe;
            self.flush_sends(objects);
        }
    }

    /// The send under way is over.
    pub(super) fn finish(&mut self, status: WcStatus) -> Step {
        self.is_failing |= status != WcStatus::Success;
        self.patience = None;
        if let Some(send) = self.sends.get_mut(self.cursor) {
            send.stage = Stage::Done(status);
        }
        Step::Next
    }

    /// The send under way cannot be delivered: that is an error where it would be noticed.
    fn undeliverable(&mut self, status: WcStatus) -> Step {
        match self.is_reliable() {
            true => self.finish(status),
            false => self.finish(WcStatus::Success),
        }
    }

    /// Moves the send at the cursor on.
    fn step<H: Host>(&mut self, objects: &mut Objects, host: &mut H, now: u64) -> Step {
        // What concerns the own memory alone needs no peer.
        if let Some(step) = self.change_keys(objects, host) {
            return step;
        }
        // The own mistakes count first, whatever the peer does.
        if !self.may_use_own(objects) {
            return self.finish(WcStatus::LocProtErr);
        }
        if self.init.kind == QpType::Ud {
            return self.datagram(objects, host, now);
        }
        let (ready, lane) = match (self.peer, self.lane) {
            (Peer::Ready(ready), Some(lane)) => (ready, lane),
            (Peer::Gone, _) => return self.undeliverable(WcStatus::RetryExcErr),
            _ => return self.wait_for_peer(now),
        };
        // A borrow of the queue pair's own request while the queue pair changes: it is put back.
        let Some(send) = self.sends.get_mut(self.cursor) else {
            return Step::Next;
        };
        let empty = SendRequest::new(0, Opcode::Send, Vec::new());
        let request = core::mem::replace(&mut send.request, empty);
        let mut places = take(&mut objects.places);
        let mut work = Work {
            request: &request,
            ready,
            lane,
            places: &mut places,
        };
        let step = match request.opcode.takes_receive() {
            true => self.message(objects, host, now, &mut work),
            false => match self.one_sided(objects, host, &mut work) {
                Ok(()) => self.finish(WcStatus::Success),
                Err(step) => step,
            },
        };
        places.clear();
        objects.places = places;
        if let Some(send) = self.sends.get_mut(self.cursor) {
            send.request = request;
        }
        step
    }

    /// Binds a memory window or invalidates a key, if that is what comes next.
    fn change_keys<H: Host>(&mut self, objects: &mut Objects, host: &mut H) -> Option<Step> {
        let request = &self.sends.get(self.cursor)?.request;
        let (pd, qp, keys) = (self.init.pd, self.number, &mut objects.keys);
        let (former, status) = match request.opcode {
            Opcode::BindMw => {
                let bound = request.bind.ok_or(Denied);
                let bound = bound.and_then(|bind| keys.bind(pd, qp, &bind));
                (bound, WcStatus::MwBindErr)
            }
            Opcode::LocalInv => {
                let key = request.immediate;
                let invalid = keys.invalidate(pd, qp, key).map(|()| Some(key));
                (invalid, WcStatus::LocQpOpErr)
            }
            _ => return None,
        };
        if let Ok(Some(former)) = former {
            objects.withdraw(host, former);
        }
        Some(self.finish(match former {
            Ok(_) => WcStatus::Success,
            Err(Denied) => status,
        }))
    }

    /// Whether the keys of the next send, of which nothing was handed over, are good.
    fn may_use_own(&self, objects: &mut Objects) -> bool {
        let Some(send) = self.sends.get(self.cursor).filter(|send| send.moved == 0) else {
            return true;
        };
        let request = &send.request;
        let Data::Segments(segments) = &request.data else {
            return true;
        };
        let (range, places) = ((0, request.data.len()), &mut objects.places);
        places.clear();
        let writes = request.opcode.writes_own();
        let resolved = objects
            .keys
            .resolve(self.init.pd, segments, range, writes, places);
        resolved.is_ok()
    }

    pub(super) fn wait_for_peer(&mut self, now: u64) -> Step {
        let patience = match self.is_reliable() {
            true => self.attributes.patience(),
            false => Some(UNRELIABLE_PATIENCE_NS),
        };
        let Some(patience) = patience else {
            return Step::Stay(Pause::Event);
        };
        let until = *self.patience.get_or_insert(now.saturating_add(patience));
        if now >= until {
            return self.undeliverable(WcStatus::RetryExcErr);
        }
        Step::Stay(Pause::Until(until))
    }

    pub(super) fn current(&mut self) -> Option<&mut Send> {
        self.sends.get_mut(self.cursor)
    }

    // ---- Messages ----

    fn message<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        now: u64,
        work: &mut Work<'_>,
    ) -> Step {
        let (mut moved, is_written) = match self.current() {
            Some(send) => (send.moved, send.is_written),
            None => return Step::Next,
        };
        let is_new = moved == 0;
        let total = work.request.data.len();
        if is_new
            && self.is_reliable()
            && let Err(step) = self.wait_for_receive(now, &work.ready)
        {
            return step;
        }
        let is_write = work.request.opcode == Opcode::RdmaWriteWithImm;
        if is_write && !is_written {
            if let Err(step) = self.one_sided(objects, host, work) {
                return step;
            }
            if let Some(send) = self.current() {
                send.is_written = true;
            }
        }
        loop {
            let rest = match is_write {
                true => 0,
                false => (total - moved).min(MAX_PAYLOAD as u64) as usize,
            };
            let is_clear = match objects.lanes.get(&work.lane) {
                Some(lane) => lane.outbox.is_empty(),
                None => false,
            };
            if !is_clear || host.room(work.lane) < record_bytes(rest) {
                return Step::Stay(Pause::Room);
            }
            let is_last = is_write || moved + rest as u64 == total;
            let piece = self.piece(work.request, moved, rest, is_last);
            let record = Record::Message(self.address(), piece).encode();
            match &work.request.data {
                Data::Inline(bytes) if !is_write => {
                    let from = moved as usize;
                    let bytes = bytes.get(from..from + rest).unwrap_or_default();
                    host.send(work.lane, &record, Source::Bytes(bytes));
                }
                Data::Segments(segments) if !is_write => {
                    work.places.clear();
                    let range = (moved, rest as u64);
                    let pd = self.init.pd;
                    let resolved = objects
                        .keys
                        .resolve(pd, segments, range, false, work.places);
                    if resolved.is_err() {
                        return self.finish(WcStatus::LocProtErr);
                    }
                    host.send(work.lane, &record, Source::Memory(work.places));
                }
                _ => host.send(work.lane, &record, Source::Bytes(&[])),
            }
            moved += rest as u64;
            if let Some(send) = self.current() {
                (send.moved, send.has_begun) = (moved, true);
            }
            if is_last {
                break;
            }
        }
        self.patience = None;
        if !self.is_reliable() {
            return self.finish(WcStatus::Success);
        }
        let number = self.sent;
        self.sent = number.wrapping_add(1);
        if let Some(send) = self.current() {
            send.stage = Stage::Sent(number);
        }
        Step::Next
    }

    fn piece(&self, request: &SendRequest, moved: u64, rest: usize, is_last: bool) -> Piece {
        let mut marks = Marks::empty();
        let is_write = request.opcode == Opcode::RdmaWriteWithImm;
        marks.set(Marks::FIRST, moved == 0);
        marks.set(Marks::LAST, is_last);
        marks.set(Marks::WRITTEN, is_write);
        let is_solicited = request.flags.contains(SendFlags::SOLICITED);
        marks.set(Marks::SOLICITED, is_solicited);
        let has_immediate = is_write || request.opcode == Opcode::SendWithImm;
        marks.set(Marks::IMMEDIATE, has_immediate);
        let invalidates = request.opcode == Opcode::SendWithInv;
        marks.set(Marks::INVALIDATE, invalidates);
        Piece {
            marks,
            number: self.sent,
            total: request.data.len() as u32,
            immediate: request.immediate,
            srq: request.remote_srq,
            payload: rest as u32,
        }
    }

    /// Whether the peer has a receive for the next message, as far as this end knows.
    fn wait_for_receive(&mut self, now: u64, ready: &Ready) -> Result<(), Step> {
        let has_room = ready.is_shared || is_before(self.sent, ready.limit);
        match self.rnr {
            Some(rnr) if rnr.is_refused && now < rnr.until => {
                Err(Step::Stay(Pause::Until(rnr.until)))
            }
            _ if has_room => Ok(()),
            Some(rnr) if now < rnr.until => Err(Step::Stay(Pause::Until(rnr.until))),
            _ => Err(self.not_ready(now, ready, false)),
        }
    }

    /// The peer has no receive: waits once more, or gives up.
    pub(super) fn not_ready(&mut self, now: u64, ready: &Ready, is_refused: bool) -> Step {
        let used = self.rnr.map_or(0, |rnr| rnr.used);
        let most = self.attributes.rnr_retry;
        if most < 7 && used >= most {
            return self.finish(WcStatus::RnrRetryExcErr);
        }
        let until = now.saturating_add(QueuePair::rnr_time(ready));
        self.rnr = Some(Rnr {
            until,
            used: used.saturating_add(1),
            is_refused,
        });
        Step::Stay(Pause::Until(until))
    }

    // ---- One-sided operations ----

    /// Copies to or from the peer's memory.
    fn one_sided<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        work: &mut Work<'_>,
    ) -> Result<(), Step> {
        let request = work.request;
        let total = request.data.len();
        // Behind messages that may still be refused nothing is done that could not be undone.
        if work.ready.is_shared && self.is_reliable() && self.sent != self.acked {
            return Err(Step::Stay(Pause::Event));
        }
        if request.opcode.is_atomic() && total != 8 {
            return Err(self.finish(WcStatus::LocLenErr));
        }
        if total == 0 {
            return Ok(());
        }
        let is_read = request.opcode.writes_own();
        work.places.clear();
        if let Data::Segments(segments) = &request.data {
            let (pd, range) = (self.init.pd, (0, total));
            let keys = &objects.keys;
            let resolved = keys.resolve(pd, segments, range, is_read, work.places);
            if resolved.is_err() {
                return Err(self.finish(WcStatus::LocProtErr));
            }
        }
        if is_read && self.attributes.max_rd_atomic == 0 {
            return Err(self.finish(WcStatus::LocQpOpErr));
        }
        if is_read && work.ready.reads == 0 {
            return Err(self.wrong(objects, work.lane, Fault::Request));
        }
        let grant = self.grant(objects, work)?;
        let needs = match request.opcode {
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm => Access::REMOTE_WRITE,
            Opcode::RdmaRead => Access::REMOTE_READ,
            _ => Access::REMOTE_ATOMIC,
        };
        let offset = request.remote.address.checked_sub(grant.start);
        let is_inside = |offset: &u64| {
            let end = offset.checked_add(total);
            end.is_some_and(|end| end <= grant.length)
        };
        let is_for_peer = [0, self.attributes.dest_qpn].contains(&grant.qp);
        let may = is_for_peer && (grant.access & work.ready.access).contains(needs);
        let Some(offset) = offset.filter(is_inside).filter(|_| may) else {
            return Err(self.wrong(objects, work.lane, Fault::Access));
        };
        if request.opcode.is_atomic() && !request.remote.address.is_multiple_of(8) {
            return Err(self.wrong(objects, work.lane, Fault::Request));
        }
        if let Some(send) = self.current() {
            send.has_begun = true;
        }
        let Work { lane, places, .. } = work;
        let moved = match (request.opcode, &request.data) {
            (Opcode::RdmaRead, _) => host.get(*lane, grant.window, offset, places),
            (Opcode::AtomicCmpAndSwp | Opcode::AtomicFetchAndAdd, _) => {
                let operation = match request.opcode {
                    Opcode::AtomicCmpAndSwp => {
                        Atomic::CompareSwap(request.compare_add, request.swap)
                    }
                    _ => Atomic::FetchAdd(request.compare_add),
                };
                let before = host.atomic(*lane, grant.window, offset, operation);
                before.map(|before| write_places(host, places, &before.to_ne_bytes()))
            }
            (_, Data::Inline(bytes)) => host.put(*lane, grant.window, offset, Source::Bytes(bytes)),
            (_, Data::Segments(_)) => host.put(*lane, grant.window, offset, Source::Memory(places)),
        };
        match moved {
            Ok(()) => Ok(()),
            Err(NotMoved::NoWindow) => Err(self.wrong(objects, work.lane, Fault::Access)),
            Err(NotMoved::NotSupported) => Err(self.wrong(objects, work.lane, Fault::Request)),
            // What had arrived before the end is still to be received; then everything fails.
            Err(NotMoved::Ended) => Err(Step::Stay(Pause::Event)),
        }
    }

    /// What the peer has said of the remote key; asks for it at first.
    fn grant(&mut self, objects: &mut Objects, work: &Work<'_>) -> Result<Grant, Step> {
        let key = work.request.remote.key;
        let wait = Err(Step::Stay(Pause::Event));
        let Some(lane) = objects.lanes.get_mut(&work.lane) else {
            return wait;
        };
        match lane.known.get(&key).copied() {
            Some(Known::Given(grant)) => Ok(grant),
            Some(Known::Asked) => wait,
            None => {
                lane.known.insert(key, Known::Asked);
                lane.outbox.push_back(Record::Expose(key));
                wait
            }
            Some(Known::Denied) => {
                lane.known.remove(&key);
                Err(self.wrong(objects, work.lane, Fault::Access))
            }
            Some(Known::NoResources) => {
                lane.known.remove(&key);
                Err(self.undeliverable(WcStatus::RemOpErr))
            }
        }
    }

    /// A one-sided request is wrong: the peer's queue pair fails with this one, if it is reliable.
    fn wrong(&mut self, objects: &mut Objects, lane: LaneId, fault: Fault) -> Step {
        if self.is_reliable() {
            objects.tell(lane, Record::Error(self.address(), fault));
        }
        self.undeliverable(match fault {
            Fault::Access => WcStatus::RemAccessErr,
            Fault::Request => WcStatus::RemInvReqErr,
        })
    }
}

/// A send that is being handed over.
struct Work<'a> {
    request: &'a SendRequest,
    ready: Ready,
    lane: LaneId,
    places: &'a mut Vec<Place>,
}

/// Copies bytes to places.
pub(super) fn write_places<H: Host>(host: &mut H, places: &[Place], mut bytes: &[u8]) {
    for place in places {
        let (now, later) = bytes.split_at(place.length.min(bytes.len()));
        host.write(place.address, now);
        bytes = later;
    }
}

/// The answer to a wish for a key, as it is kept.
pub(crate) fn known(answer: Answer) -> Known {
    match answer {
        Answer::Given(grant) => Known::Given(grant),
        Answer::Denied => Known::Denied,
        Answer::NoResources => Known::NoResources,
    }
}
