//! What event queues report of an engine: its lanes, its listeners, and connections in the making.

use syscall::error::ENODEV;
use syscall::flag::EventFlags;

use crate::engine::Engine;
use crate::links::{Pending, Watched};

/// An event queue that may have the lanes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Watcher {
    /// The one of the engine's owner.
    Owner,
    /// The one of a thread that waits for a completion event.
    Waiter,
}

impl Engine {
    /// Makes an event queue report what needs a look, and nothing else. `subscribe` is its call.
    /// While the program polls (`is_polled`) it reports no lane. With `has_waiter` it leaves out
    /// the lanes that the event queue of a waiting thread reports. A file that the event queue
    /// refuses is tried again with the next call; if its driver has died, a lane ends.
    pub fn watch(
        &mut self,
        mut subscribe: impl FnMut(usize, EventFlags, Watched) -> syscall::error::Result<()>,
        is_polled: bool,
        has_waiter: bool,
    ) {
        let lane = |fd, flags| subscribe(fd, flags, Watched::Lane);
        self.watch_lanes(Watcher::Owner, lane, !is_polled, has_waiter);
        for listening in &mut self.links.listeners {
            let Some(listener) = listening.listener.as_ref() else {
                continue;
            };
            if !listening.is_watched {
                let watched = subscribe(listener.fd(), EventFlags::EVENT_READ, Watched::Link);
                // If the driver is dead, `accept` reports it.
                listening.is_watched =
                    watched.map_or_else(|error| error.errno == ENODEV, |()| true);
            }
        }
        for pending in &mut self.links.pending {
            let (endpoint, is_watched, flags) = match pending {
                Pending::Wanted { .. } => continue,
                Pending::Connecting {
                    endpoint,
                    is_watched,
                    ..
                } => (endpoint, is_watched, EventFlags::EVENT_WRITE),
                Pending::Accepted {
                    endpoint,
                    is_watched,
                    ..
                } => (endpoint, is_watched, EventFlags::EVENT_READ),
            };
            if !*is_watched {
                *is_watched = subscribe(endpoint.fd(), flags, Watched::Link).is_ok();
            }
        }
    }

    /// [`watch`](Self::watch) for the lanes alone, and for one of the event queues that may have
    /// them.
    pub(crate) fn watch_lanes(
        &mut self,
        watcher: Watcher,
        mut subscribe: impl FnMut(usize, EventFlags) -> syscall::error::Result<()>,
        is_wanted: bool,
        has_waiter: bool,
    ) {
        for stream in self.lanes.streams() {
            let mut wanted = EventFlags::EVENT_READ;
            wanted.set(EventFlags::EVENT_WRITE, stream.wants_room);
            // A lane that was added, or began to wait for room, while the thread slept is not in
            // its queue.
            let by_waiter = stream.watched[Watcher::Waiter as usize];
            let is_waiters = has_waiter && by_waiter.is_some_and(|of| of.contains(wanted));
            if !is_wanted || is_waiters {
                wanted = EventFlags::empty();
            }
            if stream.watched[watcher as usize] == Some(wanted) {
                continue;
            }
            match subscribe(stream.fd(), wanted) {
                Ok(()) => stream.watched[watcher as usize] = Some(wanted),
                Err(error) if error.errno == ENODEV => {
                    stream.watched[watcher as usize] = Some(wanted);
                    stream.lose_driver();
                    self.left.is_busy = true;
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EventFlags, Watcher};
    use crate::engine::Engine;
    use crate::played::Driver;
    use crate::stream::Stream;

    /// The events that an event queue is asked to report of the lanes.
    fn told(engine: &mut Engine, watcher: Watcher, is_wanted: bool) -> Vec<EventFlags> {
        let mut told = Vec::new();
        let subscribe = |_, flags| {
            told.push(flags);
            Ok(())
        };
        engine.watch_lanes(watcher, subscribe, is_wanted, false);
        told
    }

    #[test]
    fn a_new_lane_is_watched_whatever_it_wants() {
        let driver = Driver::default();
        driver.play(|| {
            let all = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
            for (wants_room, is_wanted, wish) in [
                (true, true, all),
                (false, true, EventFlags::EVENT_READ),
                (false, false, EventFlags::empty()),
            ] {
                let mut engine = Engine::new(1, 7);
                let mut stream = Stream::new(driver.endpoint());
                stream.wants_room = wants_room;
                engine.lanes.insert_stream(stream);
                assert_eq!(told(&mut engine, Watcher::Owner, is_wanted), [wish]);
                assert_eq!(told(&mut engine, Watcher::Owner, is_wanted), []);
                // The queue of a waiter has no lane at first.
                assert_eq!(told(&mut engine, Watcher::Waiter, false), []);
            }
        });
    }
}
