//! The short way of requests between reliable queue pairs: messages that go in one piece from one
//! place into one, and writes from one place, when nothing is before them. In every other case
//! nothing is done here, and the long way decides.

use core::slice;

use super::{Ended, MAX_MESSAGE, Peer, QueuePair, Send, Stage, Way, is_before};
use crate::address::AddressVector;
use crate::host::{Host, LaneId, Place, Source, Target};
use crate::objects::{Known, Objects, record_bytes};
use crate::record::{Broken, HEADER_BYTES, MAX_PAYLOAD, Marks, Piece, Record};
use crate::types::{Access, Opcode, QpState, QpType, SendFlags, WcStatus};
use crate::work::{Data, SendRequest};

/// The stage of a request that is over.
const DONE: Stage = Stage::Done(WcStatus::Success);

/// Where the data of a request lies.
enum OnePlace<'a> {
    Inline(&'a [u8]),
    Memory(Place),
}

impl OnePlace<'_> {
    fn bytes(&self) -> usize {
        match self {
            OnePlace::Inline(bytes) => bytes.len(),
            OnePlace::Memory(place) => place.length,
        }
    }

    fn source(&self) -> Source<'_> {
        match self {
            OnePlace::Inline(bytes) => Source::Bytes(bytes),
            OnePlace::Memory(place) => Source::Memory(slice::from_ref(place)),
        }
    }
}

impl QueuePair {
    /// Does what a request asks for that could be put into the queue now: it is handed over, or
    /// over at once, and is to be [kept](Self::keep_short). `None`: nothing was done.
    pub fn send_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        request: &SendRequest,
    ) -> Option<Stage> {
        let is_usual = self.init.kind == QpType::Rc
            && self.state == QpState::Rts
            && self.cursor == self.sends.len()
            && !self.is_send_queue_full(objects)
            && !self.is_failing
            && self.rnr.is_none();
        match request.opcode {
            _ if !is_usual => None,
            Opcode::Send => self.message_short(objects, host, request),
            Opcode::RdmaWrite => self.write_short(objects, host, request),
            _ => None,
        }
    }

    /// Puts a request into the queue that has come as far as this, or completes it.
    pub fn keep_short(&mut self, objects: &mut Objects, request: SendRequest, stage: Stage) {
        if stage == DONE && self.sends.is_empty() {
            self.complete_send(objects, Ended::of(&request), WcStatus::Success);
            return;
        }
        self.cursor += 1;
        let way = Way {
            stage,
            has_begun: true,
            ..Way::default()
        };
        let to = AddressVector::default();
        self.sends.push_back(Send { request, to, way });
    }

    /// Where the data of a request lies, if that is one place, and its keys are good: registered
    /// memory, or bytes of the request.
    fn one_place<'a>(&self, objects: &Objects, request: &'a SendRequest) -> Option<OnePlace<'a>> {
        let is_marked = request.flags.contains(SendFlags::INLINE);
        let capacity = &self.init.capacity;
        match &request.data {
            Data::Inline(bytes) => {
                let fits = is_marked && bytes.len() <= capacity.inline as usize;
                fits.then_some(OnePlace::Inline(bytes))
            }
            Data::Segments(segments) => {
                let [segment] = &segments[..] else {
                    return None;
                };
                let bytes = segment.length as usize;
                let place = objects.keys.place(self.init.pd, segment, bytes, false);
                let fits = !is_marked && capacity.send_sge > 0 && bytes as u64 <= MAX_MESSAGE;
                place.filter(|_| fits).map(OnePlace::Memory)
            }
        }
    }

    /// Sends a message in one piece; what has become of it.
    fn message_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        request: &SendRequest,
    ) -> Option<Stage> {
        let (Peer::Ready(ready), Some(lane)) = (&self.peer, self.lane) else {
            return None;
        };
        let has_receive = !ready.is_shared && is_before(self.sent, ready.limit);
        let is_clear = objects.lanes.get(lane)?.outbox.is_empty();
        let from = self.one_place(objects, request)?;
        let bytes = from.bytes();
        let fits = has_receive && is_clear && bytes <= MAX_PAYLOAD;
        if !fits || host.room(lane) < record_bytes(bytes) {
            return None;
        }
        let address = self.address();
        let mut marks = Marks::FIRST | Marks::LAST;
        marks.set(
            Marks::SOLICITED,
            request.flags.contains(SendFlags::SOLICITED),
        );
        let number = self.sent;
        let piece = Piece {
            marks,
            number,
            total: bytes as u32,
            immediate: request.immediate,
            srq: request.remote_srq,
            ack: Some(self.acknowledgement()),
            payload: bytes as u32,
        };
        self.settle_ack(objects);
        host.send(
            lane,
            &Record::encode_message(&address, &piece),
            from.source(),
        );
        self.sent = number.wrapping_add(1);
        Some(Stage::Sent(number))
    }

    /// Writes the peer's memory by a key that it has granted; what has become of the request.
    fn write_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        request: &SendRequest,
    ) -> Option<Stage> {
        let (Peer::Ready(ready), Some(id)) = (&self.peer, self.lane) else {
            return None;
        };
        let known = &objects.lanes.get(id)?.known;
        let Known::Given(grant) = known.get(&request.remote.key)? else {
            return None;
        };
        let from = self.one_place(objects, request)?;
        let bytes = from.bytes() as u64;
        let offset = request.remote.address.checked_sub(grant.start)?;
        let may = (grant.access & ready.access).contains(Access::REMOTE_WRITE)
            && [0, self.attributes.dest_qpn].contains(&grant.qp)
            && offset.checked_add(bytes)? <= grant.length;
        if !may || ready.is_shared || bytes == 0 {
            return None;
        }
        host.put(id, grant.window, offset, from.source()).ok()?;
        self.traffic.stored_bytes += bytes;
        Some(DONE)
    }

    /// Receives a whole message that is the next record of a lane, for this queue pair and of its
    /// peer; whether it did.
    pub fn take_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        lane: LaneId,
        piece: &Piece,
    ) -> Result<bool, Broken> {
        let is_usual = self.init.kind == QpType::Rc
            && self.init.srq.is_none()
            && self.incoming.is_none()
            && piece.number == self.expected;
        let Some(receive) = self.receives.front().filter(|_| is_usual) else {
            return Ok(false);
        };
        let (id, bytes) = (receive.id, piece.payload as usize);
        let [segment] = &receive.segments[..] else {
            return Ok(false);
        };
        let Some(place) = objects.keys.place(self.init.pd, segment, bytes, true) else {
            return Ok(false);
        };
        if let Some(ack) = piece.ack {
            self.acknowledged(objects, ack)?;
            // A failed request behind what was acknowledged may have come to its turn.
            if !self.is_receiving() {
                host.receive(lane, Target::Nowhere(HEADER_BYTES + bytes));
                return Ok(true);
            }
        }
        host.receive_record(lane, place);
        self.receives.pop_front();
        self.complete_message(objects, self.own_pool(), id, piece);
        Ok(true)
    }
}
