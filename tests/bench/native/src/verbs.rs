//! RDMA verbs over a connection with both ends on one thread, for counting the instructions of
//! each call of `lib/verbs` (`verbs::engine`). The contexts have no daemon and no lock.

use ::verbs::engine::Engine;
use ::verbs::table::Id;
use ::verbs::{
    Access, Attributes, Capacity, QpInit, QpType, ReceiveRequest, Region, Segment, Segments,
    SendFlags, ShortData, ShortSend, WcStatus, WorkCompletion,
};
use hal::testing::host;
use libredox::Fd;
use scif::Endpoint;
use scif::raw::Range;
use scif_perf::report::Unit;
use scif_perf::timing;
use verbs_core::context::Taken;
use verbs_core::demo;
use verbs_core::host::{Host, Place};
use verbs_core::types::Error;

use crate::client::{ENDPOINT, System};
use crate::memory::Node;
use crate::{Failure, Settings, Test};

/// Bytes in a message.
const MESSAGE: usize = 64;
/// Number of receives that are posted. Message `n` arrives in place `n` of the memory; the data to
/// send lies behind all places.
const RECEIVES: usize = 64;
const BYTES: usize = (RECEIVES + 1) * MESSAGE;
/// Number of polls after each message, as in a program that polls.
const LOOKS: u32 = 20;
/// Number of messages of which one asks for a completion.
const BATCH: u64 = 16;

/// A program with one queue pair.
struct End {
    engine: Engine,
    system: System,
    cq: Id,
    qp: u32,
    key: u32,
    start: u64,
}

/// Both ends of a connection.
pub struct Pair {
    ends: [End; 2],
    /// The nodes whose memory holds the rings.
    _nodes: [Node; 2],
}

fn failed(error: Error) -> Failure {
    format!("verbs: {error:?}").into()
}

impl End {
    fn new(qp: u32, node: &mut Node, other: &Node) -> Result<Self, Failure> {
        let mut engine = Engine::new(node.peer, qp);
        let core = &mut engine.core;
        let pd = core.alloc_pd().map_err(failed)?;
        let cq = core.create_cq(256).map_err(failed)?;
        let memory = Range::of(vec![0; BYTES].leak());
        let start = memory.address() as u64;
        let region = Region {
            pd,
            start,
            length: BYTES as u64,
            iova: start,
            access: Access::LOCAL_WRITE,
        };
        let key = core.register(region).map_err(failed)?;
        let init = QpInit {
            kind: QpType::Rc,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            capacity: Capacity::default(),
            signal_all: false,
        };
        core.create_qp(qp, init).map_err(failed)?;
        engine
            .lanes
            .memory
            .insert(key, start as usize, memory.into());
        let system = System::new(node, other)?;
        let mut end = Self {
            engine,
            system,
            cq,
            qp,
            key,
            start,
        };
        end.connect(pd)?;
        Ok(end)
    }

    fn connect(&mut self, pd: Id) -> Result<(), Failure> {
        let system = self.system;
        let endpoint = || Endpoint::from_file(Fd::new(ENDPOINT));
        let engine = &mut self.engine;
        let lane = within(system, || engine.add_lane(endpoint(), pd)).map_err(failed)?;
        let mut attributes = Attributes {
            dest_qpn: 3 - self.qp,
            ..demo::attributes()
        };
        for (state, mask) in demo::ways(QpType::Rc) {
            attributes.state = state;
            let core = &mut self.engine.core;
            let modified = core.modify_qp(self.qp, &attributes, mask);
            modified.map_err(failed)?;
        }
        self.engine.core.attach(self.qp, lane).map_err(failed)?;
        (0..RECEIVES as u64).try_for_each(|number| self.post_recv(number))
    }

    fn segment(&self, place: usize) -> Segment {
        Segment {
            address: self.start + (place * MESSAGE) as u64,
            length: MESSAGE as u32,
            key: self.key,
        }
    }

    fn place(&self, place: usize) -> Place {
        let Segment {
            key,
            address,
            length,
        } = self.segment(place);
        let length = length as usize;
        Place {
            key,
            address,
            length,
        }
    }

    fn turn(&mut self) {
        self.engine.turn(0);
        while self.engine.next_event().is_some() {}
    }

    #[inline(never)]
    fn post_send(&mut self, number: u64) -> Result<(), Failure> {
        let data = ShortData::Segment(self.segment(RECEIVES));
        let mut send = ShortSend::message(number, data);
        if !number.is_multiple_of(BATCH) {
            send.flags = SendFlags::empty();
        }
        match self.engine.post_short(self.qp, &send) {
            Ok(false) => Ok(()),
            Ok(true) => Err("a send has to wait".into()),
            Err(error) => Err(failed(error)),
        }
    }

    #[inline(never)]
    fn post_recv(&mut self, number: u64) -> Result<(), Failure> {
        let request = ReceiveRequest {
            id: number,
            segments: Segments::One(self.segment(number as usize % RECEIVES)),
        };
        let left = self.engine.post_recv(self.qp, request);
        left.map(drop).map_err(failed)
    }

    /// Polls as a program does: takes a completion that is there, or one that a turn produces.
    #[inline(never)]
    fn poll(&mut self) -> Result<Option<WorkCompletion>, Failure> {
        if let Some(found) = self.engine.core.poll_cq(self.cq).map_err(failed)? {
            return Ok(Some(found));
        }
        match self.engine.take_messages() {
            Taken::Nothing => return Ok(None),
            Taken::All => {}
            Taken::More => self.turn(),
        }
        self.engine.core.poll_cq(self.cq).map_err(failed)
    }

    /// Polls when there is nothing, or only the completion of a send.
    #[inline(never)]
    fn look(&mut self) -> Result<Option<WorkCompletion>, Failure> {
        let found = self.poll()?;
        Ok(found.filter(|found| found.opcode == ::verbs::WcOpcode::Recv))
    }

    /// Takes a message, and posts its receive again.
    fn take(&mut self) -> Result<usize, Failure> {
        loop {
            let Some(found) = self.poll()? else {
                return Err("a message is not there".into());
            };
            if found.status != WcStatus::Success {
                return Err(format!("a request ends {:?}", found.status).into());
            }
            if found.opcode == ::verbs::WcOpcode::Recv {
                self.post_recv(found.id)?;
                return Ok(found.id as usize);
            }
        }
    }
}

impl Pair {
    /// Opens both ends.
    pub fn start(mut nodes: [Node; 2]) -> Result<Self, Failure> {
        let [first, second] = &mut nodes;
        let mut ends = [End::new(1, first, second)?, End::new(2, second, first)?];
        // Let each end learn of the other one.
        for _ in 0..4 {
            for end in &mut ends {
                within(end.system, || end.turn());
            }
        }
        Ok(Self {
            ends,
            _nodes: nodes,
        })
    }

    /// Returns the test of a message and one back, with polls that find nothing after each.
    pub fn alone(&mut self, name: &str) -> Test<'_> {
        let run = move |settings: &Settings| {
            let [client, server] = &mut self.ends;
            let (rate, budget) = (settings.rate, settings.budget_ns);
            let mut number = 0;
            within(client.system, || {
                timing::durations(rate, budget, || {
                    number += 1;
                    one_way(client, server, number)?;
                    one_way(server, client, number)
                })
            })
        };
        Test::new(name, MESSAGE, Unit::Nanoseconds, run)
    }
}

fn one_way(from: &mut End, to: &mut End, number: u64) -> Result<(), Failure> {
    let bytes = [number as u8; MESSAGE];
    let place = from.place(RECEIVES);
    from.engine
        .lanes
        .write(place, &bytes)
        .map_err(|_| "memory is missing")?;
    from.post_send(number)?;
    let place = to.take()?;
    let mut there = [0; MESSAGE];
    let place = to.place(place);
    let read = to.engine.lanes.read(place, &mut there);
    read.map_err(|_| "memory is missing")?;
    if there != bytes {
        return Err("wrong bytes arrived".into());
    }
    (0..LOOKS).try_for_each(|_| match from.look()? {
        None => Ok(()),
        Some(_) => Err("more arrived than was sent".into()),
    })
}

/// Runs `work` with answers to its system calls, of which there are some at the beginning only.
#[inline]
fn within<T>(system: System, work: impl FnOnce() -> T) -> T {
    host::play(move |request| system.answer(request), work)
}
