//! Connections that are made and lost below sessions, and what both ends tell each other over
//! them.

use std::rc::Rc;

use st_core::connection::Update;
use st_core::queue::Layout;
use st_core::record::{Record, SessionState};
use st_core::reliable::{Fault, Over, Session};

use super::{CHANNELS, OPTIONS, Put, SessionBug, World, is_over, link};
use crate::faults;
use crate::st::link::Dead;

impl World {
    /// Cuts the connection, while both programs survive.
    pub(super) fn cut(&mut self) {
        if !std::mem::replace(&mut self.is_cut, true) {
            self.trace.note(|| "the connection is cut".to_string());
            self.report.faults.note(faults::Fault::ConnectionCut);
            let link = &self.places[0].access.link;
            if self.report.connections == 1 {
                self.report.stores = link.borrow().stores;
            }
            link.borrow_mut().cut();
        }
    }

    /// Makes a new connection, on which the client speaks first.
    pub(super) fn connect(&mut self) -> Result<(), String> {
        self.check()?;
        self.trace.note(|| "a new connection".to_string());
        let sessions = self.places[1].channels.iter();
        let sessions = sessions.filter_map(|channel| channel.session.as_ref());
        self.report.early += sessions.filter(|session| session.is_open()).count() as u64;
        let ends = link(&mut self.rng, Some(&self.places))?;
        for (place, (connection, access)) in self.places.iter_mut().zip(ends) {
            (place.connection, place.access) = (connection, access);
        }
        self.is_cut = false;
        self.greet();
        Ok(())
    }

    /// Makes the client begin or resume its sessions on the connection.
    pub(super) fn greet(&mut self) {
        self.report.connections += 1;
        for number in 0..CHANNELS as usize {
            let key = 1 + self.rng.number() / 2;
            let channel = &mut self.places[0].channels[number];
            if channel.session.as_ref().is_none_or(is_over) {
                self.begin_anew(0, number, Session::new(key, OPTIONS, self.now));
            }
            if let Some(state) = self.enter(0, number) {
                self.tell_state(0, number, state);
            }
        }
    }

    /// Gives an end a new session. Nothing of the former session counts any more.
    pub(super) fn begin_anew(&mut self, side: usize, number: usize, session: Session<Put>) {
        self.report.over += u64::from(self.places[side].channels[number].session.is_some());
        let channel = &mut self.places[side].channels[number];
        channel.session = Some(session);
        channel.tokens.clear();
        channel.pushed.clear();
        channel.waits = None;
        channel.receives = false;
    }

    /// Moves a session to the newest connection. Returns the state to tell the peer.
    pub(super) fn enter(&mut self, side: usize, number: usize) -> Option<SessionState> {
        let place = &mut self.places[side];
        let agreed = place.connection.agreed();
        let (own, peer): (Layout, Layout) = (agreed.own, agreed.peer);
        let channel = &mut place.channels[number];
        let session = channel.session.as_mut()?;
        let state = session.connect(number as u32, own, peer, self.now).ok()?;
        channel.access = place.access.clone();
        Some(state)
    }

    pub(super) fn tell_state(&mut self, side: usize, number: usize, mut state: SessionState) {
        if self.settings.bug == Some(SessionBug::ShortQuote) {
            state.taken = state.taken.saturating_sub(1);
        }
        if side == 1 && self.settings.is_hostile && self.rng.one_in(2) {
            self.report.faults.note(faults::Fault::HostileMessage);
            match self.rng.below(4) {
                0 => state.key ^= 1 << self.rng.below(64),
                1 => state.taken = self.rng.number(),
                2 => state.is_new = true,
                _ => {
                    state.taken = state
                        .taken
                        .wrapping_add(self.rng.below(40))
                        .wrapping_sub(20)
                }
            }
        }
        let channel = number as u32;
        self.tell(side, Record::State { channel, state });
    }

    pub(super) fn tell(&mut self, side: usize, record: Record) {
        let bytes = record.encode();
        let (one, two) = bytes.split_at(self.rng.below(bytes.len() as u64) as usize);
        let access = &mut self.places[side].access;
        if access.send(one).and_then(|()| access.send(two)) == Err(Dead) {
            self.cut();
        }
    }

    pub(super) fn wake(&mut self, side: usize, number: usize) {
        // Wake-ups go only over the newest connection.
        let place = &self.places[side];
        let is_newest = Rc::ptr_eq(&place.access.link, &place.channels[number].access.link);
        if is_newest && self.settings.bug != Some(SessionBug::NoWake) {
            let channel = number as u32;
            self.tell(side, Record::Wake { channel });
        }
    }

    /// Makes an end take what the other end has sent.
    pub(super) fn hear(&mut self, side: usize, all: bool) -> Result<(), String> {
        let place = &mut self.places[side];
        let bytes = match all {
            true => place.access.take_whole_stream(),
            false => place.access.take_stream(),
        };
        let mut news = Vec::new();
        let heard = place.connection.receive(&bytes, |new| news.push(new));
        if heard.is_err() && self.is_strict() {
            return Err(format!("end {side} has heard what breaks the protocol"));
        }
        for new in news {
            match new {
                Update::Wake(channel) => self.look_again(side, channel as usize)?,
                Update::Session(channel, state) => self.answer(side, channel as usize, state)?,
                Update::NoSession(channel, _) => {
                    let channel = &mut self.places[side].channels[channel as usize];
                    if let Some(session) = &mut channel.session {
                        session.refuse();
                    }
                }
                other => return Err(format!("end {side} has heard {other:?}")),
            }
        }
        Ok(())
    }

    /// Handles the peer's begin or resumption of a session.
    pub(super) fn answer(
        &mut self,
        side: usize,
        number: usize,
        state: SessionState,
    ) -> Result<(), String> {
        if side == 1 {
            let session = self.places[side].channels[number].session.as_mut();
            let is_known = session.is_some_and(|session| {
                session.expire(self.now);
                session.key() == state.key && session.over().is_none()
            });
            if !is_known {
                let Some(session) = Session::accept(state, OPTIONS, self.now) else {
                    let (channel, key) = (number as u32, state.key);
                    self.tell(side, Record::NoSession { channel, key });
                    return Ok(());
                };
                self.begin_anew(side, number, session);
            }
            if let Some(state) = self.enter(side, number) {
                self.tell_state(side, number, state);
            }
        }
        let channel = &mut self.places[side].channels[number];
        let Some(session) = &mut channel.session else {
            // The peer has started again, and this was for the former session.
            return Ok(());
        };
        // Calls that waited before poll again.
        channel.receives = false;
        channel.waits = None;
        match session.answer(state) {
            Ok(()) => Ok(()),
            Err(Over::Broken) if self.is_strict() => {
                Err(format!("end {side} does not believe {state:?}"))
            }
            Err(over) => {
                self.report.broken += u64::from(over == Over::Broken);
                Ok(())
            }
        }
    }

    /// Makes a program notice that its connection is down.
    pub(super) fn notice(&mut self, side: usize) {
        for channel in &mut self.places[side].channels {
            if let Some(session) = &mut channel.session {
                if channel.access.has_seen_down() {
                    session.lost(self.now);
                    channel.waits = None;
                    channel.receives = false;
                }
                session.expire(self.now);
            }
        }
    }

    /// Makes a program start again without its former state.
    pub(super) fn forget(&mut self, side: usize) {
        for number in 0..CHANNELS as usize {
            let channel = &mut self.places[side].channels[number];
            channel.session = None;
            channel.pushed.clear();
            channel.tokens.clear();
            if side == 0 {
                // Headers that the server pushed to the former program do not arrive.
                self.places[1].channels[number].session = None;
                self.places[1].channels[number].pushed.clear();
                self.places[1].channels[number].tokens.clear();
            }
        }
    }

    /// Handles the failure of a queue.
    pub(super) fn failed(
        &mut self,
        side: usize,
        number: usize,
        fault: Fault<Dead>,
    ) -> Result<(), String> {
        match fault {
            Fault::Memory(Dead) => {
                self.cut();
                if let Some(session) = &mut self.places[side].channels[number].session {
                    session.lost(self.now);
                }
                Ok(())
            }
            Fault::Over(Over::Broken) if self.is_strict() => Err(format!(
                "end {side}: a peer that keeps to the rules breaks them"
            )),
            Fault::Over(over) => {
                self.report.broken += u64::from(over == Over::Broken);
                Ok(())
            }
        }
    }
}
