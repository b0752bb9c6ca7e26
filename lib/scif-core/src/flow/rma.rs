//! RMA: readfrom, writeto and their v* forms.

use scif_abi::Error;
use scif_abi::flags::{Protection, RmaFlags};

use crate::base::ids::{ChannelId, ConnectionId, EndpointId, Ticket};
use crate::base::memory::{BadAddress, Memory, Place};
use crate::base::pages::{Chunks, Pages};
use crate::call::PendingOn;
use crate::engine::Engine;
use crate::rma::job::{Copy, Job, Virtual, Work};
use crate::rma::span::Span;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer's window to here (`readfrom`).
    Read,
    /// From here to the peer's window (`writeto`).
    Write,
}

/// The local side of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Local {
    /// Own registered address space, from this offset.
    Window(i64),
    /// Pages pinned for this transfer, from this byte of them.
    Pages {
        /// The pages. `Event::Unpin` follows when the transfer is over.
        pages: Pages,
        /// Where in them the data begins (bytes).
        offset: u64,
    },
}

/// A transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rma {
    /// Which way.
    pub direction: Direction,
    /// The side here.
    pub local: Local,
    /// Offset in the peer's registered address space.
    pub remote: i64,
    /// Bytes.
    pub length: u64,
    /// `RmaFlags` bits.
    pub flags: u32,
}

impl Direction {
    /// What the local and the remote window have to allow.
    fn needs(self) -> (Protection, Protection) {
        match self {
            Direction::Read => (Protection::WRITE, Protection::READ),
            Direction::Write => (Protection::READ, Protection::WRITE),
        }
    }
}

impl Engine {
    /// `scif_readfrom`, `scif_writeto`, and the v* calls on memory that is pinned already: starts a
    /// transfer. The ticket (value 0) is done at once, with SYNC and USECPU when the data is where
    /// it shall be, and when very much is queued on the endpoint when this transfer is over.
    /// [`Engine::pump`] does the work. When this fails, pages are not kept.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`, `ENODEV`. `EINVAL`: unknown flags, no bytes. `ENXIO`: a range is
    /// not all registered, or an offset is negative. `EACCES`: a window does not allow it.
    /// `EFAULT`: the range is not in the pages. `ENOMEM`: too many transfers.
    pub fn rma(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        rma: Rma,
    ) -> Result<Ticket, Error> {
        let connection = self.verify(id)?;
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
        let (from, to) = match rma.direction {
            Direction::Read => (remote, local),
            Direction::Write => (local, remote),
        };
        let job = Job::new(Work::Copy(Copy {
            from,
            to,
            left: rma.length,
            is_ordered: flags.contains(RmaFlags::ORDERED),
            is_by_cpu: flags.contains(RmaFlags::USECPU),
        }));
        let pending_on = flags.intersects(RmaFlags::SYNC | RmaFlags::USECPU);
        self.queue_transfer(id, connection, job, pending_on)
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

    /// Queues a transfer, for a caller that waits for its end or does not.
    fn queue_transfer(
        &mut self,
        id: EndpointId,
        connection: ConnectionId,
        mut job: Job,
        pending_on: bool,
    ) -> Result<Ticket, Error> {
        if !self.has_room(connection, 1)? {
            return Err(Error::NoMemory);
        }
        let channel = self.channel(connection)?;
        let channel = self.channels.get(channel).ok_or(Error::NoMemory)?;
        let ticket = if pending_on || channel.is_crowded() {
            let call = self
                .calls
                .add(&mut self.cx, id, connection, PendingOn::Copies)?;
            job.call = Some(call);
            call
        } else {
            self.calls.add_done(&self.cx, id, connection, 0)?
        };
        self.queue(connection, job)?;
        Ok(ticket)
    }

    /// `scif_vreadfrom` and `scif_vwriteto` with the data beside the call: begins a transfer that
    /// [`Engine::virtual_step`] carries out.
    ///
    /// # Errors
    /// As [`Engine::rma`].
    pub fn virtual_start(
        &mut self,
        _mem: &mut dyn Memory,
        id: EndpointId,
        direction: Direction,
        remote: i64,
        length: u64,
        flags: u32,
    ) -> Result<Ticket, Error> {
        let connection = self.verify(id)?;
        let flags = check_transfer(flags, length)?;
        let (_, need) = direction.needs();
        let remote = Span::remote(&self.windows, connection, (remote, length), need)?;
        if !self.has_room(connection, 1)? {
            return Err(Error::NoMemory);
        }
        let channel = self.channel(connection)?;
        let number = self.channels.get(channel).map_or(0, |c| c.issued());
        let call = self.calls.add(
            &mut self.cx,
            id,
            connection,
            PendingOn::Virtual(channel, number),
        )?;
        let mut job = Job::new(Work::Virtual(Virtual {
            direction,
            remote,
            done: 0,
            length,
            is_ordered: flags.contains(RmaFlags::ORDERED),
        }));
        job.call = Some(call);
        self.queue(connection, job)?;
        Ok(call)
    }

    /// Moves up to `budget` bytes of a virtual transfer between `data`, the whole of the caller's
    /// buffer, and the peer's window. Returns the result (0), once, when it is over; the ticket is
    /// then gone. `None`: call again next turn, or, when [`Engine::virtual_is_ready`] is false, at
    /// the next `Event::Changed` of the endpoint.
    pub fn virtual_step(
        &mut self,
        mem: &mut dyn Memory,
        ticket: Ticket,
        data: &mut [u8],
        budget: usize,
    ) -> Option<Result<u64, Error>> {
        if let Some(result) = self.finish(mem, ticket) {
            return Some(result);
        }
        let (id, number) = self.current_virtual(ticket)?;
        let channel = self.channels.get_mut(id)?;
        let job = channel.job_mut(number)?;
        let Work::Virtual(work) = &mut job.work else {
            return None;
        };
        let before = work.done;
        let moved = work.step(&self.windows, mem, data, budget);
        let (bytes, is_over) = (work.done - before, work.done == work.length);
        self.cx.stats.rma_bytes_cpu += bytes;
        match moved {
            Ok(()) if !is_over => return None,
            Ok(()) => job.is_over = true,
            Err(error) => job.fail(error),
        }
        // Ends the job, and with it the call.
        channel.submitted += 1;
        self.retire(id);
        self.activate(id);
        match self.finish(mem, ticket) {
            Some(result) => Some(result),
            // Copies before it are still under way; all that is left to wait for is their end.
            None => {
                let error = self.virtual_error(id, number);
                self.calls
                    .complete(&mut self.cx, ticket, error.map_or(Ok(0), Err));
                self.finish(mem, ticket)
            }
        }
    }

    fn virtual_error(&mut self, id: ChannelId, number: u64) -> Option<Error> {
        let job = self.channels.get_mut(id)?.job_mut(number)?;
        job.call = None;
        job.error
    }

    /// Whether the next [`Engine::virtual_step`] would get anywhere; false while earlier transfers
    /// of the endpoint are running.
    pub fn virtual_is_ready(&self, ticket: Ticket) -> bool {
        let has_result = |(_, has_result)| has_result;
        self.calls.state(ticket).is_none_or(has_result) || self.current_virtual(ticket).is_some()
    }

    /// The job of a virtual transfer, if it is its turn.
    fn current_virtual(&self, ticket: Ticket) -> Option<(ChannelId, u64)> {
        let (PendingOn::Virtual(id, number), _) = self.calls.state(ticket)? else {
            return None;
        };
        let channel = self.channels.get(id)?;
        channel.is_current(number).then_some((id, number))
    }
}

impl Virtual {
    /// Moves up to `budget` bytes.
    ///
    /// # Errors
    /// `EFAULT`: `data` is too short. `ENODEV`: the peer's memory is gone.
    fn step(
        &mut self,
        windows: &crate::window::Windows,
        mem: &mut dyn Memory,
        data: &mut [u8],
        budget: usize,
    ) -> Result<(), Error> {
        let mut budget = budget as u64;
        while budget > 0 && self.done < self.length {
            let (place, rest) = self.remote.run(windows).ok_or(Error::ConnectionReset)?;
            let left = self.length - self.done;
            let mut bytes = rest.min(left).min(budget);
            if self.is_ordered && left > 1 {
                bytes = bytes.min(left - 1);
            } else if self.is_ordered {
                mem.fence();
            }
            let range = self.done as usize..(self.done + bytes) as usize;
            let part = data.get_mut(range).ok_or(Error::BadAddress)?;
            let moved = match self.direction {
                Direction::Read => load(mem, place, part),
                Direction::Write => store(mem, place, part),
            };
            moved.map_err(|_| Error::NoDevice)?;
            self.remote.advance(windows, bytes);
            self.done += bytes;
            budget -= bytes;
        }
        Ok(())
    }
}

fn load(mem: &mut dyn Memory, from: Place, to: &mut [u8]) -> Result<(), BadAddress> {
    match from {
        Place::Own(address) => mem.read(address, to),
        Place::Peer(node, address) => mem.peer_read(node, address, to)?,
    }
    Ok(())
}

fn store(mem: &mut dyn Memory, to: Place, from: &[u8]) -> Result<(), BadAddress> {
    match to {
        Place::Own(address) => mem.write(address, from),
        Place::Peer(node, address) => mem.peer_write(node, address, from)?,
    }
    Ok(())
}

/// Checks flags and length of a transfer.
fn check_transfer(flags: u32, length: u64) -> Result<RmaFlags, Error> {
    let flags = RmaFlags::from_bits(flags).ok_or(Error::InvalidArgument)?;
    if length == 0 {
        return Err(Error::InvalidArgument);
    }
    Ok(flags)
}

/// Both sides, or what is wrong with them: that a range does not exist comes before that it may not
/// be used.
fn both(local: Result<Span, Error>, remote: Result<Span, Error>) -> Result<(Span, Span), Error> {
    match (local, remote) {
        (Ok(local), Ok(remote)) => Ok((local, remote)),
        (Err(Error::AccessDenied), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
    }
}
