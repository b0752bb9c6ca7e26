//! `poll` and `select`, over any descriptors: SCIF endpoints answer with SCIF's own bits, the
//! others with what their scheme reports.

use alloc::vec::Vec;
use core::ffi::{c_int, c_short, c_ulong};
use core::time::Duration;

use hal::event::Queue;
use runtime::time::Instant;
use runtime::{Error, Result, fd};
use syscall::error::{EBADF, EINVAL, ENODEV};
use syscall::flag::EventFlags;

use crate::files::Timespec;
use crate::time::Timeval;
use crate::{descriptor, errno};

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

const IN: c_short = 0x01;
const OUT: c_short = 0x04;
const ERR: c_short = 0x08;
const NVAL: c_short = 0x20;
/// POLLRDNORM and POLLWRNORM.
const IN_NORMAL: c_short = 0x40;
const OUT_NORMAL: c_short = 0x100;

/// C's `struct pollfd`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    number: c_int,
    events: c_short,
    revents: c_short,
}

/// How an entry's readiness is found.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// Not looked at: its number is negative, or names nothing.
    None,
    /// By asking the endpoint.
    Scif,
    /// By an event.
    Event,
    /// Always ready for everything: plain files.
    Always,
    /// The daemon behind it has ended: an error.
    Gone,
}

/// Waits until an entry is ready, at most `limit`; returns how many are.
fn wait(entries: &mut [Entry], limit: Option<Duration>) -> Result<usize> {
    let deadline = limit.map(|limit| (Instant::now() + limit).as_nanos());
    let mut sources = Vec::with_capacity(entries.len());
    for entry in entries.iter_mut() {
        entry.revents = 0;
        let source = match entry.number {
            number if number < 0 => Source::None,
            number => match descriptor::is_scif(number) {
                Ok(true) => Source::Scif,
                Ok(false) if fd::fcntl(number as usize, syscall::F_GETFD, 0).is_ok() => {
                    Source::Event
                }
                _ => {
                    entry.revents = NVAL;
                    Source::None
                }
            },
        };
        sources.push(source);
    }
    let nothing_but_scif = !sources.contains(&Source::Event);
    let ready = look(entries, &sources);
    if nothing_but_scif && (ready > 0 || limit == Some(Duration::ZERO)) {
        return Ok(ready);
    }
    let mut queue: Queue<usize> = Queue::new()?;
    for (index, source) in sources.iter_mut().enumerate() {
        subscribe(&mut queue, entries, index, source)?;
    }
    let mut events = Vec::new();
    let mut watched = Vec::new();
    loop {
        // After subscribing, so that nothing that happens in between is missed.
        let ready = look(entries, &sources);
        watch(&mut queue, entries, &mut watched);
        let left = match deadline {
            _ if ready > 0 => Some(Duration::ZERO),
            None => None,
            Some(deadline) => Some(Duration::from_nanos(
                deadline.saturating_sub(Instant::now().as_nanos()),
            )),
        };
        // With entries that report by events one look at the queue is needed in any case.
        if left == Some(Duration::ZERO) && nothing_but_scif {
            return Ok(ready);
        }
        queue.wait(left, &mut events)?;
        for event in events.iter().filter(|event| event.source != WATCHED) {
            let number = entries[event.source].number;
            for (entry, source) in entries.iter_mut().zip(&sources) {
                if entry.number == number && *source == Source::Event {
                    entry.revents |= bits(event.flags) & (entry.events | ERR);
                }
            }
        }
        let ready = look(entries, &sources);
        if ready > 0 || left == Some(Duration::ZERO) {
            return Ok(ready);
        }
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
    source: &mut Source,
) -> Result<()> {
    let number = entries[index].number;
    // One subscription for each descriptor; it asks for what any of its entries asks.
    let first = entries.iter().position(|entry| entry.number == number);
    if *source == Source::None || first != Some(index) && *source == Source::Scif {
        return Ok(());
    }
    let mut wanted = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    if *source == Source::Event {
        let events = entries.iter().filter(|entry| entry.number == number);
        let events = events.fold(0, |events, entry| events | entry.events);
        wanted.set(EventFlags::EVENT_READ, events & (IN | IN_NORMAL) != 0);
        wanted.set(EventFlags::EVENT_WRITE, events & (OUT | OUT_NORMAL) != 0);
    }
    if wanted.is_empty() {
        return Ok(());
    }
    match queue.subscribe(number as usize, wanted, first.unwrap_or(index)) {
        Ok(()) => Ok(()),
        Err(error) if error.errno == EBADF => Err(error),
        Err(error) if error.errno == ENODEV && *source == Source::Event => {
            *source = Source::Gone;
            Ok(())
        }
        // Files without events are always ready, as POSIX has it for plain files.
        Err(_) if *source == Source::Event => {
            *source = Source::Always;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Watches what sockets want to have watched beside themselves, as far as it is new: connections
/// that listeners are setting up. What has come already makes an event.
fn watch(queue: &mut Queue<usize>, entries: &[Entry], watched: &mut Vec<c_int>) {
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

/// Asks all endpoints; returns the number of entries that are ready.
fn look(entries: &mut [Entry], sources: &[Source]) -> usize {
    let mut ready = 0;
    for (entry, source) in entries.iter_mut().zip(sources) {
        match source {
            Source::Scif => {
                let found = match descriptor::is_socket(entry.number) {
                    true => skiff_socket_readiness(entry.number, entry.events.into()),
                    false => skiff_scif_readiness(entry.number, entry.events.into()),
                };
                entry.revents = match found {
                    found @ 0.. => found as c_short,
                    _ => NVAL,
                };
            }
            Source::Always => entry.revents = entry.events & (IN | OUT | IN_NORMAL | OUT_NORMAL),
            Source::Gone => entry.revents = ERR,
            Source::Event | Source::None => {}
        }
        ready += usize::from(entry.revents != 0);
    }
    ready
}

/// A time limit in milliseconds as `poll` takes it: a negative one is none.
fn limit_of(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

unsafe fn entries_of<'a>(entries: *mut Entry, count: c_ulong) -> Result<&'a mut [Entry]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&mut []),
        Ok(count) if count <= 65_536 => {
            // SAFETY: the caller passed that many.
            Ok(unsafe { core::slice::from_raw_parts_mut(entries, count) })
        }
        _ => Err(Error::new(EINVAL)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn poll(entries: *mut Entry, count: c_ulong, milliseconds: c_int) -> c_int {
    // SAFETY: the same contract.
    let entries = unsafe { entries_of(entries, count) };
    errno::small(entries.and_then(|entries| wait(entries, limit_of(milliseconds))))
}

/// There is no signal that a mask could hold back.
#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    entries: *mut Entry,
    count: c_ulong,
    limit: *const Timespec,
    _mask: *const u64,
) -> c_int {
    // SAFETY: the caller's entries; the limit is null or the caller's structure.
    let (entries, limit) = unsafe { (entries_of(entries, count), limit.as_ref()) };
    let limit = match limit.map(Timespec::duration) {
        Some(None) => return errno::fail(EINVAL),
        Some(limit) => limit,
        None => None,
    };
    errno::small(entries.and_then(|entries| wait(entries, limit)))
}

/// C's `fd_set`.
#[repr(C)]
struct Set {
    words: [u64; 16],
}

impl Set {
    fn contains(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 == 1
    }

    fn insert(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: c_int,
    readable: *mut Set,
    writable: *mut Set,
    exceptional: *mut Set,
    limit: *mut Timeval,
) -> c_int {
    const LIMIT: c_int = 1024;
    if !(0..=LIMIT).contains(&count) {
        return errno::fail(EINVAL);
    }
    // SAFETY: each is null or the caller's structure.
    let (mut readable, mut writable, exceptional, limit) = unsafe {
        (
            readable.as_mut(),
            writable.as_mut(),
            exceptional.as_mut(),
            limit.as_ref(),
        )
    };
    let limit = match limit.map(Timeval::duration) {
        Some(None) => return errno::fail(EINVAL),
        Some(limit) => limit,
        None => None,
    };
    let wanted =
        |set: &Option<&mut Set>, number| set.as_ref().is_some_and(|set| set.contains(number));
    let mut entries = Vec::new();
    for number in 0..count as usize {
        let mut events = 0;
        events |= if wanted(&readable, number) { IN } else { 0 };
        events |= if wanted(&writable, number) { OUT } else { 0 };
        if events != 0 {
            let number = number as c_int;
            let revents = 0;
            entries.push(Entry {
                number,
                events,
                revents,
            });
        }
    }
    if let Err(error) = wait(&mut entries, limit) {
        return errno::fail(error.errno);
    }
    if entries.iter().any(|entry| entry.revents & NVAL != 0) {
        return errno::fail(EBADF);
    }
    let mut ready = 0;
    // An error or a hang-up makes both directions ready: what is tried then fails at once.
    let mut fill = |set: &mut Option<&mut Set>, event: c_short| {
        if let Some(set) = set.as_deref_mut() {
            set.words = [0; 16];
            for entry in entries.iter().filter(|entry| entry.events & event != 0) {
                if entry.revents & (event | ERR | 0x10) != 0 {
                    set.insert(entry.number as usize);
                    ready += 1;
                }
            }
        }
    };
    fill(&mut readable, IN);
    fill(&mut writable, OUT);
    if let Some(set) = exceptional {
        set.words = [0; 16];
    }
    ready
}
