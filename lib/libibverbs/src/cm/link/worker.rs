//! The thread that moves the connections of ids on, and sleeps as long as nothing happens on them.

use alloc::vec::Vec;
use core::time::Duration;

use hal::event::{Queue, Ready};
use libredox::Fd;
use syscall::flag::EventFlags;

use super::{LINKS, Link, LinkId, Links, MOST_SILENT, Stage, Target, Transport};

/// How often the thread looks whether the driver lives.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Bell,
    /// A connection or listener: all are looked at.
    Link,
}

/// The thread of a program.
pub struct Worker {
    queue: Queue<Source>,
    bell: Fd,
}

impl Worker {
    /// Sleeps until this rings, and until something happens on a connection.
    ///
    /// # Errors
    /// Those of making an event queue.
    pub fn new(bell: Fd) -> verbs::Result<Self> {
        let mut queue = Queue::new()?;
        queue.subscribe(bell.raw(), EventFlags::EVENT_READ, Source::Bell)?;
        Ok(Self { queue, bell })
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
            let limit = self.turn();
            self.queue.wait(limit, &mut ready)?;
        }
    }

    /// One turn; how long to sleep then at most.
    fn turn(&mut self) -> Option<Duration> {
        let mut links = LINKS.lock();
        accept(&mut links);
        let ids: Vec<LinkId> = links.links.keys().copied().collect();
        for id in ids {
            let Some(link) = links.links.get_mut(&id) else {
                continue;
            };
            let (told, is_useless) = link.step(id);
            for event in told {
                // A request is the listener's.
                match link.owner == 0 && event.target == Target::Link(id) {
                    true => link.early.push(event),
                    false => link.channel.push(event),
                }
            }
            if is_useless {
                links.links.remove(&id);
                continue;
            }
            let wanted = link.wanted();
            if link.watched != wanted {
                // A file of a dead driver is refused; the next turns find the end.
                let watched = self.queue.subscribe(link.fd(), wanted, Source::Link);
                if watched.is_ok() || wanted.is_empty() {
                    link.watched = wanted;
                }
            }
        }
        // The end of the driver shows only to those that look.
        (!links.links.is_empty()).then_some(LOOK)
    }
}

/// Takes connections that peers have made.
fn accept(links: &mut Links) {
    let mut accepted = Vec::new();
    for (id, link) in &links.links {
        if let (Transport::Listener(listener), Stage::Listening(space)) =
            (&link.transport, &link.stage)
        {
            // An error is the driver's end.
            while let Ok(Some((endpoint, peer))) = listener.try_accept() {
                let stage = Stage::Silent(*id, peer, *space);
                accepted.push((endpoint, stage, link.channel.clone()));
            }
        }
    }
    for (endpoint, stage, channel) in accepted {
        // A connection that cannot be read without waiting is dropped.
        if endpoint.set_nonblocking(true).is_ok() {
            links.add(Transport::Endpoint(endpoint), stage, channel);
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
}
