//! The datagrams of a world of verbs. Each program has two queue pairs for them, all members of
//! one group. Programs send to the group, to the queue pairs of any program, and to a queue pair
//! that does not exist, with good and bad keys. The lanes are made when a program needs them, or
//! not at all.
//!
//! The checks: every request completes once and in order. A datagram that arrives was sent to this
//! receiver with its key, arrives once and whole, and names its sender.

use std::collections::VecDeque;

use verbs_core::Destination;
use verbs_core::address::{
    AddressVector, Datagram, FIRST_MULTICAST_LID, GRH_BYTES, Gid, GlobalRoute, LanePeer,
    MULTICAST_QPN, OWN_QKEY, gid, lid, node, route_header,
};
use verbs_core::attributes::Attributes;
use verbs_core::context::Context;
use verbs_core::demo;
use verbs_core::host::LaneId;
use verbs_core::record::MAX_DATAGRAM;
use verbs_core::table::Id;
use verbs_core::types::{
    AttributeMask as M, Error, Opcode, QpState, QpType, SendFlags, WcFlags, WcStatus,
};
use verbs_core::work::{Capacity, QpInit, ReceiveRequest, Segment, SendRequest, WorkCompletion};

use super::World;
use super::net::lane;
use crate::faults::Fault;

/// The first number of a queue pair for datagrams. Connected queue pairs have smaller numbers.
const FIRST_NUMBER: u32 = 0xf0_0000;
/// A number that no queue pair has.
const NOBODY: u32 = 0xe0_0000;
/// The key of all these queue pairs.
const QKEY: u32 = 0x1234;
/// Capacity of each queue in requests.
const QUEUE: u32 = 8;
/// The group of all these queue pairs.
const GROUP: Gid = [0xff; 16];

/// Returns the local identifier of a program's port.
pub fn lid_of(program: usize) -> u16 {
    lid(program as u16)
}

/// A datagram that was sent and may arrive.
pub struct Letter {
    id: u64,
    sender: u32,
    source: u16,
    length: u64,
    has_immediate: bool,
    global: Option<GlobalRoute>,
    is_for_group: bool,
    /// The queue pairs that may receive it.
    to: Vec<u32>,
}

/// A send that has not completed.
struct Sent {
    id: u64,
    is_signaled: bool,
    /// Whether the local key is bad; `is_long`: whether the datagram is too long.
    has_bad_key: bool,
    is_long: bool,
    slot: u64,
}

/// A receive that has not completed.
struct Waiting {
    id: u64,
    /// Whether the local key is bad.
    is_bad: bool,
    slot: u64,
}

/// A queue pair for datagrams.
pub struct Mailbox {
    pub number: u32,
    pd: Id,
    cqs: [Id; 2],
    sends: VecDeque<Sent>,
    receives: VecDeque<Waiting>,
    /// Whether a send has failed, so that all later ones are flushed.
    has_failed: bool,
    /// Whether a receive has failed, so that everything is flushed.
    is_over: bool,
}

impl Mailbox {
    /// Makes queue pair `index` of a program, with its completion queues.
    pub fn new(
        context: &mut Context,
        pd: Id,
        program: usize,
        index: u32,
    ) -> Result<Mailbox, String> {
        let wrong = |error| format!("set-up of datagrams: {error:?}");
        let send_cq = context.create_cq(64).map_err(wrong)?;
        let recv_cq = context.create_cq(64).map_err(wrong)?;
        let mut mailbox = Mailbox {
            number: FIRST_NUMBER + 2 * program as u32 + index,
            pd,
            cqs: [send_cq, recv_cq],
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            has_failed: false,
            is_over: false,
        };
        mailbox.open(context)?;
        Ok(mailbox)
    }

    /// Makes the queue pair.
    fn open(&mut self, context: &mut Context) -> Result<(), String> {
        let wrong = |error| format!("set-up of datagrams: {error:?}");
        let capacity = Capacity {
            send_wr: QUEUE,
            recv_wr: QUEUE,
            send_sge: 1,
            recv_sge: 2,
            inline: 0,
        };
        let init = QpInit {
            kind: QpType::Ud,
            pd: self.pd,
            send_cq: self.cqs[0],
            recv_cq: self.cqs[1],
            srq: None,
            xrcd: None,
            capacity,
            signal_all: false,
        };
        context.create_qp(self.number, init).map_err(wrong)?;
        for (state, mask) in demo::ways(QpType::Ud) {
            let attributes = Attributes {
                state,
                qkey: QKEY,
                ..Attributes::default()
            };
            let modified = context.modify_qp(self.number, &attributes, mask);
            modified.map_err(wrong)?;
        }
        let joined = context.attach_multicast(self.number, GROUP, FIRST_MULTICAST_LID);
        joined.map_err(wrong)
    }

    /// Destroys the queue pair, after checking that every request that had to complete has
    /// completed.
    fn close(&self, context: &mut Context) -> Result<(), String> {
        let is_left = self.is_over && !self.receives.is_empty();
        if is_left || self.sends.iter().any(|send| send.is_signaled) {
            return Err(format!("{}: requests have not completed", self.number));
        }
        let wrong = |error| format!("end of datagrams: {error:?}");
        let left = context.detach_multicast(self.number, GROUP);
        left.map_err(wrong)?;
        context.destroy_qp(self.number).map_err(wrong)
    }

    /// Destroys the queue pair and its completion queues.
    pub fn destroy(&self, context: &mut Context) -> Result<(), String> {
        self.close(context)?;
        for cq in self.cqs {
            let destroyed = context.destroy_cq(cq);
            destroyed.map_err(|error| format!("end of datagrams: {error:?}"))?;
        }
        Ok(())
    }
}

impl World {
    /// Runs one step of the datagrams of a program.
    pub(super) fn mail(&mut self, living: &[usize]) -> Result<(), String> {
        let number = living[self.rng.below(living.len() as u64) as usize];
        let index = self.rng.below(2) as usize;
        match self.rng.below(40) {
            0..18 => self.send_letter(living, number, index),
            18..32 => self.await_letters(number, index),
            32 => self.join_relay(number).map(drop),
            33..35 => self.pass_on(),
            35..38 => {
                self.progress(number)?;
                self.take_letters(number)?;
                self.renew_mailbox(number, index)
            }
            _ => {
                let count = self.mail_links.len() as u64;
                if count > 0 && self.rng.one_in(4) {
                    let (link, _) = self.mail_links[self.rng.below(count) as usize];
                    self.report.faults.note(Fault::ConnectionCut);
                    self.net.borrow_mut().cut(lane(link, 0));
                }
                Ok(())
            }
        }
    }

    fn send_letter(&mut self, living: &[usize], own: usize, index: usize) -> Result<(), String> {
        let rng = &mut self.rng;
        let other = living[rng.below(living.len() as u64) as usize];
        let receiver = FIRST_NUMBER + 2 * other as u32 + rng.below(2) as u32;
        let Some(program) = &mut self.programs[own] else {
            return Ok(());
        };
        let mailbox = &mut program.mailboxes[index];
        let arena = &mut program.arenas[0];
        if mailbox.is_over || arena.free() < 16 {
            return Ok(());
        }
        let Some(slot) = arena.take() else {
            return Ok(());
        };
        let id = self.number;
        self.number += 1;
        let is_group = rng.one_in(6);
        let lid = match is_group {
            true => FIRST_MULTICAST_LID,
            false => lid_of(other),
        };
        let (mut qpn, mut to) = match is_group {
            true => (MULTICAST_QPN, members(living)),
            false => (receiver, vec![receiver]),
        };
        let global = (is_group || rng.one_in(3)).then(|| GlobalRoute {
            gid: if is_group { GROUP } else { gid(lid) },
            flow_label: 7,
            traffic_class: 3,
            hop_limit: 1,
        });
        let mut length = 8 + rng.size(u64::from(MAX_DATAGRAM) - 8);
        let (mut qkey, mut key) = (QKEY, arena.all);
        // Mistakes: the sender learns of the last two.
        match rng.below(60) {
            0..4 => (qkey, to) = (QKEY + 1, Vec::new()),
            4..8 => qkey = OWN_QKEY,
            8..12 if !is_group => (qpn, to) = (NOBODY, Vec::new()),
            12 => key ^= 1,
            13 => length = u64::from(MAX_DATAGRAM) + 1 + rng.size(100),
            _ => {}
        }
        let (has_bad_key, is_long) = (key != arena.all, length > u64::from(MAX_DATAGRAM));
        let vector = AddressVector {
            lid,
            service_level: 5,
            global,
        };
        let ah = program.context.create_ah(mailbox.pd, vector);
        let ah = ah.map_err(|error| format!("create_ah: {error:?}"))?;
        let has_immediate = rng.one_in(2);
        let opcode = match has_immediate {
            true => Opcode::SendWithImm,
            false => Opcode::Send,
        };
        let segment = Segment {
            address: slot,
            length: length as u32,
            key,
        };
        let mut request = SendRequest::new(id, opcode, vec![segment]);
        let is_signaled = !rng.one_in(3);
        request.flags.set(SendFlags::SIGNALED, is_signaled);
        request.immediate = id as u32;
        request.datagram = Datagram { ah, qpn, qkey };
        let number = mailbox.number;
        let posted = program.context.post_send(number, request);
        // The posted request is sent nevertheless.
        let destroyed = program.context.destroy_ah(ah);
        destroyed.map_err(|error| format!("destroy_ah: {error:?}"))?;
        match posted {
            Ok(()) => {}
            Err(Error::NoMemory) => {
                arena.give(slot);
                return Ok(());
            }
            Err(error) => return Err(format!("post_send on {number}: {error:?}")),
        }
        mailbox.sends.push_back(Sent {
            id,
            is_signaled,
            has_bad_key,
            is_long,
            slot,
        });
        program.fill(slot, id, length);
        self.letters.push(Letter {
            id,
            sender: number,
            source: lid_of(own),
            length,
            has_immediate,
            global,
            is_for_group: is_group,
            to,
        });
        Ok(())
    }

    fn await_letters(&mut self, own: usize, index: usize) -> Result<(), String> {
        for _ in 0..1 + self.rng.below(3) {
            let Some(program) = &mut self.programs[own] else {
                return Ok(());
            };
            let mailbox = &mut program.mailboxes[index];
            let arena = &mut program.arenas[0];
            if arena.free() < 16 {
                return Ok(());
            }
            let Some(slot) = arena.take() else {
                return Ok(());
            };
            let id = self.number;
            self.number += 1;
            // Mistakes: a receive that is too short for most datagrams, or into memory that it may
            // not write.
            let (mut length, mut key) = (GRH_BYTES as u32 + MAX_DATAGRAM, arena.all);
            match self.rng.below(100) {
                0..4 => length = GRH_BYTES as u32 + 100,
                4 => key = arena.constant,
                _ => {}
            }
            let segment = |from: u32, length: u32| Segment {
                address: slot + u64::from(from),
                length,
                key,
            };
            let segments = vec![segment(0, 50), segment(50, length - 50)];
            let request = ReceiveRequest {
                id,
                segments: segments.into(),
            };
            match program.context.post_recv(mailbox.number, request) {
                Ok(()) => mailbox.receives.push_back(Waiting {
                    id,
                    is_bad: key != arena.all,
                    slot,
                }),
                Err(Error::NoMemory) => arena.give(slot),
                Err(error) => return Err(format!("post_recv of datagrams: {error:?}")),
            }
        }
        Ok(())
    }

    // ---- Completions ----

    /// Takes the completions of a program's datagrams.
    pub(super) fn take_letters(&mut self, own: usize) -> Result<(), String> {
        for index in 0..2 {
            // A receive that fails also flushes the sends.
            for queue in [1, 0] {
                while let Some(program) = &mut self.programs[own] {
                    let cq = program.mailboxes[index].cqs[queue];
                    let next = program.context.poll_cq(cq);
                    let Some(wc) = next.map_err(|error| format!("poll_cq: {error:?}"))? else {
                        break;
                    };
                    self.trace.note(|| format!("program {own}: {wc:?}"));
                    match queue {
                        0 => self.letter_sent(own, index, &wc)?,
                        _ => self.letter_received(own, index, &wc)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn letter_sent(&mut self, own: usize, index: usize, wc: &WorkCompletion) -> Result<(), String> {
        let Some(program) = &mut self.programs[own] else {
            return Ok(());
        };
        let mailbox = &mut program.mailboxes[index];
        loop {
            let Some(sent) = mailbox.sends.pop_front() else {
                return Err(format!(
                    "{wc:?} of a datagram that was not posted, or twice"
                ));
            };
            program.arenas[0].give(sent.slot);
            if sent.id != wc.id {
                if sent.is_signaled || mailbox.has_failed {
                    return Err(format!("datagram {} not before {wc:?}", sent.id));
                }
                continue;
            }
            let is_possible = match wc.status {
                WcStatus::Success => !mailbox.has_failed && !sent.is_long,
                WcStatus::LocLenErr => !mailbox.has_failed && sent.is_long,
                WcStatus::LocProtErr => !mailbox.has_failed && sent.has_bad_key,
                WcStatus::WrFlushErr => mailbox.has_failed || mailbox.is_over,
                _ => false,
            };
            if !is_possible {
                return Err(format!("a datagram completes as {wc:?}"));
            }
            match wc.status {
                WcStatus::Success => self.report.letters += 1,
                status => {
                    mailbox.has_failed = true;
                    self.letters.retain(|letter| letter.id != wc.id);
                    self.report.letters_failed += u64::from(status != WcStatus::WrFlushErr);
                }
            }
            return Ok(());
        }
    }

    fn letter_received(
        &mut self,
        own: usize,
        index: usize,
        wc: &WorkCompletion,
    ) -> Result<(), String> {
        let hostile = self.hostile().map(lid_of);
        let Some(program) = &mut self.programs[own] else {
            return Ok(());
        };
        let mailbox = &mut program.mailboxes[index];
        let number = mailbox.number;
        let front = mailbox.receives.pop_front();
        let Some(receive) = front.filter(|front| front.id == wc.id) else {
            return Err(format!("{wc:?} of a receive that is not the next one"));
        };
        program.arenas[0].give(receive.slot);
        match wc.status {
            WcStatus::Success if !mailbox.is_over && !receive.is_bad => {}
            WcStatus::LocProtErr if !mailbox.is_over && receive.is_bad => {
                mailbox.is_over = true;
                return Ok(());
            }
            WcStatus::WrFlushErr if mailbox.is_over => return Ok(()),
            _ => return Err(format!("a receive of datagrams completes as {wc:?}")),
        }
        let body = receive.slot + GRH_BYTES as u64;
        let is_it = |letter: &Letter| {
            let header = letter.global.map(|route| {
                let length = letter.length as usize;
                route_header(&route, letter.source, length, letter.has_immediate)
            });
            letter.to.contains(&number)
                && (letter.sender, letter.source) == (wc.src_qp, wc.slid)
                && letter.length + GRH_BYTES as u64 == u64::from(wc.byte_len)
                && letter.has_immediate == wc.flags.contains(WcFlags::WITH_IMM)
                && (!letter.has_immediate || letter.id as u32 == wc.immediate)
                && header.is_some() == wc.flags.contains(WcFlags::GRH)
                && header.is_none_or(|header| program.has(receive.slot, &header))
                && program.holds(body, letter.id, 0, letter.length)
        };
        let Some(at) = self.letters.iter().position(is_it) else {
            // A hostile program may send anything, but only as its own datagram.
            return match hostile == Some(wc.slid) {
                true => Ok(()),
                false => Err(format!("{wc:?} of a datagram that was not sent, or twice")),
            };
        };
        self.letters[at].to.retain(|of| *of != number);
        self.report.letters_received += 1;
        let is_relayed = self.letters[at].is_for_group && wc.slid != lid_of(own);
        self.report.letters_relayed += u64::from(is_relayed);
        Ok(())
    }

    // ---- Beginning anew ----

    /// Restarts a queue pair after a failed send, or replaces it after a failed receive.
    pub(super) fn renew_mailbox(&mut self, own: usize, index: usize) -> Result<(), String> {
        let Some(program) = &mut self.programs[own] else {
            return Ok(());
        };
        let mailbox = &mut program.mailboxes[index];
        let view = program.context.query_qp(mailbox.number);
        let view = view.map_err(|error| format!("query_qp: {error:?}"))?;
        let expected = match (mailbox.is_over, mailbox.has_failed) {
            (true, _) => QpState::Err,
            (false, true) => QpState::Sqe,
            (false, false) => QpState::Rts,
        };
        if view.state != expected {
            return Err(format!(
                "{}: {:?}, not {expected:?}",
                view.init.pd.0, view.state
            ));
        }
        match expected {
            QpState::Err => {
                mailbox.close(&mut program.context)?;
                for sent in mailbox.sends.drain(..) {
                    program.arenas[0].give(sent.slot);
                }
                (mailbox.has_failed, mailbox.is_over) = (false, false);
                mailbox.open(&mut program.context)
            }
            QpState::Sqe => {
                let attributes = Attributes {
                    state: QpState::Rts,
                    ..Attributes::default()
                };
                let number = mailbox.number;
                let modified = program.context.modify_qp(number, &attributes, M::STATE);
                mailbox.has_failed = false;
                modified.map_err(|error| format!("SQE to RTS: {error:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether all sends of datagrams have ended.
    pub(super) fn mail_is_done(&self) -> bool {
        self.programs.iter().flatten().all(|program| {
            let mut numbers = program.mailboxes.iter().map(|of| of.number);
            numbers.all(|number| {
                let view = program.context.query_qp(number);
                view.is_ok_and(|view| view.queued.0 == 0)
            })
        })
    }

    // ---- Lanes ----

    /// Answers a program whose datagrams need a lane: with a lane of any kind, with the answer
    /// that there is none, or not at all.
    pub(super) fn find_route(&mut self, own: usize, to: Destination) -> Result<(), String> {
        if self.rng.one_in(16) {
            return Ok(());
        }
        let is_group = to.lid >= FIRST_MULTICAST_LID;
        let peer = match is_group {
            true => Some(own),
            false => node(to.lid).map(usize::from),
        };
        let peer = peer.filter(|peer| self.programs[*peer].is_some() && !self.rng.one_in(16));
        let has_joined = self.relay.link_of(own).is_some();
        let route = match peer {
            // Without the relay, datagrams for the group stay in the program.
            Some(_) if is_group && (has_joined || !self.rng.one_in(4)) => self.join_relay(own)?,
            Some(peer) => Some(self.mail_lane(own, peer)?),
            None => None,
        };
        let Some(program) = &mut self.programs[own] else {
            return Ok(());
        };
        // The lane may have ended already.
        let _gone = program.context.route(to, route);
        Ok(())
    }

    fn mail_lane(&mut self, own: usize, peer: usize) -> Result<LaneId, String> {
        let ends = [own, peer];
        // A lane of connected queue pairs serves as well.
        let pair = self.pairs.iter().find_map(|pair| {
            let programs = [0, 1].map(|side| pair.halves[side].program);
            let side = programs.iter().position(|program| *program == own)?;
            (pair.is_open && programs[1 - side] == peer).then(|| lane(pair.link, side))
        });
        if let Some(lane) = pair.filter(|_| self.rng.one_in(3)) {
            return Ok(lane);
        }
        let side = |programs: &[usize; 2]| usize::from(programs[0] != own);
        let mut links = self.mail_links.iter();
        let known = links.find(|(_, of)| *of == ends || *of == [peer, own]);
        if let Some((link, programs)) = known {
            return Ok(lane(*link, side(programs)));
        }
        let link = self.net.borrow_mut().join(ends);
        for at in 0..2 {
            if let Some(program) = &mut self.programs[ends[at]] {
                let wrong = |error| format!("a lane for datagrams: {error:?}");
                let opened = program.context.open_datagram_lane(lane(link, at));
                opened.map_err(wrong)?;
                let port = LanePeer::Port(lid_of(ends[1 - at]));
                let told = program.context.set_lane_peer(lane(link, at), port);
                told.map_err(wrong)?;
            }
        }
        self.mail_links.push((link, ends));
        Ok(lane(link, 0))
    }
}

/// Returns the members of the group: the queue pairs of these programs.
fn members(programs: &[usize]) -> Vec<u32> {
    let first = |program: &usize| FIRST_NUMBER + 2 * *program as u32;
    programs
        .iter()
        .map(first)
        .flat_map(|first| [first, first + 1])
        .collect()
}
