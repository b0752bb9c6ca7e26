//! The operations of `call` requests: SCIF's own calls on an endpoint descriptor, and those of
//! memory handles.
//!
//! `scif_abi::call` has the numbers, words and structures. A structure is copied out of the
//! client's memory once and checked; only the copy is used.

mod accept;
mod bypass;
mod connect;
mod end;
mod memory;
mod messages;
mod open;
mod own_pages;
mod readiness;
mod rma;
mod transfer;
mod window;

use scif_abi::call::{AcceptRecord, Call, MemoryCall};
use scif_abi::codec::{DecodeError, Operation};
use scif_abi::flags::{AcceptFlags, ListenFlags, Readiness, RecvFlags, SendFlags};
use scif_abi::{Port, PortId};
use scif_core::Direction;
use syscall::error::{EINVAL, ENOTCONN, ENOTTY, EWOULDBLOCK, Error, Result};
use zerocopy::IntoBytes;

use crate::error::system;
use crate::handle::Kind;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::path::Content;
use crate::request::PendingOn;
use crate::scif::Scif;
use crate::scif::operation::transfer::Until;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// Carries out one operation for `process`: `metadata` is its number and its words, `payload`
    /// its structure or data.
    ///
    /// # Errors
    /// `ENOTTY` when the handle has no such operations, `EINVAL` when the operation is unknown or
    /// its words or structure are malformed, and the errors of each operation (docs/scheme.md).
    pub fn call(
        &mut self,
        id: HandleId,
        payload: &mut [u8],
        metadata: &[u64],
        process: usize,
        request: R,
    ) -> Result<usize> {
        if let Some(ended) = self.requests.take_ended(request) {
            return ended;
        }
        let word = |index: usize| metadata.get(index).copied().unwrap_or(0);
        let (number, words) = (word(0), [word(1), word(2)]);
        let is_memory = matches!(self.handles.get(id)?.kind(), Kind::Memory(_));
        if is_memory && number != Call::GET_NODE_IDS {
            let call = MemoryCall::decode(number, words, payload);
            let call = call.map_err(|error| malformed(id, error))?;
            return self.memory_call(id, call, process, request);
        }
        let call = Call::decode(number, words, payload).map_err(|error| malformed(id, error))?;
        let has_messages = self.handles.get(id)?.content() == Content::Messages;
        if has_messages && !is_for_messages(&call) {
            return Err(Error::new(ENOTTY));
        }
        let waits = matches!(
            self.requests.pending(request),
            Some(PendingOn::Ticket { .. } | PendingOn::OwnPages { .. })
        );
        if !waits && !is_for_any_handle(&call) {
            self.handles.endpoint(id)?;
        }
        match call {
            Call::Bind { port } => self.bind(id, port),
            Call::Listen { backlog, flags } => self.listen(id, backlog, flags),
            Call::Connect { node, port } => self.connect(id, PortId::new(node, port), request),
            Call::AcceptRequest { flags, .. } => {
                self.accept_request(id, flags, payload, process, request)
            }
            Call::AcceptRegister { handle } => self.accept_register(id, handle),
            Call::Send { flags } => self.send_operation(id, payload, flags, request),
            Call::Recv { flags } => self.receive_operation(id, payload, flags, request),
            Call::Register { record } => self.register(id, record, request),
            Call::RegisterOwn { record } => self.register_own(id, record, process, request),
            Call::Unregister { offset, length } => self.unregister(id, offset, length, request),
            Call::ReadFrom { record } => self.rma(id, Direction::Read, record, request),
            Call::WriteTo { record } => self.rma(id, Direction::Write, record, request),
            Call::VirtualReadFrom {
                remote_offset,
                flags,
            } => {
                let remote = (remote_offset, flags);
                self.virtual_rma(id, Direction::Read, remote, payload, request)
            }
            Call::VirtualWriteTo {
                remote_offset,
                flags,
            } => {
                let remote = (remote_offset, flags);
                self.virtual_rma(id, Direction::Write, remote, payload, request)
            }
            Call::CachedReadFrom { record } => {
                self.cached_rma(id, Direction::Read, record, request)
            }
            Call::CachedWriteTo { record } => {
                self.cached_rma(id, Direction::Write, record, request)
            }
            Call::OwnReadFrom { record } => {
                self.own_transfer(id, Direction::Read, record, process, request)
            }
            Call::OwnWriteTo { record } => {
                self.own_transfer(id, Direction::Write, record, process, request)
            }
            Call::FenceMark { flags } => self.fence_mark(id, flags, request),
            Call::FenceWait { mark } => self.fence_wait(id, mark, request),
            Call::FenceSignal { record } => self.fence_signal(id, record, request),
            Call::GetNodeIds => Ok(self.node_ids(payload)),
            Call::Poll { events } => self.poll(id, events),
            Call::LocalPort => self.local_port(id),
            Call::PeerPort => self.peer_port(id),
            Call::Finish => self.finish(id),
            Call::FinishReceiving => self.finish_receiving(id),
            Call::Shutdown => self.shut_down(id, request),
            Call::GetPages {
                remote_offset,
                length,
            } => self.get_pages(id, remote_offset, length, payload),
            Call::PutPages { cookie } => self.put_pages(id, cookie),
            Call::MapRun {
                remote_offset,
                length,
            } => self.map_run(id, remote_offset, length),
            Call::MapRunOwn { offset, length } => self.map_run_own(id, offset, length),
            Call::Wait { events, kicks } => self.wait(id, events, kicks, request),
            Call::WaitBytes { written } => self.wait_for_bytes(id, written, request),
            Call::Kick { kicks } => self.kick(id, kicks),
            Call::BypassInfo { .. } => self.bypass_info(id, payload),
        }
    }

    fn bind(&mut self, id: HandleId, port: Port) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        let bound = self.engine.bind(endpoint, port);
        bound.map(usize::from).map_err(system)
    }

    fn poll(&mut self, id: HandleId, events: u16) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        let wanted = Readiness::from_bits_truncate(events) | Readiness::ERR | Readiness::HUP;
        let ready = self.engine.poll(&mut self.memory, endpoint);
        Ok((ready & wanted).bits().into())
    }

    fn local_port(&self, id: HandleId) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        let local = self.engine.local_port(endpoint);
        Ok(word_of(local.unwrap_or_default()))
    }

    fn peer_port(&self, id: HandleId) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        let peer = self.engine.peer(endpoint);
        peer.map(word_of).ok_or(Error::new(ENOTCONN))
    }

    fn finish(&mut self, id: HandleId) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        self.handles.get(id)?.to_write()?;
        let ended = self.engine.end_sending(endpoint);
        ended.map(|()| 0).map_err(system)
    }

    fn finish_receiving(&mut self, id: HandleId) -> Result<usize> {
        let endpoint = self.handles.endpoint_id(id)?;
        self.handles.get(id)?.to_read()?;
        let ended = self.engine.end_receiving(endpoint);
        ended.map(|()| 0).map_err(system)
    }

    fn listen(&mut self, id: HandleId, backlog: i32, flags: u32) -> Result<usize> {
        let flags = ListenFlags::from_bits(flags).ok_or(Error::new(EINVAL))?;
        let endpoint = self.handles.endpoint_id(id)?;
        self.engine.listen(endpoint, backlog).map_err(system)?;
        if flags.contains(ListenFlags::GRANT_AT_ONCE) {
            self.engine.grant_at_once(endpoint);
        }
        self.handles.endpoint(id)?.listen();
        let port: Port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        self.listeners.insert(port, id);
        Ok(0)
    }

    fn accept_request(
        &mut self,
        id: HandleId,
        flags: u32,
        payload: &mut [u8],
        process: usize,
        request: R,
    ) -> Result<usize> {
        let flags = AcceptFlags::from_bits(flags).ok_or(Error::new(EINVAL))?;
        let caller = self.handles.caller(id)?;
        let synchronous = flags.contains(AcceptFlags::SYNC);
        let endpoint = self.accept_from(id, caller, synchronous, request)?;
        let peer = self.engine.peer(endpoint).unwrap_or_default();
        let claim = self.listeners.keep(endpoint, id, caller, process);
        let record = AcceptRecord {
            peer,
            reserved: [0; 4],
            handle: claim.into(),
        };
        // The decoder has checked the length.
        payload.copy_from_slice(record.as_bytes());
        Ok(0)
    }

    fn accept_register(&mut self, id: HandleId, claim: u64) -> Result<usize> {
        let caller = self.handles.caller(id)?;
        let endpoint = self.handles.endpoint_id(id)?;
        let fresh = self
            .engine
            .local_port(endpoint)
            .is_none_or(|local| local.port() == 0);
        if !fresh {
            return Err(Error::new(EINVAL));
        }
        let endpoint = self.listeners.claim(claim, caller)?;
        self.replace_endpoint(id, endpoint)?;
        Ok(0)
    }

    fn send_operation(
        &mut self,
        id: HandleId,
        bytes: &[u8],
        flags: u32,
        request: R,
    ) -> Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let flags = SendFlags::from_bits(flags).ok_or(Error::new(EINVAL))?;
        self.handles.get(id)?.to_write()?;
        if flags.contains(SendFlags::BLOCK) {
            return self.send(id, bytes, request);
        }
        match self.try_send(id, bytes) {
            // Not connected yet: SCIF's calls do not wait for the connection.
            Err(Error { errno: EWOULDBLOCK }) => Err(Error::new(ENOTCONN)),
            result => result,
        }
    }

    fn receive_operation(
        &mut self,
        id: HandleId,
        buffer: &mut [u8],
        flags: u32,
        request: R,
    ) -> Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let flags = RecvFlags::from_bits(flags).ok_or(Error::new(EINVAL))?;
        self.handles.get(id)?.to_read()?;
        if flags.contains(RecvFlags::BLOCK) {
            return self.receive(id, buffer, Until::Full, request);
        }
        match self.try_receive(id, buffer) {
            Err(Error { errno: EWOULDBLOCK }) => Err(Error::new(ENOTCONN)),
            result => result,
        }
    }

    /// Stores this node's id and then those of the nodes online, as many as fit. Returns how many
    /// are online.
    fn node_ids(&self, payload: &mut [u8]) -> usize {
        let online = self.engine.online_nodes();
        let all = core::iter::once(self.engine.node()).chain(online);
        for (slot, node) in payload.chunks_exact_mut(2).zip(all) {
            slot.copy_from_slice(&node.to_le_bytes());
        }
        self.engine.online_nodes().count()
    }
}

/// Whether an operation also works on handles other than an endpoint's own.
fn is_for_any_handle(call: &Call) -> bool {
    matches!(
        call,
        Call::GetNodeIds
            | Call::Shutdown
            | Call::MapRunOwn { .. }
            | Call::Wait { .. }
            | Call::WaitBytes { .. }
            | Call::Kick { .. }
            | Call::BypassInfo { .. }
    )
}

/// Whether an operation is allowed on a connection that carries messages. Others would break its
/// stream.
fn is_for_messages(call: &Call) -> bool {
    matches!(
        call,
        Call::GetNodeIds
            | Call::Poll { .. }
            | Call::Wait { .. }
            | Call::LocalPort
            | Call::PeerPort
            | Call::Shutdown
    )
}

/// A port id as one word: `node << 16 | port`.
fn word_of(id: PortId) -> usize {
    usize::from(id.node()) << 16 | usize::from(id.port())
}

fn malformed(id: HandleId, error: DecodeError) -> Error {
    log::debug!("a call of handle {id} is refused: {error}");
    Error::new(EINVAL)
}
