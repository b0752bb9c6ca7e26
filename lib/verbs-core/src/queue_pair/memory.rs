//! One-sided operations on the peer's memory, and changes of this context's own keys.

use core::mem::take;

use super::requester::{Pause, Step, Work};
use super::{QueuePair, Whole};
use crate::host::{Host, LaneId, NotMoved, NotThere, Place, Source};
use crate::keys::Denied;
use crate::objects::{Known, MOST_KNOWN, Objects};
use crate::record::{Answer, AtomicCall, Broken, Fault, Grant, Record};
use crate::types::{Access, Atomic, Opcode, WcStatus};
use crate::work::{Data, SendRequest};

/// How often a request may find its window missing before it fails. Between its answer and the
/// copy, the peer makes room for other windows only if it has very little.
const MOST_MISSES: u8 = 16;

/// The time after which a copy is tried again that was interrupted, or whose lane has not reported
/// its end yet.
const INTERRUPTED_NS: u64 = 1_000_000;

impl QueuePair {
    // ---- Own keys ----

    /// Executes the current send if it binds a memory window or invalidates a key.
    pub(super) fn change_keys<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
    ) -> Option<Step> {
        let request = &self.sends.get(self.cursor)?.whole()?.request;
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

    // ---- The peer's memory ----

    /// Copies to or from the peer's memory, or does an atomic operation there. A long copy goes on
    /// in the next turn.
    pub(super) fn one_sided<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        work: &mut Work<'_>,
    ) -> Result<(), Step> {
        let request = work.request;
        let total = request.data.len();
        // The messages before it may still be refused, and what is done here could not be undone.
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
        let copied = u64::from(work.way.copied);
        let count = match request.opcode.is_atomic() {
            true => total,
            false => objects.piece(total - copied),
        };
        work.places.clear();
        if let Data::Segments(segments) = &request.data {
            let (pd, range) = (self.init.pd, (copied, count));
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
        work.way.has_begun = true;
        let offset = offset + copied;
        let Work { lane, places, .. } = work;
        let moved = match (request.opcode, &request.data) {
            (Opcode::RdmaRead, _) => host.get(*lane, grant.window, offset, places),
            (Opcode::AtomicCmpAndSwp | Opcode::AtomicFetchAndAdd, _) => {
                let before = host.atomic(*lane, grant.window, offset, operation(request));
                before.and_then(|before| Ok(write_places(host, places, &before.to_ne_bytes())?))
            }
            (_, Data::Inline(bytes)) => {
                let from = copied as usize;
                let bytes = bytes.get(from..from + count as usize).unwrap_or_default();
                host.put(*lane, grant.window, offset, Source::Bytes(bytes))
            }
            (_, Data::Segments(_)) => host.put(*lane, grant.window, offset, Source::Memory(places)),
        };
        match moved {
            Ok(()) => {
                match request.opcode {
                    Opcode::RdmaRead => self.traffic.loaded_bytes += count,
                    opcode if opcode.is_atomic() => {
                        self.traffic.stored_bytes += count;
                        self.traffic.loaded_bytes += count;
                    }
                    _ => self.traffic.stored_bytes += count,
                }
                objects.budget.left = objects.budget.left.saturating_sub(count);
                work.way.copied = (copied + count) as u32;
                // A later piece may miss its window as often: the peer makes room for others.
                work.way.misses = 0;
                match copied + count < total {
                    true => Err(Step::Stay(Pause::Turn)),
                    false => Ok(()),
                }
            }
            Err(NotMoved::NoWindow) => Err(self.missed(objects, work)),
            Err(NotMoved::NotThere) => Err(self.finish(WcStatus::LocProtErr)),
            Err(NotMoved::NotSupported) if request.opcode.is_atomic() => {
                Err(self.ask(objects, work))
            }
            Err(NotMoved::NotSupported) => Err(self.wrong(objects, work.lane, Fault::Request)),
            // Records that arrived before the end are still received; then everything fails. A
            // copy that was only interrupted is tried again.
            Err(NotMoved::Ended) => {
                let until = |now: u64| Pause::Until(now.saturating_add(INTERRUPTED_NS));
                Err(Step::Stay(work.now.map_or(Pause::Clock, until)))
            }
        }
    }

    /// Handles a missing window: the peer has withdrawn the key, or needed room for other windows.
    /// Asks for the key again to learn which.
    fn missed(&mut self, objects: &mut Objects, work: &mut Work<'_>) -> Step {
        work.way.misses += 1;
        if work.way.misses > MOST_MISSES {
            return self.undeliverable(WcStatus::RemOpErr);
        }
        if let Some(lane) = objects.lanes.get_mut(work.lane) {
            lane.known.remove(work.request.remote.key);
        }
        match self.grant(objects, work) {
            Err(step) => step,
            Ok(_) => Step::Stay(Pause::Event),
        }
    }

    /// Asks the peer to do an atomic operation, because the lane's bus has none.
    fn ask(&mut self, objects: &mut Objects, work: &mut Work<'_>) -> Step {
        let call = AtomicCall {
            operation: operation(work.request),
            address: work.request.remote.address,
            key: work.request.remote.key,
        };
        objects.tell(work.lane, Record::Atomic(self.address(), call));
        work.way.is_asked = true;
        Step::Stay(Pause::Event)
    }

    /// Handles the result of an atomic operation that the peer was asked to do.
    pub fn atomic_done<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        result: Result<u64, Fault>,
    ) -> Result<(), Broken> {
        let pd = self.init.pd;
        let Some(send) = self.current().filter(|send| send.way.is_asked) else {
            return Err(Broken);
        };
        send.way.is_asked = false;
        let Some(Whole { request, .. }) = send.whole() else {
            return Err(Broken);
        };
        let status = match (result, &request.data) {
            (Ok(before), Data::Segments(segments)) => {
                let mut places = take(&mut objects.places);
                places.clear();
                let keys = &objects.keys;
                let resolved = keys.resolve(pd, segments, (0, 8), true, &mut places);
                let is_stored =
                    resolved.is_ok() && write_places(host, &places, &before.to_ne_bytes()).is_ok();
                objects.places = places;
                match is_stored {
                    true => WcStatus::Success,
                    false => WcStatus::LocProtErr,
                }
            }
            (Ok(_), Data::Inline(_)) => WcStatus::LocProtErr,
            (Err(Fault::Access), _) => WcStatus::RemAccessErr,
            (Err(Fault::Request), _) => WcStatus::RemInvReqErr,
        };
        self.finish_current(status);
        self.complete_sends(objects);
        Ok(())
    }

    /// Does an atomic operation for the peer, in the order of the peer's records.
    pub fn do_atomic<H: Host>(
        &mut self,
        objects: &mut Objects,
        host: &mut H,
        lane: LaneId,
        call: &AtomicCall,
    ) {
        let reach = objects.keys.reach(call.key).filter(|reach| {
            let access = reach.access & self.attributes.access;
            objects.reaches(&self.init, lane, reach.pd)
                && access.contains(Access::REMOTE_ATOMIC)
                && reach.qp.is_none_or(|qp| qp == self.number)
        });
        let place = reach.and_then(|reach| {
            let offset = call.address.checked_sub(reach.iova)?;
            let is_inside = offset.checked_add(8)? <= reach.length;
            is_inside.then(|| Place {
                key: reach.region,
                address: reach.start + offset,
                length: 8,
            })
        });
        let result = match place {
            None => Err(Fault::Access),
            Some(place) if !place.address.is_multiple_of(8) => Err(Fault::Request),
            Some(place) => {
                let before = host.atomic_own(place, call.operation);
                before.map_err(|_| Fault::Access)
            }
        };
        objects.tell(lane, Record::AtomicDone(self.address(), result));
        if let Err(fault) = result {
            self.fault(objects, fault);
        }
    }

    /// The peer's grant of the remote key. The first call asks for it.
    fn grant(&mut self, objects: &mut Objects, work: &Work<'_>) -> Result<Grant, Step> {
        let key = work.request.remote.key;
        let wait = Err(Step::Stay(Pause::Event));
        let Some(lane) = objects.lanes.get_mut(work.lane) else {
            return wait;
        };
        match lane.known.get(key).copied() {
            Some(Known::Given(grant)) => Ok(grant),
            Some(Known::Asked) => wait,
            None => {
                lane.known.insert(key, Known::Asked);
                objects.has_many_keys |= lane.known.len() > MOST_KNOWN;
                lane.outbox.push_back(Record::Expose(key));
                wait
            }
            Some(Known::Denied) => {
                lane.known.remove(key);
                Err(self.wrong(objects, work.lane, Fault::Access))
            }
            Some(Known::NoResources) => {
                lane.known.remove(key);
                Err(self.undeliverable(WcStatus::RemOpErr))
            }
        }
    }

    /// The peer's key that the current send may wait for.
    pub fn wanted_key(&self) -> Option<u32> {
        let send = self.sends.get(self.cursor)?;
        Some(send.whole()?.request.remote.key)
    }

    /// Fails a wrong one-sided request. If the queue pair is reliable, the peer's one fails too.
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

/// The atomic operation of a request.
fn operation(request: &SendRequest) -> Atomic {
    match request.opcode {
        Opcode::AtomicCmpAndSwp => Atomic::CompareSwap(request.compare_add, request.swap),
        _ => Atomic::FetchAdd(request.compare_add),
    }
}

/// Copies bytes to places.
pub(super) fn write_places<H: Host>(
    host: &mut H,
    places: &[Place],
    mut bytes: &[u8],
) -> Result<(), NotThere> {
    for place in places {
        let (now, later) = bytes.split_at(place.length.min(bytes.len()));
        host.write(*place, now)?;
        bytes = later;
    }
    Ok(())
}

/// The answer to a request for a key, as it is kept.
pub(crate) fn known(answer: Answer) -> Known {
    match answer {
        Answer::Given(grant) => Known::Given(grant),
        Answer::Denied => Known::Denied,
        Answer::NoResources => Known::NoResources,
    }
}
