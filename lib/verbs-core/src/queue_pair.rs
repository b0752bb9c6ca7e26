//! Queue pairs: their states, the requests that are posted to them, and how they end.

mod answers;
mod completing;
mod datagram;
mod memory;
mod requester;
mod responder;
mod send;
mod short;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::attributes::Attributes;
use crate::host::LaneId;
use crate::objects::{Objects, Subject};
use crate::queue::Queue;
use crate::record::{Address, Ready, Record};
use crate::table::Id;
use crate::types::{
    AttributeMask, Error, EventType, Opcode, QpState, QpType, Result, SendFlags, WcStatus,
};
use crate::work::{Data, QpInit, ReceiveRequest, Segments, SendRequest, total};
use crate::{attributes, transition};

pub(crate) use self::datagram::Arrived;
pub(crate) use self::memory::known;
pub(crate) use self::requester::Pause;
pub(crate) use self::responder::drop_bytes;
use self::send::{Ended, InlineBytes, Kept, Send, Stage, Way, Whole};

/// Most bytes of a message.
pub const MAX_MESSAGE: u64 = 1 << 31;

/// Whether a number comes before another one; both wrap around.
#[inline]
pub(crate) fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// The state that the peer has announced.
#[derive(Clone, Copy, Debug)]
enum Peer {
    /// It has not announced any.
    Unknown,
    /// It can receive.
    Ready(Ready),
    /// It no longer answers.
    Gone,
}

/// The queue that a receive comes from, and the one that it completes in.
#[derive(Clone, Copy, Debug)]
struct Pool {
    /// The shared receive queue, if it is from one.
    srq: Option<Id>,
    /// The domain of the receive's memory.
    pd: Id,
    cq: Id,
}

/// A message that has arrived only in part.
#[derive(Debug)]
struct Incoming {
    receive: ReceiveRequest,
    pool: Pool,
    number: u32,
    total: u32,
    got: u32,
}

/// A wait for a receive of the peer.
#[derive(Clone, Copy, Debug)]
struct Rnr {
    /// When to try again, in nanoseconds.
    until: u64,
    /// Waits so far, with this one.
    used: u8,
    /// The peer has refused the message: a retry makes sense only after the wait.
    is_refused: bool,
}

/// What is known of the peer's receives when one is lacking for the message of this number: the
/// peer tells of new ones only now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inquiry {
    /// The peer was asked.
    Asked(u32),
    /// It has answered.
    Answered(u32),
}

/// The traffic of a queue pair since it was created, without requests that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests of the send queue that have succeeded.
    pub sends: u64,
    /// Their bytes; for reads and atomic operations, the bytes that came back.
    pub sent_bytes: u64,
    /// Messages that were put into a receive.
    pub receives: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Completions with an error, of both queues.
    pub errors: u64,
    /// Bytes that were stored into the peer's windows. Bytes that went through the lane's stream
    /// are not counted.
    pub stored_bytes: u64,
    /// Bytes that were loaded from the peer's windows.
    pub loaded_bytes: u64,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QueuePair {
    pub number: u32,
    pub init: QpInit,
    pub state: QpState,
    pub attributes: Attributes,
    pub lane: Option<LaneId>,
    /// It is in the list of queue pairs whose requests the next `progress` executes.
    pub is_active: bool,
    /// It owes the peer an acknowledgement.
    pub owes_ack: bool,
    /// It is in its lane's list of queue pairs that may owe an acknowledgement.
    pub is_listed: bool,
    /// It drops datagrams to groups that it has sent itself, from the port with this local
    /// identifier.
    pub drops_own: Option<u16>,
    /// Changes with each change from INIT to RTR.
    generation: u32,
    peer: Peer,

    sends: Queue<Send>,
    /// Boxes for inline bytes, kept for the next use.
    spare: Vec<InlineBytes>,
    /// The index of the first send that has not been executed.
    cursor: usize,
    /// Messages that were sent to this peer: the number of the next one.
    sent: u32,
    /// Messages that the peer has acknowledged.
    acked: u32,
    /// A send has failed, and completes once those before it have.
    is_failing: bool,
    /// Places of the send queue that are held by completions which were not polled: an upper
    /// bound.
    held_sends: u32,
    /// Sends that have ended since the last one that added a completion.
    unsignaled: u32,
    /// When the current request fails unless the peer has announced itself, in nanoseconds.
    peer_deadline: Option<u64>,
    rnr: Option<Rnr>,
    inquiry: Option<Inquiry>,
    /// The program has asked for an event once the send queue has drained, and has not had it yet.
    owes_drained: bool,

    receives: Queue<ReceiveRequest>,
    /// Places of the receive queue that are held by completions which were not polled: an upper
    /// bound.
    held_receives: u32,
    incoming: Option<Incoming>,
    /// The number of the next message from this peer.
    expected: u32,
    /// The limit that the peer was last told.
    published: u32,
    /// A receive was posted or used since a datagram was last dropped for want of one.
    posts_receives: bool,
    pub traffic: Traffic,
}

impl QueuePair {
    /// The attributes that [`introduce`](Self::introduce) tells the peer.
    const TOLD: AttributeMask = AttributeMask::ACCESS_FLAGS
        .union(AttributeMask::MIN_RNR_TIMER)
        .union(AttributeMask::MAX_DEST_RD_ATOMIC);

    pub fn new(number: u32, init: QpInit) -> QueuePair {
        QueuePair {
            number,
            init,
            state: QpState::Reset,
            attributes: Attributes::default(),
            lane: None,
            is_active: false,
            owes_ack: false,
            is_listed: false,
            drops_own: None,
            generation: 0,
            peer: Peer::Unknown,
            sends: Queue::new(),
            spare: Vec::new(),
            cursor: 0,
            sent: 0,
            acked: 0,
            held_sends: 0,
            unsignaled: 0,
            is_failing: false,
            peer_deadline: None,
            rnr: None,
            inquiry: None,
            owes_drained: false,
            receives: Queue::new(),
            held_receives: 0,
            incoming: None,
            expected: 0,
            published: 0,
            posts_receives: false,
            traffic: Traffic::default(),
        }
    }

    /// Whether messages are acknowledged, and a failed send leads to the error state.
    #[inline]
    fn is_reliable(&self) -> bool {
        matches!(
            self.init.kind,
            QpType::Rc | QpType::XrcSend | QpType::XrcRecv
        )
    }

    /// Whether it shares its receives with other queue pairs.
    #[inline]
    fn is_shared(&self) -> bool {
        self.init.srq.is_some() || self.init.xrcd.is_some()
    }

    /// Whether it receives in its current state.
    #[inline]
    pub fn is_receiving(&self) -> bool {
        matches!(
            self.state,
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        )
    }

    /// Whether it receives, but has neither a lane nor met its peer.
    pub fn awaits_lane(&self) -> bool {
        self.is_receiving() && self.lane.is_none() && matches!(self.peer, Peer::Unknown)
    }

    /// Whether there are sends to execute.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.cursor < self.sends.len()
    }

    // ---- States ----

    /// Changes attributes and the state. `generation`: the new one, for the change from INIT to
    /// RTR.
    pub fn modify(
        &mut self,
        objects: &mut Objects,
        new: &Attributes,
        mask: AttributeMask,
        generation: u32,
    ) -> Result<()> {
        let mask = transition::heard(self.init.kind, mask);
        new.check(mask)?;
        let to = match mask.contains(AttributeMask::STATE) {
            true => new.state,
            false => self.state,
        };
        if mask.contains(AttributeMask::CUR_STATE) && new.cur_state != self.state {
            return Err(Error::Invalid);
        }
        transition::check(self.state, to, self.init.kind, mask)?;
        let from = self.state;
        self.attributes.apply(new, mask);
        match to {
            QpState::Reset => self.reset(objects),
            QpState::Err => self.enter_error(objects),
            _ => self.state = to,
        }
        if (from, to) == (QpState::Init, QpState::Rtr) {
            self.generation = generation;
            self.introduce(objects, true);
        } else if self.is_receiving() && mask.intersects(Self::TOLD) {
            self.introduce(objects, false);
        }
        if to == QpState::Sqd {
            let wants = mask.contains(AttributeMask::EN_SQD_ASYNC_NOTIFY) && new.notify_drained;
            self.owes_drained = wants;
            self.look_drained(objects);
        }
        Ok(())
    }

    /// Uses a lane from now on.
    pub fn attach(&mut self, objects: &mut Objects, lane: LaneId) {
        self.lane = Some(lane);
        if self.is_receiving() {
            self.introduce(objects, true);
        }
    }

    /// Announces this queue pair to the peer.
    fn introduce(&mut self, objects: &mut Objects, wants_answer: bool) {
        let Some(lane) = self.lane else {
            return;
        };
        let address = Address {
            generation: 0,
            ..self.address()
        };
        self.published = self.limit();
        let ready = Ready {
            generation: self.generation,
            limit: self.published,
            is_shared: self.is_shared(),
            wants_answer,
            access: self.attributes.access & crate::types::Access::REMOTE,
            rnr_timer: self.attributes.min_rnr_timer,
            reads: self.attributes.max_dest_rd_atomic,
        };
        objects.tell(lane, Record::Ready(address, ready));
    }

    /// The address in records to the peer.
    pub fn address(&self) -> Address {
        let generation = match self.peer {
            Peer::Ready(ready) => ready.generation,
            Peer::Unknown | Peer::Gone => 0,
        };
        Address {
            destination: self.attributes.dest_qpn,
            source: self.number,
            generation,
        }
    }

    /// The number of the first message for which there is no receive.
    #[inline]
    fn limit(&self) -> u32 {
        let taken = self.incoming.is_some() && !self.is_shared();
        let receives = self.expected.wrapping_add(self.receives.len() as u32);
        receives.wrapping_add(u32::from(taken))
    }

    /// Acknowledges what was received, and tells the peer that nothing more will be answered.
    pub fn leave(&mut self, objects: &mut Objects) {
        let owes_ack = self.settle_ack(objects);
        let Some(lane) = self.lane.filter(|_| self.is_receiving()) else {
            return;
        };
        let address = self.address();
        if owes_ack {
            objects.tell(lane, Record::Ack(address, self.acknowledgement()));
        }
        objects.tell(lane, Record::Gone(address, self.generation));
    }

    /// Makes it like new, but for its traffic: its requests and completions are dropped.
    pub fn reset(&mut self, objects: &mut Objects) {
        self.leave(objects);
        self.release_lanes(objects);
        self.return_incoming(objects);
        // A receiving half of XRC has no completion queues, and its fields name those of others.
        let own = [self.init.send_cq, self.init.recv_cq];
        for cq in own.into_iter().filter(|_| self.init.xrcd.is_none()) {
            if let Ok(queue) = objects.cqs.get_mut(cq) {
                queue.purge(self.number);
            }
        }
        *self = QueuePair {
            traffic: self.traffic,
            is_active: self.is_active,
            drops_own: self.drops_own,
            ..QueuePair::new(self.number, self.init)
        };
    }

    /// Goes to the error state: all posted requests are flushed.
    pub fn enter_error(&mut self, objects: &mut Objects) {
        if matches!(self.state, QpState::Err | QpState::Reset) {
            return;
        }
        self.leave(objects);
        self.release_lanes(objects);
        self.state = QpState::Err;
        self.flush_sends(objects);
        if let Some(incoming) = self.incoming.take() {
            let (receive, pool) = (&incoming.receive, incoming.pool);
            self.complete_receive(objects, pool, receive, WcStatus::WrFlushErr);
        }
        let own = self.own_pool();
        while let Some(receive) = self.receives.pop_front() {
            self.complete_receive(objects, own, &receive, WcStatus::WrFlushErr);
        }
        if self.init.srq.is_some() {
            objects.event(EventType::QpLastWqeReached, Subject::Qp(self.number));
        }
    }

    fn flush_sends(&mut self, objects: &mut Objects) {
        while let Some(send) = self.sends.pop_front() {
            self.complete_send(objects, send.ended, WcStatus::WrFlushErr);
        }
        self.cursor = 0;
        self.rnr = None;
    }

    /// Handles the end of the lane. `by_will`: the peer has announced it.
    pub fn lane_over(&mut self, objects: &mut Objects, by_will: bool) {
        let is_ready = matches!(self.peer, Peer::Ready(_));
        self.settle_ack(objects);
        (self.lane, self.is_listed) = (None, false);
        if !is_ready {
            return;
        }
        if by_will || !self.is_reliable() {
            self.peer_gone(objects);
            return;
        }
        if matches!(self.state, QpState::Err | QpState::Reset) {
            return;
        }
        self.peer = Peer::Gone;
        objects.event(EventType::QpFatal, Subject::Qp(self.number));
        // The oldest send reports the reason; the others are flushed.
        if let Some(send) = self.sends.pop_front() {
            self.complete_send(objects, send.ended, WcStatus::RetryExcErr);
        }
        self.enter_error(objects);
    }

    // ---- Posting ----

    /// Puts a request into the send queue.
    pub fn post_send(&mut self, objects: &mut Objects, request: SendRequest) -> Result<()> {
        self.check_send(&request)?;
        let to = self.vector(objects, &request)?;
        if self.is_send_queue_full(objects) {
            return Err(Error::NoMemory);
        }
        if matches!(self.state, QpState::Sqe | QpState::Err) {
            self.complete_send(objects, Ended::of(&request), WcStatus::WrFlushErr);
            return Ok(());
        }
        self.sends.push_back(Send {
            ended: Ended::of(&request),
            way: Way::default(),
            kept: Kept::Whole(Box::new(Whole { request, to })),
        });
        Ok(())
    }

    /// Checks that the send queue takes all of these requests.
    pub fn check_sends(&mut self, objects: &Objects, requests: &[SendRequest]) -> Result<()> {
        for request in requests {
            self.check_send(request)?;
            self.vector(objects, request)?;
        }
        match requests.len() <= self.free_sends(objects) {
            true => Ok(()),
            false => Err(Error::NoMemory),
        }
    }

    fn check_send(&self, request: &SendRequest) -> Result<()> {
        let posts = [QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err];
        if !posts.contains(&self.state) {
            return Err(Error::Invalid);
        }
        let can = match request.opcode {
            _ if self.init.kind == QpType::XrcRecv => false,
            Opcode::Send | Opcode::SendWithImm => true,
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm => self.init.kind != QpType::Ud,
            Opcode::RdmaRead | Opcode::AtomicCmpAndSwp | Opcode::AtomicFetchAndAdd => {
                self.is_reliable()
            }
            Opcode::LocalInv => self.init.kind != QpType::Ud,
            Opcode::BindMw => self.init.kind != QpType::Ud && request.bind.is_some(),
            Opcode::SendWithInv => self.is_reliable(),
        };
        let takes_data = request.opcode.writes_own();
        let is_marked = request.flags.contains(SendFlags::INLINE);
        let fits = match &request.data {
            Data::Segments(segments) => {
                let count = segments.len() <= self.init.capacity.send_sge as usize;
                !is_marked && count && total(segments) <= MAX_MESSAGE
            }
            Data::Inline(bytes) => {
                is_marked && !takes_data && bytes.len() <= self.init.capacity.inline as usize
            }
        };
        if can && fits {
            Ok(())
        } else {
            Err(Error::Invalid)
        }
    }

    /// Puts a request into the receive queue. Returns whether the peer is told of it soon.
    #[inline(always)]
    pub fn post_receive(&mut self, objects: &mut Objects, request: ReceiveRequest) -> Result<bool> {
        let (segments, bytes) = match &request.segments {
            Segments::One(segment) => (1, u64::from(segment.length)),
            Segments::Many(segments) => (segments.len(), total(segments)),
        };
        let is_bad = segments > self.init.capacity.recv_sge as usize || bytes > MAX_MESSAGE;
        let has_none = self.is_shared() || self.init.kind == QpType::XrcSend;
        if self.state == QpState::Reset || has_none || is_bad {
            return Err(Error::Invalid);
        }
        if self.is_receive_queue_full(objects) {
            return Err(Error::NoMemory);
        }
        if self.state == QpState::Err {
            self.complete_receive(objects, self.own_pool(), &request, WcStatus::WrFlushErr);
            return Ok(false);
        }
        self.receives.push_back(request);
        self.posts_receives = true;
        // A peer that has used all receives it knows of waits for the next one; for other peers it
        // is enough to hear of a quarter at a time.
        let told = self.published.wrapping_sub(self.expected);
        let untold = self.limit().wrapping_sub(self.published) as usize;
        let is_told = told == 0 || untold > self.receives.len() / 4;
        if is_told {
            self.owe_ack(objects);
            if let Some(lane) = self.lane.and_then(|lane| objects.lanes.get_mut(lane)) {
                lane.is_urgent |= self.owes_ack;
            }
        }
        Ok(is_told)
    }

    /// Whether it is in SQD, and a send has begun and has not ended.
    pub fn is_draining(&self) -> bool {
        let front = self.sends.front();
        self.state == QpState::Sqd && front.is_some_and(|send| send.way.has_begun)
    }

    /// Raises `SqDrained` once the send queue has drained, if the program asked for it.
    #[inline]
    fn look_drained(&mut self, objects: &mut Objects) {
        if self.state == QpState::Sqd && self.owes_drained && !self.is_draining() {
            self.owes_drained = false;
            objects.event(EventType::SqDrained, Subject::Qp(self.number));
        }
    }

    /// Requests in the send queue and in the receive queue; a receive that is being filled counts.
    pub fn queued(&self) -> (usize, usize) {
        (
            self.sends.len(),
            self.receives.len() + usize::from(self.incoming.is_some()),
        )
    }

    /// How long to wait after the peer had no receive, in nanoseconds.
    fn rnr_time(ready: &Ready) -> u64 {
        attributes::rnr_time(ready.rnr_timer)
    }
}
