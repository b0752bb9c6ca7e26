//! The short way of receiving (docs/verbs.md): takes whole messages and acknowledgements while the
//! lanes have no other work.

use alloc::vec::Vec;

use super::Context;
use crate::host::{Host, LaneId, Peeked};
use crate::objects::{Lane, record_bytes};
use crate::queue_pair::{Pause, QueuePair};
use crate::record::{Broken, Header, Usual};

/// Most records that one lane handles before the next lane has its turn.
pub(super) const RECORDS_AT_ONCE: usize = 64;
/// A peer that does not wait for its acknowledgement gets it after this many looks that find
/// nothing: a program that answers messages has answered by then, on whichever queue pair.
const PATIENT_LOOKS: u32 = 64;

/// The result of [`take_messages`](Context::take_messages).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing has arrived.
    Nothing,
    /// Messages or acknowledgements were received, and no work is left for now.
    All,
    /// [`progress`](Context::progress) has to do the remaining work.
    More,
}

/// The result of the short way for the next record of a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Short {
    Nothing,
    /// It was received. `is_last`: no bytes were seen behind it.
    Taken {
        is_last: bool,
    },
    /// The long way has to handle it.
    Other,
}

/// Why a lane ends.
pub(super) enum Over {
    /// Its byte stream has ended.
    Ended,
    /// The peer has broken the protocol.
    Broken,
}

impl From<Broken> for Over {
    fn from(_: Broken) -> Over {
        Over::Broken
    }
}

impl Context {
    /// Whether to call [`progress`](Self::progress) only to send acknowledgements. To be called
    /// after each look that finds nothing, because it counts these looks: a peer that does not
    /// wait for its acknowledgement gets it after some of them.
    #[inline]
    pub fn owes(&mut self) -> bool {
        if self.objects.owed == 0 {
            return false;
        }
        self.looks += 1;
        self.objects.is_waited_for || self.looks >= PATIENT_LOOKS
    }

    /// Receives the next record of a lane, if it is an acknowledgement or a message for the [short
    /// way](QueuePair::take_short).
    pub(super) fn receive_short<H: Host>(
        &mut self,
        host: &mut H,
        id: LaneId,
    ) -> core::result::Result<Short, Over> {
        let mut header = Header::empty();
        let peeked = host.peek(id, header.bytes_mut());
        self.receive_peeked(host, id, peeked, &header)
    }

    /// Receives the record that `peeked` and `header` describe, as
    /// [`receive_short`](Self::receive_short) does.
    #[inline(always)]
    fn receive_peeked<H: Host>(
        &mut self,
        host: &mut H,
        id: LaneId,
        peeked: Peeked,
        header: &Header,
    ) -> core::result::Result<Short, Over> {
        let bytes = match peeked {
            Peeked::Nothing => return Ok(Short::Nothing),
            Peeked::Record(bytes) => bytes,
            Peeked::Unknown => return Ok(Short::Other),
        };
        let is_usual = |lane: &Lane| lane.pending.is_none() && lane.outbox.is_empty();
        if !self.objects.lanes.get(id).is_some_and(is_usual) {
            return Ok(Short::Other);
        }
        let Some(usual) = header.usual() else {
            return Ok(Short::Other);
        };
        let objects = &mut self.objects;
        let address = header.address();
        let qp = self.qps.get_mut(address.destination);
        let Some(qp) = qp.filter(|qp| qp.is_for_us(id, &address)) else {
            return Ok(Short::Other);
        };
        let length = record_bytes(header.bytes() as usize);
        match usual {
            Usual::Message => {
                if bytes < length || !qp.take_short(objects, host, id, header)? {
                    return Ok(Short::Other);
                }
            }
            Usual::Ack => {
                if !host.receive_record(id, None) {
                    return Ok(Short::Other);
                }
                qp.acknowledged(objects, header.told())?;
            }
        }
        self.looks = 0;
        if qp.has_work() {
            // Once a queue pair has to fail, no further request is executed.
            let fails = !objects.overrun.is_empty();
            if fails || qp.advance(objects, host, None) != Pause::Event {
                activate(&mut self.active, qp);
            }
        }
        Ok(Short::Taken {
            is_last: bytes <= length,
        })
    }

    /// Receives the messages and acknowledgements that have arrived on any lane, as far as the
    /// short way can.
    #[inline(always)]
    pub fn take_messages<H: Host>(&mut self, host: &mut H) -> Taken {
        let mut taken = Taken::Nothing;
        let mut next = self.objects.lanes.next_from(0);
        while let Some(lane) = next {
            taken = match (taken, self.take_from(host, lane)) {
                (taken, Taken::Nothing) => taken,
                (Taken::Nothing, here) => here,
                (Taken::All, Taken::All) => Taken::All,
                _ => Taken::More,
            };
            next = self.objects.lanes.next_from(lane.0 + 1);
        }
        taken
    }

    /// [`take_messages`](Self::take_messages) for one lane.
    #[inline(always)]
    fn take_from<H: Host>(&mut self, host: &mut H, lane: LaneId) -> Taken {
        let mut header = Header::empty();
        match host.peek(lane, header.bytes_mut()) {
            Peeked::Nothing => Taken::Nothing,
            peeked => self.take_peeked(host, lane, peeked, &mut header),
        }
    }

    /// [`take_from`](Self::take_from) for a lane on which something has arrived and something is
    /// about to be sent.
    #[cold]
    #[inline(never)]
    pub(super) fn take_before<H: Host>(&mut self, host: &mut H, lane: LaneId) -> Taken {
        self.take_from(host, lane)
    }

    /// Receives records from the one on that `peeked` and `header` describe. It is a function of
    /// its own so that a look that finds nothing does not pay for its preparation.
    #[inline(never)]
    fn take_peeked<H: Host>(
        &mut self,
        host: &mut H,
        lane: LaneId,
        mut peeked: Peeked,
        header: &mut Header,
    ) -> Taken {
        let active = self.active.len();
        for _ in 0..RECORDS_AT_ONCE {
            match self.receive_peeked(host, lane, peeked, header) {
                Ok(Short::Nothing) => return Taken::All,
                Ok(Short::Taken { is_last }) => {
                    // A queue pair that has failed has records to send; one that has become active
                    // needs the time or room on the lane.
                    let has_failed = self.fail_overrun() || !self.is_clear(lane);
                    if has_failed || self.active.len() > active {
                        return Taken::More;
                    }
                    if is_last {
                        return Taken::All;
                    }
                }
                Ok(Short::Other) => return Taken::More,
                Err(_) => {
                    self.lane_over(host, lane, false);
                    return Taken::More;
                }
            }
            peeked = host.peek(lane, header.bytes_mut());
        }
        Taken::More
    }

    #[inline]
    fn is_clear(&self, lane: LaneId) -> bool {
        let lane = self.objects.lanes.get(lane);
        lane.is_some_and(|lane| lane.outbox.is_empty())
    }
}

/// Puts a queue pair into the list of those whose requests the next `progress` executes.
pub(super) fn activate(active: &mut Vec<u32>, qp: &mut QueuePair) {
    if !qp.is_active {
        qp.is_active = true;
        active.push(qp.number);
    }
}
