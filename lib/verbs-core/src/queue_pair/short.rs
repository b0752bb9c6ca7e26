//! The short way of requests between reliable queue pairs (docs/verbs.md): messages that go in one
//! piece from one place into one, and writes from one place, when nothing comes before them. In
//! every other case the functions here do nothing, and the long way decides.
//!
//! Most of it is inlined into the one function that posts, or looks for records: each part is a
//! few instructions, and a call with its return would be as many.

use core::slice;

use super::send::INLINE_KEPT;
use super::{Ended, Kept, MAX_MESSAGE, Peer, QueuePair, Send, Stage, Way, is_before};
use crate::host::{Host, LaneId, Place, Source};
use crate::objects::{Known, Objects};
use crate::record::{Ack, Address, Broken, Header, MAX_PAYLOAD, Marks, Piece, Record};
use crate::types::{Access, Opcode, QpState, QpType, SendFlags, WcStatus};
use crate::work::{Remote, Segment, Segments, ShortData, ShortSend};

/// The result of the short way for a message.
enum Handed {
    /// It was sent as the message of this number.
    Sent(u32),
    /// It was not sent. It waits for a receive, which the peer will report.
    Waits,
    /// It was not sent: the long way decides.
    No,
}

impl QueuePair {
    /// Posts a request by the short way. Returns whether it did; if not, nothing was done.
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
        // The rest is compiled for each kind of data, and need not ask again which one it has.
        match send.data {
            ShortData::Segment(segment) => {
                let place = self.place_of(objects, &segment, send.flags)?;
                let source = Source::Memory(slice::from_ref(&place));
                self.begin_short(objects, host, send, source, place.length)
            }
            ShortData::Inline(bytes) if self.fits_inline(bytes, send.flags) => {
                self.begin_short(objects, host, send, Source::Bytes(bytes), bytes.len())
            }
            ShortData::Inline(_) => None,
        }
    }

    /// Posts a request with `bytes` bytes of data, which may be sent.
    #[inline(always)]
    fn begin_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        send: &ShortSend<'_>,
        from: Source<'_>,
        bytes: usize,
    ) -> Option<()> {
        // Behind a request that waits, this one waits too.
        let is_next = self.cursor == self.sends.len();
        let ended = Ended::of_short(send, bytes);
        if send.opcode == Opcode::Send {
            return self.begin_message(objects, host, send, from, ended, is_next);
        }
        if !is_next || send.opcode != Opcode::RdmaWrite {
            return None;
        }
        self.write_short(objects, host, from, bytes, &send.remote)?;
        if self.sends.is_empty() {
            self.complete_send(objects, ended, WcStatus::Success);
            return Some(());
        }
        self.cursor += 1;
        self.sends.push_back(Send {
            ended,
            way: Way {
                stage: Stage::Done(WcStatus::Success),
                has_begun: true,
                ..Way::default()
            },
            kept: Kept::Nothing,
        });
        Some(())
    }

    /// [`begin_short`](Self::begin_short) for a message.
    #[inline(always)]
    fn begin_message<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        send: &ShortSend<'_>,
        from: Source<'_>,
        ended: Ended,
        is_next: bool,
    ) -> Option<()> {
        let marks = self.waited_for(send.flags);
        // It enters the queue before it is sent, so that its parts need not be kept until then.
        self.sends.push_back(Send {
            ended,
            way: Way {
                stage: match is_next {
                    true => Stage::Sent(self.sent),
                    false => Stage::Waiting,
                },
                has_begun: is_next,
                ..Way::default()
            },
            kept: Kept::of_short(send, &mut self.spare),
        });
        if !is_next {
            return Some(());
        }
        let bytes = ended.bytes as usize;
        match self.message_short(objects, host, from, bytes, ended.flags, marks) {
            Handed::Sent(_) => self.cursor = self.cursor.wrapping_add(1),
            Handed::Waits => {
                let way = &mut self.sends.back_mut()?.way;
                (way.stage, way.has_begun) = (Stage::Waiting, false);
            }
            Handed::No => {
                self.sends.pop_back();
                return None;
            }
        }
        Some(())
    }

    /// Sends the message at the cursor by the short way, if it can take it. Returns whether it
    /// did; `None`: the message waits for a receive of the peer.
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
        let handed = match data {
            ShortData::Segment(segment) => match self.place_of(objects, &segment, flags) {
                Some(place) => {
                    let source = Source::Memory(slice::from_ref(&place));
                    self.message_again(objects, host, source, place.length, flags)
                }
                None => Handed::No,
            },
            ShortData::Inline(bytes) => {
                // A copy, because the queue pair changes while they are sent.
                let (mut copy, count) = ([0; INLINE_KEPT], bytes.len());
                match copy.get_mut(..count) {
                    Some(to) if self.fits_inline(bytes, flags) => {
                        to.copy_from_slice(bytes);
                        self.message_again(objects, host, Source::Bytes(to), count, flags)
                    }
                    _ => Handed::No,
                }
            }
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
        from: Source<'_>,
        bytes: usize,
        flags: SendFlags,
    ) -> Handed {
        let marks = self.waited_for(flags);
        self.message_short(objects, host, from, bytes, flags, marks)
    }

    /// Where the data of a request lies, if its key and size are good.
    #[inline(always)]
    fn place_of(&self, objects: &Objects, segment: &Segment, flags: SendFlags) -> Option<Place> {
        let bytes = segment.length as usize;
        let fits = !flags.contains(SendFlags::INLINE)
            && self.init.capacity.send_sge > 0
            && bytes as u64 <= MAX_MESSAGE;
        let place = objects.keys.place(self.init.pd, segment, bytes, false);
        place.filter(|_| fits)
    }

    /// Whether these bytes may be the inline data of a request.
    #[inline(always)]
    fn fits_inline(&self, bytes: &[u8], flags: SendFlags) -> bool {
        flags.contains(SendFlags::INLINE) && bytes.len() <= self.init.capacity.inline as usize
    }

    /// Sends a message in one piece, if nothing prevents it.
    #[inline(always)]
    fn message_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        from: Source<'_>,
        bytes: usize,
        flags: SendFlags,
        waited_for: Marks,
    ) -> Handed {
        let (Peer::Ready(ready), Some(lane)) = (&self.peer, self.lane) else {
            return Handed::No;
        };
        let is_clear = objects
            .lanes
            .get(lane)
            .is_some_and(|of| of.outbox.is_empty());
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
        let mut marks = Marks::FIRST | Marks::LAST | waited_for;
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
        if !host.send_if_room(lane, &header, from, bytes) {
            return Handed::No;
        }
        self.published = ack.limit;
        self.settle_ack(objects);
        self.sent = number.wrapping_add(1);
        Handed::Sent(number)
    }

    /// What to do with a message for which the peer has no receive.
    #[cold]
    fn without_receive(&self) -> Handed {
        match self.waits_without_end() {
            true => Handed::Waits,
            false => Handed::No,
        }
    }

    /// Writes the peer's memory by a key that it has granted. `None`: nothing was written.
    #[inline(always)]
    fn write_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        from: Source<'_>,
        bytes: usize,
        to: &Remote,
    ) -> Option<()> {
        let (Peer::Ready(ready), Some(id)) = (&self.peer, self.lane) else {
            return None;
        };
        let known = &objects.lanes.get(id)?.known;
        let Known::Given(grant) = known.get(to.key)? else {
            return None;
        };
        let bytes = bytes as u64;
        let offset = to.address.checked_sub(grant.start)?;
        let may = (grant.access & ready.access).contains(Access::REMOTE_WRITE)
            && [0, self.attributes.dest_qpn].contains(&grant.qp)
            && offset.checked_add(bytes)? <= grant.length;
        if !may || ready.is_shared || bytes == 0 {
            return None;
        }
        host.put(id, grant.window, offset, from).ok()?;
        self.traffic.stored_bytes += bytes;
        Some(())
    }

    /// Receives a whole message, which is the next record of the lane, from the peer and for this
    /// queue pair. Returns whether it did.
    #[inline(always)]
    pub fn take_short<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        lane: LaneId,
        header: &Header,
    ) -> Result<bool, Broken> {
        let is_usual = self.init.kind == QpType::Rc
            && self.init.srq.is_none()
            && self.incoming.is_none()
            && header.number() == self.expected;
        if !is_usual {
            return Ok(false);
        }
        let Some(receive) = self.receives.front() else {
            return Ok(false);
        };
        let (id, bytes) = (receive.id, header.bytes() as usize);
        let Segments::One(segment) = &receive.segments else {
            return Ok(false);
        };
        let Some(place) = objects.keys.place(self.init.pd, segment, bytes, true) else {
            return Ok(false);
        };
        if !host.receive_record(lane, Some(place)) {
            return Ok(false);
        }
        if let Some(ack) = header.carried() {
            self.acknowledged(objects, ack)?;
            // With this acknowledgement a failed request may have completed: then the receive was
            // flushed, because the queue pair is in the error state.
            if !self.is_receiving() {
                return Ok(true);
            }
        }
        self.receives.pass_front();
        let (marks, immediate) = (header.marks(), header.immediate());
        self.complete_message(
            objects,
            self.own_pool(),
            id,
            marks,
            header.bytes(),
            immediate,
        );
        Ok(true)
    }
}
