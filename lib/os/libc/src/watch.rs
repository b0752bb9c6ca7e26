//! Waiting for several descriptors of any kinds: SCIF endpoints answer with SCIF's own bits,
//! counters by their value, the others with what their scheme reports.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_short};
use core::time::Duration;

use hal::event::{Queue, Ready};
use runtime::time::Instant;
use runtime::{Result, fd};
use syscall::error::{EBADF, ENODEV};
use syscall::flag::EventFlags;

use crate::bell::Bell;
use crate::counter::Counter;
use crate::{descriptor, own};

unsafe extern "C" {
    /// The readiness of an endpoint, or a negated error number; in `libscif`.
    safe fn skiff_scif_readiness(number: c_int, events: c_int) -> c_int;
    /// The readiness of a socket, or a negated error number; in `libsocket`.
    safe fn skiff_socket_readiness(number: c_int, events: c_int) -> c_int;
    /// Stores descriptors that are to be watched beside the socket's own; how many.
    fn skiff_socket_watched(number: c_int, places: *mut c_int, most: usize) -> usize;
}

/// Most descriptors that are watched beside a socket's own.
const MOST_WATCHED: usize = 128;
/// The key of events of those descriptors.
const WATCHED: usize = usize::MAX;

/// POLLIN.
pub const IN: c_short = 0x01;
/// POLLOUT.
pub const OUT: c_short = 0x04;
/// POLLERR.
pub const ERR: c_short = 0x08;
/// POLLHUP.
pub const HUP: c_short = 0x10;
/// POLLNVAL.
pub const NVAL: c_short = 0x20;
/// POLLRDNORM and POLLWRNORM.
pub const IN_NORMAL: c_short = 0x40;
const OUT_NORMAL: c_short = 0x100;

/// C's `struct pollfd`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    /// The descriptor; a negative one is not looked at.
    pub number: c_int,
    /// What is asked for.
    pub events: c_short,
    /// What is there.
    pub revents: c_short,
}

impl Entry {
    /// One of which nothing is known yet.
    pub fn new(number: c_int, events: c_short) -> Self {
        let revents = 0;
        Self {
            number,
            events,
            revents,
        }
    }
}

/// How an entry's readiness is found.
#[derive(Clone)]
enum Source {
    /// Not looked at: its number is negative.
    None,
    /// Its number names nothing.
    Unknown,
    /// By asking the endpoint.
    Scif,
    /// By asking the counter; events tell of its changes.
    Counter(Arc<Counter>),
    /// By whoever waits; events tell that a set is to be looked at again.
    Set(Arc<Bell>),
    /// By an event.
    Event,
    /// Always ready for everything: plain files.
    Always,
    /// The daemon behind it has ended: an error.
    Gone,
}

impl Source {
    fn of(number: c_int) -> Self {
        if number < 0 {
            return Self::None;
        }
        match own::kind(number) {
            Some(own::Kind::Counter(counter)) => return Self::Counter(counter),
            Some(own::Kind::Set(_, bell)) => return Self::Set(bell),
            None => {}
        }
        match descriptor::is_scif(number) {
            Ok(true) => Self::Scif,
            Ok(false) if fd::fcntl(number as usize, syscall::F_GETFD, 0).is_ok() => Self::Event,
            _ => Self::Unknown,
        }
    }

    fn is_event(&self) -> bool {
        matches!(self, Self::Event)
    }

    /// Whether an event is only a reason to look.
    fn is_asked(&self) -> bool {
        matches!(self, Self::Scif | Self::Counter(_) | Self::Set(_))
    }
}

/// How many entries are ready.
pub fn count(entries: &[Entry]) -> usize {
    let ready = entries.iter().filter(|entry| entry.revents != 0);
    ready.count()
}

/// Looks at the entries, whenever one of them may have changed, until `judge` gives something for
/// what is found; `None` after `limit`.
///
/// # Errors
/// Those of event queues: `EMFILE`, `ENOMEM`.
pub fn watch<T>(
    entries: &mut [Entry],
    limit: Option<Duration>,
    mut judge: impl FnMut(&mut [Entry]) -> Option<T>,
) -> Result<Option<T>> {
    let deadline = limit.map(|limit| Instant::now().as_nanos().saturating_add(nanoseconds(limit)));
    let mut sources: Vec<Source> = entries
        .iter()
        .map(|entry| Source::of(entry.number))
        .collect();
    let nothing_but_asked = !sources.iter().any(Source::is_event);
    entries.iter_mut().for_each(|entry| entry.revents = 0);
    look(entries, &sources);
    if nothing_but_asked {
        if let Some(result) = judge(entries) {
            return Ok(Some(result));
        }
        if limit == Some(Duration::ZERO) {
            return Ok(None);
        }
    }
    let mut queue: Queue<usize> = Queue::new()?;
    for index in 0..entries.len() {
        subscribe(&mut queue, entries, index, &mut sources)?;
    }
    let mut events = Vec::new();
    let mut watched = Vec::new();
    // After subscribing, so that nothing that happens in between is missed.
    look(entries, &sources);
    watch_more(&mut queue, entries, &mut watched);
    // What is there already is told at once, with what events say at this moment.
    let is_set = |source: &Source| matches!(source, Source::Set(_));
    let mut is_in_haste = count(entries) > 0 || sources.iter().any(is_set);
    loop {
        let left = deadline.map(|deadline| {
            Duration::from_nanos(deadline.saturating_sub(Instant::now().as_nanos()))
        });
        let is_last = left == Some(Duration::ZERO);
        let left = match core::mem::take(&mut is_in_haste) {
            true => Some(Duration::ZERO),
            false => left,
        };
        events.clear();
        // With entries that report by events one look at the queue is needed in any case.
        if !nothing_but_asked || left != Some(Duration::ZERO) {
            queue.wait(left, &mut events)?;
        }
        for event in events.iter().filter(|event| event.source != WATCHED) {
            let number = entries[event.source].number;
            for (entry, source) in entries.iter_mut().zip(&sources) {
                if entry.number == number && source.is_event() {
                    entry.revents |= bits(event.flags) & (entry.events | ERR);
                }
            }
        }
        look(entries, &sources);
        watch_more(&mut queue, entries, &mut watched);
        if let Some(result) = judge(entries) {
            return Ok(Some(result));
        }
        if is_last {
            return Ok(None);
        }
        for event in events.iter().filter(|event| event.source != WATCHED) {
            renew(&mut queue, entries, &mut sources, event)?;
        }
        for (entry, source) in entries.iter_mut().zip(&sources) {
            // The next event says it again.
            if source.is_event() {
                entry.revents = 0;
            }
        }
    }
}

fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}

/// Subscribes an endpoint again of which an event has told something that is over already, as
/// another thread was quicker: the peer is asked once for word of the next bytes, and that was it.
fn renew(
    queue: &mut Queue<usize>,
    entries: &[Entry],
    sources: &mut [Source],
    event: &Ready<usize>,
) -> Result<()> {
    let number = entries[event.source].number;
    let same = entries.iter().filter(|entry| entry.number == number);
    let (asked, found) = same.fold((0, 0), |(asked, found), entry| {
        (asked | entry.events, found | entry.revents)
    });
    let is_over = bits(event.flags) & asked & !found != 0;
    match sources[event.source] {
        Source::Scif if is_over => subscribe(queue, entries, event.source, sources),
        _ => Ok(()),
    }
}

fn bits(flags: EventFlags) -> c_short {
    let mut bits = 0;
    if flags.contains(EventFlags::EVENT_READ) {
        bits |= IN | IN_NORMAL;
    }
    if flags.contains(EventFlags::EVENT_WRITE) {
        bits |= OUT | OUT_NORMAL;
    }
    bits
}

fn subscribe(
    queue: &mut Queue<usize>,
    entries: &[Entry],
    index: usize,
    sources: &mut [Source],
) -> Result<()> {
    let number = entries[index].number;
    let source = &mut sources[index];
    // One subscription for each descriptor; it asks for what any of its entries asks.
    let first = entries.iter().position(|entry| entry.number == number);
    let is_watched = source.is_event() || source.is_asked() && first == Some(index);
    if !is_watched {
        return Ok(());
    }
    let mut wanted = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    match source {
        Source::Event => {
            let events = entries.iter().filter(|entry| entry.number == number);
            let events = events.fold(0, |events, entry| events | entry.events);
            wanted.set(EventFlags::EVENT_READ, events & (IN | IN_NORMAL) != 0);
            wanted.set(EventFlags::EVENT_WRITE, events & (OUT | OUT_NORMAL) != 0);
        }
        Source::Counter(_) | Source::Set(_) => wanted = EventFlags::EVENT_READ,
        _ => {}
    }
    if wanted.is_empty() {
        return Ok(());
    }
    // Not the number of a counter or a set, where another thread may have put another file.
    let watched = match source {
        Source::Counter(counter) => counter.watched(),
        Source::Set(bell) => bell.reader(),
        _ => number as usize,
    };
    match queue.subscribe(watched, wanted, first.unwrap_or(index)) {
        // `dup2` has put one of these there: what was subscribed is its pipe, which tells of it.
        Ok(()) if source.is_event() && own::is_own(number) => {
            for (entry, source) in entries.iter().zip(sources) {
                if entry.number == number {
                    *source = Source::of(number);
                }
            }
        }
        Ok(()) => {}
        // Another thread has closed it.
        Err(error) if error.errno == EBADF => *source = Source::Unknown,
        Err(error) if error.errno == ENODEV && source.is_event() => *source = Source::Gone,
        // Files without events are always ready, as POSIX has it for plain files.
        Err(_) if source.is_event() => *source = Source::Always,
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Whether a file has events: plain files have none.
///
/// # Errors
/// `EBADF`, `EMFILE`, `ENOMEM`.
pub fn has_events(number: c_int) -> Result<bool> {
    let mut queue: Queue<usize> = Queue::new()?;
    let wanted = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    match queue.subscribe(descriptor::check(number)?, wanted, 0) {
        Ok(()) => Ok(true),
        Err(error) if error.errno == EBADF => Err(error),
        Err(error) => Ok(error.errno == ENODEV),
    }
}

/// Watches what sockets want to have watched beside themselves, as far as it is new: connections
/// that listeners are setting up. What has come already makes an event.
fn watch_more(queue: &mut Queue<usize>, entries: &[Entry], watched: &mut Vec<c_int>) {
    for entry in entries
        .iter()
        .filter(|entry| descriptor::is_socket(entry.number))
    {
        let mut places = [0; MOST_WATCHED];
        // SAFETY: the array has that many places.
        let count =
            unsafe { skiff_socket_watched(entry.number, places.as_mut_ptr(), MOST_WATCHED) };
        for number in places.into_iter().take(count) {
            if !watched.contains(&number) {
                // One that has gone meanwhile has nothing to say.
                let _ = queue.subscribe(number as usize, EventFlags::EVENT_READ, WATCHED);
                watched.push(number);
            }
        }
    }
}

/// Asks all that can be asked.
fn look(entries: &mut [Entry], sources: &[Source]) {
    for (entry, source) in entries.iter_mut().zip(sources) {
        entry.revents = match source {
            Source::Scif => {
                let found = match descriptor::is_socket(entry.number) {
                    true => skiff_socket_readiness(entry.number, entry.events.into()),
                    false => skiff_scif_readiness(entry.number, entry.events.into()),
                };
                match found {
                    found @ 0.. => found as c_short,
                    _ => NVAL,
                }
            }
            Source::Counter(counter) => {
                let (reads, writes) = (IN | IN_NORMAL, OUT | OUT_NORMAL);
                let (has_value, has_room) = counter.readiness(entry.events & writes != 0);
                let found = if has_value { reads } else { 0 } | if has_room { writes } else { 0 };
                entry.events & found
            }
            Source::Always => entry.events & (IN | OUT | IN_NORMAL | OUT_NORMAL),
            Source::Gone => ERR,
            Source::Unknown => NVAL,
            Source::Set(_) | Source::None => 0,
            Source::Event => entry.revents,
        };
    }
}

/// A time limit in milliseconds as `poll` takes it: a negative one is none.
pub fn limit_of(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}
