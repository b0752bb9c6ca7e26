//! Calls that may have to wait, and their further steps.

use conformance::bench::Side;
use conformance::call::{Call, Reply};
use conformance::pattern;
use scif_abi::flags::{AcceptFlags, RecvFlags, SendFlags};
use scif_abi::{Error, PortId};
use scif_core::{Connect, ConnectMode, EndpointId, Ticket};
use std::task::Poll;

use super::{Answer, Simulated, index, reply};

/// Bytes that a v* call copies at a time.
const VIRTUAL_BYTES: usize = 48 << 10;

/// A call that was begun and whose reply has not been taken.
pub struct Job {
    pub ticket: u32,
    pub side: Side,
    pub work: Work,
    pub done: Option<Reply>,
}

/// The work that is left of a call.
#[derive(Clone, Debug)]
pub enum Work {
    /// Nothing.
    None,
    /// A blocking connect of this endpoint.
    Connect(EndpointId),
    /// An accept; `new` is set once a request was granted.
    Accept {
        listener: EndpointId,
        into: u32,
        synchronous: bool,
        new: Option<EndpointId>,
    },
    /// A blocking send, with the bytes that are left.
    Send {
        id: EndpointId,
        bytes: Vec<u8>,
        done: usize,
    },
    /// A blocking receive; the call has the pattern to compare with.
    Recv {
        id: EndpointId,
        bytes: Vec<u8>,
        done: usize,
        call: Call,
    },
    /// A poll of several endpoints.
    Poll(Call),
    /// A call on windows.
    Ticket(Ticket),
    /// A v* call: its data and, for a read, the memory's slot and position for it.
    Virtual {
        ticket: Ticket,
        data: Vec<u8>,
        target: Option<(u32, i64)>,
    },
}

impl Simulated {
    pub(super) fn connect(&mut self, side: Side, slot: u32, to: PortId) -> Result<Reply, Work> {
        let id = match self.endpoint(side, slot) {
            Ok(id) => id,
            Err(error) => return Ok(reply(Err(error))),
        };
        let holder = &self.holders[index(side)];
        let mode = match holder.nonblocking.contains(&slot) {
            true => ConnectMode::NonBlocking,
            false => ConnectMode::Blocking,
        };
        let node = &mut self.world.nodes[holder.node];
        match node.engine.connect(&mut node.memory, id, to, mode) {
            Ok(Connect::Done(port)) => Ok(reply(Ok(port.into()))),
            Ok(Connect::Started) if mode == ConnectMode::NonBlocking => {
                Ok(reply(Err(Error::InProgress)))
            }
            Ok(Connect::Started) => Err(Work::Connect(id)),
            Err(error) => Ok(reply(Err(error))),
        }
    }

    pub(super) fn accept(
        &mut self,
        side: Side,
        slot: u32,
        into: u32,
        flags: u32,
    ) -> Result<Reply, Work> {
        let checked = || {
            let listener = self.endpoint(side, slot)?;
            let flags = AcceptFlags::from_bits(flags).ok_or(Error::InvalidArgument)?;
            Ok((listener, flags.contains(AcceptFlags::SYNC)))
        };
        let (listener, synchronous) = match checked() {
            Ok(checked) => checked,
            Err(error) => return Ok(reply(Err(error))),
        };
        let state = self.world.nodes[self.holders[index(side)].node]
            .engine
            .state(listener);
        match state {
            None => Ok(reply(Err(Error::BadDescriptor))),
            Some(scif_core::EndpointState::Listening) => Err(Work::Accept {
                listener,
                into,
                synchronous,
                new: None,
            }),
            Some(_) => Ok(reply(Err(Error::InvalidArgument))),
        }
    }

    pub(super) fn transfer(&mut self, side: Side, slot: u32, call: &Call) -> Result<Reply, Work> {
        let id = match self.endpoint(side, slot) {
            Ok(id) => id,
            Err(error) => return Ok(reply(Err(error))),
        };
        let node = &mut self.world.nodes[self.holders[index(side)].node];
        match *call {
            Call::Send {
                length,
                flags,
                seed,
                from,
                ..
            } => {
                let mut bytes = vec![0; length as usize];
                pattern::fill(seed, from, &mut bytes);
                let flags = match SendFlags::from_bits(flags) {
                    Some(flags) => flags,
                    None if length > 0 => return Ok(reply(Err(Error::InvalidArgument))),
                    None => SendFlags::empty(),
                };
                if flags.contains(SendFlags::BLOCK) && length > 0 {
                    return Err(Work::Send { id, bytes, done: 0 });
                }
                let answer = node.engine.send(&mut node.memory, id, &bytes);
                Ok(reply(answer.map(|count| count as i64)))
            }
            Call::Recv { length, flags, .. } => {
                let mut bytes = vec![0; length as usize];
                let flags = match RecvFlags::from_bits(flags) {
                    Some(flags) => flags,
                    None if length > 0 => return Ok(reply(Err(Error::InvalidArgument))),
                    None => RecvFlags::empty(),
                };
                if flags.contains(RecvFlags::BLOCK) && length > 0 {
                    return Err(Work::Recv {
                        id,
                        bytes,
                        done: 0,
                        call: *call,
                    });
                }
                match node.engine.recv(&mut node.memory, id, &mut bytes) {
                    Ok(count) => Ok(received(call, &bytes[..count])),
                    Err(error) => Ok(reply(Err(error))),
                }
            }
            _ => Ok(reply(Err(Error::InvalidArgument))),
        }
    }

    /// Makes a step of a job. Returns false if that changed nothing.
    pub(super) fn step(&mut self, position: usize) -> bool {
        let job = &self.jobs[position];
        if job.done.is_some() {
            return false;
        }
        let side = job.side;
        let mut work = job.work.clone();
        // Transfers of one endpoint take turns.
        let before = &self.jobs[..position];
        if before.iter().any(|other| blocks(other, &work)) {
            return false;
        }
        let (moved, done) = match &mut work {
            Work::None => (false, None),
            Work::Connect(id) => (false, self.connect_end(side, *id)),
            Work::Accept {
                listener,
                into,
                synchronous,
                new,
            } => self.accept_step(side, *listener, *into, *synchronous, new),
            Work::Send { id, bytes, done } => {
                let node = &mut self.world.nodes[self.holders[index(side)].node];
                let result = node.engine.send(&mut node.memory, *id, &bytes[*done..]);
                let moved = result.is_ok_and(|count| count > 0);
                (moved, transfer_end(result, bytes.len(), done).map(reply))
            }
            Work::Recv {
                id,
                bytes,
                done,
                call,
            } => {
                let node = &mut self.world.nodes[self.holders[index(side)].node];
                let result = node.engine.recv(&mut node.memory, *id, &mut bytes[*done..]);
                let moved = result.is_ok_and(|count| count > 0);
                let end = transfer_end(result, bytes.len(), done);
                let end = end.map(|answer| match answer {
                    Ok(count) => received(call, &bytes[..count as usize]),
                    Err(error) => reply(Err(error)),
                });
                (moved, end)
            }
            Work::Poll(call) => (false, self.poll_step(side, *call)),
            Work::Ticket(ticket) => {
                let node = &mut self.world.nodes[self.holders[index(side)].node];
                let end = node.engine.finish(*ticket);
                (
                    false,
                    end.map(|result| reply(result.map(|value| value as i64))),
                )
            }
            Work::Virtual {
                ticket,
                data,
                target,
            } => self.virtual_step(side, *ticket, data, *target),
        };
        let job = &mut self.jobs[position];
        job.work = work;
        job.done = done;
        moved || job.done.is_some()
    }

    fn virtual_step(
        &mut self,
        side: Side,
        ticket: Ticket,
        data: &mut [u8],
        target: Option<(u32, i64)>,
    ) -> (bool, Option<Reply>) {
        let node = &mut self.world.nodes[self.holders[index(side)].node];
        let budget = VIRTUAL_BYTES;
        let Some(result) = node
            .engine
            .virtual_step(&mut node.memory, ticket, data, budget)
        else {
            return (node.engine.virtual_is_ready(ticket), None);
        };
        let end = result.and_then(|value| {
            if let Some((slot, at)) = target {
                self.write(index(side), slot, at, data)?;
            }
            Ok(value as i64)
        });
        (true, Some(reply(end)))
    }

    fn connect_end(&mut self, side: Side, id: EndpointId) -> Option<Reply> {
        let node = &mut self.world.nodes[self.holders[index(side)].node];
        match node.engine.connect_result(id) {
            Poll::Pending => None,
            Poll::Ready(result) => Some(reply(result.map(i64::from))),
        }
    }

    fn accept_step(
        &mut self,
        side: Side,
        listener: EndpointId,
        into: u32,
        synchronous: bool,
        new: &mut Option<EndpointId>,
    ) -> (bool, Option<Reply>) {
        let holder = &mut self.holders[index(side)];
        let node = &mut self.world.nodes[holder.node];
        let Some(id) = *new else {
            let result = node
                .engine
                .accept_start(&mut node.memory, listener, holder.owner);
            return match result {
                Ok(id) => {
                    *new = Some(id);
                    (true, None)
                }
                Err(Error::WouldBlock) if synchronous => (false, None),
                // The listener existed when the accept began.
                Err(Error::BadDescriptor) => (true, Some(reply(Err(Error::Interrupted)))),
                Err(error) => (true, Some(reply(Err(error)))),
            };
        };
        match node.engine.accept_finish(id) {
            Poll::Pending => (false, None),
            Poll::Ready(Ok(peer)) => {
                holder.endpoints.insert(into, id);
                let done = Reply {
                    result: Ok(0),
                    extra: vec![peer.node().into(), peer.port().into()],
                };
                (true, Some(done))
            }
            Poll::Ready(Err(Error::WouldBlock)) if synchronous => {
                *new = None;
                (true, None)
            }
            Poll::Ready(Err(error)) => (true, Some(reply(Err(error)))),
        }
    }

    fn poll_step(&mut self, side: Side, call: Call) -> Option<Reply> {
        let Call::PollTwo {
            slot,
            other,
            events,
            timeout_ms,
        } = call
        else {
            return Some(reply(Err(Error::InvalidArgument)));
        };
        let extra = vec![
            self.readiness(side, slot, events),
            self.readiness(side, other, events),
        ];
        let ready = extra.iter().filter(|bits| **bits != 0).count() as i64;
        // No time passes here, so a finite time-out has passed.
        (ready > 0 || timeout_ms >= 0).then_some(Reply {
            result: Ok(ready),
            extra,
        })
    }
}

/// Whether an earlier transfer has to end before a later one can begin.
fn blocks(earlier: &Job, later: &Work) -> bool {
    if earlier.done.is_some() {
        return false;
    }
    match (&earlier.work, later) {
        (Work::Send { id: one, .. }, Work::Send { id: other, .. })
        | (Work::Recv { id: one, .. }, Work::Recv { id: other, .. }) => one == other,
        _ => false,
    }
}

/// The result of a blocking transfer, once it has one.
fn transfer_end(result: Result<usize, Error>, wanted: usize, done: &mut usize) -> Option<Answer> {
    match result {
        Ok(count) => {
            *done += count;
            (*done == wanted).then_some(Ok(wanted as i64))
        }
        Err(_) if *done > 0 => Some(Ok(*done as i64)),
        Err(error) => Some(Err(error)),
    }
}

/// The reply to a receive that got these bytes.
fn received(call: &Call, bytes: &[u8]) -> Reply {
    let (seed, from) = match *call {
        Call::Recv { seed, from, .. } => (seed, from),
        _ => (0, 0),
    };
    let wrong = pattern::mismatch(seed, from, bytes).map_or(-1, |at| at as i64);
    Reply {
        result: Ok(bytes.len() as i64),
        extra: vec![wrong],
    }
}
