//! The thread that moves the connections of ids on, and sleeps as long as nothing happens on them.

use alloc::vec::Vec;
use core::time::Duration;

use hal::event::{Queue, Ready};
use libredox::Fd;
use syscall::flag::EventFlags;

use super::{
    Frame, Kind, LINKS, Link, LinkEventKind, LinkId, Links, MOST_SILENT, Stage, Target, Transport,
};

/// How long the thread sleeps before it looks at all links, also for the end of the driver.
const LOOK: Duration = Duration::from_secs(1);
/// Turns without sleep after which it looks at all links, too.
const MOST_TURNS: u32 = 256;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// There are new connections or listeners.
    Bell,
    /// Something has happened to the link in this slot.
    Slot(usize),
}

/// The thread of a program.
pub struct Worker {
    queue: Queue<Source>,
    bell: Fd,
    /// The links that the queue watches; 0 is none. A source of the queue stays for ever, so a slot
    /// is used again.
    slots: Vec<LinkId>,
    /// Turns since it has looked at all links.
    turns: u32,
    /// The links that had more than one turn takes: of what is left the queue does not tell again.
    unfinished: Vec<LinkId>,
}

impl Worker {
    /// Sleeps until this rings, and until something happens on a connection.
    ///
    /// # Errors
    /// Those of making an event queue.
    pub fn new(bell: Fd) -> verbs::Result<Self> {
        let mut queue = Queue::new()?;
        queue.subscribe(bell.raw(), EventFlags::EVENT_READ, Source::Bell)?;
        Ok(Self {
            queue,
            bell,
            slots: Vec::new(),
            turns: 0,
            unfinished: Vec::new(),
        })
    }

    /// Works until the program ends.
    ///
    /// # Errors
    /// Those of waiting for an event queue.
    pub fn run(mut self) -> verbs::Result<()> {
        let mut ready: Vec<Ready<Source>> = Vec::new();
        loop {
            if ready.iter().any(|of| of.source == Source::Bell) {
                // It says only that there is something to do.
                let _ = self.bell.read(&mut [0; 64]);
            }
            let limit = self.turn(&ready);
            self.queue.wait(limit, &mut ready)?;
        }
    }

    /// One turn, in which each link gets a bounded share: a peer that sends without a pause keeps
    /// the program's calls out no longer than that. How long to sleep then at most.
    fn turn(&mut self, ready: &[Ready<Source>]) -> Option<Duration> {
        let mut links = LINKS.lock();
        for id in self.due(&links, ready) {
            let Accepted { new, has_more } = accept(&mut links, id);
            self.step(&mut links, id);
            for id in &new {
                self.step(&mut links, *id);
            }
            let is_unfinished = |id: &LinkId| links.links.get(id).is_some_and(Link::has_more);
            let unfinished = new.into_iter().chain([id]).filter(is_unfinished);
            self.unfinished.extend(unfinished);
            self.unfinished.extend(has_more.then_some(id));
        }
        match () {
            () if !self.unfinished.is_empty() => Some(Duration::ZERO),
            // The end of the driver shows only to those that look.
            () => (!links.links.is_empty()).then_some(LOOK),
        }
    }

    /// The links to be looked at.
    fn due(&mut self, links: &Links, ready: &[Ready<Source>]) -> Vec<LinkId> {
        let mut due = core::mem::take(&mut self.unfinished);
        self.turns += 1;
        if (ready.is_empty() && due.is_empty()) || self.turns > MOST_TURNS {
            self.turns = 0;
            return links.links.keys().copied().collect();
        }
        for of in ready {
            match of.source {
                Source::Slot(slot) => due.extend(self.slots.get(slot).filter(|id| **id != 0)),
                Source::Bell => {
                    let new = links.links.iter().filter(|(_, link)| link.slot.is_none());
                    due.extend(new.map(|(id, _)| *id));
                }
            }
        }
        due.sort_unstable();
        due.dedup();
        due
    }

    /// Moves a link on, if it is there, and tells what there is to be told.
    fn step(&mut self, links: &mut Links, id: LinkId) {
        let Some(link) = links.links.get_mut(&id) else {
            return;
        };
        let (told, mut is_useless) = link.step(id);
        let (owner, listener) = (link.owner, link.listener);
        for event in told {
            if matches!(event.kind, LinkEventKind::Request(..)) && links.are_many(listener) {
                is_useless = links.refuse(id);
                break;
            }
            let Some(link) = links.links.get_mut(&id) else {
                break;
            };
            // A request is the listener's.
            match owner == 0 && event.target == Target::Link(id) {
                true => link.early.push(event),
                false => link.channel.push(event),
            }
        }
        if is_useless {
            links.links.remove(&id);
            return;
        }
        self.watch(links, id);
    }

    /// Has the queue tell what a link waits for.
    fn watch(&mut self, links: &mut Links, id: LinkId) {
        let slot = self.slot_of(links, id);
        let Some(link) = links.links.get_mut(&id) else {
            return;
        };
        let wanted = link.wanted();
        link.slot = Some(slot);
        if link.watched != wanted {
            // A file of a dead driver is refused; the next turns find the end.
            let watched = self.queue.subscribe(link.fd(), wanted, Source::Slot(slot));
            if watched.is_ok() || wanted.is_empty() {
                link.watched = wanted;
            }
        }
    }

    /// The slot of a link: its own, or that of one that has gone, or a new one.
    fn slot_of(&mut self, links: &Links, id: LinkId) -> usize {
        let own = links.links.get(&id).and_then(|link| link.slot);
        let is_free = |of: &LinkId| !links.links.contains_key(of);
        match own.or_else(|| self.slots.iter().position(is_free)) {
            Some(slot) => {
                if let Some(of) = self.slots.get_mut(slot) {
                    *of = id;
                }
                slot
            }
            None => {
                self.slots.push(id);
                self.slots.len() - 1
            }
        }
    }
}

impl Links {
    /// Whether a listener has as many requests as it may that its program has not taken.
    fn are_many(&self, listener: LinkId) -> bool {
        let of = self.links.get(&listener).map(|link| &link.stage);
        let Some(Stage::Listening(_, backlog)) = of else {
            return false;
        };
        let links = self.links.values();
        let is_one = |link: &&Link| {
            let has_asked = !matches!(link.stage, Stage::Silent(..));
            link.listener == listener && link.owner == 0 && has_asked
        };
        // The one that asks now is among them.
        links.filter(is_one).count() > *backlog
    }

    /// Refuses what a peer has asked for; the connection is of no use any more.
    fn refuse(&mut self, id: LinkId) -> bool {
        if let Some(link) = self.links.get_mut(&id) {
            link.send(&Frame::plain(Kind::Reject));
        }
        true
    }
}

/// What a listener has given in one turn.
#[derive(Default)]
struct Accepted {
    new: Vec<LinkId>,
    /// There may be more.
    has_more: bool,
}

/// Takes the connections that peers have made with a link, if it is a listener.
fn accept(links: &mut Links, id: LinkId) -> Accepted {
    let mut accepted = Accepted::default();
    let Some(link) = links.links.get(&id) else {
        return accepted;
    };
    let (Transport::Listener(listener), Stage::Listening(space, _)) =
        (&link.transport, &link.stage)
    else {
        return accepted;
    };
    let (space, channel) = (*space, link.channel.clone());
    let mut endpoints = Vec::new();
    // An error is the driver's end.
    while endpoints.len() < MOST_SILENT
        && let Ok(Some(found)) = listener.try_accept()
    {
        endpoints.push(found);
    }
    accepted.has_more = endpoints.len() == MOST_SILENT;
    for (endpoint, peer) in endpoints {
        // A connection that cannot be read without waiting is dropped.
        if endpoint.set_nonblocking(true).is_ok() {
            let stage = Stage::Silent(id, peer, space);
            let new = links.add(Transport::Endpoint(endpoint), stage, channel.clone());
            if let Some(link) = links.links.get_mut(&new) {
                link.listener = id;
            }
            accepted.new.push(new);
        }
    }
    // Those that say nothing must not keep out those that do.
    let is_silent = |link: &Link| matches!(link.stage, Stage::Silent(..));
    while links.links.values().filter(|link| is_silent(link)).count() > MOST_SILENT {
        let oldest = links.links.iter().find(|(_, link)| is_silent(link));
        if let Some(id) = oldest.map(|(id, _)| *id) {
            links.links.remove(&id);
        }
    }
    accepted
}
