//! Datagrams, which go to any queue pair on the lane that leads to its program.

use core::mem::take;

use super::memory::write_places;
use super::requester::{Pause, Step, UNRELIABLE_TIMEOUT_NS};
use super::{QueuePair, Whole};
use crate::address::{AddressVector, GRH_BYTES, OWN_QKEY, route_header};
use crate::host::{Host, LaneId, Source, Target};
use crate::objects::{Destination, Event, Objects, Route, record_bytes};
use crate::record::{DatagramPiece, MAX_DATAGRAM, MAX_PAYLOAD, Marks, Record};
use crate::types::{Error, Opcode, QpType, Result, SendFlags, WcFlags, WcOpcode, WcStatus};
use crate::work::{Data, SendRequest, WorkCompletion, total};

/// Bits of a queue pair's number.
const QPN_MASK: u32 = 0xff_ffff;

/// Where the bytes of an arrived datagram are.
pub(crate) enum Arrived<'a> {
    /// On this lane, not received yet.
    On(LaneId),
    /// In this buffer.
    Here(&'a [u8]),
}

impl QueuePair {
    // ---- Sending ----

    /// The destination that the address handle of a datagram stands for.
    pub(super) fn vector(&self, objects: &Objects, request: &SendRequest) -> Result<AddressVector> {
        if self.init.kind != QpType::Ud {
            return Ok(AddressVector::default());
        }
        let handle = objects.handles.get(request.datagram.ah);
        let handle = handle.ok().filter(|handle| handle.pd == self.init.pd);
        Ok(handle.ok_or(Error::Invalid)?.vector)
    }

    /// Sends the datagram at the cursor, as far as possible.
    pub(super) fn datagram<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        now: Option<u64>,
    ) -> Step {
        let Some(send) = self.sends.get(self.cursor) else {
            return Step::Next;
        };
        let Some(Whole { request, to }) = send.whole() else {
            return Step::Next;
        };
        if request.data.len() > u64::from(MAX_DATAGRAM) {
            return self.finish(WcStatus::LocLenErr);
        }
        let destination = Destination {
            lid: to.lid,
            qpn: request.datagram.qpn & QPN_MASK,
        };
        let is_new = send.way.moved == 0;
        let step = match objects.routes.get(&destination).copied() {
            Some(Route::Lane(lane)) => self.send_datagram(objects, host, now, lane),
            // The route was forgotten, or the lane that carried its first piece has ended.
            _ if !is_new => match self.lane_in_use(objects) {
                Some(lane) => self.send_datagram(objects, host, now, lane),
                None => self.finish(WcStatus::Success),
            },
            Some(Route::None | Route::Late) => self.finish(WcStatus::Success),
            Some(Route::Wanted) => self.wait_for_lane(objects, now, destination),
            None => {
                objects.set_route(destination, Route::Wanted);
                objects.events.push_back(Event::LaneWanted(destination));
                self.wait_for_lane(objects, now, destination)
            }
        };
        if !matches!(step, Step::Stay(_)) {
            self.release_lanes(objects);
            // The next datagram asks again.
            if objects.routes.get(&destination) == Some(&Route::None) {
                objects.routes.remove(&destination);
            }
        }
        step
    }

    /// The lane that carries a datagram of this queue pair.
    fn lane_in_use(&self, objects: &Objects) -> Option<LaneId> {
        let mut lanes = objects.lanes.iter();
        let found = lanes.find(|(_, lane)| lane.sender == Some(self.number));
        found.map(|(id, _)| id)
    }

    /// The step of a datagram that waits until the owner of the context has found a lane.
    fn wait_for_lane(
        &mut self,
        objects: &mut Objects,
        now: Option<u64>,
        destination: Destination,
    ) -> Step {
        let step = self.wait_for_peer(now);
        if matches!(step, Step::Over(_)) {
            objects.set_route(destination, Route::Late);
        }
        step
    }

    fn send_datagram<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        now: Option<u64>,
        id: LaneId,
    ) -> Step {
        loop {
            let Some(send) = self.sends.get(self.cursor) else {
                return Step::Next;
            };
            let Some(whole) = send.whole() else {
                return Step::Next;
            };
            let Some(lane) = objects.lanes.get_mut(id) else {
                return self.finish(WcStatus::Success);
            };
            let is_own = lane.sender == Some(self.number);
            if send.way.moved > 0 && !is_own {
                // This is not the lane that carried its first piece.
                return self.finish(WcStatus::Success);
            }
            let (moved, total) = (send.way.moved, whole.request.data.len());
            let rest = (total - moved).min(MAX_PAYLOAD as u64) as usize;
            let is_free = lane.outbox.is_empty() && (is_own || lane.sender.is_none());
            if !is_free || host.room(id) < record_bytes(rest) {
                let Some(now) = now else {
                    return Step::Stay(Pause::Clock);
                };
                let since = *lane.full_since.get_or_insert(now);
                let until = since.saturating_add(UNRELIABLE_TIMEOUT_NS);
                // The peer does not run. The datagrams that follow do not wait for it again.
                return match now >= until {
                    true => self.finish(WcStatus::Success),
                    false => Step::Stay(Pause::RoomUntil(until)),
                };
            }
            lane.full_since = None;
            lane.sender = Some(self.number);
            let is_last = moved + rest as u64 == total;
            let piece = self.datagram_piece(whole, moved, rest, is_last);
            let record = Record::Datagram(piece).encode();
            match &whole.request.data {
                Data::Inline(bytes) => {
                    let from = moved as usize;
                    let bytes = bytes.get(from..from + rest).unwrap_or_default();
                    // It cannot fail: the bytes are not the program's.
                    let _ = host.send(id, &record, Source::Bytes(bytes));
                }
                Data::Segments(segments) => {
                    let mut places = take(&mut objects.places);
                    places.clear();
                    let (pd, range) = (self.init.pd, (moved, rest as u64));
                    let keys = &objects.keys;
                    let resolved = keys.resolve(pd, segments, range, false, &mut places);
                    let is_sent =
                        resolved.is_ok() && host.send(id, &record, Source::Memory(&places)).is_ok();
                    objects.places = places;
                    if !is_sent {
                        return self.finish(WcStatus::LocProtErr);
                    }
                }
            }
            if let Some(send) = self.current() {
                (send.way.moved, send.way.has_begun) = (moved + rest as u64, true);
            }
            if is_last {
                return self.finish(WcStatus::Success);
            }
        }
    }

    fn datagram_piece(
        &self,
        whole: &Whole,
        moved: u64,
        rest: usize,
        is_last: bool,
    ) -> DatagramPiece {
        let Whole { request, to } = whole;
        let mut marks = Marks::empty();
        marks.set(Marks::FIRST, moved == 0);
        marks.set(Marks::LAST, is_last);
        let is_solicited = request.flags.contains(SendFlags::SOLICITED);
        marks.set(Marks::SOLICITED, is_solicited);
        let has_immediate = request.opcode == Opcode::SendWithImm;
        marks.set(Marks::IMMEDIATE, has_immediate);
        let datagram = &request.datagram;
        DatagramPiece {
            destination: datagram.qpn & QPN_MASK,
            source: self.number,
            qkey: match datagram.qkey & OWN_QKEY {
                0 => datagram.qkey,
                _ => self.attributes.qkey,
            },
            slid: 0,
            service_level: to.service_level & 15,
            global: to.global,
            marks,
            total: request.data.len() as u32,
            immediate: request.immediate,
            payload: rest as u32,
        }
    }

    /// Ends the claim of this queue pair to the lanes on which it has sent part of a datagram.
    pub(super) fn release_lanes(&self, objects: &mut Objects) {
        if self.init.kind != QpType::Ud {
            return;
        }
        for lane in objects.lanes.values_mut() {
            if lane.sender == Some(self.number) {
                lane.sender = None;
            }
        }
    }

    // ---- Receiving ----

    /// Whether it takes datagrams with this key. A key that is the only obstacle is counted.
    pub fn takes_datagram(&self, objects: &mut Objects, qkey: u32) -> bool {
        if self.init.kind != QpType::Ud || !self.is_receiving() {
            return false;
        }
        let is_right = self.attributes.qkey == qkey;
        let violations = &mut objects.qkey_violations;
        *violations = violations.saturating_add(u32::from(!is_right));
        is_right
    }

    /// Whether a datagram with this key finds no receive, but one is expected soon: the program
    /// has posted some since a datagram was last dropped.
    pub fn awaits_receive(&self, objects: &Objects, qkey: u32) -> bool {
        let is_empty = match self.init.srq {
            None => self.receives.is_empty(),
            Some(srq) => objects.srqs.get(srq).is_ok_and(|srq| srq.is_empty()),
        };
        let is_for_it = self.init.kind == QpType::Ud && self.attributes.qkey == qkey;
        is_empty && is_for_it && self.posts_receives && self.is_receiving()
    }

    /// Notes that no receive was posted in time.
    pub fn give_up_receive(&mut self) {
        self.posts_receives = false;
    }

    /// Puts a datagram from the port `slid` into a receive, or drops it. Returns whether its bytes
    /// were taken from the lane.
    pub fn receive_datagram<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        piece: &DatagramPiece,
        slid: u16,
        from: &Arrived<'_>,
    ) -> bool {
        let pool = self.own_pool();
        let Some(receive) = self.take_receive(objects, pool) else {
            return false;
        };
        self.posts_receives = true;
        let (head, body) = (GRH_BYTES as u64, u64::from(piece.total));
        if head + body > total(&receive.segments) {
            match self.init.srq {
                None => self.receives.push_front(receive),
                Some(_) => self.complete_receive(objects, pool, &receive, WcStatus::LocLenErr),
            }
            return false;
        }
        let mut places = take(&mut objects.places);
        places.clear();
        let (pd, segments, keys) = (self.init.pd, &receive.segments, &objects.keys);
        let mut resolved = keys.resolve(pd, segments, (0, head), true, &mut places);
        let heads = places.len();
        if resolved.is_ok() {
            resolved = keys.resolve(pd, segments, (head, body), true, &mut places);
        }
        let (head_places, body_places) = places.split_at(heads);
        let may = resolved.is_ok();
        let stored = may && {
            let head = piece.global.as_ref().map_or(Ok(()), |route| {
                let has_immediate = piece.marks.contains(Marks::IMMEDIATE);
                let header = route_header(route, slid, piece.total as usize, has_immediate);
                write_places(host, head_places, &header)
            });
            let body = match from {
                Arrived::On(lane) => host.receive(*lane, Target::Memory(body_places)),
                Arrived::Here(bytes) => write_places(host, body_places, bytes),
            };
            head.is_ok() && body.is_ok()
        };
        objects.places = places;
        if !stored {
            self.complete_receive(objects, pool, &receive, WcStatus::LocProtErr);
            self.enter_error(objects);
            // Bytes that could not be stored have left the lane all the same.
            return may;
        }
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::WITH_IMM, piece.marks.contains(Marks::IMMEDIATE));
        flags.set(WcFlags::GRH, piece.global.is_some());
        let completion = WorkCompletion {
            byte_len: piece.total + GRH_BYTES as u32,
            immediate: piece.immediate,
            src_qp: piece.source,
            slid,
            service_level: piece.service_level,
            flags,
            ..WorkCompletion::new(receive.id, self.number, WcOpcode::Recv, WcStatus::Success)
        };
        let is_solicited = piece.marks.contains(Marks::SOLICITED);
        self.count_receive(piece.total);
        let slots = self.receive_slot(pool);
        objects.complete(self.init.recv_cq, completion, slots, is_solicited);
        true
    }
}
