//! The records of a hostile peer of RDMA verbs: any on a lane of connections and on one of
//! datagrams, while the program posts, binds, takes back and polls. What is accepted means the same
//! when it is written again. Memory that no peer may write stays as it was; each request completes
//! once and in order; when all has gone, nothing is left.
#![no_main]

use std::collections::VecDeque;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use verbs_core::address::{AddressVector, Datagram, GlobalRoute, LanePeer};
use verbs_core::attributes::Attributes;
use verbs_core::context::{Context, Counts};
use verbs_core::demo::{BASE, Program};
use verbs_core::host::LaneId;
use verbs_core::keys::{Region, WindowType};
use verbs_core::record::{
    Ack, Address, Answer, AtomicCall, DatagramPiece, Fault, Grant, HEADER_BYTES, Marks, Piece,
    Ready, Record, Refusal,
};
use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::types::{Access, Atomic, AttributeMask as M, Opcode, QpState, QpType};
use verbs_core::work::{
    Bind, Capacity, QpInit, ReceiveRequest, Remote, Segment, SendRequest, WorkCompletion,
};
use verbs_core::{Destination, Event};

const LANES: [LaneId; 2] = [LaneId(0), LaneId(1)];
const PAGE: u64 = 4096;
/// Memory that no peer may write: a page that it may read, and one without a region.
const CANARY: u8 = 0xa5;
const QKEY: u32 = 9;
/// The queue pairs: reliable, with shared receives, unreliable, the halves of XRC, datagrams. Their
/// peers have the same numbers.
const KINDS: [QpType; 6] = [
    QpType::Rc,
    QpType::Rc,
    QpType::Uc,
    QpType::XrcSend,
    QpType::XrcRecv,
    QpType::Ud,
];
const SHARED: u32 = 2;
const UD: u32 = 6;

struct Victim {
    context: Context,
    program: Program,
    peer: Program,
    pd: Id,
    cqs: [Id; 2],
    srqs: [Id; 2],
    xrcd: Id,
    ah: Id,
    /// All may be done with the first, the second may be read, the third has windows.
    keys: [u32; 3],
    window: u32,
    /// Numbers of posted requests that have not completed, by queue pair.
    sends: [VecDeque<u64>; 7],
    receives: [VecDeque<u64>; 7],
    shared: Vec<u64>,
    number: u64,
    now: u64,
    lanes: usize,
}

fn path(kind: QpType) -> [M; 3] {
    let answers = M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
    let path = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    let retries = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
    let init = M::PKEY_INDEX | M::PORT;
    match kind {
        QpType::Ud => [init | M::QKEY, M::empty(), M::SQ_PSN],
        QpType::Uc => [init | M::ACCESS_FLAGS, path, M::SQ_PSN],
        QpType::Rc => [init | M::ACCESS_FLAGS, path | answers, M::SQ_PSN | retries],
        QpType::XrcSend => [init | M::ACCESS_FLAGS, path, M::SQ_PSN | retries],
        QpType::XrcRecv => [
            init | M::ACCESS_FLAGS,
            path | answers,
            M::SQ_PSN | M::TIMEOUT,
        ],
    }
}

impl Victim {
    fn new() -> Victim {
        let mut context = Context::new(0);
        let mut program = Program::new(4 * PAGE as usize);
        let mut peer = Program::new(1);
        program.store(BASE + PAGE, &[CANARY; 2 * PAGE as usize]);
        program.windows_left = 3;
        let pd = context.alloc_pd().unwrap();
        let cqs = [0; 2].map(|_| context.create_cq(4096).unwrap());
        let xrcd = context.open_xrcd().unwrap();
        let xrc = Xrc {
            domain: xrcd,
            cq: cqs[1],
        };
        let srqs = [
            context.create_srq(pd, 16, 2, 1).unwrap(),
            context.create_xrc_srq(pd, xrc, 16, 2, 1).unwrap(),
        ];
        let all = Access::REMOTE | Access::LOCAL_WRITE;
        let pages = [
            (0, all),
            (1, Access::REMOTE_READ),
            (3, all | Access::MW_BIND),
        ];
        let keys = pages.map(|(page, access)| {
            let start = BASE + page * PAGE;
            let region = Region {
                pd,
                start,
                length: PAGE,
                iova: start,
                access,
            };
            context.register(region).unwrap()
        });
        let window = context.alloc_mw(pd, WindowType::Two).unwrap();
        let vector = AddressVector {
            lid: 2,
            ..AddressVector::default()
        };
        let ah = context.create_ah(pd, vector).unwrap();
        for lane in LANES {
            program.join(lane, &mut peer, lane);
        }
        context.open_lane(LANES[0], pd).unwrap();
        context.open_datagram_lane(LANES[1]).unwrap();
        context.set_lane_peer(LANES[1], LanePeer::Relay).unwrap();
        let mut victim = Victim {
            context,
            program,
            peer,
            pd,
            cqs,
            srqs,
            xrcd,
            ah,
            keys,
            window,
            sends: Default::default(),
            receives: Default::default(),
            shared: Vec::new(),
            number: 1,
            now: 0,
            lanes: 2,
        };
        for (number, kind) in (1..).zip(KINDS) {
            victim.make(number, kind);
        }
        let to = Destination { lid: 2, qpn: UD };
        victim.context.route(to, Some(LANES[1])).unwrap();
        victim
    }

    fn make(&mut self, number: u32, kind: QpType) {
        let init = QpInit {
            kind,
            pd: self.pd,
            send_cq: self.cqs[0],
            recv_cq: self.cqs[1],
            srq: (number == SHARED).then_some(self.srqs[0]),
            xrcd: (kind == QpType::XrcRecv).then_some(self.xrcd),
            capacity: Capacity {
                send_wr: 8,
                recv_wr: 8,
                send_sge: 2,
                recv_sge: 2,
                inline: 64,
            },
            signal_all: true,
        };
        self.context.create_qp(number, init).unwrap();
        self.ready(number, kind);
    }

    /// Takes a queue pair from RESET to RTS.
    fn ready(&mut self, number: u32, kind: QpType) {
        let mut attributes = Attributes {
            access: Access::REMOTE,
            qkey: QKEY,
            path_mtu: 5,
            timeout: 10,
            retry_cnt: 1,
            rnr_retry: 3,
            min_rnr_timer: 1,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            dest_qpn: number,
            ..Attributes::default()
        };
        let states = [QpState::Init, QpState::Rtr, QpState::Rts];
        for (state, mask) in states.into_iter().zip(path(kind)) {
            attributes.state = state;
            let modified = self.context.modify_qp(number, &attributes, mask | M::STATE);
            modified.unwrap();
        }
        // Datagrams need no lane, and this one may have ended.
        let _gone = self.context.attach(number, LANES[0]);
    }

    fn segment(&self, input: &mut Unstructured<'_>) -> Result<Segment> {
        let key = match u8::arbitrary(input)? % 8 {
            0 => self.keys[1],
            1 => u32::arbitrary(input)?,
            _ => self.keys[0],
        };
        Ok(Segment {
            address: BASE + u64::from(u16::arbitrary(input)? % 4097),
            length: u32::from(u16::arbitrary(input)? % 4097),
            key,
        })
    }

    fn post_send(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let number = 1 + u32::from(u8::arbitrary(input)? % 6);
        let opcodes = [
            Opcode::Send,
            Opcode::SendWithImm,
            Opcode::SendWithInv,
            Opcode::RdmaWrite,
            Opcode::RdmaWriteWithImm,
            Opcode::RdmaRead,
            Opcode::AtomicFetchAndAdd,
            Opcode::BindMw,
            Opcode::LocalInv,
        ];
        let mut segment = self.segment(input)?;
        let opcode = *input.choose(&opcodes)?;
        if opcode.is_atomic() {
            segment.length = 8;
        }
        let key = self.window & !0xff | u32::from(u8::arbitrary(input)?);
        let request = SendRequest {
            immediate: key,
            remote: Remote {
                address: u64::from(u8::arbitrary(input)?) * 4,
                key: u32::from(u8::arbitrary(input)? % 4),
            },
            datagram: Datagram {
                ah: self.ah,
                qpn: UD,
                qkey: QKEY,
            },
            remote_srq: u32::from(u8::arbitrary(input)? % 3),
            bind: Some(Bind {
                window: self.window,
                key,
                region: self.keys[2],
                address: BASE + 3 * PAGE,
                length: u64::from(u16::arbitrary(input)? % 4097),
                access: Access::REMOTE_WRITE,
            }),
            ..SendRequest::new(self.number, opcode, vec![segment])
        };
        if self.context.post_send(number, request).is_ok() {
            self.sends[number as usize].push_back(self.number);
            self.number += 1;
        }
        Ok(())
    }

    fn post_receive(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let segments = vec![self.segment(input)?, self.segment(input)?];
        let id = self.number;
        let request = ReceiveRequest {
            id,
            segments: segments.into(),
        };
        let choice = u8::arbitrary(input)? % 5;
        let posted = match choice {
            0 | 1 => {
                let srq = self.srqs[usize::from(choice)];
                let posted = self.context.post_srq_recv(srq, request);
                posted.map(|()| self.shared.push(id))
            }
            _ => {
                let number = [1, 3, UD][usize::from(choice) - 2];
                let posted = self.context.post_recv(number, request);
                posted.map(|()| self.receives[number as usize].push_back(id))
            }
        };
        self.number += u64::from(posted.is_ok());
        Ok(())
    }

    fn progress(&mut self) {
        self.context.progress(&mut self.program, self.now);
        while let Some(event) = self.context.next_event() {
            self.lanes -= usize::from(matches!(event, Event::LaneOver(_)));
        }
        self.poll();
        let canaries = self.program.bytes(BASE + PAGE, 2 * PAGE as usize);
        assert!(canaries.iter().all(|byte| *byte == CANARY), "written");
        assert!(self.program.windows() <= 3);
    }

    fn poll(&mut self) {
        for cq in self.cqs {
            while let Some(wc) = self.context.poll_cq(cq).unwrap() {
                self.completed(&wc, cq == self.cqs[0]);
            }
        }
    }

    fn completed(&mut self, wc: &WorkCompletion, is_send: bool) {
        let own = match is_send {
            true => &mut self.sends,
            false => &mut self.receives,
        };
        if own[wc.qp as usize].front() == Some(&wc.id) {
            own[wc.qp as usize].pop_front();
            return;
        }
        let at = self.shared.iter().position(|id| *id == wc.id);
        assert!(!is_send, "{wc:?} out of order, or twice");
        self.shared.remove(at.expect("a receive that was posted"));
    }

    fn modify(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let number = 1 + u32::from(u8::arbitrary(input)? % 6);
        let state = *input.choose(&[QpState::Reset, QpState::Err, QpState::Sqd, QpState::Rts])?;
        let attributes = Attributes {
            state,
            ..Attributes::default()
        };
        // Completions of what is reset go with it.
        self.poll();
        let modified = self.context.modify_qp(number, &attributes, M::STATE);
        if modified.is_ok() && state == QpState::Reset {
            self.sends[number as usize].clear();
            self.receives[number as usize].clear();
            self.ready(number, KINDS[number as usize - 1]);
        }
        Ok(())
    }

    fn finish(mut self) {
        for lane in LANES {
            self.program.cut(lane);
        }
        for _ in 0..1000 {
            self.now += 100_000_000;
            self.progress();
        }
        assert_eq!(self.lanes, 0);
        for number in 1..=KINDS.len() as u32 {
            let view = self.context.query_qp(number).unwrap();
            self.poll();
            let left = [&self.sends, &self.receives].map(|own| own[number as usize].len());
            if view.state == QpState::Err {
                assert_eq!(
                    (view.queued, left),
                    ((0, 0), [0, 0]),
                    "{number}: not flushed"
                );
            }
            assert_eq!(view.queued.0, left[0], "{number}");
            self.context.destroy_qp(number).unwrap();
        }
        self.context.destroy_ah(self.ah).unwrap();
        let Victim {
            mut context,
            mut program,
            ..
        } = self;
        context.dealloc_mw(&mut program, self.window).unwrap();
        for key in self.keys {
            context.deregister(&mut program, key).unwrap();
        }
        for srq in self.srqs {
            context.destroy_srq(srq).unwrap();
        }
        for cq in self.cqs {
            context.destroy_cq(cq).unwrap();
        }
        context.close_xrcd(self.xrcd).unwrap();
        context.dealloc_pd(self.pd).unwrap();
        assert_eq!(context.counts(), Counts::default());
        assert_eq!(program.windows(), 0);
    }
}

/// A small number, or any.
fn small(input: &mut Unstructured<'_>) -> Result<u32> {
    match u8::arbitrary(input)? {
        255 => u32::arbitrary(input),
        254 => Ok(u32::MAX),
        byte => Ok(u32::from(byte) % 8),
    }
}

fn piece(input: &mut Unstructured<'_>, payload: u32) -> Result<Piece> {
    Ok(Piece {
        marks: Marks::from_bits_truncate(u8::arbitrary(input)?),
        number: small(input)?,
        total: payload.wrapping_add(small(input)?),
        immediate: small(input)?,
        srq: small(input)?,
        ack: match bool::arbitrary(input)? {
            true => Some(ack(input)?),
            false => None,
        },
        payload,
    })
}

fn ack(input: &mut Unstructured<'_>) -> Result<Ack> {
    Ok(Ack {
        taken: small(input)?,
        limit: small(input)?,
    })
}

fn record(input: &mut Unstructured<'_>, victim: &Victim) -> Result<Record> {
    let number = small(input)?;
    let address = Address {
        destination: number,
        source: number,
        generation: u32::from(u8::arbitrary(input)?),
    };
    let keys = [
        victim.keys[0],
        victim.keys[1],
        victim.keys[2],
        victim.window,
    ];
    let key = match u8::arbitrary(input)? % 6 {
        at @ 0..4 => keys[usize::from(at)] + u32::from(u8::arbitrary(input)? % 2),
        _ => small(input)?,
    };
    let payload = u32::from(u16::arbitrary(input)? % 2010);
    let faults = [Fault::Access, Fault::Request];
    Ok(match u8::arbitrary(input)? % 13 {
        0 => Record::Ready(
            address,
            Ready {
                generation: small(input)?,
                limit: small(input)?,
                is_shared: bool::arbitrary(input)?,
                wants_answer: bool::arbitrary(input)?,
                access: Access::REMOTE,
                rnr_timer: 1,
                reads: u8::arbitrary(input)?,
            },
        ),
        1 => Record::Gone(address, small(input)?),
        2 => Record::Message(address, piece(input, payload)?),
        3 => Record::Ack(address, ack(input)?),
        4 => {
            let refusals = [
                Refusal::NotReady,
                Refusal::TooLong,
                Refusal::Unusable,
                Refusal::NoQueue,
            ];
            Record::Refused(address, small(input)?, *input.choose(&refusals)?)
        }
        5 => Record::Error(address, *input.choose(&faults)?),
        6 => Record::Expose(key),
        7 => {
            let grant = Grant {
                start: u64::arbitrary(input)? % 4096,
                length: u64::from(u32::arbitrary(input)?),
                access: Access::REMOTE,
                qp: small(input)?,
                window: u64::from(small(input)?),
            };
            let answers = [Answer::Given(grant), Answer::Denied, Answer::NoResources];
            Record::Granted(small(input)?, *input.choose(&answers)?)
        }
        8 => Record::Revoke(small(input)?),
        9 => Record::Bye,
        10 => Record::Datagram(DatagramPiece {
            destination: if number == 7 { 0xff_ffff } else { UD },
            source: number,
            qkey: if u8::arbitrary(input)? == 0 { 0 } else { QKEY },
            slid: 3,
            service_level: 1,
            global: bool::arbitrary(input)?.then(GlobalRoute::default),
            marks: Marks::from_bits_truncate(u8::arbitrary(input)? % 16),
            total: payload + small(input)? % 3 * 1000,
            immediate: 0,
            payload,
        }),
        11 => Record::Atomic(
            address,
            AtomicCall {
                operation: Atomic::FetchAdd(1),
                address: BASE + u64::from(small(input)?) * 4,
                key,
            },
        ),
        _ => {
            let result = [Ok(u64::arbitrary(input)?), Err(Fault::Access)];
            Record::AtomicDone(address, *input.choose(&result)?)
        }
    })
}

/// A record and its payload arrive, or something like it.
fn inject(input: &mut Unstructured<'_>, victim: &mut Victim) -> Result<()> {
    let record = record(input, victim)?;
    let mut header = record.encode();
    if u8::arbitrary(input)? % 16 == 0 {
        header[usize::from(u8::arbitrary(input)?) % HEADER_BYTES] = u8::arbitrary(input)?;
    }
    let payload = match Record::decode(&header) {
        Ok(found) => {
            assert_eq!(Record::decode(&found.encode()), Ok(found));
            match found {
                Record::Message(_, piece) => piece.payload,
                Record::Datagram(piece) => piece.payload,
                _ => 0,
            }
        }
        Err(_) => 3,
    };
    let lane = LANES[usize::from(u8::arbitrary(input)? % 8 == 0)];
    victim.peer.inject(lane, &header);
    victim.peer.inject(lane, &vec![0x5a; payload as usize]);
    Ok(())
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let mut victim = Victim::new();
    let played = steps(input, &mut victim);
    victim.finish();
    played
}

fn steps(input: &mut Unstructured<'_>, victim: &mut Victim) -> Result<()> {
    while !input.is_empty() {
        match u8::arbitrary(input)? % 16 {
            0..6 => inject(input, victim)?,
            6..9 => victim.post_send(input)?,
            9..12 => victim.post_receive(input)?,
            12 => victim.modify(input)?,
            13 => victim.now += u64::from(u32::arbitrary(input)?),
            _ => victim.progress(),
        }
    }
    Ok(())
}

fuzz_target!(|input: &[u8]| {
    let _short = play(&mut Unstructured::new(input));
});
