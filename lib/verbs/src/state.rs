//! The state of a context, behind one lock.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use verbs_core::host::LaneId;
use verbs_core::table::Id;
use verbs_core::types::Result;
use verbs_core::{Event, Subject};

use crate::clock::Time;
use crate::daemon::Changes;
use crate::engine::{Engine, LONGEST_NS};
use crate::events::{AsyncEvent, Events};

/// Most turns in a row while there is something to do.
const TURNS: usize = 16;
/// After so many looks of the progress thread without a poll, the program is not expected to poll
/// again soon.
const FEW_LOOKS: u32 = 2;
/// Most turns that wait for a peer to make room for the last records of a lane.
const LAST_TURNS: usize = 1000;

/// The state of a completion queue besides its completions.
pub struct Cq {
    /// The channel of its events.
    pub channel: Option<Arc<Events<u64>>>,
    /// The value that its events carry.
    pub user: u64,
    /// Completions that it can hold.
    pub size: u32,
}

impl Cq {
    /// Its channel, if it has one, and the value that its events carry.
    pub fn target(&self) -> Option<(&Events<u64>, u64)> {
        let channel = self.channel.as_deref();
        channel.map(|channel| (channel, self.user))
    }
}

/// The state of a context; see the module.
pub struct State {
    pub engine: Engine,
    pub time: Time,
    /// The number of objects of each protection domain.
    pub users: BTreeMap<Id, u32>,
    /// For each XRC domain, the protection domain of the ports and lanes of its receiving halves.
    /// The program does not know it: none of its own has to stay because of them.
    pub of_ports: BTreeMap<Id, Id>,
    pub cqs: BTreeMap<Id, Cq>,
    /// The value that events of each queue pair carry.
    pub qps: BTreeMap<u32, u64>,
    pub srqs: BTreeMap<Id, u64>,
    pub events: Arc<Events<AsyncEvent>>,
    /// Completion queues that are armed and have a channel.
    pub armed: BTreeSet<Id>,
    /// The program polls, so the progress thread leaves the lanes alone.
    pub is_polled: bool,
    /// A thread waits for a completion event and serves the lanes.
    pub is_waiting: bool,
    /// That thread is about to sleep shortly, and needs no event queue to report the lanes.
    pub sleeps_shortly: bool,
    /// The number of such waits that have begun.
    pub waits: u32,
    /// Other threads that wait for completion events.
    pub sleepers: u32,
    /// The progress thread relies on the waiting thread, and sleeps longer than a few
    /// milliseconds.
    pub sleeps_long: bool,
    /// The number of calls that have polled for completions.
    pub polls: u32,
    /// Looks of the progress thread since the last poll.
    pub looks: u32,
    /// Polls in a row that have found no completion.
    pub empty: u32,
    /// When the progress thread will look again, in nanoseconds.
    pub wakes_at: u64,
}

impl State {
    /// Receives, executes requests, completes them and passes on events, as long as there is work.
    pub fn advance(&mut self) {
        for _ in 0..TURNS {
            self.advance_once();
            if !self.engine.left.is_busy {
                break;
            }
        }
    }

    /// One turn of [`advance`](Self::advance), for a caller that comes again.
    pub fn advance_once(&mut self) {
        let now = self.time.now();
        self.engine.turn(now);
        self.tell();
    }

    /// Whether there is no work now, as far as a few loads tell.
    pub fn is_quiet(&mut self) -> bool {
        self.engine.is_quiet() && self.is_early()
    }

    /// Whether the time at which work is due, if any, is still to come.
    #[inline]
    pub fn is_early(&mut self) -> bool {
        let until = self.engine.left.until;
        until.is_none_or(|until| self.time.now() < until)
    }

    /// Whether the progress thread has to be woken for the work that is left.
    #[inline]
    pub fn needs_thread(&self) -> bool {
        let comes_again = comes_again(self.is_polled, self.looks);
        is_left(&self.engine, comes_again, self.wakes_at)
    }

    /// Advances the connections that are being made, if there is work on them; `has_news`: an
    /// event has reported some. To ask the driver about each listener takes longer than all else
    /// that the progress thread does, and the program's calls wait meanwhile.
    pub fn advance_links(&mut self, has_news: bool) {
        let now = self.time.now();
        if has_news || has_links_to_do(&self.engine, now) {
            self.engine.advance_links(now);
        }
    }

    /// Passes events on to the program.
    #[inline]
    pub fn tell(&mut self) {
        if self.engine.core.has_events() {
            self.tell_all();
        }
    }

    #[cold]
    fn tell_all(&mut self) {
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Completion(cq) => {
                    self.armed.remove(&cq);
                    let cq = self.cqs.get(&cq);
                    if let Some((channel, user)) = cq.and_then(Cq::target) {
                        channel.push(user);
                    }
                }
                Event::Async(kind, subject) => {
                    let user = self.user(subject);
                    self.events.push(AsyncEvent {
                        kind,
                        subject: Some(subject),
                        user,
                    });
                }
                // The engine handles these itself.
                Event::LaneOver(_) | Event::LaneWanted(_) => {}
            }
        }
    }

    /// The value that events of an object carry.
    fn user(&self, subject: Subject) -> u64 {
        let user = match subject {
            Subject::Qp(number) => self.qps.get(&number).copied(),
            Subject::Cq(id) => self.cqs.get(&id).map(|cq| cq.user),
            Subject::Srq(id) => self.srqs.get(&id).copied(),
        };
        user.unwrap_or_default()
    }

    // ---- Ends ----

    /// Ends the lanes of a protection domain that has no other objects.
    pub fn close_lanes(&mut self, pd: Id) {
        let lanes = self.engine.close_links(pd);
        self.say_bye(&lanes);
        self.engine.end_lanes(&lanes);
        self.tell();
    }

    /// The protection domain of the ports of an XRC domain.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn domain_of_ports(&mut self, xrcd: Id) -> Result<Id> {
        if let Some(pd) = self.of_ports.get(&xrcd) {
            return Ok(*pd);
        }
        let pd = self.engine.core.alloc_pd()?;
        self.of_ports.insert(xrcd, pd);
        Ok(pd)
    }

    /// Closes an XRC domain, and its ports.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs or shared receive queues belong to it.
    pub fn close_xrcd(&mut self, xrcd: Id) -> Result<()> {
        self.engine.core.close_xrcd(xrcd)?;
        if let Some(pd) = self.of_ports.remove(&xrcd) {
            self.close_lanes(pd);
            self.engine.core.dealloc_pd(pd)?;
            self.users.remove(&pd);
        }
        Ok(())
    }

    /// Tells the peers of lanes that nothing more comes, as far as they make room for it soon.
    fn say_bye(&mut self, lanes: &[LaneId]) {
        self.engine.say_bye(lanes);
        for _ in 0..LAST_TURNS {
            self.advance();
            let is_flushed = self.engine.lanes.streams().all(|of| of.is_flushed());
            if !self.engine.left.waits_for_room && is_flushed {
                break;
            }
            hal::pause::yield_now();
        }
    }

    /// Tells all peers that nothing more comes.
    pub fn leave(&mut self) {
        let lanes = self.engine.lanes.ids();
        self.say_bye(&lanes);
    }

    // ---- Objects ----

    /// The state of all objects, for the daemon.
    pub fn changes(&self) -> Changes {
        let core = &self.engine.core;
        let qps = self
            .qps
            .keys()
            .map(|number| (*number, core.query_qp(*number)));
        let cqs = self.cqs.keys().map(|id| (*id, core.cq_traffic(*id)));
        let srqs = self.srqs.keys().filter_map(|id| {
            let queue = core.srq(*id).ok()?;
            let (.., limit) = queue.query();
            Some((*id, (queue.len(), limit)))
        });
        Changes {
            qps: qps
                .filter_map(|(number, view)| Some((number, view.ok()?)))
                .collect(),
            cqs: cqs.filter_map(|(id, of)| Some((id, of.ok()?))).collect(),
            srqs: srqs.collect(),
        }
    }

    /// Adds `change` to the number of objects of a protection domain.
    pub fn count(&mut self, pd: Id, change: i32) {
        let users = self.users.entry(pd).or_default();
        *users = users.saturating_add_signed(change);
    }
}

/// Whether the program itself will do the work that is left. `looks`: those of the progress thread
/// since the last poll.
#[inline]
fn comes_again(is_polled: bool, looks: u32) -> bool {
    is_polled && looks < FEW_LOOKS
}

/// Whether work is left to which the progress thread would come too late. `comes_again`: the
/// program polls, and does it itself. `wakes_at`: when the thread looks next.
#[inline]
fn is_left(engine: &Engine, comes_again: bool, wakes_at: u64) -> bool {
    let left = &engine.left;
    let is_early = left.until.is_some_and(|until| until < wakes_at);
    let is_left = left.waits_for_room || left.is_busy || is_early;
    is_left && !comes_again || engine.wants_links
}

/// Whether connections need a look although no event has reported one.
fn has_links_to_do(engine: &Engine, now: u64) -> bool {
    let is_long_ago = now.saturating_sub(engine.looked_at) >= LONGEST_NS;
    is_long_ago || engine.wants_links || engine.links.has_to_do(now)
}

#[cfg(test)]
mod tests {
    use super::{Engine, FEW_LOOKS, LONGEST_NS, comes_again, has_links_to_do, is_left};
    use crate::links::Key;

    #[test]
    fn connections_are_looked_at_when_there_is_something_to_do() {
        let mut engine = Engine::new(1, 7);
        let start = 5 * LONGEST_NS;
        assert!(has_links_to_do(&engine, start), "nobody has looked");
        engine.advance_links(start);
        assert!(!has_links_to_do(&engine, start + LONGEST_NS - 1));
        assert!(
            has_links_to_do(&engine, start + LONGEST_NS),
            "as a driver may have died"
        );
        // One that is to be made at a time.
        let (own, peer) = (0x100, 0x200);
        engine.links.want(own, Key::new(own, 2, peer), start + 10);
        assert!(!has_links_to_do(&engine, start + 9));
        assert!(has_links_to_do(&engine, start + 10));
        engine.links.give_back(own);
        engine.advance_links(start + 10);
        assert!(
            !has_links_to_do(&engine, start + 10),
            "nobody wants it any more"
        );
        engine.wants_links = true;
        assert!(has_links_to_do(&engine, start + 10));
        // A listener that no event queue has.
        engine.wants_links = false;
        engine.links.listen_at(7, verbs_core::table::Id(0));
        assert!(has_links_to_do(&engine, start + 10));
        if let Some(listener) = engine.links.listeners.first_mut() {
            listener.is_watched = true;
        }
        assert!(!has_links_to_do(&engine, start + 10));
    }

    #[test]
    fn what_is_left_wakes_the_thread_unless_the_program_polls() {
        let mut engine = Engine::new(1, 7);
        assert!(!is_left(&engine, false, 10));
        engine.left.until = Some(10);
        assert!(!is_left(&engine, false, 10), "the thread looks in time");
        assert!(is_left(&engine, false, 11));
        assert!(!is_left(&engine, true, 11), "the program does");
        engine.left.until = None;
        engine.left.waits_for_room = true;
        assert!(is_left(&engine, false, 0) && !is_left(&engine, true, 0));
        assert!(comes_again(true, 0) && !comes_again(false, 0));
        assert!(!comes_again(true, FEW_LOOKS), "it has stopped");
        engine.wants_links = true;
        assert!(
            is_left(&engine, true, 0),
            "a program's polls do not do that"
        );
    }
}
