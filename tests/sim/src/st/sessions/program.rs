//! The work of programs with a session: push, receive, wait, cancel, sleep.

use st_core::queue::{Descriptor, Kind, MAX_DESCRIPTOR, QueueMemory};
use st_core::reliable::{Data, Level, PushError, Wait};

use super::{CELLS, Channel, MOST_TOKENS, OPTIONS, Pushed, SessionBug, World, region};
use crate::st::link::NotMoved;
use crate::st::memory::CELL;

impl World {
    pub(super) fn push(&mut self, side: usize, number: usize) -> Result<(), String> {
        if self.is_ending {
            return Ok(());
        }
        let kinds = [Kind::Message, Kind::Header, Kind::HeaderWithPayload];
        let kind = kinds[self.rng.below(3) as usize];
        let bytes: Vec<u8> = (0..MAX_DESCRIPTOR + CELL)
            .map(|_| self.rng.number() as u8)
            .collect();
        let (header, data) = bytes.split_at(MAX_DESCRIPTOR);
        let descriptor = Descriptor::new(kind, header);
        let cell = self.rng.below(CELLS as u64 + 2) as usize;
        let channel = &mut self.places[side].channels[number];
        let Some(session) = &mut channel.session else {
            return Ok(());
        };
        let uses = |pushed: &Pushed| pushed.data.as_ref().is_some_and(|put| put.0 == cell);
        let has_data = cell < CELLS && !channel.pushed.iter().any(uses);
        let put = has_data.then(|| (cell, data.to_vec()));
        let in_place = self.rng.one_in(4);
        let kept = match put.clone() {
            None => Data::Nothing,
            Some(put) if in_place => Data::InPlace(put),
            Some(put) => Data::Copied(put),
        };
        match session.push(descriptor, kept) {
            Ok(token) => {
                channel.pushed.push(Pushed {
                    number: token.number(),
                    descriptor,
                    data: put,
                });
                channel.tokens.push(token);
                if channel.tokens.len() > MOST_TOKENS {
                    channel.tokens.remove(0);
                }
                match self.rng.one_in(2) {
                    true => self.advance(side, number),
                    false => Ok(()),
                }
            }
            Err(PushError::Full) if session.kept() == OPTIONS.kept => {
                self.report.full += 1;
                Ok(())
            }
            Err(PushError::Over(over)) if session.over() == Some(over) => Ok(()),
            Err(error) => Err(format!("push: {error:?} with {} kept", session.kept())),
        }
    }

    pub(super) fn advance(&mut self, side: usize, number: usize) -> Result<(), String> {
        let by_daemon = self.rng.one_in(3);
        let Channel {
            session: Some(session),
            access,
            ..
        } = &mut self.places[side].channels[number]
        else {
            return Ok(());
        };
        access.begin();
        let advanced = session.advance(access, |access, (cell, bytes)| {
            access.begin();
            access.put(region(number) + (cell * CELL) as i64, bytes, by_daemon)
        });
        match advanced {
            Ok(advanced) => {
                if advanced.held.is_some_and(|held| held.1 == NotMoved::Dead) {
                    session.lost(self.now);
                    self.cut();
                }
                if advanced.wake {
                    self.wake(side, number);
                }
                Ok(())
            }
            Err(fault) => self.failed(side, number, fault),
        }
    }

    /// Receives a transfer. Returns whether there was one.
    pub(super) fn receive(&mut self, side: usize, number: usize) -> Result<bool, String> {
        let place = &mut self.places[side];
        let Channel {
            session: Some(session),
            access,
            receives,
            ..
        } = &mut place.channels[number]
        else {
            return Ok(false);
        };
        *receives = false;
        access.begin();
        let key = session.key();
        let (descriptor, wake) = match session.receive(access) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(false),
            Err(fault) => return self.failed(side, number, fault).map(|()| false),
        };
        self.report.received += 1;
        let is_strict = self.is_strict();
        let peer = &mut self.places[1 - side].channels[number];
        let is_same = peer.session.as_ref().is_some_and(|peer| peer.key() == key);
        if is_strict && is_same {
            if peer.pushed.is_empty() {
                return Err(format!("end {side} has a transfer that was not pushed"));
            }
            let pushed = peer.pushed.remove(0);
            if pushed.descriptor != descriptor {
                return Err(format!(
                    "end {side} has another transfer than was pushed next"
                ));
            }
            let own = &self.places[side].access;
            if let Some((cell, bytes)) = pushed.data {
                self.report.with_data += 1;
                if own.own(region(number), cell * CELL, CELL) != Some(bytes) {
                    return Err(format!("end {side} has a transfer without its data"));
                }
            }
        }
        if wake {
            self.wake(side, number);
        }
        Ok(true)
    }

    /// Sends what is pending and waits until it has arrived. The connection may be lost meanwhile.
    pub(super) fn fence(&mut self, side: usize, number: usize) -> Result<(), String> {
        self.advance(side, number)?;
        let session = self.places[side].channels[number].session.as_ref();
        let Some(mark) = session.map(|session| session.mark()) else {
            return Ok(());
        };
        if self.settings.cut.is_none() && !self.is_ending && self.rng.one_in(8) {
            self.cut();
        }
        let Channel {
            session: Some(session),
            access,
            ..
        } = &mut self.places[side].channels[number]
        else {
            return Ok(());
        };
        access.begin();
        access.fence();
        let arrived = access.flush_peer(0);
        let is_alive = !access.is_down() || self.settings.bug == Some(SessionBug::BlindFence);
        if arrived.is_ok() && is_alive && session.is_open() {
            session.delivered(mark);
        }
        self.check_levels(side, number)
    }

    /// Checks that transfers have reached the level that the session reports.
    pub(super) fn check_levels(&mut self, side: usize, number: usize) -> Result<(), String> {
        let peer = &self.places[1 - side];
        let channel = &self.places[side].channels[number];
        let Some(session) = &channel.session else {
            return Ok(());
        };
        for token in &channel.tokens {
            let mut pushed = channel.pushed.iter();
            let pushed = pushed.find(|pushed| pushed.number == token.number());
            match (session.status(token), pushed) {
                (Some(Level::Taken), Some(_)) if self.is_strict() => {
                    return Err(format!("{token:?} of end {side} is not taken"));
                }
                (Some(Level::Delivered), Some(pushed)) => {
                    self.report.delivered += 1;
                    let Some((cell, bytes)) = &pushed.data else {
                        continue;
                    };
                    let there = peer.access.own(region(number), cell * CELL, CELL);
                    if there.as_ref() != Some(bytes) {
                        return Err(format!("{token:?} of end {side} is not delivered"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self, side: usize, number: usize) -> Result<(), String> {
        let channel = &mut self.places[side].channels[number];
        let Some(session) = &mut channel.session else {
            return Ok(());
        };
        // Takes the latest transfer, because most of the others have been sent.
        let Some(token) = channel.tokens.pop() else {
            return Ok(());
        };
        let cancelled = token.number();
        match session.cancel(token) {
            Ok(_) => {
                self.report.cancelled += 1;
                channel.pushed.retain(|pushed| pushed.number != cancelled);
            }
            Err(token) => channel.tokens.push(token),
        }
        Ok(())
    }

    /// Makes a wait with a deadline and checks its outcome.
    pub(super) fn wait(&mut self, side: usize, number: usize) -> Result<(), String> {
        self.check_levels(side, number)?;
        let now = self.now;
        let deadline = now.saturating_sub(2) + self.rng.below(4);
        let channel = &mut self.places[side].channels[number];
        let Some(session) = &mut channel.session else {
            return Ok(());
        };
        let count = channel.tokens.len() as u64;
        let Some(token) = channel.tokens.get(self.rng.below(count) as usize) else {
            return Ok(());
        };
        let level = [Level::Local, Level::Delivered, Level::Taken][self.rng.below(3) as usize];
        let outcome = session.wait(token, level, now, Some(deadline));
        let is_reached = session
            .status(token)
            .is_some_and(|reached| reached >= level);
        let is_good = match outcome {
            Wait::Reached => is_reached,
            Wait::Over(over) => !is_reached && session.over() == Some(over),
            Wait::TimedOut => !is_reached && deadline <= now,
            Wait::Until(until) => !is_reached && until.is_some_and(|until| until > now),
        };
        self.report.timed_out += u64::from(outcome == Wait::TimedOut);
        match is_good {
            true => Ok(()),
            false => Err(format!("{outcome:?} at {now} with the deadline {deadline}")),
        }
    }

    /// Makes a program sleep until a transfer arrives, or until one of its own transfers is taken.
    pub(super) fn sleep(&mut self, side: usize, number: usize) -> Result<(), String> {
        let receives = self.rng.one_in(2);
        let Channel {
            session: Some(session),
            access,
            tokens,
            waits,
            receives: sleeps,
            ..
        } = &mut self.places[side].channels[number]
        else {
            return Ok(());
        };
        access.begin();
        if !session.is_open() {
            return Ok(());
        }
        let fault = if receives {
            match session.arm(access) {
                Ok(armed) => {
                    *sleeps = !armed.is_ready;
                    self.report.sleeps += u64::from(*sleeps);
                    if armed.wake {
                        self.wake(side, number);
                    }
                    return Ok(());
                }
                Err(fault) => fault,
            }
        } else {
            match session.arm_taken(access) {
                Ok(_) => {
                    let place = tokens
                        .iter()
                        .position(|token| session.status(token) != Some(Level::Taken));
                    *waits = place.map(|place| tokens.remove(place));
                    self.report.sleeps += u64::from(waits.is_some());
                    return Ok(());
                }
                Err(fault) => fault,
            }
        };
        self.failed(side, number, fault)
    }

    /// Makes a woken program poll its channel again.
    pub(super) fn look_again(&mut self, side: usize, number: usize) -> Result<(), String> {
        let channel = &mut self.places[side].channels[number];
        channel.receives = false;
        channel.waits = None;
        self.advance(side, number)
    }
}
