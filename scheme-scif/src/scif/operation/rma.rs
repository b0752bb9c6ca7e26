//! Calls on registered memory that may have to wait: registering, transfers, fences.
//!
//! The engine gives a ticket for each. The request waits with the ticket and is retried whenever
//! its endpoint changes. A request that is given up abandons its ticket.

use scif_abi::call::{CachedRecord, RegisterRecord, RmaRecord, SignalRecord};
use scif_abi::flags::Protection;
use scif_core::{Direction, EndpointId, EndpointState, Local, PinId, Rma, Signal, Ticket};
use syscall::error::{EBADF, ECONNRESET, EFAULT, EINVAL, ENOTCONN, Error, Result};

use crate::error::{system, would_block};
use crate::ids::{HandleId, RequestId};
use crate::node_memory::{NodeMemory, PAGE};
use crate::request::PendingOn;
use crate::scif::Scif;

/// Bytes that a transfer with its data beside the call moves before others have a turn.
const VIRTUAL_SLICE: usize = 256 * 1024;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// Starts a call on the handle's endpoint, or checks whether it has finished.
    pub(in crate::scif) fn ticket(
        &mut self,
        id: HandleId,
        request: R,
        start: impl FnOnce(&mut Self, EndpointId) -> Result<Ticket>,
    ) -> Result<usize> {
        let (endpoint, ticket) = self.started(id, request, start)?;
        let result = self.engine.finish(ticket);
        self.conclude(request, endpoint, ticket, result)
    }

    /// The endpoint and the ticket of a call. Starts the call unless that was done.
    fn started(
        &mut self,
        id: HandleId,
        request: R,
        start: impl FnOnce(&mut Self, EndpointId) -> Result<Ticket>,
    ) -> Result<(EndpointId, Ticket)> {
        if let Some(PendingOn::Ticket { endpoint, ticket }) = self.requests.pending(request) {
            return Ok((endpoint, ticket));
        }
        let endpoint = self.handles.endpoint_id(id)?;
        Ok((endpoint, start(self, endpoint)?))
    }

    /// Answers a request with the result of its call; without a result the request waits.
    fn conclude(
        &mut self,
        request: R,
        endpoint: EndpointId,
        ticket: Ticket,
        result: Option<core::result::Result<u64, scif_abi::Error>>,
    ) -> Result<usize> {
        if let Some(result) = result {
            self.end_wait(request);
            return result.map(|value| value as usize).map_err(system);
        }
        let waiting = PendingOn::Ticket { endpoint, ticket };
        self.requests.suspend(request, waiting);
        self.requests.watch(endpoint, request);
        would_block()
    }

    pub(in crate::scif) fn register(
        &mut self,
        id: HandleId,
        record: RegisterRecord,
        request: R,
    ) -> Result<usize> {
        self.ticket(id, request, |scif, endpoint| {
            let (offset, length) = (record.memory_offset.get(), record.length.get());
            if !offset.is_multiple_of(PAGE) || !length.is_multiple_of(PAGE) {
                return Err(Error::new(EINVAL));
            }
            let caller = scif.handles.caller(id)?;
            let memory = record.memory.get();
            let protection = Protection::from_bits_truncate(record.protection.get());
            let writes = protection.contains(Protection::WRITE);
            let found = scif
                .objects
                .pages_for_use(memory, caller, (offset, length), writes);
            // Report an endpoint in the wrong state before missing memory; bad arguments come
            // before both.
            let (pages, _) = found.map_err(|error| match error.errno {
                EFAULT => scif.wrong_state(endpoint).unwrap_or(error),
                _ => error,
            })?;
            let pin = pages.pin;
            let started = scif.engine.register(
                &mut scif.memory,
                endpoint,
                pages,
                record.offset.get(),
                record.protection.get(),
                record.flags.get(),
            );
            started.map_err(|error| scif.not_taken(pin, error))
        })
    }

    /// Gives back pages that the engine refused with `error`.
    fn not_taken(&mut self, pin: PinId, error: scif_abi::Error) -> Error {
        self.objects.unpin(&mut self.memory, pin);
        system(error)
    }

    /// The error of window calls in the endpoint's state; `None` when it is connected.
    pub(super) fn wrong_state(&self, endpoint: EndpointId) -> Option<Error> {
        match self.engine.state(endpoint) {
            Some(EndpointState::Connected) => None,
            Some(EndpointState::Disconnected) => Some(Error::new(ECONNRESET)),
            Some(_) => Some(Error::new(ENOTCONN)),
            None => Some(Error::new(EBADF)),
        }
    }

    pub(in crate::scif) fn unregister(
        &mut self,
        id: HandleId,
        offset: i64,
        length: u64,
        request: R,
    ) -> Result<usize> {
        self.ticket(id, request, |scif, endpoint| {
            scif.engine
                .unregister(&mut scif.memory, endpoint, offset, length)
                .map_err(system)
        })
    }

    pub(in crate::scif) fn rma(
        &mut self,
        id: HandleId,
        direction: Direction,
        record: RmaRecord,
        request: R,
    ) -> Result<usize> {
        self.ticket(id, request, |scif, endpoint| {
            let rma = Rma {
                direction,
                local: Local::Window(record.local_offset.get()),
                remote: record.remote_offset.get(),
                length: record.length.get(),
                flags: record.flags.get(),
            };
            scif.engine.rma(endpoint, rma).map_err(system)
        })
    }

    /// A transfer with memory that is no window but an object known here. Provided memory must be
    /// mapped: once the program has unmapped it, its address means something else.
    pub(in crate::scif) fn cached_rma(
        &mut self,
        id: HandleId,
        direction: Direction,
        record: CachedRecord,
        request: R,
    ) -> Result<usize> {
        self.ticket(id, request, |scif, endpoint| {
            let caller = scif.handles.caller(id)?;
            let memory = record.memory.get();
            let range = (record.memory_offset.get(), record.length.get());
            let writes = matches!(direction, Direction::Read);
            let (remote, flags) = (record.remote_offset.get(), record.flags.get());
            let found = scif.objects.pages_for_use(memory, caller, range, writes);
            // Missing memory is reported last.
            let (pages, offset) = found.map_err(|error| {
                let checked = scif
                    .engine
                    .check_transfer(endpoint, direction, remote, range.1, flags);
                checked.map_or_else(system, |()| error)
            })?;
            let pin = pages.pin;
            let rma = Rma {
                direction,
                local: Local::Pages { pages, offset },
                remote,
                length: range.1,
                flags,
            };
            let started = scif.engine.rma(endpoint, rma);
            started.map_err(|error| scif.not_taken(pin, error))
        })
    }

    /// A transfer between the payload and the peer's window, one slice at each try.
    pub(in crate::scif) fn virtual_rma(
        &mut self,
        id: HandleId,
        direction: Direction,
        (remote, flags): (i64, u32),
        payload: &mut [u8],
        request: R,
    ) -> Result<usize> {
        let length = payload.len() as u64;
        let (endpoint, ticket) = self.started(id, request, |scif, endpoint| {
            let engine = &mut scif.engine;
            let started = engine.virtual_start(endpoint, direction, remote, length, flags);
            started.map_err(system)
        })?;
        let (engine, memory) = (&mut self.engine, &mut self.memory);
        let result = engine.virtual_step(memory, ticket, payload, VIRTUAL_SLICE);
        if result.is_none() && self.engine.virtual_is_ready(ticket) {
            let opener = self.handles.caller(id).map(|caller| caller.owner().process);
            self.requests.step_later(request, opener.unwrap_or(0));
        }
        self.conclude(request, endpoint, ticket, result)
    }

    pub(in crate::scif) fn fence_mark(
        &mut self,
        id: HandleId,
        flags: u32,
        request: R,
    ) -> Result<usize> {
        self.ticket(id, request, |scif, endpoint| {
            scif.engine.fence_mark(endpoint, flags).map_err(system)
        })
    }

    pub(in crate::scif) fn fence_wait(
        &mut self,
        id: HandleId,
        mark: i32,
        request: R,
    ) -> Result<usize> {
        self.ticket(id, request, |scif, endpoint| {
            scif.engine.fence_wait(endpoint, mark).map_err(system)
        })
    }

    pub(in crate::scif) fn fence_signal(
        &mut self,
        id: HandleId,
        record: SignalRecord,
        request: R,
    ) -> Result<usize> {
        self.ticket(id, request, |scif, endpoint| {
            let signal = Signal {
                local_offset: record.local_offset.get(),
                local_value: record.local_value.get(),
                remote_offset: record.remote_offset.get(),
                remote_value: record.remote_value.get(),
                flags: record.flags.get(),
            };
            scif.engine.fence_signal(endpoint, signal).map_err(system)
        })
    }
}
