//! Connected queue pairs of a world of verbs: how they are made and destroyed, and their receives.

use verbs_core::address::LanePeer;
use verbs_core::attributes::Attributes;
use verbs_core::demo;
use verbs_core::types::{Access, Error, QpState, QpType};
use verbs_core::work::{Capacity, QpInit, ReceiveRequest, Segment};

use super::datagrams::lid_of;
use super::net::lane;
use super::oracle::{Half, Pair, Receive};
use super::{QUEUE, World};

impl World {
    /// Connects two queue pairs, on an existing lane or on a new one.
    pub(super) fn connect(&mut self, living: &[usize]) -> Result<(), String> {
        let one = living[self.rng.below(living.len() as u64) as usize];
        let others: Vec<_> = living.iter().filter(|other| **other != one).collect();
        let other = *others[self.rng.below(others.len() as u64) as usize];
        let programs = [one, other];
        let is_strict = self.hostile().is_none_or(|bad| !programs.contains(&bad));
        let arena = usize::from(!is_strict);
        let open = self.pairs.iter().find(|pair| {
            let ends = [0, 1].map(|side| pair.halves[side].program);
            ends == programs && pair.is_open && !pair.is_troubled
        });
        let link = match open.map(|pair| pair.link).filter(|_| self.rng.one_in(2)) {
            Some(link) => link,
            None => {
                let link = self.net.borrow_mut().join(programs);
                for (side, program) in programs.into_iter().enumerate() {
                    if let Some(program) = &mut self.programs[program] {
                        let pd = program.arenas[arena].pd;
                        let opened = program.context.open_lane(lane(link, side), pd);
                        opened.map_err(|error| format!("open_lane: {error:?}"))?;
                        let port = LanePeer::Port(lid_of(programs[1 - side]));
                        let told = program.context.set_lane_peer(lane(link, side), port);
                        told.map_err(|error| format!("set_lane_peer: {error:?}"))?;
                    }
                }
                link
            }
        };
        let kind = match self.rng.below(5) {
            0 => QpType::Uc,
            1 => QpType::XrcSend,
            _ => QpType::Rc,
        };
        let numbers = [self.next_qp, self.next_qp + 1];
        self.next_qp += 2;
        let rnr_retry = if self.rng.one_in(3) { 2 } else { 7 };
        let mut halves = Vec::new();
        for side in 0..2 {
            let is_shared = is_strict && kind != QpType::XrcSend && self.rng.one_in(3);
            let mut half = Half::new(programs[side], numbers[side]);
            if let Some(program) = &mut self.programs[programs[side]] {
                half.target = program.arenas[arena].take();
                half.shared = match (kind, side) {
                    (QpType::XrcSend, 1) => Some(program.arenas[arena].xrc_srq),
                    _ => is_shared.then_some(program.srq),
                };
            }
            halves.push(half);
        }
        let Ok(halves) = <[Half; 2]>::try_from(halves) else {
            return Err("two halves".into());
        };
        self.trace
            .note(|| format!("{kind:?} {numbers:?} of {programs:?} on link {link}"));
        let pair = Pair {
            kind,
            link,
            arena,
            halves,
            is_strict,
            is_troubled: !is_strict || rnr_retry != 7,
            is_open: true,
        };
        self.pairs.push(pair);
        self.report.pairs += 1;
        let at = self.pairs.len() - 1;
        for side in 0..2 {
            self.make_ready(at, side, rnr_retry)?;
        }
        if kind == QpType::Rc {
            self.allocate_windows(at)?;
        }
        Ok(())
    }

    fn make_ready(&mut self, at: usize, side: usize, rnr_retry: u8) -> Result<(), String> {
        let pair = &self.pairs[at];
        let half = &pair.halves[side];
        let Some(program) = &mut self.programs[half.program] else {
            return Ok(());
        };
        if let Some(target) = half.target {
            program.set_word(target + 4096, 0);
        }
        let capacity = Capacity {
            send_wr: QUEUE,
            recv_wr: QUEUE,
            send_sge: 2,
            recv_sge: 2,
            inline: 64,
        };
        let kind = pair.kind_of(side);
        let init = QpInit {
            kind,
            pd: program.arenas[pair.arena].pd,
            send_cq: program.send_cq,
            recv_cq: program.recv_cq,
            srq: half.shared.filter(|_| kind != QpType::XrcRecv),
            xrcd: (kind == QpType::XrcRecv).then_some(program.xrcd),
            capacity,
            signal_all: false,
        };
        let mut attributes = Attributes {
            access: Access::REMOTE,
            timeout: 20,
            retry_cnt: 2,
            rnr_retry,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            dest_qpn: pair.halves[1 - side].number,
            ..demo::attributes()
        };
        let context = &mut program.context;
        let number = half.number;
        let wrong = |error| format!("set-up of {number}: {error:?}");
        context.create_qp(number, init).map_err(wrong)?;
        for (state, mask) in demo::ways(kind) {
            attributes.state = state;
            let modified = context.modify_qp(number, &attributes, mask);
            modified.map_err(wrong)?;
        }
        // The lane may have ended meanwhile.
        let _gone = context.attach(number, lane(pair.link, side));
        Ok(())
    }

    /// Destroys both ends of a pair. Their requests must have completed, if they could.
    pub(super) fn renew(&mut self, at: usize) -> Result<(), String> {
        for side in 0..2 {
            self.drain(self.pairs[at].halves[side].program)?;
        }
        let pair = self.pairs.swap_remove(at);
        self.trace
            .note(|| format!("{:?} end", pair.halves.each_ref().map(|half| half.number)));
        // The slots are used again, so no store may arrive later.
        self.net.borrow_mut().bring_home(pair.link);
        for half in pair.halves {
            let Some(program) = &mut self.programs[half.program] else {
                continue;
            };
            let view = program.context.query_qp(half.number);
            let view = view.map_err(|error| format!("query_qp: {error:?}"))?;
            let is_left = half.has_signaled() || !half.receives.is_empty();
            if view.state == QpState::Err && (is_left || view.queued != (0, 0)) {
                return Err(format!("{}: requests were not flushed", half.number));
            }
            let destroyed = program.context.destroy_qp(half.number);
            destroyed.map_err(|error| format!("destroy_qp: {error:?}"))?;
            if let Some(window) = &half.window {
                let freed = program.context.dealloc_mw(&mut program.port, window.key);
                freed.map_err(|error| format!("dealloc_mw: {error:?}"))?;
            }
            let arena = &mut program.arenas[pair.arena];
            let sends = half.sends.iter().map(|send| send.slot);
            let receives = half.receives.iter().map(|receive| receive.slot);
            sends
                .chain(receives)
                .chain(half.target)
                .for_each(|slot| arena.give(slot));
        }
        Ok(())
    }

    pub(super) fn post_receive(&mut self, at: usize, side: usize) -> Result<(), String> {
        let pair = &mut self.pairs[at];
        let arena = pair.arena;
        if pair.kind_of(side) == QpType::XrcSend {
            return Ok(());
        }
        let half = &mut pair.halves[side];
        let Some(program) = &mut self.programs[half.program] else {
            return Ok(());
        };
        for _ in 0..1 + self.rng.below(3) {
            // Sends need slots, too.
            if program.arenas[arena].free() < 16 {
                return Ok(());
            }
            let Some(slot) = program.arenas[arena].take() else {
                return Ok(());
            };
            let id = self.number;
            self.number += 1;
            // Mistakes: a receive that is too short, or into memory that it may not write.
            let mistake = match self.is_ending || half.shared.is_some() {
                true => 99,
                false => self.rng.below(100),
            };
            let length = if mistake == 0 { 16 } else { 8192 };
            let key = match mistake {
                1 => program.arenas[arena].constant,
                _ => program.arenas[arena].all,
            };
            let segment = |from: u32, length: u32| Segment {
                address: slot + u64::from(from),
                length,
                key,
            };
            let segments = match self.rng.one_in(2) {
                true => vec![segment(0, length)],
                false => vec![segment(0, 10), segment(10, length - 10)],
            };
            let request = ReceiveRequest {
                id,
                segments: segments.into(),
            };
            let posted = match half.shared {
                Some(srq) => program.context.post_srq_recv(srq, request),
                None if self.rng.one_in(2) => {
                    let port = &mut program.port;
                    let posted = program.context.post_recv_now(port, half.number, request);
                    posted.map(drop)
                }
                None => program.context.post_recv(half.number, request),
            };
            match posted {
                Ok(()) if half.shared.is_some() => {
                    program.shared.insert(id, (slot, length));
                }
                Ok(()) => {
                    pair.is_troubled |= mistake < 2;
                    half.receives.push_back(Receive { id, slot });
                }
                Err(Error::NoMemory) => program.arenas[arena].give(slot),
                Err(error) => return Err(format!("post_recv: {error:?}")),
            }
        }
        Ok(())
    }
}
