//! The progress of a context: receives records, executes requests, and acts on deadlines.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::take;

use super::Context;
use super::taking::{Over, RECORDS_AT_ONCE, Short, activate};
use crate::host::{Host, LaneId, NotMoved, Place, Target};
use crate::keys::KeyedRange;
use crate::objects::{Event, Exposed, Known, Lane, MOST_KNOWN, Route, record_bytes};
use crate::queue_pair::{Pause, QueuePair, drop_bytes, known};
use crate::record::{Address, Answer, Grant, HEADER_BYTES, Record};
use crate::table::Id;
use crate::types::{Error, Result};
use crate::work::{Segment, total};

/// Most records that may wait for room on a lane; beyond that nothing more is received from its
/// peer. A peer that keeps to the protocol never causes so many answers: two for each queue pair.
const MOST_WAITING: usize = 4 * super::MAX_QPS;

/// Most records that may wait for room on a lane whatever the program does: a peer that takes
/// none of so many counts as one that breaks the protocol.
const MOST_TOLD: usize = 2 * MOST_WAITING;

/// After so many calls in a row that received something, acknowledgements are sent as records of
/// their own.
const BUSY_TURNS: u32 = 8;

/// Most windows that are taken back to make room for a new one.
const MOST_EVICTED: usize = 16;

/// The work that remains after [`Context::progress`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Something was done or can be done: call `progress` again before sleeping.
    pub is_busy: bool,
    /// Something waits for room on a lane: sleep no longer than until there is room.
    pub waits_for_room: bool,
    /// There is work to do at this time, in nanoseconds.
    pub until: Option<u64>,
}

impl Progress {
    /// Notes that there is work to do at this time.
    fn wake_at(&mut self, time: u64) {
        let least = self.until.map_or(time, |known| known.min(time));
        self.until = Some(least);
    }
}

impl Context {
    /// Has requests copy to and from the memory of peers only so many bytes, or little more, in
    /// each half of a turn: while records are received, and afterwards. What is left goes on in
    /// the next turn. So a program with much to do does not keep a daemon from the others. Without
    /// a limit each request is executed at once.
    pub fn limit_turns(&mut self, bytes: u64) {
        (self.objects.budget.left, self.objects.budget.most) = (bytes, bytes);
    }

    /// Receives what has arrived, executes the requests that can be executed, and sends
    /// acknowledgements. `now`: nanoseconds of any clock that never goes back.
    pub fn progress<H: Host>(&mut self, host: &mut H, now: u64) -> Progress {
        let mut progress = Progress::default();
        self.objects.budget.left = self.objects.budget.most;
        if take(&mut self.objects.has_many_keys) {
            self.forget_keys();
        }
        while let Some(key) = self.objects.stale.pop() {
            self.objects.withdraw(host, key);
        }
        let mut next = self.objects.lanes.next_from(0);
        while let Some(lane) = next {
            progress.is_busy |= self.receive(host, lane, now);
            let held = self.objects.lanes.get(lane).and_then(|of| of.held_until);
            held.into_iter().for_each(|until| progress.wake_at(until));
            next = self.objects.lanes.next_from(lane.0 + 1);
        }
        self.hand_over(host, now, &mut progress);
        self.fail_overrun();
        let is_blocked = |lane: &Lane| !lane.outbox.is_empty();
        let was_blocked = progress.waits_for_room && self.objects.lanes.values().any(is_blocked);
        let mut has_room = true;
        // After a call that received something there is another one. Until then a message may
        // carry the acknowledgements that are owed.
        self.busy_turns = match progress.is_busy {
            true => self.busy_turns.wrapping_add(1),
            false => 0,
        };
        // But a lane that always receives must not keep the peers of others from being
        // acknowledged.
        let acknowledges = self.busy_turns.is_multiple_of(BUSY_TURNS);
        let mut next = self.objects.lanes.next_from(0);
        while let Some(lane) = next {
            let is_done = self.flush(host, lane, acknowledges) && host.flush(lane);
            has_room &= is_done;
            progress.is_busy |= !is_done && self.bound_told(host, lane);
            next = self.objects.lanes.next_from(lane.0 + 1);
        }
        // A request that waited behind records can be executed now.
        progress.is_busy |= was_blocked && has_room;
        progress.waits_for_room |= !has_room;
        progress
    }

    fn hand_over<H: Host>(&mut self, host: &mut H, now: u64, progress: &mut Progress) {
        let (qps, objects) = (&mut self.qps, &mut self.objects);
        // Received records must not use up the share of those whose turn it is.
        objects.budget.left = objects.budget.most;
        // How many stay in front of the first one that has to go on in the next turn, it included.
        let (mut kept, mut served) = (0, None);
        self.active.retain(|number| {
            let Some(qp) = qps.get_mut(*number) else {
                return false;
            };
            match qp.advance(objects, host, Some(now)) {
                Pause::Event => qp.is_active = false,
                // Does not occur: `advance` knows the time.
                Pause::Clock => {}
                Pause::Turn => served = served.or(Some(kept + 1)),
                Pause::Room => progress.waits_for_room = true,
                Pause::Until(until) => progress.wake_at(until),
                Pause::RoomUntil(until) => {
                    progress.waits_for_room = true;
                    progress.wake_at(until);
                }
            }
            kept += usize::from(qp.is_active);
            qp.is_active
        });
        if let Some(served) = served {
            progress.is_busy = true;
            // The others come first then.
            self.active.rotate_left(served);
        }
    }

    // ---- Sending records ----

    /// Sends the records that a call of the program has left on a lane. Returns whether all were
    /// sent, those that the host held back among them.
    pub(super) fn send_records<H: Host>(&mut self, host: &mut H, lane: Option<LaneId>) -> bool {
        let Some(id) = lane else {
            return true;
        };
        let is_clear = |lane: &Lane| lane.outbox.is_empty() && !lane.is_urgent;
        let is_clear = self.objects.lanes.get(id).is_none_or(is_clear);
        (is_clear || self.flush(host, id, false)) && host.flush(id)
    }

    /// Sends the records that wait on a lane. With `acknowledges`, or if one is urgent,
    /// acknowledgements do not wait for a message that carries them. Returns whether all were
    /// sent.
    fn flush<H: Host>(&mut self, host: &mut H, id: LaneId, acknowledges: bool) -> bool {
        let Some(lane) = self.objects.lanes.get_mut(id) else {
            return true;
        };
        loop {
            if lane.outbox.is_empty() {
                if !acknowledges && !lane.is_urgent {
                    return true;
                }
                let Some(number) = lane.acks.pop() else {
                    lane.is_urgent = false;
                    return true;
                };
                let qp = self.qps.get_mut(number).filter(|qp| qp.lane == Some(id));
                let Some(qp) = qp else {
                    continue;
                };
                qp.is_listed = false;
                // A message may have carried the acknowledgement.
                if qp.owes_ack {
                    qp.owes_ack = false;
                    self.objects.owed -= 1;
                    self.objects.is_waited_for &= self.objects.owed > 0;
                    let ack = Record::Ack(qp.address(), qp.acknowledgement());
                    lane.outbox.push_back(ack);
                }
                continue;
            }
            if host.room(id) < HEADER_BYTES {
                return lane.outbox.is_empty();
            }
            if let Some(record) = lane.outbox.pop_front() {
                let header = record.encode();
                // It cannot fail: there is no payload.
                let _ = host.send(id, &header, crate::host::Source::Bytes(&[]));
            }
        }
    }

    /// Ends a lane on which too many records wait. Returns whether it did.
    fn bound_told<H: Host>(&mut self, host: &mut H, id: LaneId) -> bool {
        let lane = self.objects.lanes.get(id);
        let is_over = lane.is_some_and(|lane| lane.outbox.len() > MOST_TOLD);
        if is_over {
            self.lane_over(host, id, false);
        }
        is_over
    }

    // ---- Receiving records ----

    /// Receives what has arrived on a lane. Returns whether anything has.
    fn receive<H: Host>(&mut self, host: &mut H, lane: LaneId, now: u64) -> bool {
        for count in 0..RECORDS_AT_ONCE {
            let received = match self.receive_short(host, lane) {
                Ok(Short::Taken { .. }) => {
                    self.fail_overrun();
                    Ok(true)
                }
                Ok(_) => self.receive_one(host, lane, now),
                Err(over) => Err(over),
            };
            match received {
                Ok(true) => {}
                Ok(false) => return count > 0,
                Err(over) => {
                    self.lane_over(host, lane, matches!(over, Over::Ended));
                    return true;
                }
            }
        }
        true
    }

    fn receive_one<H: Host>(
        &mut self,
        host: &mut H,
        id: LaneId,
        now: u64,
    ) -> core::result::Result<bool, Over> {
        let Some(lane) = self.objects.lanes.get_mut(id) else {
            return Ok(false);
        };
        let wanted = lane.pending.as_ref().map_or(HEADER_BYTES, payload_of);
        // A peer that receives nothing more would never make room for the answers.
        if lane.outbox.len() > MOST_WAITING && host.may_send(id) {
            return Ok(false);
        }
        let available = host.available(id, wanted);
        let (record, bytes) = match lane.pending.take() {
            Some(record) => (record, available.bytes),
            None if available.bytes < HEADER_BYTES && available.has_ended => {
                return Err(Over::Ended);
            }
            None if available.bytes < HEADER_BYTES => return Ok(false),
            None => {
                let mut header = [0; HEADER_BYTES];
                // It cannot fail: the bytes are not the program's.
                let _ = host.receive(id, Target::Bytes(&mut header));
                (Record::decode(&header)?, available.bytes - HEADER_BYTES)
            }
        };
        let payload = payload_of(&record);
        if bytes < payload {
            // More of the payload may have arrived.
            let available = host.available(id, payload);
            if available.bytes < payload {
                lane.pending = Some(record);
                return match available.has_ended {
                    true => Err(Over::Ended),
                    false => Ok(false),
                };
            }
        }
        if let Record::Datagram(piece) = &record
            && self.holds(id, piece, now)
        {
            if let Some(lane) = self.objects.lanes.get_mut(id) {
                lane.pending = Some(record);
            }
            return Ok(false);
        }
        self.handle(host, id, &record, now)?;
        Ok(true)
    }

    fn handle<H: Host>(
        &mut self,
        host: &mut H,
        id: LaneId,
        record: &Record,
        now: u64,
    ) -> core::result::Result<(), Over> {
        let address = match record {
            Record::Ready(address, _)
            | Record::Gone(address, _)
            | Record::Message(address, _)
            | Record::Ack(address, _)
            | Record::Refused(address, ..)
            | Record::Error(address, _)
            | Record::Atomic(address, _)
            | Record::AtomicDone(address, _) => address,
            Record::Datagram(piece) => {
                self.receive_datagram(host, id, piece);
                return Ok(());
            }
            Record::Expose(key) => {
                self.expose(host, id, *key);
                return Ok(());
            }
            Record::Granted(key, answer) => {
                self.granted(id, *key, *answer);
                return Ok(());
            }
            Record::Revoke(key) => {
                if let Some(lane) = self.objects.lanes.get_mut(id)
                    && let Some(Known::Given(_)) = lane.known.get(*key)
                {
                    lane.known.remove(*key);
                }
                return Ok(());
            }
            Record::Bye => {
                if let Some(lane) = self.objects.lanes.get_mut(id) {
                    lane.has_bye = true;
                }
                return Ok(());
            }
        };
        self.handle_for_qp(host, id, record, *address, now)
    }

    fn handle_for_qp<H: Host>(
        &mut self,
        host: &mut H,
        id: LaneId,
        record: &Record,
        address: Address,
        now: u64,
    ) -> core::result::Result<(), Over> {
        let objects = &mut self.objects;
        let qp = self.qps.get_mut(address.destination);
        let mut qp = qp.filter(|qp| match record {
            Record::Ready(..) => qp.is_connected_to(id, &address),
            Record::Gone(_, generation) => {
                qp.is_connected_to(id, &address) && qp.knows(*generation)
            }
            _ => qp.is_for_us(id, &address),
        });
        match (record, &mut qp) {
            (Record::Message(_, piece), Some(qp)) => {
                qp.receive_piece(objects, host, id, piece)?;
            }
            (Record::Message(_, piece), None) => {
                drop_bytes(host, id, piece.payload as usize);
            }
            (Record::Ready(_, ready), Some(qp)) => qp.meet(objects, *ready),
            (Record::Gone(..), Some(qp)) => qp.peer_gone(objects),
            (Record::Ack(_, ack), Some(qp)) => qp.acknowledged(objects, *ack)?,
            (Record::Refused(_, number, refusal), Some(qp)) => {
                qp.refused(objects, *number, *refusal, now)?;
            }
            (Record::Error(_, fault), Some(qp)) => qp.fault(objects, *fault),
            (Record::Atomic(_, call), Some(qp)) => qp.do_atomic(objects, host, id, call),
            (Record::AtomicDone(_, result), Some(qp)) => {
                qp.atomic_done(objects, host, *result)?;
            }
            _ => {}
        }
        if let Some(qp) = qp.filter(|qp| qp.has_work()) {
            activate(&mut self.active, qp);
        }
        self.fail_overrun();
        Ok(())
    }

    // ---- Keys ----

    /// Copies the bytes that segments describe, for inline data whose owner cannot read them
    /// otherwise.
    ///
    /// # Errors
    /// `Invalid`: too many bytes, the keys do not permit the access in this domain, or the memory
    /// is not there.
    pub fn gather<H: Host>(&self, host: &mut H, pd: Id, segments: &[Segment]) -> Result<Vec<u8>> {
        let length = total(segments);
        if length > u64::from(super::MAX_INLINE) {
            return Err(Error::Invalid);
        }
        let mut places = Vec::new();
        let keys = &self.objects.keys;
        let resolved = keys.resolve(pd, segments, (0, length), false, &mut places);
        resolved.map_err(|_| Error::Invalid)?;
        let mut bytes = vec![0; length as usize];
        let mut rest = &mut bytes[..];
        for place in places {
            let (now, later) = rest.split_at_mut(place.length);
            host.read(place, now).map_err(|_| Error::Invalid)?;
            rest = later;
        }
        Ok(bytes)
    }

    /// Answers the request of a lane's peer to use a key. A peer may reach memory only while it
    /// has a queue pair that is connected to one of this context: a lane alone proves nothing,
    /// because any program can make one.
    fn expose<H: Host>(&mut self, host: &mut H, id: LaneId, key: u32) {
        let objects = &self.objects;
        let Some(lane) = objects.lanes.get(id) else {
            return;
        };
        let is_its = |qp: &QueuePair| qp.lane == Some(id) && qp.is_receiving();
        let reaches = |qp: &QueuePair, pd| is_its(qp) && objects.reaches(&qp.init, id, pd);
        let may = |pd| self.qps.values().any(|qp| reaches(qp, pd));
        let answer = match objects.keys.reach(key).filter(|reach| may(reach.pd)) {
            None => Answer::Denied,
            Some(reach) => {
                let known = lane.exposed.get(&key).map(|exposed| exposed.window);
                let window = known.map_or_else(|| self.make_window(host, id, key, &reach), Ok);
                match window {
                    Ok(window) => Answer::Given(Grant {
                        start: reach.iova,
                        length: reach.length,
                        access: reach.access,
                        qp: reach.qp.unwrap_or(0),
                        window,
                    }),
                    // The peer learns of the lane's end, which explains the missing answer.
                    Err(NotMoved::Ended) => return,
                    Err(_) => Answer::NoResources,
                }
            }
        };
        self.objects.tell(id, Record::Granted(key, answer));
    }

    /// Makes memory a window of a lane. If there is no room for it, the oldest windows are taken
    /// back: peers that still need them ask again.
    fn make_window<H: Host>(
        &mut self,
        host: &mut H,
        id: LaneId,
        key: u32,
        reach: &KeyedRange,
    ) -> Result<u64, NotMoved> {
        let place = Place {
            key: reach.region,
            address: reach.start,
            length: reach.length as usize,
        };
        let mut window = host.expose(id, place, reach.access);
        for _ in 0..MOST_EVICTED {
            if window != Err(NotMoved::NoWindow) || !self.objects.evict(host) {
                break;
            }
            window = host.expose(id, place, reach.access);
        }
        let window = window?;
        self.objects.stamp += 1;
        let stamp = self.objects.stamp;
        let lane = self.objects.lanes.get_mut(id).ok_or(NotMoved::Ended)?;
        lane.exposed.insert(key, Exposed { window, stamp });
        Ok(window)
    }

    /// Stores the answer of a lane's peer to a request for a key.
    fn granted(&mut self, id: LaneId, key: u32, answer: Answer) {
        let Some(lane) = self.objects.lanes.get_mut(id) else {
            return;
        };
        let Some(entry) = lane.known.get_mut(key) else {
            // This end has not asked.
            return;
        };
        *entry = known(answer);
        let waiting = self.qps.values_mut().filter(|qp| qp.lane == Some(id));
        for qp in waiting.filter(|qp| qp.has_work()) {
            activate(&mut self.active, qp);
        }
    }

    /// Forgets the peers' keys that no request waits for, on lanes that remember too many: who
    /// needs one of them again asks again.
    fn forget_keys(&mut self) {
        let lanes = self.objects.lanes.iter_mut();
        for (id, lane) in lanes.filter(|(_, lane)| lane.known.len() > MOST_KNOWN) {
            let its = self.qps.values().filter(|qp| qp.lane == Some(id));
            let wanted: BTreeSet<u32> = its.filter_map(QueuePair::wanted_key).collect();
            lane.known.retain(|key| wanted.contains(&key));
        }
    }

    // ---- The end of a lane ----

    /// Ends a lane, whose owner closes the connection.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn end_lane<H: Host>(&mut self, host: &mut H, id: LaneId) -> Result<()> {
        if !self.objects.lanes.contains(id) {
            return Err(Error::NotFound);
        }
        self.lane_over(host, id, true);
        Ok(())
    }

    pub(super) fn lane_over<H: Host>(&mut self, host: &mut H, id: LaneId, has_ended: bool) {
        let Some(lane) = self.objects.lanes.remove(id) else {
            return;
        };
        let Lane {
            pd,
            exposed,
            has_bye,
            ..
        } = lane;
        for Exposed { window, .. } in exposed.into_values() {
            host.withdraw(id, window);
        }
        let by_will = has_bye && has_ended;
        for qp in self.qps.values_mut() {
            if qp.lane == Some(id) {
                qp.lane_over(&mut self.objects, by_will);
                activate(&mut self.active, qp);
            }
        }
        self.fail_overrun();
        if let Some(pd) = pd {
            self.leave_domain(pd);
        }
        self.objects
            .routes
            .retain(|_, route| *route != Route::Lane(id));
        self.objects.events.push_back(Event::LaneOver(id));
    }
}

/// The length of a record's payload in bytes.
fn payload_of(record: &Record) -> usize {
    match record {
        Record::Message(_, piece) => piece.payload as usize,
        Record::Datagram(piece) => piece.payload as usize,
        _ => 0,
    }
}

/// A record without a payload is only a header.
const _: () = assert!(record_bytes(0) == HEADER_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{self, BASE, Program};
    use crate::record::Ready;
    use crate::types::{Access, AttributeMask, Opcode, QpState, QpType};
    use crate::work::{Capacity, QpInit, Remote, SendRequest};

    const LANE: LaneId = LaneId(7);

    #[test]
    fn keys_that_a_peer_has_never_answered_are_forgotten() {
        let mut context = Context::new(1);
        let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(1).unwrap());
        let init = QpInit {
            kind: QpType::Rc,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            capacity: Capacity {
                send_wr: 1,
                inline: 8,
                ..Capacity::default()
            },
            signal_all: false,
        };
        context.create_qp(2, init).unwrap();
        let (mut program, mut peer) = (Program::new(8), Program::new(8));
        program.join(LANE, &mut peer, LANE);
        context.open_lane(LANE, pd).unwrap();
        let mut attributes = demo::attributes();
        for life in 1..40_000 {
            attributes.state = QpState::Reset;
            context
                .modify_qp(2, &attributes, AttributeMask::STATE)
                .unwrap();
            attributes.dest_qpn = 3;
            for (state, mask) in demo::ways(QpType::Rc) {
                attributes.state = state;
                context.modify_qp(2, &attributes, mask).unwrap();
            }
            context.attach(2, LANE).unwrap();
            let address = Address {
                destination: 2,
                source: 3,
                generation: 0,
            };
            let ready = Ready {
                generation: life,
                limit: 0,
                is_shared: false,
                wants_answer: false,
                access: Access::REMOTE,
                rnr_timer: 12,
                reads: 4,
            };
            peer.inject(LANE, &Record::Ready(address, ready).encode());
            let mut request = SendRequest::new(1, Opcode::RdmaWrite, Vec::new());
            request.flags = crate::types::SendFlags::INLINE;
            request.data = crate::work::Data::Inline(vec![0; 8]);
            request.remote = Remote {
                address: BASE,
                key: life << 8,
            };
            context.post_send(2, request).unwrap();
            while context.progress(&mut program, 0).is_busy {}
            let arrived = peer.available(LANE, usize::MAX).bytes;
            peer.receive(LANE, Target::Nowhere(arrived)).unwrap();
            let known = &context.objects.lanes.get(LANE).unwrap().known;
            // The key that a request waits for is kept.
            assert_eq!(known.get(life << 8), Some(&Known::Asked));
            assert!(known.len() < 35_000, "{}", known.len());
        }
    }
}
