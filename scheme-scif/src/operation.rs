//! The operations that travel in `call` requests: SCIF's own calls on an endpoint descriptor.
//!
//! Numbers, words and structures are `scif_abi::call`'s. A structure is copied out of the client's
//! memory once and checked; the copy is used.

use scif_abi::call::{AcceptRecord, Call};
use scif_abi::codec::Operation;
use scif_abi::flags::{AcceptFlags, Readiness, RecvFlags, SendFlags};
use scif_abi::{Port, PortId};
use syscall::error::{EINVAL, ENOENT, ENOTCONN, ENOTTY, EWOULDBLOCK, Error, Result};
use zerocopy::IntoBytes;

use crate::handle::HandleId;
use crate::scif::{Fabric, Scif, Unclaimed, system};
use crate::transfer::Until;

impl<F: Fabric, R: Copy + Ord> Scif<F, R> {
    /// One operation: `metadata` is its number and its words, `payload` its structure or data.
    ///
    /// # Errors
    /// `ENOTTY` when the handle is no endpoint, `EINVAL` when the operation is unknown or its words
    /// or structure are malformed, and the errors of each operation (docs/scheme.md).
    pub fn call(
        &mut self,
        id: HandleId,
        payload: &mut [u8],
        metadata: &[u64],
        request: R,
    ) -> Result<usize> {
        let word = |index: usize| metadata.get(index).copied().unwrap_or(0);
        let call = Call::decode(word(0), [word(1), word(2)], payload).map_err(|error| {
            log::debug!("call {} of handle {id} refused: {error}", word(0));
            Error::new(EINVAL)
        })?;
        if call == Call::GetNodeIds {
            // Any descriptor of the scheme will do: the answer is the node's, not an endpoint's.
            self.handle(id)?;
            return Ok(self.node_ids(payload));
        }
        let endpoint = self.endpoint(id)?.id;
        match call {
            Call::Bind { port } => self
                .engine
                .bind(endpoint, port)
                .map(usize::from)
                .map_err(system),
            Call::Listen { backlog } => self.listen(id, backlog),
            Call::Connect { node, port } => self.connect(id, PortId::new(node, port), request),
            Call::AcceptRequest { flags, .. } => self.accept_request(id, flags, payload, request),
            Call::AcceptRegister { handle } => self.accept_register(id, handle),
            Call::Send { flags } => self.send_operation(id, payload, flags, request),
            Call::Recv { flags } => self.receive_operation(id, payload, flags, request),
            Call::Poll { events } => {
                let wanted = Readiness::from_bits_truncate(events);
                let ready = self.engine.poll(&mut self.fabric, endpoint);
                Ok((ready & (wanted | Readiness::ERR | Readiness::HUP))
                    .bits()
                    .into())
            }
            Call::LocalPort => Ok(word_of(
                self.engine.local_port(endpoint).unwrap_or_default(),
            )),
            Call::PeerPort => self
                .engine
                .peer(endpoint)
                .map(word_of)
                .ok_or(Error::new(ENOTCONN)),
            Call::GetNodeIds => Err(Error::new(ENOTTY)),
            _ => Err(Error::new(EINVAL)),
        }
    }

    fn listen(&mut self, id: HandleId, backlog: i32) -> Result<usize> {
        let endpoint = self.endpoint(id)?.id;
        self.engine.listen(endpoint, backlog).map_err(system)?;
        self.endpoint(id)?.listening = true;
        let port: Port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        self.listeners.insert(port, id);
        Ok(0)
    }

    fn accept_request(
        &mut self,
        id: HandleId,
        flags: u32,
        payload: &mut [u8],
        request: R,
    ) -> Result<usize> {
        let flags = AcceptFlags::from_bits(flags).ok_or(Error::new(EINVAL))?;
        let caller = self.handle(id)?.caller;
        let synchronous = flags.contains(AcceptFlags::SYNC);
        let endpoint = self.accept_from(id, caller, synchronous, request)?;
        let peer = self.engine.peer(endpoint).unwrap_or_default();
        self.last_claim += 1;
        let claim = self.last_claim;
        self.unclaimed.insert(
            claim,
            Unclaimed {
                endpoint,
                listener: id,
                caller,
            },
        );
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
        let caller = self.handle(id)?.caller;
        let endpoint = self.endpoint(id)?.id;
        let fresh = self
            .engine
            .local_port(endpoint)
            .is_none_or(|local| local.port() == 0);
        if !fresh {
            return Err(Error::new(EINVAL));
        }
        let mine = |unclaimed: &Unclaimed| caller.may_share(unclaimed.caller);
        if !self.unclaimed.get(&claim).is_some_and(mine) {
            return Err(Error::new(ENOENT));
        }
        if let Some(unclaimed) = self.unclaimed.remove(&claim) {
            self.replace_endpoint(id, unclaimed.endpoint)?;
        }
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
        self.handle(id)?.access.to_write()?;
        if flags.contains(SendFlags::BLOCK) {
            return self.send(id, bytes, request);
        }
        match self.try_send(id, bytes) {
            // Not connected yet: SCIF's calls do not wait for that.
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
        self.handle(id)?.access.to_read()?;
        if flags.contains(RecvFlags::BLOCK) {
            return self.receive(id, buffer, Until::Full, request);
        }
        match self.try_receive(id, buffer) {
            Err(Error { errno: EWOULDBLOCK }) => Err(Error::new(ENOTCONN)),
            result => result,
        }
    }

    /// Stores the own node's id and then those of the nodes online, as many as fit; returns how
    /// many are online.
    fn node_ids(&self, payload: &mut [u8]) -> usize {
        let online = self.engine.online_nodes();
        let all = core::iter::once(self.engine.node()).chain(online);
        for (slot, node) in payload.chunks_exact_mut(2).zip(all) {
            slot.copy_from_slice(&node.to_le_bytes());
        }
        self.engine.online_nodes().count()
    }
}

/// `node << 16 | port`.
fn word_of(id: PortId) -> usize {
    usize::from(id.node()) << 16 | usize::from(id.port())
}
