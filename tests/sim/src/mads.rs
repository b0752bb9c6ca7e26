//! Worlds of management datagrams: nodes of `mad-core`, and programs that send each other messages
//! of 1 byte to 1 MiB, with answers as long, over a wire that loses, doubles and reorders
//! datagrams.
//!
//! For some programs the ports segment messages; others segment their messages themselves
//! (`by_hand`). Programs are killed with their agents and start again. Nodes leave with all their
//! programs and come back.
//!
//! The checks: a request arrives at most once, with its bytes. A program reads one outcome of each
//! request: the answer with its bytes, a refusal by a node without the server, or a timeout. It
//! reads none only if STOP or ABORT ended a message. Over a good wire and without faults, each
//! request is answered. At the end no agent, send or message is left.

mod by_hand;
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mad_core::demo::{MS, server, to};
use mad_core::frame::FRAME_BYTES;
use mad_core::mad::{Mad, OPENIB_OUI, RMPP_HEADER_BYTES, method};
use mad_core::node::Node;
use mad_core::rmpp::flag;
use verbs_abi::mad::{RegisterAgent2, USER_RMPP, UserMad, request};
use zerocopy::{FromBytes, IntoBytes};

use self::by_hand::ByHand;
use crate::faults::{Fault, Faults};
use crate::rng::Rng;
use crate::trace::{Failure, Trace, play};

/// The class of all messages: one of the vendor classes.
const CLASS: u8 = 0x33;
/// Bytes of headers in front of the data.
const HEADERS: usize = RMPP_HEADER_BYTES + 4;
/// The length of most messages at most, and the length of any message at most, in bytes of data.
const USUAL: u64 = 3000;
const LONGEST: u64 = 1 << 20;
/// Most requests in progress.
const CALLS: usize = 12;
/// The timeout of a request in milliseconds, and the number of retries.
const TIMEOUT_MS: u32 = 10_000;
const RETRIES: u32 = 3;
/// Time in nanoseconds after which all requests must have ended.
const LIMIT: u64 = 600_000 * MS;

/// A bug planted in the wire, in a program or around the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A byte of a datagram changes on the wire.
    BytesChange,
    /// A program acknowledges segments that have not arrived.
    HastyAcks,
    /// The agents of a killed program stay.
    AgentsStay,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct MadReport {
    /// Steps taken.
    pub steps: u64,
    /// The faults that the simulator caused.
    pub faults: Faults,
    /// Number of requests sent.
    pub asked: u64,
    /// Number of requests answered.
    pub answered: u64,
    /// Number of requests that timed out, or were refused because no program was there.
    pub failed: u64,
    /// Number of requests that STOP or ABORT ended without an outcome.
    pub ended: u64,
    /// Number of bytes in requests and answers that arrived.
    pub bytes: u64,
    /// Number of requests whose data or answer is longer than 64 KiB.
    pub long: u64,
}

impl MadReport {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &MadReport) {
        self.steps += other.steps;
        self.faults.add(&other.faults);
        self.asked += other.asked;
        self.answered += other.answered;
        self.failed += other.failed;
        self.ended += other.ended;
        self.bytes += other.bytes;
        self.long += other.long;
    }
}

/// The parameters of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct MadSettings {
    /// Number of steps.
    pub steps: u64,
    /// Whether the wire loses nothing and no program is killed.
    pub is_calm: bool,
    /// A planted bug, if any.
    pub bug: Option<Bug>,
}

/// A message as a program reads it.
pub struct Received {
    /// The port that the message comes from.
    pub lid: u16,
    /// Whether the message is a send of this program that timed out.
    has_timed_out: bool,
    /// All headers and the data.
    pub message: Vec<u8>,
}

/// A program: a server and a client in one.
struct Program {
    node: usize,
    /// The number of the program's open file on its node.
    descriptor: u64,
    /// The number of the world's last request when the program started.
    first: u32,
    by_hand: Option<ByHand>,
}

/// A request that has no outcome yet.
struct Call {
    client: usize,
    /// The number of the client's open file. A program that starts again has another one.
    descriptor: u64,
    asked: usize,
    answer: usize,
    /// How often the request has arrived at a server.
    arrived: u32,
}

struct World {
    rng: Rng,
    trace: Trace,
    settings: MadSettings,
    nodes: Vec<Option<Node>>,
    programs: Vec<Option<Program>>,
    wire: VecDeque<(usize, usize, [u8; FRAME_BYTES])>,
    calls: BTreeMap<u32, Call>,
    /// The transactions in which STOP or ABORT ended a message.
    ended: BTreeSet<u32>,
    last: u32,
    now: u64,
    is_good: bool,
    report: MadReport,
}

/// Plays a world.
///
/// # Errors The first rule that was broken.
pub fn run(seed: u64, settings: MadSettings) -> Result<MadReport, Failure> {
    let world = match settings.is_calm {
        true => "management datagrams, calm",
        false => "management datagrams",
    };
    play(world, seed, |trace| {
        let mut world = World::new(seed, settings, trace);
        world.play()
    })
}

/// Makes a message: a request, or the answer to one.
fn message(method: u8, tid: u64, data: usize) -> Vec<u8> {
    let mut mad = Mad::padded(&[1, CLASS, 1, method]);
    mad.header.tid = tid.into();
    let mut bytes = mad.bytes()[..HEADERS].to_vec();
    (bytes[24], bytes[26]) = (1, flag::ACTIVE);
    bytes[HEADERS - 3..].copy_from_slice(&OPENIB_OUI);
    let salt = tid as u32 as usize * 31 + usize::from(method);
    bytes.extend((0..data).map(|at| ((at + salt) * 7 % 251) as u8));
    bytes
}

impl World {
    fn new(seed: u64, settings: MadSettings, trace: &Trace) -> World {
        let mut rng = Rng::new(seed);
        let count = 2 + rng.below(3) as usize;
        let mut world = World {
            rng,
            trace: trace.clone(),
            settings,
            nodes: (0..count).map(|_| None).collect(),
            programs: (0..count * 2).map(|_| None).collect(),
            wire: VecDeque::new(),
            calls: BTreeMap::new(),
            ended: BTreeSet::new(),
            last: 0,
            now: 0,
            is_good: settings.is_calm,
            report: MadReport::default(),
        };
        for node in 0..count {
            world.node_comes(node);
        }
        for program in 0..world.programs.len() {
            world.begin(program);
        }
        world
    }

    fn play(&mut self) -> Result<MadReport, String> {
        for step in 0..self.settings.steps {
            self.trace.begin(step);
            self.step()?;
        }
        self.report.steps = self.settings.steps;
        self.finish()?;
        Ok(self.report)
    }

    fn step(&mut self) -> Result<(), String> {
        if !self.settings.is_calm {
            self.cause_faults();
        }
        if self.calls.len() < CALLS && self.rng.one_in(3) {
            self.call()?;
        }
        let frames = self.rng.below(96);
        self.carry(frames)?;
        let time = self.rng.below(40) * MS;
        self.pass(time)
    }

    // ---- Nodes and programs ----

    fn node_comes(&mut self, at: usize) {
        let mut node = Node::new(at as u16);
        node.set_up(true, self.now);
        let there = self.nodes.iter().enumerate();
        let there: Vec<usize> = there
            .filter(|(_, of)| of.is_some())
            .map(|(at, _)| at)
            .collect();
        for other in there {
            node.set_online(other as u16, true, self.now);
            if let Some(other) = &mut self.nodes[other] {
                other.set_online(at as u16, true, self.now);
            }
        }
        self.nodes[at] = Some(node);
    }

    fn node_goes(&mut self, at: usize) {
        self.trace.note(|| format!("node {at} goes"));
        self.nodes[at] = None;
        self.wire.retain(|(from, to, _)| *from != at && *to != at);
        for node in self.nodes.iter_mut().flatten() {
            node.set_online(at as u16, false, self.now);
        }
        for program in 0..self.programs.len() {
            if self.programs[program]
                .as_ref()
                .is_some_and(|of| of.node == at)
            {
                self.programs[program] = None;
                self.forget_calls(program);
            }
        }
    }

    /// Forgets the requests of a client that is gone.
    fn forget_calls(&mut self, client: usize) {
        self.calls.retain(|_, call| call.client != client);
    }

    /// Starts a program that opens the file, if its node is there. The first program of a node is
    /// a server, too.
    fn begin(&mut self, at: usize) {
        let (node, is_server) = (at / 2, at.is_multiple_of(2));
        let by_hand = self.rng.one_in(3);
        let Some(of) = &mut self.nodes[node] else {
            return;
        };
        let descriptor = of.open();
        let asked = RegisterAgent2 {
            flags: if by_hand { USER_RMPP } else { 0 },
            method_mask: [if is_server { 1 << method::GET } else { 0 }, 0],
            ..server(CLASS)
        };
        let mut payload = asked.as_bytes().to_vec();
        let registered = of.control(descriptor, request::REGISTER_AGENT2, &mut payload);
        // Registering fails only if a bug has left the methods with an agent that no program has
        // any more.
        if registered.is_err() {
            of.close(descriptor);
            return;
        }
        self.trace
            .note(|| format!("program {at} begins, segments by hand: {by_hand}"));
        let is_hasty = self.settings.bug == Some(Bug::HastyAcks);
        self.programs[at] = Some(Program {
            node,
            descriptor,
            first: self.last,
            by_hand: by_hand.then(|| ByHand::new(is_hasty)),
        });
    }

    fn kill(&mut self, at: usize) {
        let Some(program) = self.programs[at].take() else {
            return;
        };
        self.trace.note(|| format!("program {at} is killed"));
        self.forget_calls(at);
        if self.settings.bug != Some(Bug::AgentsStay)
            && let Some(node) = &mut self.nodes[program.node]
        {
            node.close(program.descriptor);
        }
    }

    fn cause_faults(&mut self) {
        if self.rng.one_in(150) {
            let at = self.rng.below(self.programs.len() as u64) as usize;
            if self.programs[at].is_some() {
                self.report.faults.note(Fault::ProcessKilled);
            }
            self.kill(at);
        }
        if self.rng.one_in(500) {
            let at = self.rng.below(self.nodes.len() as u64) as usize;
            if self.nodes[at].is_some() {
                self.report.faults.note(Fault::NodeKilled);
                self.node_goes(at);
            }
        }
        if self.rng.one_in(60) {
            let at = self.rng.below(self.nodes.len() as u64) as usize;
            if self.nodes[at].is_none() {
                self.node_comes(at);
            }
        }
        if self.rng.one_in(30) {
            let at = self.rng.below(self.programs.len() as u64) as usize;
            if self.programs[at].is_none() {
                self.begin(at);
            }
        }
    }

    // ---- Messages ----

    /// Chooses a length of at least 1 byte: mostly some segments, sometimes up to the longest.
    fn length(&mut self) -> usize {
        let most = if self.rng.one_in(40) { LONGEST } else { USUAL };
        1 + self.rng.size(most - 1) as usize
    }

    /// Makes a program send a request to a server.
    fn call(&mut self) -> Result<(), String> {
        let client = self.rng.below(self.programs.len() as u64) as usize;
        let lid = 1 + self.rng.below(self.nodes.len() as u64) as u16;
        let (asked, answer) = (self.length(), self.length());
        let Some(program) = &self.programs[client] else {
            return Ok(());
        };
        self.last += 1;
        let (number, descriptor) = (self.last, program.descriptor);
        self.trace
            .note(|| format!("{client} asks port {lid}: {number}, {asked} and {answer} bytes"));
        let call = Call {
            client,
            descriptor,
            asked,
            answer,
            arrived: 0,
        };
        self.calls.insert(number, call);
        self.report.asked += 1;
        self.report.long += u64::from(asked.max(answer) > 64 << 10);
        self.send(
            client,
            lid,
            message(method::GET, number.into(), asked),
            TIMEOUT_MS,
        )
    }

    fn send(
        &mut self,
        from: usize,
        lid: u16,
        message: Vec<u8>,
        timeout: u32,
    ) -> Result<(), String> {
        let now = self.now;
        let Some(program) = &mut self.programs[from] else {
            return Ok(());
        };
        match &mut program.by_hand {
            Some(by_hand) => {
                by_hand.send(lid, message, now);
                self.write_by_hand(from)
            }
            None => self.write(from, lid, &message, timeout),
        }
    }

    fn write(&mut self, from: usize, lid: u16, message: &[u8], timeout: u32) -> Result<(), String> {
        let Some(program) = &self.programs[from] else {
            return Ok(());
        };
        let header = UserMad {
            timeout_ms: timeout,
            retries: RETRIES,
            ..to(lid, 1)
        };
        let bytes = [header.as_bytes(), message].concat();
        let (node, descriptor) = (program.node, program.descriptor);
        let Some(node) = &mut self.nodes[node] else {
            return Ok(());
        };
        match node.write(descriptor, &bytes, self.now) {
            Ok(written) if written == bytes.len() => Ok(()),
            other => Err(format!(
                "program {from} writes {} bytes: {other:?}",
                bytes.len()
            )),
        }
    }

    fn write_by_hand(&mut self, from: usize) -> Result<(), String> {
        loop {
            let program = self.programs[from].as_mut();
            let by_hand = program.and_then(|program| program.by_hand.as_mut());
            let Some((lid, mad)) = by_hand.and_then(|by_hand| by_hand.outbox.pop_front()) else {
                return Ok(());
            };
            self.write(from, lid, mad.bytes(), 0)?;
        }
    }

    /// Lets all programs read everything that is there.
    fn read_all(&mut self) -> Result<(), String> {
        for at in 0..self.programs.len() {
            while let Some(got) = self.read(at)? {
                self.take(at, got)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, at: usize) -> Result<Option<Received>, String> {
        let Some(program) = &self.programs[at] else {
            return Ok(None);
        };
        let Some(node) = &mut self.nodes[program.node] else {
            return Ok(None);
        };
        let waiting = node
            .descriptor(program.descriptor)
            .map_or(0, |of| of.waiting());
        if waiting == 0 {
            return Ok(None);
        }
        let mut buffer = vec![0; size_of::<UserMad>() + waiting.min(5000) * 256];
        let read = node.read(program.descriptor, &mut buffer);
        let length = read.map_err(|error| format!("program {at} reads: {error:?}"))?;
        let (header, message) = UserMad::read_from_prefix(&buffer[..length])
            .map_err(|_| format!("program {at} reads {length} bytes"))?;
        Ok(Some(Received {
            lid: u16::from_be_bytes(header.lid),
            has_timed_out: header.status != 0,
            message: message.to_vec(),
        }))
    }

    /// Handles a message that a program has read.
    fn take(&mut self, at: usize, got: Received) -> Result<(), String> {
        let now = self.now;
        let lid = got.lid;
        let program = self.programs[at].as_mut();
        let by_hand = program.and_then(|program| program.by_hand.as_mut());
        let (has_timed_out, message) = match by_hand {
            Some(by_hand) => {
                let whole = by_hand.take(&got, now);
                self.write_by_hand(at)?;
                let Some(whole) = whole else { return Ok(()) };
                (false, whole)
            }
            None => (got.has_timed_out, got.message),
        };
        let header = Mad::padded(&message).header;
        match header.is_response() || has_timed_out {
            true => self.take_outcome(at, has_timed_out, &message),
            false => self.take_request(at, lid, &message),
        }
    }

    /// Handles a request that arrived at a server, or an unanswered send of its own.
    fn take_request(&mut self, at: usize, lid: u16, got: &[u8]) -> Result<(), String> {
        let tid = Mad::padded(got).header.tid.get();
        let number = tid as u32;
        self.trace
            .note(|| format!("server {at} reads request {number}"));
        // The client may have been killed meanwhile.
        let Some(call) = self.calls.get_mut(&number) else {
            return Ok(());
        };
        if got[HEADERS..] != message(method::GET, number.into(), call.asked)[HEADERS..] {
            return Err(format!("request {number} has arrived with other bytes"));
        }
        call.arrived += 1;
        // The server may have started again after the first arrival.
        if call.arrived > 1 && self.is_good {
            return Err(format!(
                "request {number} has arrived {} times",
                call.arrived
            ));
        }
        self.report.bytes += call.asked as u64;
        let answer = message(method::GET_RESPONSE, tid, call.answer);
        self.send(at, lid, answer, 0)
    }

    /// Handles the outcome of a request.
    fn take_outcome(&mut self, at: usize, timed_out: bool, got: &[u8]) -> Result<(), String> {
        let header = Mad::padded(got).header;
        let number = header.tid.get() as u32;
        let own = self.programs[at].as_ref().map(|program| program.descriptor);
        let status = header.status.get();
        self.trace.note(|| {
            format!("program {at} reads of {number}: status {status}, time is over: {timed_out}")
        });
        if timed_out && header.is_response() {
            // This is an answer of this program that its client did not take.
            return Ok(());
        }
        // A node that comes back numbers its agents from the start. So an answer may arrive at a
        // program with USER_RMPP instead of the one that sent the request. The same happens on
        // Linux.
        let is_former = |program: &Program| program.by_hand.is_some() && number <= program.first;
        if self.programs[at].as_ref().is_some_and(is_former) {
            return Ok(());
        }
        let Some(call) = self.calls.remove(&number) else {
            return Err(format!("program {at} reads a second outcome of {number}"));
        };
        if (call.client, Some(call.descriptor)) != (at, own) {
            return Err(format!(
                "program {at} reads the outcome of another one's {number}"
            ));
        }
        if timed_out || status != 0 {
            if self.settings.is_calm {
                return Err(format!("request {number} failed over a good wire"));
            }
            self.report.failed += 1;
            return Ok(());
        }
        let answer = message(method::GET_RESPONSE, number.into(), call.answer);
        if got[HEADERS..] != answer[HEADERS..] {
            return Err(format!("the answer to {number} has other bytes"));
        }
        self.report.bytes += call.answer as u64;
        self.report.answered += 1;
        Ok(())
    }
}
