//! The sending half: executes the requests of the send queue in order, and completes them in
//! order.

use alloc::vec::Vec;
use core::mem::take;

use super::{Inquiry, Kept, Peer, QueuePair, Rnr, Send, Stage, Way, Whole, is_before};
use crate::host::{Host, LaneId, Place, Source};
use crate::objects::{Objects, record_bytes};
use crate::record::{MAX_PAYLOAD, Marks, Piece, Ready, Record};
use crate::types::{Opcode, QpState, QpType, SendFlags, WcStatus};
use crate::work::{Data, SendRequest};

/// How long an unreliable queue pair keeps a request whose peer cannot be reached or makes no
/// room.
pub(super) const UNRELIABLE_TIMEOUT_NS: u64 = 500_000_000;

/// The value of `rnr_retry` that stands for waiting without limit.
const WITHOUT_END: u8 = 7;

/// What the next send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// A record from the peer, or a call of the program.
    Event,
    /// Room on the lane.
    Room,
    /// This time, or a record before it.
    Until(u64),
    /// Room on the lane, or this time.
    RoomUntil(u64),
    /// A call that passes the time.
    Clock,
    /// The next turn: enough was copied in this one.
    Turn,
}

/// The result of a step of the current send.
pub(super) enum Step {
    /// It was sent, and is not acknowledged yet.
    Next,
    /// It has ended with this status.
    Over(WcStatus),
    /// It waits.
    Stay(Pause),
}

impl QueuePair {
    /// Executes the sends of the queue until one has to wait, if only for the next turn. Returns
    /// what that one waits for.
    /// `now`: the time in nanoseconds, if the caller knows it.
    pub fn advance<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        now: Option<u64>,
    ) -> Pause {
        loop {
            self.complete_sends(objects);
            let Some(send) = self.sends.get(self.cursor) else {
                return Pause::Event;
            };
            if send.way.stage != Stage::Waiting {
                // A send that has failed may follow one that was refused and is sent again.
                let has_failed = !matches!(
                    send.way.stage,
                    Stage::Sent(_) | Stage::Done(WcStatus::Success)
                );
                self.is_failing |= has_failed;
                self.cursor += 1;
                continue;
            }
            let may_begin = match self.state {
                QpState::Rts => true,
                QpState::Sqd => send.way.has_begun,
                _ => false,
            };
            if !may_begin || self.is_failing {
                return Pause::Event;
            }
            if self.state == QpState::Rts {
                match self.hand_over_short(objects, host) {
                    Some(true) => {
                        self.cursor += 1;
                        continue;
                    }
                    Some(false) => {}
                    None => return Pause::Event,
                }
            }
            if !objects.may_execute() {
                return Pause::Turn;
            }
            match self.step(objects, host, now) {
                Step::Next => self.cursor += 1,
                Step::Over(status) => self.set_over(status),
                Step::Stay(pause) => return pause,
            }
        }
    }

    /// Completes the sends that have ended, in order. It is not inlined: by itself it saves no
    /// registers, as a part of its callers it would make them save theirs.
    #[inline(never)]
    pub(super) fn complete_sends(&mut self, objects: &mut Objects) {
        while self.complete_quietly() {}
        let is_over = |Send { way, .. }: &Send| match way.stage {
            Stage::Done(_) => true,
            Stage::Sent(number) => is_before(number, self.acked),
            Stage::Waiting => false,
        };
        if self.sends.front().is_some_and(is_over) || self.state == QpState::Sqd {
            self.complete_others(objects);
        }
    }

    /// Completes the first send if it is an acknowledged message that adds no completion and owns
    /// no memory. Returns whether it did.
    #[inline(always)]
    fn complete_quietly(&mut self) -> bool {
        let Some(Send { ended, way, kept }) = self.sends.front() else {
            return false;
        };
        let is_over = matches!(way.stage, Stage::Sent(number) if is_before(number, self.acked));
        if !is_over || self.is_wanted(ended.flags) || !kept.is_plain() {
            return false;
        }
        let bytes = ended.bytes;
        self.sends.pass_front();
        self.cursor = self.cursor.saturating_sub(1);
        self.count_send(bytes);
        true
    }

    #[inline(never)]
    fn complete_others(&mut self, objects: &mut Objects) {
        while let Some(front) = self.sends.front() {
            let status = match front.way.stage {
                Stage::Done(status) => status,
                Stage::Sent(number) if is_before(number, self.acked) => WcStatus::Success,
                Stage::Sent(_) | Stage::Waiting => break,
            };
            let ended = front.ended;
            match front.kept.is_plain() {
                true => self.sends.pass_front(),
                false => self.drop_front(),
            }
            self.cursor = self.cursor.saturating_sub(1);
            self.complete_send(objects, ended, status);
            if status != WcStatus::Success {
                self.is_failing = false;
                self.fail(objects);
            }
        }
        self.look_drained(objects);
    }

    /// Removes the first send, and keeps the box of its inline bytes.
    #[inline(never)]
    fn drop_front(&mut self) {
        if let Some(Kept::Inline(_, bytes)) = self.sends.pop_front().map(|send| send.kept) {
            self.spare.push(bytes);
        }
    }

    /// Changes the state of the queue pair after a failed send.
    fn fail(&mut self, objects: &mut Objects) {
        if self.is_reliable() {
            self.enter_error(objects);
        } else {
            self.state = QpState::Sqe;
            self.flush_sends(objects);
        }
    }

    /// The step of a current send that has ended with this status.
    pub(super) fn finish(&mut self, status: WcStatus) -> Step {
        self.is_failing |= status != WcStatus::Success;
        self.peer_deadline = None;
        Step::Over(status)
    }

    /// Ends the current send, outside of [`advance`](Self::advance).
    pub(super) fn finish_current(&mut self, status: WcStatus) {
        self.finish(status);
        self.set_over(status);
    }

    /// Notes that the current send has ended.
    pub(super) fn set_over(&mut self, status: WcStatus) {
        if let Some(send) = self.sends.get_mut(self.cursor) {
            send.way.stage = Stage::Done(status);
        }
    }

    /// The step of a current send that cannot be delivered: only a reliable queue pair reports an
    /// error.
    pub(super) fn undeliverable(&mut self, status: WcStatus) -> Step {
        match self.is_reliable() {
            true => self.finish(status),
            false => self.finish(WcStatus::Success),
        }
    }

    /// Executes the send at the cursor, as far as possible.
    fn step<H: Host>(&mut self, objects: &mut Objects, host: &mut H, now: Option<u64>) -> Step {
        // Requests that only change keys of this context need no peer.
        if let Some(step) = self.change_keys(objects, host) {
            return step;
        }
        // Whatever happens to keys meanwhile, the answer to an atomic operation ends it.
        if self.current().is_some_and(|send| send.way.is_asked) {
            return Step::Stay(Pause::Event);
        }
        // Bad local keys come first, whatever the peer does.
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
        // The queue is put back below: the step borrows a request while it changes the queue pair.
        let mut sends = take(&mut self.sends);
        let mut places = take(&mut objects.places);
        let step = match sends.get_mut(self.cursor) {
            Some(Send {
                kept: Kept::Whole(whole),
                way,
                ..
            }) => {
                let mut work = Work {
                    request: &whole.request,
                    way,
                    ready,
                    lane,
                    now,
                    places: &mut places,
                };
                self.hand_over(objects, host, &mut work)
            }
            _ => Step::Stay(Pause::Event),
        };
        places.clear();
        objects.places = places;
        self.sends = sends;
        step
    }

    fn hand_over<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        work: &mut Work<'_>,
    ) -> Step {
        if work.request.opcode.takes_receive() {
            return self.message(objects, host, work.now, work);
        }
        match self.one_sided(objects, host, work) {
            Ok(()) => self.finish(WcStatus::Success),
            Err(step) => step,
        }
    }

    /// Whether the local keys of the current send are good. They are checked until some of it is
    /// sent.
    fn may_use_own(&self, objects: &mut Objects) -> bool {
        let Some(send) = self
            .sends
            .get(self.cursor)
            .filter(|send| send.way.moved == 0)
        else {
            return true;
        };
        let Some(Whole { request, .. }) = send.whole() else {
            return true;
        };
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

    pub(super) fn wait_for_peer(&mut self, now: Option<u64>) -> Step {
        let Some(now) = now else {
            return Step::Stay(Pause::Clock);
        };
        let timeout = match self.is_reliable() {
            true => self.attributes.response_timeout(),
            false => Some(UNRELIABLE_TIMEOUT_NS),
        };
        let Some(timeout) = timeout else {
            return Step::Stay(Pause::Event);
        };
        let until = *self
            .peer_deadline
            .get_or_insert(now.saturating_add(timeout));
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
        now: Option<u64>,
        work: &mut Work<'_>,
    ) -> Step {
        let mut moved = work.way.moved;
        let is_new = moved == 0;
        let total = work.request.data.len();
        if is_new
            && self.is_reliable()
            && let Err(step) = self.wait_for_receive(objects, now, work)
        {
            return step;
        }
        let is_write = work.request.opcode == Opcode::RdmaWriteWithImm;
        if is_write && !work.way.is_written {
            if let Err(step) = self.one_sided(objects, host, work) {
                return step;
            }
            work.way.is_written = true;
        }
        loop {
            let rest = match is_write {
                true => 0,
                false => (total - moved).min(MAX_PAYLOAD as u64) as usize,
            };
            let is_clear = match objects.lanes.get(work.lane) {
                Some(lane) => lane.outbox.is_empty(),
                None => false,
            };
            if !is_clear || host.room(work.lane) < record_bytes(rest) {
                return Step::Stay(Pause::Room);
            }
            let is_last = is_write || moved + rest as u64 == total;
            let ack = match self.init.kind {
                QpType::Rc => {
                    self.settle_ack(objects);
                    Some(self.acknowledgement())
                }
                _ => None,
            };
            let piece = Piece {
                ack,
                ..self.piece(work.request, moved, rest, is_last)
            };
            let record = Record::Message(self.address(), piece).encode();
            match &work.request.data {
                Data::Inline(bytes) if !is_write => {
                    let from = moved as usize;
                    let bytes = bytes.get(from..from + rest).unwrap_or_default();
                    // It cannot fail: the bytes are not the program's.
                    let _ = host.send(work.lane, &record, Source::Bytes(bytes));
                }
                Data::Segments(segments) if !is_write => {
                    work.places.clear();
                    let range = (moved, rest as u64);
                    let pd = self.init.pd;
                    let resolved = objects
                        .keys
                        .resolve(pd, segments, range, false, work.places);
                    let is_sent = resolved.is_ok()
                        && host
                            .send(work.lane, &record, Source::Memory(work.places))
                            .is_ok();
                    if !is_sent {
                        return self.finish(WcStatus::LocProtErr);
                    }
                }
                _ => {
                    // It cannot fail: there is no payload.
                    let _ = host.send(work.lane, &record, Source::Bytes(&[]));
                }
            }
            moved += rest as u64;
            (work.way.moved, work.way.has_begun) = (moved, true);
            if is_last {
                break;
            }
        }
        self.peer_deadline = None;
        if !self.is_reliable() {
            return self.finish(WcStatus::Success);
        }
        let number = self.sent;
        self.sent = number.wrapping_add(1);
        work.way.stage = Stage::Sent(number);
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
        marks |= self.waited_for(request.flags);
        Piece {
            marks,
            number: self.sent,
            total: request.data.len() as u32,
            immediate: request.immediate,
            srq: request.remote_srq,
            ack: None,
            payload: rest as u32,
        }
    }

    /// The mark of a message whose acknowledgement is waited for: by the program, or soon by the
    /// next request, because the queue is half full.
    #[inline]
    pub(super) fn waited_for(&self, flags: SendFlags) -> Marks {
        let is_wanted = self.is_wanted(flags);
        let is_half_full = self.sends.len() >= self.init.capacity.send_wr as usize / 2;
        match is_wanted || is_half_full {
            true => Marks::WAITED_FOR,
            false => Marks::empty(),
        }
    }

    /// Checks whether the peer has a receive for the next message, as far as this end knows. If
    /// not, the message waits or fails.
    fn wait_for_receive(
        &mut self,
        objects: &mut Objects,
        now: Option<u64>,
        work: &Work<'_>,
    ) -> Result<(), Step> {
        let has_room = work.ready.is_shared || is_before(self.sent, work.ready.limit);
        match self.rnr {
            None if has_room => return Ok(()),
            None if self.waits_without_end() => return Err(Step::Stay(Pause::Event)),
            _ => {}
        }
        let Some(now) = now else {
            return Err(Step::Stay(Pause::Clock));
        };
        match self.rnr {
            Some(rnr) if rnr.is_refused && now < rnr.until => {
                return Err(Step::Stay(Pause::Until(rnr.until)));
            }
            _ if has_room => return Ok(()),
            Some(rnr) if now < rnr.until => return Err(Step::Stay(Pause::Until(rnr.until))),
            _ => {}
        }
        match self.must_inquire(objects) {
            true => Err(Step::Stay(Pause::Event)),
            false => Err(self.not_ready(now, &work.ready, false)),
        }
    }

    /// Whether the peer's answer has to come before the lack of a receive counts as a try. Asks
    /// the peer, unless an answer is outstanding.
    fn must_inquire(&mut self, objects: &mut Objects) -> bool {
        match self.inquiry {
            _ if self.waits_without_end() => return false,
            Some(Inquiry::Answered(number)) if number == self.sent => return false,
            Some(Inquiry::Asked(_)) => {}
            _ => {
                self.inquiry = Some(Inquiry::Asked(self.sent));
                self.introduce(objects, true);
            }
        }
        true
    }

    /// Whether messages wait for a receive of the peer without limit. That needs no clock, because
    /// a peer with a receive queue of its own reports the next receive.
    #[inline]
    pub(super) fn waits_without_end(&self) -> bool {
        self.attributes.rnr_retry >= WITHOUT_END
    }

    /// Handles the lack of a receive at the peer: the message waits once more, or fails.
    pub(super) fn not_ready(&mut self, now: u64, ready: &Ready, is_refused: bool) -> Step {
        self.inquiry
            .take_if(|of| matches!(of, Inquiry::Answered(_)));
        let used = self.rnr.map_or(0, |rnr| rnr.used);
        let most = self.attributes.rnr_retry;
        if !self.waits_without_end() && used >= most {
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
}

/// A send that is being executed.
pub(super) struct Work<'a> {
    pub request: &'a SendRequest,
    pub way: &'a mut Way,
    pub ready: Ready,
    pub lane: LaneId,
    /// The time, if it is known.
    pub now: Option<u64>,
    pub places: &'a mut Vec<Place>,
}
