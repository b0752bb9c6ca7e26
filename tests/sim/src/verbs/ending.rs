//! The end of a world of verbs: everything comes to rest, and nothing is left.

use verbs_core::attributes::Attributes;
use verbs_core::context::Counts;
use verbs_core::types::{AttributeMask as M, QpState};

use super::World;
use super::net::lane;
use super::oracle::Pair;
use super::program::Program;

/// Number of rounds after which everything must have come to rest.
const MOST_ROUNDS: usize = 3_000;
/// Time of a round in nanoseconds: longer than most timers of the worlds.
const ROUND_NS: u64 = 100_000_000;

impl World {
    /// Ends the world: everything that is posted must end, and nothing may be left.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.is_ending = true;
        let mut quiet = 0;
        for round in 0.. {
            if round > MOST_ROUNDS {
                return Err(format!("no rest: {}", self.what_is_left()));
            }
            self.now += ROUND_NS;
            for program in 0..self.programs.len() {
                self.progress(program)?;
                self.drain(program)?;
                self.take_letters(program)?;
            }
            self.pass_on()?;
            self.check()?;
            for pair in 0..self.pairs.len() {
                for side in 0..2 {
                    self.wake(pair, side)?;
                    self.post_receive(pair, side)?;
                }
            }
            let is_done = self.pairs.iter().all(|pair| self.is_done(pair));
            let is_done = is_done && self.mail_is_done() && self.relay.is_idle();
            quiet = if is_done { quiet + 1 } else { 0 };
            if quiet > 20 {
                break;
            }
        }
        for pair in &self.pairs {
            pair.check_counters(&self.programs)?;
        }
        while !self.pairs.is_empty() {
            self.renew(0)?;
        }
        self.destroy()
    }

    /// Restarts a drained queue pair, so that its requests can end.
    fn wake(&mut self, at: usize, side: usize) -> Result<(), String> {
        let half = &self.pairs[at].halves[side];
        let Some(program) = &mut self.programs[half.program] else {
            return Ok(());
        };
        let view = program.context.query_qp(half.number);
        if view.is_ok_and(|view| view.state == QpState::Sqd) {
            let attributes = Attributes {
                state: QpState::Rts,
                ..Attributes::default()
            };
            let modified = program
                .context
                .modify_qp(half.number, &attributes, M::STATE);
            modified.map_err(|error| format!("SQD to RTS: {error:?}"))?;
        }
        Ok(())
    }

    /// Returns whether no sends of a pair are left. A hostile peer may hold them up.
    fn is_done(&self, pair: &Pair) -> bool {
        pair.halves.iter().all(|half| {
            let program = self.programs[half.program].as_ref();
            let view = program.map(|program| program.context.query_qp(half.number));
            match view {
                Some(Ok(view)) => view.queued.0 == 0 || !pair.is_strict,
                _ => true,
            }
        })
    }

    fn what_is_left(&self) -> String {
        let mut left = String::new();
        for pair in self.pairs.iter().filter(|pair| !self.is_done(pair)) {
            for half in &pair.halves {
                let program = self.programs[half.program].as_ref();
                let view = program.map(|program| program.context.query_qp(half.number));
                left += &format!("{:?} {}: {view:?}; ", pair.kind, half.number);
            }
        }
        left
    }

    /// Destroys all objects, and checks that nothing is left.
    fn destroy(&mut self) -> Result<(), String> {
        for number in 0..self.programs.len() {
            let Some(program) = &mut self.programs[number] else {
                continue;
            };
            if !program.is_unharmed() {
                return Err(format!("memory of program {number} was written"));
            }
            let wrong = |error| format!("program {number}: {error:?}");
            let Program {
                context,
                port,
                arenas,
                ..
            } = program;
            let links = self.net.borrow().links();
            for link in 0..links {
                for side in 0..2 {
                    let _none = context.end_lane(port, lane(link, side));
                }
            }
            for mailbox in &program.mailboxes {
                mailbox.destroy(context)?;
            }
            context.destroy_srq(program.srq).map_err(wrong)?;
            for arena in arenas.iter() {
                context.destroy_srq(arena.xrc_srq).map_err(wrong)?;
            }
            context.close_xrcd(program.xrcd).map_err(wrong)?;
            context.destroy_cq(program.send_cq).map_err(wrong)?;
            context.destroy_cq(program.recv_cq).map_err(wrong)?;
            for arena in arenas {
                for key in [arena.all, arena.constant, arena.local] {
                    context.deregister(port, key).map_err(wrong)?;
                }
                context.dealloc_pd(arena.pd).map_err(wrong)?;
            }
            if context.counts() != Counts::default() {
                return Err(format!("program {number} has {:?}", context.counts()));
            }
        }
        match self.net.borrow().windows() {
            0 => Ok(()),
            windows => Err(format!("{windows} windows are left")),
        }
    }
}
