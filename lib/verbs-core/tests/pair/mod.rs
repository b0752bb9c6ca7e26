//! Two programs with a context each, joined by a lane, for the tests of this crate.

#![allow(dead_code, reason = "each test uses some of it")]

pub mod datagrams;

use verbs_core::attributes::Attributes;
use verbs_core::context::Context;
use verbs_core::demo::{self, BASE, Program};
use verbs_core::host::LaneId;
use verbs_core::keys::Region;
use verbs_core::table::Id;
use verbs_core::types::{Access, AttributeMask as M, EventType, Opcode, QpState, QpType, WcStatus};
use verbs_core::work::{
    Capacity, Data, QpInit, ReceiveRequest, Remote, Segment, SendRequest, WorkCompletion,
};
use verbs_core::{Event, Subject};

pub const LANE: LaneId = LaneId(7);
pub const ALL: Access = Access::REMOTE.union(Access::LOCAL_WRITE);
/// Bytes of each program's region.
pub const REGION: usize = 0x8000;

pub struct End {
    pub context: Context,
    pub program: Program,
    pub pd: Id,
    pub send_cq: Id,
    pub recv_cq: Id,
    pub srq: Option<Id>,
    pub key: u32,
    pub qp: u32,
    pub now: u64,
}

pub struct Setup {
    pub kind: QpType,
    pub shared: bool,
    pub access: Access,
    pub attributes: Attributes,
    pub signal_all: bool,
    /// Bytes of each program's memory.
    pub bytes: usize,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            kind: QpType::Rc,
            shared: false,
            access: Access::REMOTE,
            attributes: demo::attributes(),
            signal_all: false,
            bytes: 2 * REGION,
        }
    }
}

pub fn capacity() -> Capacity {
    Capacity {
        send_wr: 64,
        recv_wr: 64,
        send_sge: 4,
        recv_sge: 4,
        inline: 128,
    }
}

impl End {
    pub fn new(qp: u32, setup: &Setup) -> End {
        let mut context = Context::new(qp << 8);
        let program = Program::new(setup.bytes);
        let pd = context.alloc_pd().unwrap();
        let (send_cq, recv_cq) = (
            context.create_cq(256).unwrap(),
            context.create_cq(256).unwrap(),
        );
        let srq = setup
            .shared
            .then(|| context.create_srq(pd, 64, 4, 0).unwrap());
        let region = Region {
            pd,
            start: BASE,
            length: REGION as u64,
            iova: BASE,
            access: ALL,
        };
        let key = context.register(region).unwrap();
        let init = QpInit {
            kind: setup.kind,
            pd,
            send_cq,
            recv_cq,
            srq,
            xrcd: None,
            capacity: capacity(),
            signal_all: setup.signal_all,
        };
        context.create_qp(qp, init).unwrap();
        End {
            context,
            program,
            pd,
            send_cq,
            recv_cq,
            srq,
            key,
            qp,
            now: 0,
        }
    }

    pub fn modify(&mut self, state: QpState, attributes: Attributes, mask: M) {
        let attributes = Attributes {
            state,
            ..attributes
        };
        let done = self
            .context
            .modify_qp(self.qp, &attributes, mask | M::STATE);
        assert_eq!(done, Ok(()), "{state:?}");
    }

    /// Goes to INIT, RTR or RTS, by the way of this index.
    fn enter(&mut self, way: usize, setup: &Setup, attributes: Attributes) {
        let (state, mask) = demo::ways(setup.kind)[way];
        self.modify(state, attributes, mask);
    }

    pub fn enter_init(&mut self, setup: &Setup) {
        let attributes = Attributes {
            access: setup.access,
            ..setup.attributes
        };
        self.enter(0, setup, attributes);
    }

    pub fn enter_rtr(&mut self, setup: &Setup, peer: u32) {
        let attributes = Attributes {
            dest_qpn: peer,
            ..setup.attributes
        };
        self.enter(1, setup, attributes);
    }

    pub fn enter_rts(&mut self, setup: &Setup) {
        self.enter(2, setup, setup.attributes);
    }

    pub fn state(&self) -> QpState {
        self.context.query_qp(self.qp).unwrap().state
    }

    pub fn progress(&mut self) -> verbs_core::context::Progress {
        self.context.progress(&mut self.program, self.now)
    }

    /// Part of the region.
    pub fn segment(&self, offset: u64, length: u32) -> Segment {
        Segment {
            address: BASE + offset,
            length,
            key: self.key,
        }
    }

    pub fn receive(&mut self, id: u64, offset: u64, length: u32) {
        let request = ReceiveRequest {
            id,
            segments: vec![self.segment(offset, length)].into(),
        };
        match self.srq {
            Some(srq) => self.context.post_srq_recv(srq, request).unwrap(),
            None => self.context.post_recv(self.qp, request).unwrap(),
        }
    }

    pub fn send(&mut self, id: u64, offset: u64, length: u32) {
        let segments = vec![self.segment(offset, length)];
        self.post(SendRequest::new(id, Opcode::Send, segments));
    }

    pub fn one_sided(
        &self,
        id: u64,
        opcode: Opcode,
        (offset, length): (u64, u32),
        remote: (u64, u32),
    ) -> SendRequest {
        SendRequest {
            remote: Remote {
                address: BASE.wrapping_add(remote.0),
                key: remote.1,
            },
            ..SendRequest::new(id, opcode, vec![self.segment(offset, length)])
        }
    }

    pub fn inline(id: u64, opcode: Opcode, bytes: &[u8]) -> SendRequest {
        let mut request = SendRequest::new(id, opcode, Vec::new());
        request.flags |= verbs_core::types::SendFlags::INLINE;
        request.data = Data::Inline(bytes.to_vec());
        request
    }

    pub fn post(&mut self, request: SendRequest) {
        self.context.post_send(self.qp, request).unwrap();
    }

    pub fn fill(&mut self, offset: u64, bytes: &[u8]) {
        self.program.store(BASE + offset, bytes);
    }

    pub fn bytes(&self, offset: u64, count: usize) -> Vec<u8> {
        self.program.bytes(BASE + offset, count)
    }

    fn drain(&mut self, cq: Id) -> Vec<WorkCompletion> {
        let next = || self.context.poll_cq(cq).unwrap();
        std::iter::from_fn(next).collect()
    }

    pub fn sent(&mut self) -> Vec<WorkCompletion> {
        self.drain(self.send_cq)
    }

    pub fn received(&mut self) -> Vec<WorkCompletion> {
        self.drain(self.recv_cq)
    }

    /// Numbers and results of the sends that have completed.
    pub fn send_results(&mut self) -> Vec<(u64, WcStatus)> {
        let results = |wc: WorkCompletion| (wc.id, wc.status);
        self.sent().into_iter().map(results).collect()
    }

    pub fn receive_results(&mut self) -> Vec<(u64, WcStatus)> {
        let results = |wc: WorkCompletion| (wc.id, wc.status);
        self.received().into_iter().map(results).collect()
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.context.next_event()).collect()
    }

    /// Asynchronous events of the queue pair.
    pub fn qp_events(&mut self) -> Vec<EventType> {
        let own = self.qp;
        let events = self.events().into_iter();
        let kinds = events.filter_map(|event| match event {
            Event::Async(kind, Subject::Qp(number)) if number == own => Some(kind),
            _ => None,
        });
        kinds.collect()
    }
}

/// Two ends with connected queue pairs that can send.
pub fn pair(setup: &Setup) -> (End, End) {
    let (mut left, mut right) = apart(setup);
    for (end, peer) in [(&mut left, 2), (&mut right, 1)] {
        end.enter_rtr(setup, peer);
        end.enter_rts(setup);
    }
    settle(&mut left, &mut right);
    (left, right)
}

/// Two ends with a lane, and queue pairs in INIT.
pub fn apart(setup: &Setup) -> (End, End) {
    let (mut left, mut right) = (End::new(1, setup), End::new(2, setup));
    left.program.join(LANE, &mut right.program, LANE);
    for end in [&mut left, &mut right] {
        end.context.open_lane(LANE, end.pd).unwrap();
        end.enter_init(setup);
        end.context.attach(end.qp, LANE).unwrap();
    }
    (left, right)
}

/// Calls `progress` at both ends until neither has anything to do.
pub fn settle(left: &mut End, right: &mut End) {
    // Records sent in a quiet round are received in the next one.
    let mut quiet = 0;
    for _ in 0..10_000 {
        let busy = left.progress().is_busy | right.progress().is_busy;
        quiet = if busy { 0 } else { quiet + 1 };
        if quiet == 3 {
            return;
        }
    }
    panic!("no rest");
}

/// As [`settle`], before and after this time has passed.
pub fn wait(left: &mut End, right: &mut End, nanoseconds: u64) {
    settle(left, right);
    for end in [&mut *left, &mut *right] {
        end.now += nanoseconds;
    }
    settle(left, right);
}
