//! RMA: readfrom, writeto and their v* forms.

use scif_abi::Error;
use scif_abi::flags::{Protection, RmaFlags};

use crate::base::ids::{ChannelId, ConnectionId, EndpointId, Ticket};
use crate::base::memory::Memory;
use crate::base::owner::Owner;
use crate::base::pages::{Chunks, Pages};
use crate::call::PendingOn;
use crate::engine::Engine;
use crate::rma::job::{Direction, Job};
use crate::rma::span::Span;

/// The local side of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Local {
    /// Own registered address space, from this offset on.
    Window(i64),
    /// Pages pinned for this transfer.
    Pages {
        /// The pages. `Event::Unpin` follows when the transfer is over.
        pages: Pages,
        /// The offset in the pages at which the data begins, in bytes.
        offset: u64,
    },
}

/// A transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rma {
    /// The direction of the transfer.
    pub direction: Direction,
    /// The local side.
    pub local: Local,
    /// Offset in the peer's registered address space.
    pub remote: i64,
    /// Bytes.
    pub length: u64,
    /// `RmaFlags` bits.
    pub flags: u32,
}

impl Engine {
    /// `scif_readfrom`, `scif_writeto`, and the v* calls on memory that is already pinned: starts
    /// a transfer. Without SYNC and USECPU the ticket (value 0) is done at once, with one of them
    /// when the data has arrived. If many transfers are queued on the endpoint, it is done when
    /// this one is over. [`Engine::pump`] does the work. If this call fails, pages are not kept.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`. `EINVAL`: unknown flags, no bytes. `ENXIO`: not all of
    /// a range is registered, or an offset is negative. `EACCES`: a window does not allow it.
    /// `EFAULT`: the range is not in the pages. `ENOMEM`: too many transfers.
    pub fn rma(&mut self, id: EndpointId, rma: Rma) -> Result<Ticket, Error> {
        let connection = self.online_connection(id)?;
        let flags = check_transfer(rma.flags, rma.length)?;
        let (need, remote_need) = rma.direction.needs();
        let local = self.local_span(connection, rma.local, rma.length, need);
        let remote = Span::remote(
            &self.windows,
            connection,
            (rma.remote, rma.length),
            remote_need,
        );
        let (local, remote) = both(local, remote)?;
        let job = Job::copy(rma.direction, local, remote, rma.length, flags);
        let waits = flags.intersects(RmaFlags::SYNC | RmaFlags::USECPU);
        self.queue_transfer(id, connection, job, waits)
    }

    /// The local side of a transfer.
    fn local_span(
        &self,
        id: ConnectionId,
        local: Local,
        length: u64,
        need: Protection,
    ) -> Result<Span, Error> {
        let windows = &self.windows;
        match local {
            Local::Window(offset) => Span::local(windows, id, (offset, length), need),
            Local::Pages { pages, offset } => {
                let chunks = Chunks::own(&pages.runs).ok_or(Error::BadAddress)?;
                let end = offset.checked_add(length);
                if end.is_none_or(|end| end > chunks.bytes()) {
                    return Err(Error::BadAddress);
                }
                Ok(Span::pages(windows, pages.pin, chunks, offset))
            }
        }
    }

    /// The owner of a connection's endpoint, while there is one.
    pub(crate) fn owner_of(&self, id: ConnectionId) -> Option<Owner> {
        let endpoint = self.connections.get(id)?.endpoint()?;
        Some(self.endpoints.get(endpoint).ok()?.owner())
    }

    /// The channel of a connection, which is made when it is first needed, and the owner of what
    /// is queued there.
    ///
    /// # Errors
    /// `ENOMEM`: too many channels.
    pub(crate) fn channel(
        &mut self,
        id: ConnectionId,
    ) -> Result<(ChannelId, Option<Owner>), Error> {
        let owner = self.owner_of(id);
        let connection = self.connections.identity(id).ok_or(Error::NotConnected)?;
        let process = owner.map_or(0, |owner| owner.process);
        Ok((self.transfers.channel(connection, process)?, owner))
    }

    /// As [`channel`](Self::channel), if the owner can queue a number of jobs there that count as
    /// this number of transfers.
    ///
    /// # Errors
    /// `ENOMEM`, also if the owner cannot.
    pub(crate) fn channel_with_room(
        &mut self,
        id: ConnectionId,
        jobs: (usize, u64),
    ) -> Result<(ChannelId, Option<Owner>), Error> {
        let (channel, owner) = self.channel(id)?;
        let has_room = (self.transfers).has_room(&self.cx, channel, owner, jobs);
        has_room.then_some((channel, owner)).ok_or(Error::NoMemory)
    }

    /// Queues a job on a channel, charged to the owner.
    ///
    /// # Errors
    /// `ENOMEM`: too many are queued.
    pub(crate) fn queue(
        &mut self,
        (channel, owner): (ChannelId, Option<Owner>),
        job: Job,
    ) -> Result<(), Error> {
        let (transfers, windows) = (&mut self.transfers, &mut self.windows);
        transfers.queue(&mut self.cx, windows, channel, job, owner)
    }

    /// Queues a transfer. `waits` says whether the caller waits for its end.
    fn queue_transfer(
        &mut self,
        id: EndpointId,
        connection: ConnectionId,
        mut job: Job,
        waits: bool,
    ) -> Result<Ticket, Error> {
        let channel = self.channel_with_room(connection, (1, job.cost()))?;
        let ticket = if waits || self.transfers.is_crowded(channel.0) {
            let call = (self.calls).add(&mut self.cx, id, connection, PendingOn::Copies)?;
            job = job.ending(call);
            call
        } else {
            self.calls.add_done(&self.cx, id, connection, 0)?
        };
        self.queue(channel, job)?;
        Ok(ticket)
    }

    /// `scif_vreadfrom` and `scif_vwriteto` with the data in a buffer of the caller: begins a
    /// transfer that [`Engine::virtual_step`] carries out.
    ///
    /// # Errors
    /// Those of [`Engine::rma`].
    pub fn virtual_start(
        &mut self,
        id: EndpointId,
        direction: Direction,
        remote: i64,
        length: u64,
        flags: u32,
    ) -> Result<Ticket, Error> {
        let (connection, flags, remote) =
            self.remote_side(id, direction, (remote, length), flags)?;
        let job = Job::virtual_copy(direction, remote, length, flags);
        let channel = self.channel_with_room(connection, (1, job.cost()))?;
        let number = self.transfers.next_number(channel.0);
        let pending_on = PendingOn::Virtual(channel.0, number);
        let call = self.calls.add(&mut self.cx, id, connection, pending_on)?;
        self.queue(channel, job.ending(call))?;
        Ok(call)
    }

    /// Checks a transfer with memory of the caller, except for that memory.
    ///
    /// # Errors
    /// Those of [`Engine::rma`].
    pub fn check_transfer(
        &self,
        id: EndpointId,
        direction: Direction,
        remote: i64,
        length: u64,
        flags: u32,
    ) -> Result<(), Error> {
        self.remote_side(id, direction, (remote, length), flags)?;
        Ok(())
    }

    /// The connection of a transfer, its flags, and its remote side.
    fn remote_side(
        &self,
        id: EndpointId,
        direction: Direction,
        remote: (i64, u64),
        flags: u32,
    ) -> Result<(ConnectionId, RmaFlags, Span), Error> {
        let connection = self.online_connection(id)?;
        let flags = check_transfer(flags, remote.1)?;
        let (_, need) = direction.needs();
        let span = Span::remote(&self.windows, connection, remote, need)?;
        Ok((connection, flags, span))
    }

    /// Moves up to `budget` bytes of a virtual transfer between `data`, the whole of the caller's
    /// buffer, and the peer's window. Returns the result (0), once, when the transfer is over; the
    /// ticket is then gone. `None`: call again in the next iteration, or, if
    /// [`Engine::virtual_is_ready`] is false, at the next `Event::Changed` of the endpoint.
    pub fn virtual_step(
        &mut self,
        mem: &mut dyn Memory,
        ticket: Ticket,
        data: &mut [u8],
        budget: usize,
    ) -> Option<Result<u64, Error>> {
        if let Some(result) = self.finish(ticket) {
            return Some(result);
        }
        let (id, number) = self.current_virtual(ticket)?;
        let (transfers, windows, cx) = (&mut self.transfers, &mut self.windows, &mut self.cx);
        if !transfers.step_virtual(mem, cx, windows, (id, number), data, budget) {
            return None;
        }
        transfers.retire(cx, windows, &mut self.calls, id);
        transfers.activate(id);
        match self.finish(ticket) {
            Some(result) => Some(result),
            // Copies before it are still under way. This call need not wait for them.
            None => {
                let error = self.transfers.take_error(id, number);
                let result = error.map_or(Ok(0), Err);
                self.calls.complete(&mut self.cx, ticket, result);
                self.finish(ticket)
            }
        }
    }

    /// Whether the next [`Engine::virtual_step`] can make progress; false while earlier transfers
    /// of the endpoint are running.
    pub fn virtual_is_ready(&self, ticket: Ticket) -> bool {
        let has_result = |(_, has_result)| has_result;
        self.calls.state(ticket).is_none_or(has_result) || self.current_virtual(ticket).is_some()
    }

    /// The job of a virtual transfer, if its turn has come.
    fn current_virtual(&self, ticket: Ticket) -> Option<(ChannelId, u64)> {
        let (PendingOn::Virtual(id, number), _) = self.calls.state(ticket)? else {
            return None;
        };
        let is_current = self.transfers.is_current(id, number);
        is_current.then_some((id, number))
    }
}

/// Checks flags and length of a transfer.
fn check_transfer(flags: u32, length: u64) -> Result<RmaFlags, Error> {
    let flags = RmaFlags::from_bits(flags).ok_or(Error::InvalidArgument)?;
    if length == 0 {
        return Err(Error::InvalidArgument);
    }
    Ok(flags)
}

/// Both sides, or the error. `ENXIO` of one side goes before `EACCES` of the other.
fn both(local: Result<Span, Error>, remote: Result<Span, Error>) -> Result<(Span, Span), Error> {
    match (local, remote) {
        (Ok(local), Ok(remote)) => Ok((local, remote)),
        (Err(Error::AccessDenied), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
    }
}
