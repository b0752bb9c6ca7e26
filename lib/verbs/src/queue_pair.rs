//! Queue pairs as values.

use alloc::sync::Arc;

use verbs_core::address::lid;
use verbs_core::attributes::Attributes;
use verbs_core::context::QpView;
use verbs_core::types::{Access, AttributeMask as M, Opcode, QpState, QpType};
use verbs_core::work::{
    Capacity, QpInit, ReceiveRequest, Remote, Segment, SendRequest, ShortData, ShortSend,
};

use crate::error::Result;
use crate::objects::{CompletionQueue, Domain, ProtectionDomain, SharedReceiveQueue};

impl ProtectionDomain {
    /// Describes a queue pair that is to be created.
    pub fn queue_pair<'a>(
        &'a self,
        kind: QpType,
        send: &'a CompletionQueue,
        receive: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a> {
        QueuePairBuilder::new(self, kind, [send, receive])
    }
}

/// The description of a queue pair that is to be created.
pub struct QueuePairBuilder<'a> {
    domain: &'a ProtectionDomain,
    kind: QpType,
    send: &'a CompletionQueue,
    receive: &'a CompletionQueue,
    shared: Option<&'a SharedReceiveQueue>,
    capacity: Capacity,
    signal_all: bool,
}

impl<'a> QueuePairBuilder<'a> {
    pub(crate) fn new(
        domain: &'a ProtectionDomain,
        kind: QpType,
        [send, receive]: [&'a CompletionQueue; 2],
    ) -> Self {
        Self {
            domain,
            kind,
            send,
            receive,
            shared: None,
            capacity: Capacity::default(),
            signal_all: false,
        }
    }

    /// Sets the sizes; the default is 128 requests of 4 segments, and no inline data.
    #[must_use]
    pub fn capacity(mut self, capacity: Capacity) -> Self {
        self.capacity = capacity;
        self
    }

    /// Sets the most bytes of inline data of a request.
    #[must_use]
    pub fn inline(mut self, bytes: u32) -> Self {
        self.capacity.inline = bytes;
        self
    }

    /// Takes receives from a shared queue.
    #[must_use]
    pub fn shared(mut self, queue: &'a SharedReceiveQueue) -> Self {
        self.shared = Some(queue);
        self
    }

    /// Makes every send add a completion.
    #[must_use]
    pub fn signal_all(mut self) -> Self {
        self.signal_all = true;
        self
    }

    /// Creates the queue pair.
    ///
    /// # Errors
    /// `Invalid`: sizes out of range, or objects of another domain. `NotSupported`: the type.
    /// `NoMemory`. Those of making a listener.
    pub fn build(self) -> Result<QueuePair> {
        let domain = self.domain.0.clone();
        let init = QpInit {
            kind: self.kind,
            pd: domain.id,
            send_cq: self.send.0.id,
            recv_cq: self.receive.0.id,
            srq: self.shared.map(|queue| queue.0.id),
            xrcd: None,
            capacity: self.capacity,
            signal_all: self.signal_all,
        };
        let number = domain.raw.create_qp(init, 0)?;
        Ok(QueuePair {
            number,
            kind: self.kind,
            _queues: [self.send.clone(), self.receive.clone()],
            _shared: self.shared.cloned(),
            domain,
        })
    }
}

/// The address of a queue pair, which its peer needs to connect to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Address {
    /// The local identifier of the node's port.
    pub lid: u16,
    /// The queue pair's number.
    pub number: u32,
    /// The first packet number.
    pub psn: u32,
}

/// Times and limits of a connection between queue pairs; the codes are those of [`Attributes`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The access that the peer has through this queue pair.
    pub access: Access,
    /// The time to wait for a response, as a code.
    pub timeout: u8,
    /// Retries when there is no response.
    pub retries: u8,
    /// Retries when the peer has no receive; 7 retries without limit.
    pub rnr_retries: u8,
    /// How long the peer waits before it retries a message for which there was no receive, as a
    /// code.
    pub rnr_timer: u8,
    /// Reads and atomics that each end may have under way.
    pub reads: u8,
}

impl Default for Settings {
    /// All access, half a second to wait for a response, and no limit to wait for a receive.
    fn default() -> Self {
        Self {
            access: Access::REMOTE | Access::LOCAL_WRITE,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
            rnr_timer: 12,
            reads: 16,
        }
    }
}

/// A queue pair. Dropping the value destroys it.
pub struct QueuePair {
    number: u32,
    kind: QpType,
    _queues: [CompletionQueue; 2],
    _shared: Option<SharedReceiveQueue>,
    domain: Arc<Domain>,
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // It exists: only this value destroys it.
        let _ = self.domain.raw.destroy_qp(self.number);
    }
}

impl QueuePair {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its address, for the peer.
    pub fn address(&self) -> Address {
        Address {
            lid: lid(self.domain.raw.node()),
            number: self.number,
            psn: 0,
        }
    }

    /// Its state, attributes and sizes.
    ///
    /// # Errors
    /// None.
    pub fn query(&self) -> Result<QpView> {
        self.domain.raw.query_qp(self.number)
    }

    /// Changes attributes and the state.
    ///
    /// # Errors
    /// `NotSupported`: the mask has unknown bits. `Invalid`: a value is out of range, or this
    /// change of state is not allowed with this mask. After an error nothing has changed.
    pub fn modify(&self, new: &Attributes, mask: M) -> Result<()> {
        self.domain.raw.modify_qp(self.number, new, mask)
    }

    /// Takes it to the state INIT, in which receives can be posted.
    ///
    /// # Errors
    /// `Invalid`: its state is past INIT.
    pub fn init(&self, settings: &Settings) -> Result<()> {
        let attributes = Attributes {
            state: QpState::Init,
            access: settings.access,
            ..Attributes::default()
        };
        let mask = M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
        self.modify(&attributes, mask)
    }

    /// Connects it, after [`init`](Self::init), to the queue pair at an address, whose owner makes
    /// the same call. The peer need not be ready.
    ///
    /// # Errors
    /// `Invalid`: it is not initialized, or a setting is out of range.
    pub fn connect_to(&self, peer: Address, settings: &Settings) -> Result<()> {
        let mut attributes = Attributes {
            state: QpState::Rtr,
            dlid: peer.lid,
            dest_qpn: peer.number,
            rq_psn: peer.psn,
            path_mtu: 5,
            min_rnr_timer: settings.rnr_timer,
            max_dest_rd_atomic: settings.reads,
            max_rd_atomic: settings.reads,
            timeout: settings.timeout,
            retry_cnt: settings.retries,
            rnr_retry: settings.rnr_retries,
            ..Attributes::default()
        };
        let is_reliable = self.kind == QpType::Rc;
        let mut mask = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        if is_reliable {
            mask |= M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
        }
        self.modify(&attributes, mask)?;
        attributes.state = QpState::Rts;
        let mut mask = M::STATE | M::SQ_PSN;
        if is_reliable {
            mask |= M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        }
        self.modify(&attributes, mask)
    }

    // ---- Posting ----

    /// Posts a request of any kind.
    ///
    /// # Errors
    /// `Invalid`: the state, the operation, or too many segments or bytes. `NoMemory`: the queue
    /// is full.
    pub fn post(&self, request: SendRequest) -> Result<()> {
        self.domain.raw.post_send(self.number, [request]).1
    }

    /// Posts a send or a write of one segment or of inline bytes. It does what
    /// [`post`](Self::post) does, in fewer instructions.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn post_short(&self, send: &ShortSend<'_>) -> Result<()> {
        self.domain.raw.post_short(self.number, send)
    }

    /// Sends a message, which completes when the peer has put it into a receive.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn send(&self, id: u64, segments: &[Segment]) -> Result<()> {
        if let [segment] = segments {
            return self.post_short(&ShortSend::message(id, ShortData::Segment(*segment)));
        }
        self.post(SendRequest::new(id, Opcode::Send, segments.to_vec()))
    }

    /// Sends a copy of these bytes.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn send_inline(&self, id: u64, bytes: &[u8]) -> Result<()> {
        self.post_short(&ShortSend::message(id, ShortData::Inline(bytes)))
    }

    /// Writes the peer's memory.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn write(&self, id: u64, segments: &[Segment], to: Remote) -> Result<()> {
        if let [segment] = segments {
            return self.post_short(&ShortSend::write(id, ShortData::Segment(*segment), to));
        }
        self.one_sided(id, Opcode::RdmaWrite, segments, to)
    }

    /// Writes the peer's memory, then completes a receive of the peer with 32 bits.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn write_with(
        &self,
        id: u64,
        segments: &[Segment],
        to: Remote,
        immediate: u32,
    ) -> Result<()> {
        let mut request = SendRequest::new(id, Opcode::RdmaWriteWithImm, segments.to_vec());
        (request.remote, request.immediate) = (to, immediate);
        self.post(request)
    }

    /// Reads the peer's memory.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn read(&self, id: u64, segments: &[Segment], from: Remote) -> Result<()> {
        self.one_sided(id, Opcode::RdmaRead, segments, from)
    }

    fn one_sided(
        &self,
        id: u64,
        opcode: Opcode,
        segments: &[Segment],
        remote: Remote,
    ) -> Result<()> {
        let mut request = SendRequest::new(id, opcode, segments.to_vec());
        request.remote = remote;
        self.post(request)
    }

    /// Adds to 8 bytes of the peer's memory, and stores their former value in the segment.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn fetch_and_add(&self, id: u64, before: Segment, at: Remote, add: u64) -> Result<()> {
        let mut request = SendRequest::new(id, Opcode::AtomicFetchAndAdd, alloc::vec![before]);
        (request.remote, request.compare_add) = (at, add);
        self.post(request)
    }

    /// Stores the second number in 8 bytes of the peer's memory if they hold the first one, and
    /// stores their former value in the segment.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub fn compare_and_swap(
        &self,
        id: u64,
        before: Segment,
        at: Remote,
        (compare, swap): (u64, u64),
    ) -> Result<()> {
        let mut request = SendRequest::new(id, Opcode::AtomicCmpAndSwp, alloc::vec![before]);
        request.remote = at;
        (request.compare_add, request.swap) = (compare, swap);
        self.post(request)
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// `Invalid`: the state, a queue pair with a shared receive queue, or too many segments.
    /// `NoMemory`: the queue is full.
    pub fn receive(&self, id: u64, segments: &[Segment]) -> Result<()> {
        let request = ReceiveRequest {
            id,
            segments: segments.into(),
        };
        self.domain.raw.post_receive(self.number, request)
    }
}
