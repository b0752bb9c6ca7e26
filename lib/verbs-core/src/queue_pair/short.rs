//! The short way of requests between reliable queue pairs: messages that go in one piece from one
//! place into one, and writes from one place, when nothing is before them. In every other case
//! nothing is done here, and the long way decides.
//!
//! Most of it is compiled into the one function of a post, or of a look for records: it is a few
//! instructions at a time, and a call and its return would be as many.

use core::slice;

use super::send::INLINE_KEPT;
use super::{Ended, Kept, MAX_MESSAGE, Peer, QueuePair, Send, Stage, Way, is_before};
use crate::host::{Host, LaneId, Place, Source};
use crate::objects::{Known, Objects};
use crate::record::{Ack, Address, Broken, MAX_PAYLOAD, Marks, Piece, Record};
use crate::types::{Access, Opcode, QpState, QpType, SendFlags, WcStatus};
use crate::work::{Remote, ShortData, ShortSend};

/// The stage of a request that is over.
const DONE: Stage = Stage::Done(WcStatus::Success);

/// What the short way has done with a message.
enum Handed {
    /// It was sent as the message of this number.
    Sent(u32),
    /// Nothing. It waits for a receive, of which the peer will tell.
    Waits,
    /// Nothing: the long way decides.
    No,
}

/// Where the data of a request lies.
enum OnePlace<'a> {
    Inline(&'a [u8]),
    Memory(Place),
}

impl OnePlace<'_> {
    #[inline(always)]
    fn bytes(&self) -> usize {
        match self {
            OnePlace::Inline(bytes) => bytes.len(),
            OnePlace::Memory(place) => place.length,
        }
    }

    #[inline(always)]
    fn source(&self) -> Source<'_> {
        match self {
            OnePlace::Inline(bytes) => Source::Bytes(bytes),
            OnePlace::Memory(place) => Source::Memory(slice::from_ref(place)),
        }
    }
}

impl QueuePair {
    /// Posts a request by the short way; whether it did. If not, nothing was done.
    #[inline(always)]
    pub fn post_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        send: &ShortSend<'_>,
    ) -> bool {
        self.try_short(objects, host, send).is_some()
    }

    #[inline(always)]
    fn try_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        send: &ShortSend<'_>,
    ) -> Option<()> {
        let is_usual = self.init.kind == QpType::Rc
            && self.state == QpState::Rts
            && !self.is_failing
            && !self.is_send_queue_full(objects);
        if !is_usual {
            return None;
        }
        let from = self.one_place(objects, &send.data, send.flags)?;
        let ended = Ended::of_short(send, from.bytes());
        let is_message = send.opcode == Opcode::Send;
        // Behind a request that waits nothing can be done but wait.
        let is_next = self.cursor == self.sends.len();
        let stage = match is_message {
            true if !is_next => Stage::Waiting,
            true => match self.message_short(objects, host, &from, send.flags) {
                Handed::Sent(number) => Stage::Sent(number),
                Handed::Waits => Stage::Waiting,
                Handed::No => return None,
            },
            false if !is_next || send.opcode != Opcode::RdmaWrite => return None,
            false => self.write_short(objects, host, &from, &send.remote)?,
        };
        if stage == DONE && self.sends.is_empty() {
            self.complete_send(objects, ended, WcStatus::Success);
            return Some(());
        }
        let has_begun = stage != Stage::Waiting;
        self.cursor += usize::from(has_begun);
        self.sends.push_back(Send {
            ended,
            way: Way {
                stage,
                has_begun,
                ..Way::default()
            },
            kept: match is_message {
                true => Kept::of_short(send, &mut self.spare),
                false => Kept::Nothing,
            },
        });
        Some(())
    }

    /// Hands the message at the cursor over by the short way, if it is one for it. Whether it did;
    /// `None`: the message waits for a receive of the peer.
    pub(super) fn hand_over_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
    ) -> Option<bool> {
        let Some(send) = self.sends.get(self.cursor) else {
            return Some(false);
        };
        let Some(data) = send.short() else {
            return Some(false);
        };
        let flags = send.ended.flags;
        let handed = match self.one_place(objects, &data, flags) {
            Some(OnePlace::Memory(place)) => {
                self.message_again(objects, host, &OnePlace::Memory(place), flags)
            }
            Some(OnePlace::Inline(bytes)) => {
                // The queue pair changes while they are sent.
                let (mut copy, count) = ([0; INLINE_KEPT], bytes.len());
                match copy.get_mut(..count) {
                    Some(to) => {
                        to.copy_from_slice(bytes);
                        self.message_again(objects, host, &OnePlace::Inline(to), flags)
                    }
                    None => Handed::No,
                }
            }
            None => Handed::No,
        };
        let send = self.sends.get_mut(self.cursor)?;
        match handed {
            Handed::Sent(number) => {
                (send.way.stage, send.way.has_begun) = (Stage::Sent(number), true);
                Some(true)
            }
            Handed::Waits => None,
            Handed::No => {
                send.lengthen();
                Some(false)
            }
        }
    }

    /// [`message_short`](Self::message_short) for a message that had to wait.
    #[inline(never)]
    fn message_again<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        from: &OnePlace<'_>,
        flags: SendFlags,
    ) -> Handed {
        self.message_short(objects, host, from, flags)
    }

    /// Where the data of a request lies, if its keys are good: registered memory, or bytes of the
    /// request.
    #[inline(always)]
    fn one_place<'a>(
        &self,
        objects: &Objects,
        data: &ShortData<'a>,
        flags: SendFlags,
    ) -> Option<OnePlace<'a>> {
        let is_marked = flags.contains(SendFlags::INLINE);
        let capacity = &self.init.capacity;
        match data {
            ShortData::Inline(bytes) => {
                let fits = is_marked && bytes.len() <= capacity.inline as usize;
                fits.then_some(OnePlace::Inline(bytes))
            }
            ShortData::Segment(segment) => {
                let bytes = segment.length as usize;
                let place = objects.keys.place(self.init.pd, segment, bytes, false);
                let fits = !is_marked && capacity.send_sge > 0 && bytes as u64 <= MAX_MESSAGE;
                place.filter(|_| fits).map(OnePlace::Memory)
            }
        }
    }

    /// Sends a message in one piece; what has become of it.
    #[inline(always)]
    fn message_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        from: &OnePlace<'_>,
        flags: SendFlags,
    ) -> Handed {
        let (Peer::Ready(ready), Some(lane)) = (&self.peer, self.lane) else {
            return Handed::No;
        };
        let is_clear = objects
            .lanes
            .get(lane)
            .is_some_and(|of| of.outbox.is_empty());
        let bytes = from.bytes();
        if !is_clear || ready.is_shared || self.rnr.is_some() || bytes > MAX_PAYLOAD {
            return Handed::No;
        }
        if !is_before(self.sent, ready.limit) {
            return self.without_receive();
        }
        let address = Address {
            destination: self.attributes.dest_qpn,
            source: self.number,
            generation: ready.generation,
        };
        let mut marks = Marks::FIRST | Marks::LAST | self.waited_for(flags);
        marks.set(Marks::SOLICITED, flags.contains(SendFlags::SOLICITED));
        let number = self.sent;
        let ack = Ack {
            taken: self.expected,
            limit: self.limit(),
        };
        let piece = Piece {
            marks,
            number,
            total: bytes as u32,
            immediate: 0,
            srq: 0,
            ack: Some(ack),
            payload: bytes as u32,
        };
        let header = Record::encode_message(&address, &piece);
        if !host.send_if_room(lane, &header, from.source(), bytes) {
            return Handed::No;
        }
        self.published = ack.limit;
        self.settle_ack(objects);
        self.sent = number.wrapping_add(1);
        Handed::Sent(number)
    }

    /// What becomes of a message for which the peer has no receive.
    #[cold]
    fn without_receive(&self) -> Handed {
        match self.waits_without_end() {
            true => Handed::Waits,
            false => Handed::No,
        }
    }

    /// Writes the peer's memory by a key that it has granted; what has become of the request.
    #[inline(always)]
    fn write_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        from: &OnePlace<'_>,
        to: &Remote,
    ) -> Option<Stage> {
        let (Peer::Ready(ready), Some(id)) = (&self.peer, self.lane) else {
            return None;
        };
        let known = &objects.lanes.get(id)?.known;
        let Known::Given(grant) = known.get(to.key)? else {
            return None;
        };
        let bytes = from.bytes() as u64;
        let offset = to.address.checked_sub(grant.start)?;
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
    #[inline(always)]
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
        if !host.receive_record(lane, Some(place)) {
            return Ok(false);
        }
        if let Some(ack) = piece.ack {
            self.acknowledged(objects, ack)?;
            // A failed request behind what was acknowledged may have come to its turn: the receive
            // has ended with its queue pair.
            if !self.is_receiving() {
                return Ok(true);
            }
        }
        self.receives.pop_front();
        self.complete_message(objects, self.own_pool(), id, piece);
        Ok(true)
    }
}
