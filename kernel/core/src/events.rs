//! Event queues: the registry of which queue watches which file, and the unread events of one
//! queue.
//!
//! A subscription connects a file, named by (scheme, number), with an event queue. Several queues
//! may watch one file, and one queue may watch a file under several descriptor numbers.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::ops::Bound;

/// A file in the registry: scheme id and the scheme's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileKey {
    /// Scheme id.
    pub scheme: usize,
    /// The scheme's number for the file.
    pub number: usize,
}

/// One notification for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// The queue for it.
    pub queue: usize,
    /// Descriptor number of the subscription.
    pub id: usize,
    /// Flags that have happened and are subscribed.
    pub flags: usize,
    /// User data from the first subscription.
    pub data: usize,
}

impl Notice {
    /// Whether another notification in its queue is of the same subscription.
    fn is_like(&self, other: &Self) -> bool {
        (self.id, self.data) == (other.id, other.data)
    }
}

#[derive(Clone, Copy, Debug)]
struct Subscription {
    data: usize,
    flags: usize,
}

/// The subscriptions of a file, by queue and descriptor number.
type Subscriptions = BTreeMap<(usize, usize), Subscription>;

/// All flags of these subscriptions.
fn all_flags(list: &Subscriptions) -> usize {
    list.values().fold(0, |flags, entry| flags | entry.flags)
}

/// Events at the end of a queue that are searched before an event is queued: one that is already
/// there is not queued again. Events are edges, so a program that reads seldom needs each only
/// once.
const RECENT: usize = 16;

/// Length from which on an event is searched for in the whole queue: its reader does not read.
const CROWDED: usize = 4096;

/// Events of a queue for which room is made beforehand: two for each subscription, and at most as
/// many as fit into a page.
const MAX_EXPECTED: usize = 4096 / size_of::<Notice>();

/// Most events of a queue: two for each descriptor that a program can have. Their list is the
/// largest that fits into contiguous memory.
pub const MAX_EVENTS: usize = 1 << 17;

/// Most subscriptions of one file. Whenever something happens to the file, all of them are visited
/// while nothing else runs in the kernel.
pub const MAX_SUBSCRIPTIONS: usize = 4096;

/// The events of one queue that its program has not read.
#[derive(Debug, Default)]
pub struct EventList {
    notices: VecDeque<Notice>,
    /// The same events in their order, so that the search in a long list is short: one event of a
    /// file can be as many events of a queue as there are descriptors. Only a list that is
    /// [`CROWDED`] has them, or was since it was last empty.
    sorted: BTreeSet<Notice>,
    /// Events for which room was made.
    expected: usize,
}

impl EventList {
    /// Makes room for the events of a further subscription, so that they are not lost when memory
    /// is used up. False without memory.
    pub fn make_room(&mut self) -> bool {
        self.expected = (self.expected + 2).min(MAX_EXPECTED);
        let more = self.expected.saturating_sub(self.notices.len());
        self.notices.try_reserve_exact(more).is_ok()
    }

    /// Whether another event takes memory.
    pub fn is_full(&self) -> bool {
        self.notices.len() == self.notices.capacity() || self.is_crowded()
    }

    /// Adds an event when there is no memory for a longer list: joins the events of each
    /// subscription to one, of which a list for which room was made has room for at least 64. Of a
    /// long list nothing is joined but the event. Returns whether to wake the reader.
    pub fn push_without_memory(&mut self, notice: Notice) -> bool {
        if !self.sorted.is_empty() {
            return false;
        }
        if self.notices.len() <= MAX_EXPECTED {
            self.join();
        }
        if let Some(first) = self.notices.iter_mut().find(|of| of.is_like(&notice)) {
            // The reader was woken for the other one.
            first.flags |= notice.flags;
            return false;
        }
        !self.is_full() && self.push(notice)
    }

    /// Makes one event of those of each subscription, at the place of the first.
    fn join(&mut self) {
        let mut joined = 0;
        for at in 0..self.notices.len() {
            let Some(&notice) = self.notices.get(at) else {
                break;
            };
            let mut others = self.notices.iter_mut().take(joined);
            match others.find(|of| of.is_like(&notice)) {
                Some(first) => first.flags |= notice.flags,
                None => {
                    self.notices.swap(joined, at);
                    joined += 1;
                }
            }
        }
        self.notices.truncate(joined);
    }

    /// Adds an event, unless it is already there. Returns whether to wake the reader. An event is
    /// lost when [`MAX_EVENTS`] others wait, or memory has no room for the list: that only happens
    /// to a program that subscribes and does not read.
    pub fn push(&mut self, notice: Notice) -> bool {
        if self.is_there(&notice)
            || self.notices.len() >= MAX_EVENTS
            || self.notices.try_reserve(1).is_err()
        {
            return false;
        }
        if !self.sorted.is_empty() {
            self.sorted.insert(notice);
        }
        self.notices.push_back(notice);
        true
    }

    fn is_there(&mut self, notice: &Notice) -> bool {
        match self.notices.len() {
            _ if !self.sorted.is_empty() => self.sorted.contains(notice),
            ..RECENT => false,
            RECENT..CROWDED => self.notices.iter().rev().take(RECENT).any(|n| n == notice),
            _ => {
                // To collect them would make a list first, which needs contiguous memory.
                self.sorted.extend(self.notices.iter().copied());
                self.sorted.contains(notice)
            }
        }
    }

    fn is_crowded(&self) -> bool {
        self.notices.len() >= CROWDED
    }

    /// The oldest event.
    pub fn first(&self) -> Option<&Notice> {
        self.notices.front()
    }

    /// Drops the oldest event.
    pub fn drop_first(&mut self) {
        if let Some(notice) = self.notices.pop_front() {
            // Copies of an event may be in the list from before it was crowded. It may then be
            // queued again, which does no harm.
            self.sorted.remove(&notice);
        }
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.notices.is_empty()
    }
}

/// Subscriptions of all queues.
#[derive(Debug)]
pub struct Registry {
    files: BTreeMap<FileKey, Subscriptions>,
    /// Scheme id of the queues themselves.
    queues: usize,
    /// The files that are queues, by queue. An event may reach all of them, so what it needs for
    /// that is here beforehand.
    watched_queues: BTreeMap<usize, Passing>,
    /// The number of the event that passes now, or passed last.
    event: u64,
}

/// How far an event has come with a watched queue.
#[derive(Clone, Copy, Debug, Default)]
struct Passing {
    /// The last event that has reached the queue.
    event: u64,
    /// The queue that the event has reached before this one and not passed yet.
    next: Option<usize>,
}

impl Registry {
    /// A registry without subscriptions; the queues are files of the scheme `queues`.
    pub const fn new(queues: usize) -> Self {
        Self {
            files: BTreeMap::new(),
            queues,
            watched_queues: BTreeMap::new(),
            event: 0,
        }
    }

    /// Removes the entry of a file.
    fn remove(&mut self, file: FileKey) {
        if self.files.remove(&file).is_some() && file.scheme == self.queues {
            self.watched_queues.remove(&file.number);
        }
    }

    /// Subscribes `queue` to `flags` of `file`, or unsubscribes it when `flags` is 0. Subscribing
    /// again changes the flags but keeps the first `data`, as on Redox; programs that want other
    /// data unsubscribe first. Returns the flags that it was subscribed to before; `None`, with
    /// nothing changed, if the file has [`MAX_SUBSCRIPTIONS`] others.
    pub fn subscribe(
        &mut self,
        file: FileKey,
        queue: usize,
        id: usize,
        data: usize,
        flags: usize,
    ) -> Option<usize> {
        if flags == 0 {
            let Some(list) = self.files.get_mut(&file) else {
                return Some(0);
            };
            let former = list.remove(&(queue, id)).map_or(0, |entry| entry.flags);
            if list.is_empty() {
                self.remove(file);
            }
            return Some(former);
        }
        let list = self.files.entry(file).or_default();
        if list.len() >= MAX_SUBSCRIPTIONS && !list.contains_key(&(queue, id)) {
            return None;
        }
        // Only a new entry is empty.
        if list.is_empty() && file.scheme == self.queues {
            self.watched_queues.insert(file.number, Passing::default());
        }
        let none = Subscription { data, flags: 0 };
        let entry = list.entry((queue, id)).or_insert(none);
        Some(core::mem::replace(&mut entry.flags, flags))
    }

    /// All flags of `file` that any queue watches.
    pub fn wanted(&self, file: FileKey) -> usize {
        self.files.get(&file).map_or(0, all_flags)
    }

    /// Forgets a file that is gone.
    pub fn forget_file(&mut self, file: FileKey) {
        self.remove(file);
    }

    /// Forgets what a queue that is gone watches, of the files behind `last`, up to the first file
    /// of which fewer flags are watched now. Returns that file and the flags that remain. Call it
    /// with that file until it returns `None`.
    pub fn forget_queue(
        &mut self,
        queue: usize,
        last: Option<FileKey>,
    ) -> Option<(FileKey, usize)> {
        let mut start = last.map_or(Bound::Unbounded, Bound::Excluded);
        let own = (queue, 0)..=(queue, usize::MAX);
        loop {
            let mut files = self.files.range((start, Bound::Unbounded));
            let is_its = |list: &Subscriptions| list.range(own.clone()).next().is_some();
            let file = files
                .find(|(_, list)| is_its(list))
                .map(|(file, _)| *file)?;
            let list = self.files.get_mut(&file)?;
            let before = all_flags(list);
            list.retain(|&(owner, _), _| owner != queue);
            let after = all_flags(list);
            if list.is_empty() {
                self.forget_file(file);
            }
            if after != before {
                return Some((file, after));
            }
            start = Bound::Excluded(file);
        }
    }

    /// Calls `tell` with every notice to queue when `flags` happen on `file`. A queue that
    /// receives one becomes readable itself: queues that watch it get a notice with `readable`.
    /// Each queue passes the event on once. This takes no memory, of which very many watchers
    /// would need much: queues that have to pass the event on are linked with each other.
    pub fn trigger(
        &mut self,
        file: FileKey,
        flags: usize,
        readable: usize,
        mut tell: impl FnMut(Notice),
    ) {
        self.event += 1;
        let (mut file, mut flags, mut next) = (file, flags, None);
        loop {
            let list = self.files.get(&file).into_iter().flatten();
            for (&(queue, id), entry) in list {
                let flags = flags & entry.flags;
                if flags == 0 {
                    continue;
                }
                tell(Notice {
                    queue,
                    id,
                    flags,
                    data: entry.data,
                });
                // Queues are hardly ever watched, and this runs for each request and interrupt.
                if self.watched_queues.is_empty() {
                    continue;
                }
                if let Some(passing) = self.watched_queues.get_mut(&queue)
                    && passing.event != self.event
                {
                    *passing = Passing {
                        event: self.event,
                        next: next.replace(queue),
                    };
                }
            }
            let Some(number) = next else { return };
            next = self
                .watched_queues
                .get(&number)
                .and_then(|passing| passing.next);
            file = FileKey {
                scheme: self.queues,
                number,
            };
            flags = readable;
        }
    }

    /// The first watched file of a scheme with this number or a higher one.
    pub fn next_file(&self, scheme: usize, from: usize) -> Option<usize> {
        let key = |number| FileKey { scheme, number };
        let mut files = self.files.range(key(from)..=key(usize::MAX));
        files.next().map(|(file, _)| file.number)
    }

    /// Number of watched files and of subscriptions.
    pub fn counts(&self) -> (usize, usize) {
        (
            self.files.len(),
            self.files.values().map(BTreeMap::len).sum(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const FILE: FileKey = FileKey {
        scheme: 20,
        number: 5,
    };

    /// Scheme id of the queues.
    const QUEUES: usize = 2;

    fn queue_file(queue: usize) -> FileKey {
        FileKey {
            scheme: QUEUES,
            number: queue,
        }
    }

    fn fire(registry: &mut Registry, flags: usize) -> Vec<Notice> {
        let mut notices = Vec::new();
        registry.trigger(FILE, flags, 1, |notice| notices.push(notice));
        notices
    }

    #[test]
    fn the_watched_files_of_one_scheme() {
        let mut registry = Registry::new(QUEUES);
        for (scheme, number) in [(19, 1), (20, 0), (20, 5), (20, usize::MAX), (21, 0)] {
            registry.subscribe(FileKey { scheme, number }, 1, 10, 0, 1);
        }
        let next = |from| registry.next_file(20, from);
        let found = [0, 1, 6].map(next);
        assert_eq!(found, [Some(0), Some(5), Some(usize::MAX)]);
        assert_eq!(registry.next_file(22, 0), None);
    }

    #[test]
    fn only_wanted_flags_are_reported() {
        let mut registry = Registry::new(QUEUES);
        registry.subscribe(FILE, 1, 10, 77, 1);
        registry.subscribe(FILE, 2, 11, 78, 3);
        assert_eq!(registry.wanted(FILE), 3);
        assert_eq!(
            fire(&mut registry, 2),
            [Notice {
                queue: 2,
                id: 11,
                flags: 2,
                data: 78
            }]
        );
        assert_eq!(fire(&mut registry, 3).len(), 2);
        assert_eq!(registry.counts(), (1, 2));
    }

    #[test]
    fn a_file_has_so_many_subscriptions_and_no_more() {
        let mut registry = Registry::new(QUEUES);
        for id in 0..MAX_SUBSCRIPTIONS {
            assert_eq!(registry.subscribe(FILE, id % 2, id, 0, 1), Some(0));
        }
        for queue in [0, 2] {
            assert_eq!(
                registry.subscribe(FILE, queue, MAX_SUBSCRIPTIONS, 0, 1),
                None
            );
        }
        assert_eq!(fire(&mut registry, 1).len(), MAX_SUBSCRIPTIONS);
        // What is there can change, and its place be taken by another one.
        assert_eq!(registry.subscribe(FILE, 0, 0, 0, 3), Some(1));
        assert_eq!(registry.subscribe(FILE, 2, 0, 0, 0), Some(0));
        assert_eq!(registry.subscribe(FILE, 0, 0, 0, 0), Some(3));
        assert_eq!(registry.subscribe(FILE, 2, 7, 0, 1), Some(0));
        assert_eq!(registry.counts(), (1, MAX_SUBSCRIPTIONS));
    }

    #[test]
    fn subscribing_again_keeps_the_data() {
        let mut registry = Registry::new(QUEUES);
        assert_eq!(registry.subscribe(FILE, 1, 10, 77, 1), Some(0));
        assert_eq!(registry.subscribe(FILE, 1, 10, 99, 3), Some(1));
        assert_eq!(
            fire(&mut registry, 3),
            [Notice {
                queue: 1,
                id: 10,
                flags: 3,
                data: 77
            }]
        );
        assert_eq!(registry.subscribe(FILE, 1, 10, 0, 0), Some(3));
        assert_eq!(registry.subscribe(FILE, 1, 10, 0, 0), Some(0));
        registry.subscribe(FILE, 1, 10, 99, 3);
        assert_eq!(
            fire(&mut registry, 1),
            [Notice {
                queue: 1,
                id: 10,
                flags: 1,
                data: 99
            }]
        );
    }

    #[test]
    fn nothing_is_left_behind() {
        let mut registry = Registry::new(QUEUES);
        registry.subscribe(FILE, 1, 10, 0, 1);
        registry.subscribe(FILE, 1, 10, 0, 0);
        assert_eq!(registry.counts(), (0, 0));
        registry.subscribe(FILE, 1, 10, 0, 1);
        assert_eq!(registry.forget_queue(1, None), Some((FILE, 0)));
        assert_eq!(registry.forget_queue(1, Some(FILE)), None);
        assert_eq!(registry.counts(), (0, 0));
        registry.subscribe(FILE, 1, 10, 0, 1);
        registry.forget_file(FILE);
        assert!(fire(&mut registry, 1).is_empty());
    }

    #[test]
    fn the_end_of_a_queue_tells_what_nobody_watches_any_more() {
        let mut registry = Registry::new(QUEUES);
        let number = |number| FileKey { number, ..FILE };
        registry.subscribe(number(1), 1, 10, 0, 3);
        registry.subscribe(number(2), 1, 20, 0, 3);
        registry.subscribe(number(2), 2, 20, 0, 1);
        registry.subscribe(number(3), 1, 30, 0, 1);
        registry.subscribe(number(3), 2, 30, 0, 3);
        registry.subscribe(number(4), 2, 40, 0, 1);
        let first = registry.forget_queue(1, None);
        assert_eq!(first, Some((number(1), 0)));
        let second = registry.forget_queue(1, Some(number(1)));
        assert_eq!(second, Some((number(2), 1)));
        assert_eq!(registry.forget_queue(1, Some(number(2))), None);
        assert_eq!(registry.wanted(number(3)), 3);
        assert_eq!(registry.counts(), (3, 3));
    }

    #[test]
    fn queues_watching_queues_hear_once_even_in_a_circle() {
        let mut registry = Registry::new(QUEUES);
        registry.subscribe(FILE, 1, 10, 0, 1);
        registry.subscribe(queue_file(1), 2, 20, 5, 1);
        registry.subscribe(queue_file(2), 1, 30, 6, 1);
        let notices = fire(&mut registry, 1);
        assert_eq!(notices.len(), 3);
        assert_eq!(
            notices.get(1),
            Some(&Notice {
                queue: 2,
                id: 20,
                flags: 1,
                data: 5
            })
        );
        assert_eq!(
            notices.get(2),
            Some(&Notice {
                queue: 1,
                id: 30,
                flags: 1,
                data: 6
            })
        );
        // The same without queues that watch queues.
        registry.forget_file(queue_file(1));
        registry.subscribe(queue_file(2), 1, 30, 6, 0);
        assert_eq!(fire(&mut registry, 1), notices.get(..1).unwrap());
        assert!(registry.watched_queues.is_empty());
    }

    /// The event number `id`.
    fn event(id: usize) -> Notice {
        Notice {
            queue: 1,
            id,
            flags: 1,
            data: 0,
        }
    }

    #[test]
    fn an_event_that_waits_already_is_not_queued_again() {
        let mut events = EventList::default();
        // The first few are not searched for.
        for _ in 0..RECENT {
            assert!(events.push(event(0)));
        }
        assert!(!events.push(event(0)));
        for id in 1..=RECENT {
            assert!(events.push(event(id)));
        }
        assert!(events.push(event(0)), "far from the end");
        for id in RECENT..CROWDED {
            events.push(event(id));
        }
        assert!(!events.push(event(1)), "anywhere in a crowded queue");
        assert_eq!(events.first(), Some(&event(0)));
        events.drop_first();
        while events.first() == Some(&event(0)) {
            events.drop_first();
        }
        assert_eq!(events.first(), Some(&event(1)));
    }

    #[test]
    fn subscriptions_bring_room_for_their_events() {
        let mut events = EventList::default();
        assert!(events.is_full());
        for id in 0..10 {
            assert!(events.make_room() && !events.is_full());
            assert!(events.push(event(2 * id)) && events.push(event(2 * id + 1)));
        }
        for _ in 0..1000 {
            assert!(events.make_room());
        }
        assert!(events.notices.capacity() * size_of::<Notice>() <= 4096);
    }

    #[test]
    fn events_of_a_subscription_are_joined_to_make_room() {
        let mut events = EventList::default();
        assert!(events.make_room() && events.make_room());
        let of = |id, flags| Notice { flags, ..event(id) };
        // One subscription has taken the room of both.
        for notice in [of(7, 1), of(7, 1), of(8, 1), of(7, 2)] {
            assert!(events.push(notice));
        }
        assert!(events.is_full());
        assert!(!events.push_without_memory(of(8, 2)) && !events.is_full());
        assert!(events.push_without_memory(of(9, 1)) && events.push_without_memory(of(10, 1)));
        assert!(
            events.is_full() && !events.push_without_memory(of(11, 1)),
            "no room is left"
        );
        assert!(!events.push_without_memory(of(9, 2)));
        let mut left = Vec::new();
        while let Some(&notice) = events.first() {
            left.push(notice);
            events.drop_first();
        }
        assert_eq!(left, [of(7, 3), of(8, 3), of(9, 3), of(10, 1)]);
    }

    #[test]
    fn a_queue_that_nobody_reads_has_an_end() {
        let mut events = EventList::default();
        for id in 0..MAX_EVENTS - 1 {
            assert!(events.push(event(id)));
        }
        // A file that is watched by all descriptors fires again. If each event were compared with
        // all others, this test would take minutes.
        for id in 0..MAX_EVENTS - 1 {
            assert!(!events.push(event(id)));
        }
        assert!(events.push(event(MAX_EVENTS)));
        assert!(!events.push(event(MAX_EVENTS + 1)));
        events.drop_first();
        assert!(events.push(event(MAX_EVENTS + 1)));
        assert!(!events.is_empty());
        // The longest list is one run of memory: 4 MiB at most.
        assert!(events.notices.capacity() * size_of::<Notice>() <= 4 << 20);
    }
}
