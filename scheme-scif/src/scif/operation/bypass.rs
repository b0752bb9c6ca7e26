//! Bypass clients: programs that work on a connection's rings by themselves.
//!
//! A bypass handle maps the memory that they need (`scif_abi::bypass::Part`). The daemon keeps
//! only the work that takes two sides: waking the peer (`Kick`), and sleeping until something
//! comes from the peer (`Wait`). Both also work on the endpoint itself. File operations and bypass
//! clients may share an endpoint; they lock each other out, see
//! [`transfer`](crate::scif::operation::transfer).

use scif_abi::bypass::Part;
use scif_abi::flags::{Kicks, Readiness};
use scif_core::{BypassId, EndpointId};
use syscall::error::{EACCES, EINVAL, ENOTCONN, ENOTTY, EOVERFLOW, EWOULDBLOCK, Error, Result};
use zerocopy::IntoBytes;

use crate::access::Caller;
use crate::error::{system, would_block};
use crate::handle::{Bypass, Handle, Kind, PageKind};
use crate::ids::{HandleId, RequestId};
use crate::node_memory::{NodeMemory, PAGE};
use crate::request::PendingOn;
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// `dup(endpoint, "bypass")`: a bypass handle for the endpoint.
    ///
    /// # Errors
    /// `EACCES` when the endpoint's file is not open for reading and writing, because the rings
    /// allow both. `ENOTCONN`; `EOPNOTSUPP` when the peer's ring cannot be mapped; `ENOMEM`, also
    /// when the caller has too many.
    pub(in crate::scif) fn bypass_handle(
        &mut self,
        id: HandleId,
        caller: Caller,
    ) -> Result<HandleId> {
        // A connection that is still being made does not count.
        self.collect_connect(id)
            .map_err(|error| match error.errno {
                EWOULDBLOCK => Error::new(ENOTCONN),
                _ => error,
            })?;
        let endpoint = self.handles.endpoint_id(id)?;
        let handle = self.handles.get(id)?;
        if handle.to_read().and(handle.to_write()).is_err() {
            return Err(Error::new(EACCES));
        }
        let opening = handle.duplicate(caller);
        let owner = caller.owner();
        let opened = self.engine.open_bypass(&mut self.memory, endpoint, owner);
        let (id, record) = opened.map_err(system)?;
        let kind = Kind::Bypass(Bypass::new(id, endpoint, record));
        Ok(self.handles.insert(Handle::new(opening, kind)))
    }

    /// `BypassInfo`: fills in the record that the handle's client needs.
    pub(in crate::scif) fn bypass_info(
        &mut self,
        id: HandleId,
        payload: &mut [u8],
    ) -> Result<usize> {
        let Kind::Bypass(bypass) = self.handles.get(id)?.kind() else {
            return Err(Error::new(ENOTTY));
        };
        // The decoder has checked the length.
        payload.copy_from_slice(bypass.record().as_bytes());
        Ok(0)
    }

    /// `fmap` of a bypass handle: `pages` pages at `offset`, all in the same part.
    ///
    /// # Errors
    /// `EINVAL` outside the parts; `ECONNRESET` when the connection is over and the part is the
    /// peer's.
    pub(in crate::scif) fn map_bypass(
        &mut self,
        id: HandleId,
        bypass: BypassId,
        offset: u64,
        pages: u64,
    ) -> Result<usize> {
        let (part, within) = part_at(offset);
        let (place, part_bytes) = self.engine.bypass_place(bypass, part).map_err(system)?;
        let bytes = pages.checked_mul(PAGE).ok_or(Error::new(EINVAL))?;
        let end = within.checked_add(bytes).ok_or(Error::new(EINVAL))?;
        if end > part_bytes as u64 {
            return Err(Error::new(EINVAL));
        }
        let address = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| self.memory.view_of(place.offset(within), bytes));
        let Some(address) = address else {
            log::error!("{part:?} at {place:?}, {bytes:#x} bytes, cannot be mapped");
            return Err(Error::new(EOVERFLOW));
        };
        let kind = match part {
            Part::Control | Part::Own => PageKind::LocalPart,
            Part::PeerQueuePair | Part::PeerRing => PageKind::PeerPart(bypass),
        };
        let handle = self.handles.get_mut(id)?;
        handle.map(offset / PAGE, pages, kind);
        if matches!(kind, PageKind::PeerPart(_)) {
            self.engine.map_bypass(bypass, pages);
        }
        Ok(address)
    }

    /// The endpoint of a handle: its own, or that of its bypass handle.
    ///
    /// # Errors
    /// `EBADF`, `ENOTTY`.
    fn endpoint_of(&self, id: HandleId) -> Result<EndpointId> {
        match self.handles.get(id)?.kind() {
            Kind::Bypass(bypass) => Ok(bypass.endpoint()),
            _ => self.handles.endpoint_id(id),
        }
    }

    /// `Kick`: has the peer poll its rings. Several kicks in one iteration make one message.
    ///
    /// # Errors
    /// `EINVAL` for unknown bits; `ENOTCONN`; `EBADF` when the endpoint of a bypass handle was
    /// closed.
    pub(in crate::scif) fn kick(&mut self, id: HandleId, kicks: u32) -> Result<usize> {
        let kicks = Kicks::from_bits(kicks).ok_or(Error::new(EINVAL))?;
        let endpoint = self.endpoint_of(id)?;
        let kicked = self.engine.kick(endpoint, kicks);
        kicked.map(|()| 0).map_err(system)
    }

    /// `Wait`: waits until at least one of `events` is ready, and returns the endpoint's
    /// readiness. A state without transfers also ends it, and so does the end of a bypass handle's
    /// endpoint. On a bypass handle it returns 0 when windows have gone since its last `Wait`: the
    /// client unmaps the ones that it has mapped, and waits again.
    ///
    /// # Errors
    /// Those of [`kick`](Self::kick), if there are `kicks`.
    pub(in crate::scif) fn wait(
        &mut self,
        id: HandleId,
        events: u16,
        kicks: u32,
        request: R,
    ) -> Result<usize> {
        if !self.has_begun_to_wait(request) && kicks != 0 {
            self.kick(id, kicks)?;
        }
        let ready = |_: &mut Self, _: EndpointId, ready: Readiness| ready;
        self.wait_until(id, Readiness::from_bits_truncate(events), ready, request)
    }

    /// `WaitBytes`: [`wait`](Self::wait) for IN. It also ends when the peer has stored bytes since
    /// its write index was `written`.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub(in crate::scif) fn wait_for_bytes(
        &mut self,
        id: HandleId,
        written: u32,
        request: R,
    ) -> Result<usize> {
        let ready = |scif: &mut Self, endpoint: EndpointId, mut ready: Readiness| {
            let now = scif.engine.written(&mut scif.memory, endpoint);
            ready.set(
                Readiness::IN,
                ready.contains(Readiness::IN) || now != Some(written),
            );
            ready
        };
        self.wait_until(id, Readiness::IN, ready, request)
    }

    fn has_begun_to_wait(&self, request: R) -> bool {
        let pending = self.requests.pending(request);
        matches!(pending, Some(PendingOn::Ready { .. }))
    }

    /// Waits until one of `events` or an end is ready. `see` gets the events that are ready and
    /// may add some. It is called after the engine was asked to report the events that are not
    /// ready.
    fn wait_until(
        &mut self,
        id: HandleId,
        events: Readiness,
        see: impl FnOnce(&mut Self, EndpointId, Readiness) -> Readiness,
        request: R,
    ) -> Result<usize> {
        let endpoint = self.endpoint_of(id)?;
        let ended = Readiness::ERR | Readiness::HUP | Readiness::NVAL;
        // Events that are not ready now are reported by the engine when they come.
        let there = self.engine.poll(&mut self.memory, endpoint);
        let ready = see(self, endpoint, there) & (events | ended);
        if !ready.is_empty() {
            self.end_wait(request);
            return Ok(ready.bits().into());
        }
        if let Kind::Bypass(bypass) = self.handles.get(id)?.kind()
            && self.engine.epoch_changed(bypass.id())
        {
            self.end_wait(request);
            return Ok(0);
        }
        if !self.has_begun_to_wait(request) {
            let waiting = PendingOn::Ready {
                handle: id,
                endpoint,
            };
            self.requests.suspend(request, waiting);
            self.requests.watch(endpoint, request);
        }
        would_block()
    }
}

/// The part that holds an `fmap` offset, and the offset within it.
fn part_at(offset: u64) -> (Part, u64) {
    let before = Part::ALL.into_iter().rev();
    let part = before.into_iter().find(|part| part.offset() <= offset);
    let part = part.unwrap_or(Part::Control);
    (part, offset - part.offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_lie_in_the_part_before_them() {
        for part in Part::ALL {
            assert_eq!(part_at(part.offset()), (part, 0));
            assert_eq!(part_at(part.offset() + 8192), (part, 8192));
        }
        assert_eq!(part_at(u64::MAX).0, Part::PeerRing);
    }
}
