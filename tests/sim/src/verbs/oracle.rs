//! The oracle: the results that a world expects of a pair of queue pairs, and the requests that
//! their programs post.

use std::collections::VecDeque;

use verbs_core::table::Id;
use verbs_core::types::{Error, Opcode, QpType, SendFlags, WcFlags, WcOpcode, WcStatus};
use verbs_core::work::{Data, Remote, Segment, SendRequest, WorkCompletion};

use super::program::{Program, data};
use super::windows::Window;
use super::{QUEUE, World};

/// Number of parts of a target. Writes go to them in turn.
pub const PARTS: u64 = 4;
/// Bytes in a part.
pub const PART: u64 = 1024;

/// The effect of a posted send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// A message arrives.
    Message,
    /// Data is written.
    Write,
    /// The constant page is read from this byte on.
    Read(u64),
    /// The counter grows by 1.
    Add,
    /// The end's own memory window gets this key, or none.
    Bind(u32),
    Unbind(u32),
    /// The key of the end's own memory window becomes invalid.
    Invalidate,
}

/// A send that was posted and has not completed.
pub struct Posted {
    pub id: u64,
    pub does: Does,
    pub length: u64,
    pub is_signaled: bool,
    /// Whether the request cannot succeed.
    pub is_bad: bool,
    /// Whether the request reaches the peer's memory by a memory window.
    pub uses_window: bool,
    /// The key of the peer's window that the request invalidates.
    pub invalidates: Option<u32>,
    pub slot: u64,
}

/// A receive that was posted and has not completed.
pub struct Receive {
    pub id: u64,
    pub slot: u64,
}

/// A message that must arrive.
struct Message {
    id: u64,
    length: u64,
    has_immediate: bool,
    invalidates: Option<u32>,
    is_write: bool,
    /// The writes before it since the last message: the part, the number and the length of each.
    written: Vec<(u64, u64, u64)>,
}

/// One end of a pair.
pub struct Half {
    pub program: usize,
    pub number: u32,
    /// The shared queue from which the end's receives come.
    pub shared: Option<Id>,
    /// The slot that the peer writes to.
    pub target: Option<u64>,
    /// A memory window for the peer on a part of that slot.
    pub window: Option<Window>,
    pub sends: VecDeque<Posted>,
    pub receives: VecDeque<Receive>,
    /// The messages that the peer must receive.
    outgoing: VecDeque<Message>,
    has_failed: bool,
    receive_has_failed: bool,
    /// The writes so far: the number of the last one to each part.
    written: [u64; PARTS as usize],
    writes: u64,
    /// The writes since the last message: the part, the number and the length of each.
    fresh: Vec<(u64, u64, u64)>,
    /// Number of atomic operations posted, and of those that succeeded.
    adds: [u64; 2],
}

impl Half {
    /// Makes the state of a new queue pair.
    pub fn new(program: usize, number: u32) -> Half {
        Half {
            program,
            number,
            shared: None,
            target: None,
            window: None,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            outgoing: VecDeque::new(),
            has_failed: false,
            receive_has_failed: false,
            written: [0; PARTS as usize],
            writes: 0,
            fresh: Vec::new(),
            adds: [0; 2],
        }
    }

    /// Returns whether a send that must complete has not completed.
    pub fn has_signaled(&self) -> bool {
        self.sends.iter().any(|send| send.is_signaled)
    }
}

/// Two connected queue pairs.
pub struct Pair {
    /// The type of the first queue pair.
    pub kind: QpType,
    pub link: usize,
    pub arena: usize,
    pub halves: [Half; 2],
    /// Whether both ends keep to the rules.
    pub is_strict: bool,
    /// Whether something happened for which requests may fail.
    pub is_troubled: bool,
    /// Whether the lane has not ended.
    pub is_open: bool,
}

impl Pair {
    /// Returns the type of a queue pair.
    pub fn kind_of(&self, side: usize) -> QpType {
        match (self.kind, side) {
            (QpType::XrcSend, 1) => QpType::XrcRecv,
            (kind, _) => kind,
        }
    }

    /// Returns whether messages must arrive once and in order.
    fn is_reliable(&self) -> bool {
        self.kind != QpType::Uc
    }

    /// Checks that atomic operations have been done once each if they succeeded, and at most once
    /// otherwise.
    pub fn check_counters(&self, programs: &[Option<Program>]) -> Result<(), String> {
        for side in 0..2 {
            let peer = &self.halves[1 - side];
            let (Some(program), Some(target)) = (&programs[peer.program], peer.target) else {
                continue;
            };
            let [posted, done] = self.halves[side].adds;
            let count = program.word(target + 4096);
            if self.is_strict && (count < done || count > posted) {
                return Err(format!("{done} to {posted} additions have made {count}"));
            }
        }
        Ok(())
    }
}

impl World {
    pub(super) fn post_send(&mut self, at: usize, side: usize) -> Result<(), String> {
        let pair = &self.pairs[at];
        let (arena, kind) = (pair.arena, pair.kind_of(side));
        if kind == QpType::XrcRecv {
            return Ok(());
        }
        let is_reliable = pair.is_reliable();
        let (half, peer) = (&pair.halves[side], &pair.halves[1 - side]);
        let target = peer.target;
        let window = peer.window.clone();
        let remote_srq = peer.shared;
        let peers_keys = self.programs[peer.program].as_ref().map(|peer| {
            let arena = &peer.arenas[arena];
            (
                arena.all,
                arena.constant,
                arena.constant_start(),
                arena.local,
            )
        });
        let (Some((all, constant, constant_start, local)), Some(target)) = (peers_keys, target)
        else {
            return Ok(());
        };
        let (program, number) = (half.program, half.number);
        let id = self.number;
        let rng = &mut self.rng;
        let Some(program) = &mut self.programs[program] else {
            return Ok(());
        };
        let mut own = program.arenas[arena].all;
        let Some(slot) = program.arenas[arena].take() else {
            return Ok(());
        };
        self.number += 1;
        let part = half.writes % PARTS;
        let (mut opcode, does, mut length) = match rng.below(10) {
            0 | 1 => (Opcode::RdmaWrite, Does::Write, 8 + rng.size(PART - 8)),
            2 => (Opcode::RdmaWriteWithImm, Does::Message, rng.size(PART)),
            3 if is_reliable => (
                Opcode::RdmaRead,
                Does::Read(rng.below(2000)),
                1 + rng.size(2000),
            ),
            4 if is_reliable => (Opcode::AtomicFetchAndAdd, Does::Add, 8),
            5 => (Opcode::SendWithImm, Does::Message, 8 + rng.size(6000)),
            _ => (Opcode::Send, Does::Message, 8 + rng.size(6000)),
        };
        let mut remote = Remote {
            address: target + part * PART,
            key: all,
        };
        match does {
            Does::Read(from) => {
                remote = Remote {
                    address: constant_start + from,
                    key: constant,
                }
            }
            Does::Add => remote.address = target + 4096,
            _ => {}
        }
        if opcode == Opcode::RdmaWriteWithImm {
            // Nothing checks this data.
            remote.address = target + 5000;
        }
        let mut srq = remote_srq.map_or(0, |srq| srq.0);
        let usable = window.as_ref().filter(|window| window.is_bound);
        let (mut uses_window, mut invalidates) = (false, None);
        if let Some(window) = usable.filter(|_| does == Does::Write && rng.one_in(2)) {
            uses_window = true;
            remote = window.place(remote.address, target);
        }
        if let Some(window) = usable.filter(|window| window.is_two() && !uses_window)
            && opcode == Opcode::Send
            && rng.one_in(4)
        {
            (opcode, invalidates) = (Opcode::SendWithInv, Some(window.key));
        }
        // Mistakes: a bad key of the end's own memory, or of the peer's.
        let mut is_bad = false;
        let one_sided = !matches!(
            opcode,
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv
        );
        match rng.below(120) {
            0 => (own, is_bad) = (own ^ 1, length > 0),
            1 if one_sided => (remote.key, is_bad) = (local, length > 0),
            2 if one_sided => (remote.key, is_bad) = (remote.key ^ 1, length > 0),
            3 if one_sided => {
                (remote.address, is_bad) = (remote.address.wrapping_sub(1 << 24), length > 0)
            }
            4 if does == Does::Add => (remote.address, is_bad) = (remote.address + 4, true),
            5 if does == Does::Message && one_sided => (length, opcode) = (0, Opcode::SendWithImm),
            6..=9 if kind == QpType::XrcSend && does == Does::Message => {
                // A queue of another kind, or none.
                let wrong = program.srq.0 ^ u32::from(rng.one_in(2)) << 20;
                (srq, is_bad) = (wrong, true);
            }
            mistake @ 10..=15 if one_sided => {
                let is_beyond = mistake < 13;
                if let Some((wrong, key)) = window
                    .as_ref()
                    .and_then(|of| of.misuse(does, target, is_beyond))
                {
                    (remote, is_bad, uses_window) = (wrong, length > 0, key);
                }
            }
            _ => {}
        }
        let is_local = own != program.arenas[arena].all;
        let reaches_error = is_bad && (is_reliable || is_local);
        if matches!(does, Does::Message | Does::Write) {
            program.fill(slot, id, length);
        }
        let is_signaled = !rng.one_in(3);
        let mut request = SendRequest::new(id, opcode, Vec::new());
        request.flags.set(SendFlags::SIGNALED, is_signaled);
        request.remote = remote;
        request.immediate = invalidates.unwrap_or(id as u32);
        request.compare_add = 1;
        request.remote_srq = srq;
        let is_inline = length <= 64
            && matches!(does, Does::Message | Does::Write)
            && !is_local
            && rng.one_in(2);
        if is_inline {
            request.flags |= SendFlags::INLINE;
            request.data = Data::Inline((0..length).map(|at| data(id, at)).collect());
        } else {
            let cut = rng.below(length + 1) as u32;
            let segment = |from: u32, length: u32| Segment {
                address: slot + u64::from(from),
                length,
                key: own,
            };
            // The short way takes a single segment, but not two.
            let segments = match rng.one_in(2) {
                true => vec![segment(0, length as u32)],
                false => vec![segment(0, cut), segment(cut, length as u32 - cut)],
            };
            request.data = Data::Segments(segments);
        }
        let posted = match rng.one_in(2) {
            true => {
                let port = &mut program.port;
                let posted = program.context.post_send_now(port, number, request);
                posted.map(drop)
            }
            false => program.context.post_send(number, request),
        };
        let pair = &mut self.pairs[at];
        let half = &mut pair.halves[side];
        match posted {
            Ok(()) => {}
            Err(Error::NoMemory) if half.sends.len() >= QUEUE as usize / 2 => {
                program.arenas[arena].give(slot);
                return Ok(());
            }
            Err(error) => return Err(format!("post_send on {number}: {error:?}")),
        }
        pair.is_troubled |= reaches_error;
        half.sends.push_back(Posted {
            id,
            does,
            length,
            is_signaled,
            is_bad: reaches_error,
            uses_window,
            invalidates,
            slot,
        });
        match does {
            Does::Message => half.outgoing.push_back(Message {
                id,
                length,
                has_immediate: matches!(opcode, Opcode::SendWithImm | Opcode::RdmaWriteWithImm),
                invalidates,
                is_write: opcode == Opcode::RdmaWriteWithImm,
                written: std::mem::take(&mut half.fresh),
            }),
            Does::Write => {
                half.writes += 1;
                half.written[part as usize] = id;
                half.fresh.push((part, id, length));
            }
            Does::Add => half.adds[0] += 1,
            _ => {}
        }
        if let Some(window) = &mut pair.halves[1 - side].window
            && invalidates.is_some()
        {
            // A request that uses the window from now on comes too late.
            (window.is_bound, window.is_changing) = (false, true);
        }
        Ok(())
    }

    /// Takes a program's completions.
    pub(super) fn drain(&mut self, number: usize) -> Result<(), String> {
        while let Some(program) = &mut self.programs[number] {
            let next = program.context.poll_cq(program.recv_cq);
            let Some(wc) = next.map_err(|error| format!("poll_cq: {error:?}"))? else {
                break;
            };
            self.trace.note(|| format!("program {number}: {wc:?}"));
            self.received(number, &wc)?;
        }
        while let Some(program) = &mut self.programs[number] {
            let next = program.context.poll_cq(program.send_cq);
            let Some(wc) = next.map_err(|error| format!("poll_cq: {error:?}"))? else {
                break;
            };
            self.trace.note(|| format!("program {number}: {wc:?}"));
            self.sent(&wc)?;
        }
        Ok(())
    }

    fn find(&self, qp: u32) -> Result<(usize, usize), String> {
        for (at, pair) in self.pairs.iter().enumerate() {
            for side in 0..2 {
                if pair.halves[side].number == qp {
                    return Ok((at, side));
                }
            }
        }
        Err(format!(
            "a completion of queue pair {qp}, which is not there"
        ))
    }

    fn sent(&mut self, wc: &WorkCompletion) -> Result<(), String> {
        let (at, side) = self.find(wc.qp)?;
        // A send that has completed has arrived, so the peer's completion is there.
        let peer = self.pairs[at].halves[1 - side].program;
        self.drain_receives(peer)?;
        loop {
            let half = &mut self.pairs[at].halves[side];
            let Some(posted) = half.sends.pop_front() else {
                return Err(format!("{wc:?} of a send that was not posted, or twice"));
            };
            if posted.id == wc.id {
                return self.ended(at, side, &posted, wc.status);
            }
            if posted.is_signaled || half.has_failed {
                return Err(format!(
                    "send {} has not completed before {wc:?}",
                    posted.id
                ));
            }
            self.ended(at, side, &posted, WcStatus::Success)?;
        }
    }

    /// Checks a send that has ended.
    fn ended(
        &mut self,
        at: usize,
        side: usize,
        posted: &Posted,
        status: WcStatus,
    ) -> Result<(), String> {
        let pair = &mut self.pairs[at];
        let (arena, is_strict, is_rc) = (pair.arena, pair.is_strict, pair.is_reliable());
        let half = &mut pair.halves[side];
        let id = posted.id;
        let had_failed = half.has_failed;
        half.has_failed |= status != WcStatus::Success;
        if let Some(program) = &mut self.programs[half.program] {
            program.arenas[arena].give(posted.slot);
        }
        match status {
            WcStatus::Success if had_failed => {
                return Err(format!("{id} succeeds behind a failure"));
            }
            WcStatus::Success if posted.is_bad && is_strict => {
                return Err(format!("{id} succeeds, and is bad"));
            }
            WcStatus::Success => self.report.sent += 1,
            WcStatus::WrFlushErr => self.report.flushed += 1,
            _ if had_failed => return Err(format!("{id} fails twice: {status:?}")),
            _ => self.report.failed += 1,
        }
        if status != WcStatus::Success {
            return match pair.is_troubled {
                true => Ok(()),
                false => Err(format!("{id} fails without a reason: {status:?}")),
            };
        }
        self.windows_changed(at, side, posted.does, posted.invalidates);
        let pair = &mut self.pairs[at];
        if !is_strict || !is_rc {
            return Ok(());
        }
        let has_peer = self.programs[pair.halves[1 - side].program].is_some();
        match posted.does {
            Does::Message => {
                let outgoing = &pair.halves[side].outgoing;
                let is_missing = outgoing.iter().any(|message| message.id == id);
                if is_missing && has_peer {
                    return Err(format!("message {id} has completed and not arrived"));
                }
            }
            Does::Read(from) => {
                let program = &self.programs[pair.halves[side].program];
                let holds = |program: &Program| program.holds(posted.slot, 0, from, posted.length);
                if !program.as_ref().is_some_and(holds) {
                    return Err(format!("read {id} has brought other bytes"));
                }
            }
            Does::Add => pair.halves[side].adds[1] += 1,
            Does::Bind(_) | Does::Unbind(_) | Does::Invalidate | Does::Write => {}
        }
        Ok(())
    }

    fn drain_receives(&mut self, number: usize) -> Result<(), String> {
        while let Some(program) = &mut self.programs[number] {
            let next = program.context.poll_cq(program.recv_cq);
            let Some(wc) = next.map_err(|error| format!("poll_cq: {error:?}"))? else {
                break;
            };
            self.received(number, &wc)?;
        }
        Ok(())
    }

    fn received(&mut self, number: usize, wc: &WorkCompletion) -> Result<(), String> {
        let (at, side) = self.find(wc.qp)?;
        let pair = &mut self.pairs[at];
        let (is_strict, is_rc, arena) = (pair.is_strict, pair.is_reliable(), pair.arena);
        let half = &mut pair.halves[side];
        let Some(program) = &mut self.programs[number] else {
            return Ok(());
        };
        let slot = match half.shared.is_some() {
            true => program.shared.remove(&wc.id).map(|(slot, _)| slot),
            false => {
                let front = half.receives.pop_front();
                front
                    .filter(|front| front.id == wc.id)
                    .map(|front| front.slot)
            }
        };
        let Some(slot) = slot else {
            return Err(format!("{wc:?} of a receive that is not the next one"));
        };
        program.arenas[arena].give(slot);
        let had_failed = half.receive_has_failed;
        half.receive_has_failed |= wc.status != WcStatus::Success;
        match wc.status {
            WcStatus::Success if had_failed => {
                return Err(format!("{wc:?} behind a failure"));
            }
            WcStatus::Success => self.report.received += 1,
            _ if !pair.is_troubled => return Err(format!("{wc:?} without a reason")),
            WcStatus::WrFlushErr => self.report.flushed += 1,
            _ => self.report.failed += 1,
        }
        if !is_strict || wc.status != WcStatus::Success {
            return Ok(());
        }
        let target = pair.halves[side].target;
        let peer = &mut pair.halves[1 - side];
        // The message must be the next one; unreliable ones may be missing.
        let message = loop {
            let Some(message) = peer.outgoing.pop_front() else {
                return Err(format!("{wc:?} of a message that was not sent, or twice"));
            };
            let has_immediate = wc.flags.contains(WcFlags::WITH_IMM);
            let is_write = wc.opcode == WcOpcode::RecvRdmaWithImm;
            let has_key = wc.flags.contains(WcFlags::WITH_INV);
            let invalidated = has_key.then_some(wc.immediate);
            let is_it = message.length == u64::from(wc.byte_len)
                && message.has_immediate == has_immediate
                && message.is_write == is_write
                && (!has_immediate || message.id as u32 == wc.immediate)
                && message.invalidates == invalidated
                && (is_write || program.holds(slot, message.id, 0, message.length));
            if is_it {
                break message;
            }
            if is_rc {
                return Err(format!("message {} arrives as {wc:?}", message.id));
            }
        };
        let Some(target) = target else {
            return Ok(());
        };
        for (part, id, length) in message.written {
            let is_last = peer.written[part as usize] == id;
            if is_last && is_rc && !program.holds(target + part * PART, id, 0, length) {
                return Err(format!("message {} arrives before write {id}", message.id));
            }
        }
        Ok(())
    }
}
