//! The short way of receiving: whole messages and acknowledgements, when nothing is in their way.

use alloc::vec::Vec;

use super::Context;
use crate::host::{Host, LaneId, Peeked};
use crate::objects::{Lane, record_bytes};
use crate::queue_pair::{Pause, QueuePair};
use crate::record::{Broken, Header, Usual};

/// Records that one lane handles before the next one has its turn.
pub(super) const RECORDS_AT_ONCE: usize = 64;
/// Looks that find nothing after which a peer is acknowledged that does not wait for it: a program
/// that answers has answered by then, on whichever queue pair.
const PATIENT_LOOKS: u32 = 64;

/// What [`take_messages`](Context::take_messages) has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing has arrived.
    Nothing,
    /// Messages or acknowledgements, and nothing is left to be done for now.
    All,
    /// [`progress`](Context::progress) has to do what is left.
    More,
}

/// What the short way has done with the next record of a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Short {
    Nothing,
    /// It was taken. `is_last`: nothing was seen behind it.
    Taken {
        is_last: bool,
    },
    /// The long way has to look.
    Other,
}

/// Why a lane is over.
pub(super) enum Over {
    /// Its stream has ended.
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
    /// Whether a peer is to be told something by [`progress`](Self::progress) now, if nothing else
    /// is to be done. To be asked with each look that finds nothing: a peer that does not wait for
    /// it is told after some of them.
    #[inline]
    pub fn owes(&mut self) -> bool {
        if self.objects.owed == 0 {
            return false;
        }
        self.looks += 1;
        self.objects.is_waited_for || self.looks >= PATIENT_LOOKS
    }

    /// Receives a message by the [short way](QueuePair::take_short), or an acknowledgement.
    pub(super) fn receive_short<H: Host>(
        &mut self,
        host: &mut H,
        id: LaneId,
    ) -> core::result::Result<Short, Over> {
        let mut header = Header::empty();
        let peeked = host.peek(id, header.bytes_mut());
        self.receive_peeked(host, id, peeked, &header)
    }

    /// The same of what was peeked at.
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
            // One that has to fail hands nothing over.
            let fails = !objects.overrun.is_empty();
            if fails || qp.advance(objects, host, None) != Pause::Event {
                activate(&mut self.active, qp);
            }
        }
        Ok(Short::Taken {
            is_last: bytes <= length,
        })
    }

    /// Receives whole messages and acknowledgements that are there, if that is all there is to do.
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

    /// The same for one lane.
    #[inline(always)]
    fn take_from<H: Host>(&mut self, host: &mut H, lane: LaneId) -> Taken {
        let mut header = Header::empty();
        match host.peek(lane, header.bytes_mut()) {
            Peeked::Nothing => Taken::Nothing,
            peeked => self.take_peeked(host, lane, peeked, &mut header),
        }
    }

    /// The same before something is sent there, where something has arrived.
    #[cold]
    #[inline(never)]
    pub(super) fn take_before<H: Host>(&mut self, host: &mut H, lane: LaneId) -> Taken {
        self.take_from(host, lane)
    }

    /// The same from a record on that was peeked at. A call of its own, for what a look that finds
    /// nothing has to prepare.
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
                    // A queue pair that has failed has something to say; one that has become active
                    // needs a clock or room.
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

/// Has a queue pair hand over with the next progress what it can.
pub(super) fn activate(active: &mut Vec<u32>, qp: &mut QueuePair) {
    if !qp.is_active {
        qp.is_active = true;
        active.push(qp.number);
    }
}
