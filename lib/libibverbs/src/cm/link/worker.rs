//! The thread that serves the connections of ids. It sleeps as long as nothing happens on them.

use alloc::vec::Vec;
use core::time::Duration;

use hal::event::{Queue, Ready};
use libredox::Fd;
use runtime::time::Instant;
use scif::NodeId;
use syscall::flag::EventFlags;
use verbs::shares::surplus;

use super::{
    Frame, Kind, LINKS, Link, LinkEventKind, LinkId, Links, MOST_SILENT, Stage, Target, Transport,
};

/// How often the thread checks all links: for the end of the driver, and for peers that do not
/// answer.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// New connections or listeners exist.
    Bell,
    /// An event of the link in this slot.
    Slot(usize),
}

/// The state of the thread.
pub struct Worker {
    queue: Queue<Source>,
    bell: Fd,
    /// The links that the queue watches; 0 means none. A source stays in the queue for ever, so
    /// slots are reused.
    slots: Vec<LinkId>,
    /// When the next check of all links is due.
    next_look: Instant,
    /// Links with bytes left after their share of a turn, which the queue does not report again.
    unfinished: Vec<LinkId>,
}

impl Worker {
    /// Watches `bell`, which announces new connections and listeners.
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
            next_look: Instant::now(),
            unfinished: Vec::new(),
        })
    }

    /// Serves the links until the program ends.
    ///
    /// # Errors
    /// Those of waiting for an event queue.
    pub fn run(mut self) -> verbs::Result<()> {
        let mut ready: Vec<Ready<Source>> = Vec::new();
        loop {
            if ready.iter().any(|of| of.source == Source::Bell) {
                // The bytes have no meaning besides waking the thread.
                let _ = self.bell.read(&mut [0; 64]);
            }
            let limit = self.turn(&ready);
            self.queue.wait(limit, &mut ready)?;
        }
    }

    /// Gives each link a bounded share of work: a peer that sends without a pause keeps the
    /// program's calls from the lock no longer than that. Returns how long to sleep afterwards at
    /// most.
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
            // The end of the driver raises no event; only a check finds it.
            () => (!links.links.is_empty()).then_some(LOOK),
        }
    }

    /// Returns the links to check.
    fn due(&mut self, links: &Links, ready: &[Ready<Source>]) -> Vec<LinkId> {
        let mut due = core::mem::take(&mut self.unfinished);
        let now = Instant::now();
        if (ready.is_empty() && due.is_empty()) || self.next_look <= now {
            self.next_look = now + LOOK;
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

    /// Advances a link, if it exists, and delivers its events.
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
            // A request is an event of the listener.
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

    /// Subscribes to the events that a link waits for.
    fn watch(&mut self, links: &mut Links, id: LinkId) {
        let slot = self.slot_of(links, id);
        let Some(link) = links.links.get_mut(&id) else {
            return;
        };
        let wanted = link.wanted();
        link.slot = Some(slot);
        if link.watched != wanted {
            // The queue refuses a file of a dead driver; the next turns find its end.
            let watched = self.queue.subscribe(link.fd(), wanted, Source::Slot(slot));
            if watched.is_ok() || wanted.is_empty() {
                link.watched = wanted;
            }
        }
    }

    /// Returns the slot of a link: its present one, that of a link that has gone, or a new one.
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
    /// Whether a listener has more requests that its program has not taken than its backlog
    /// allows.
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
        // The new request is among them.
        links.filter(is_one).count() > *backlog
    }

    /// Refuses a peer's request. Returns `true`: the connection can be removed.
    fn refuse(&mut self, id: LinkId) -> bool {
        if let Some(link) = self.links.get_mut(&id) {
            link.send(&Frame::plain(Kind::Reject));
        }
        true
    }
}

/// The connections that a listener has accepted in one turn.
#[derive(Default)]
struct Accepted {
    new: Vec<LinkId>,
    /// More connections may wait.
    has_more: bool,
}

/// Accepts the connections that wait at a link, if it is a listener.
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
    // An error means that the driver has ended.
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
    bound_silent(links);
    accepted
}

/// Ends connections without a request, the oldest of the node with most: they must not keep out
/// those that send one.
fn bound_silent(links: &mut Links) {
    loop {
        let silent = links
            .links
            .iter()
            .filter_map(|(id, link)| match link.stage {
                Stage::Silent(_, peer, _) => Some((*id, peer.node())),
                _ => None,
            });
        let (ids, nodes): (Vec<LinkId>, Vec<NodeId>) = silent.unzip();
        let over = surplus(&nodes).filter(|_| nodes.len() > MOST_SILENT);
        match over.and_then(|at| ids.get(at)) {
            Some(id) => drop(links.links.remove(id)),
            None => return,
        }
    }
}
