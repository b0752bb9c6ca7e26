//! Waiting for several descriptors of any kind. A SCIF endpoint reports SCIF's own bits, a counter
//! is ready by its value, a timer by the clock, and any other file by the events of its scheme.
//!
//! A wait over few connections begins with a short sleep, in which the kernel polls the words
//! where bytes arrive: an answer that comes soon costs no request to the driver. After that, or if
//! a short sleep does not pay, the thread sleeps in an event queue.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_short};
use core::time::Duration;

use hal::event::{Queue, Ready};
use hal::idle_poll::{Ended, IdlePoll, MAX_WORDS, SHORT_LIMIT, Sign};
use runtime::time::Instant;
use runtime::{Error, Result, fd};
use syscall::error::{EBADF, EINTR, ENODEV, ENOMEM, ENOSPC};
use syscall::flag::EventFlags;

use crate::bell::Bell;
use crate::caught::{self, Interruption};
use crate::counter::Counter;
use crate::timer::Timer;
use crate::words::Words;
use crate::{descriptor, own, points};

unsafe extern "C" {
    /// The readiness of an endpoint, or a negated error number; in `libscif`.
    safe fn skiff_scif_readiness(number: c_int, events: c_int) -> c_int;
    /// The readiness of a socket, or a negated error number; in `libsocket`.
    safe fn skiff_socket_readiness(number: c_int, events: c_int) -> c_int;
    /// The words or the queue that show changes at an endpoint; in `libscif`.
    safe fn skiff_scif_sign(number: c_int) -> Sign;
    /// The words or the queue that show changes at a socket; in `libsocket`.
    safe fn skiff_socket_sign(number: c_int) -> Sign;
    /// Stores the descriptors to watch in addition to the socket's own, and returns how many.
    fn skiff_socket_watched(number: c_int, places: *mut c_int, most: usize) -> usize;
}

/// The most descriptors to watch in addition to a socket's own.
const MOST_WATCHED: usize = 128;
/// The key of the events of these descriptors.
const WATCHED: usize = usize::MAX;

/// Whether short sleeps pay, for all waits of this program.
static IDLE_POLL: IdlePoll = IdlePoll::new();

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
    /// The descriptor; an entry with a negative one is skipped.
    pub number: c_int,
    /// The events that the caller asks for.
    pub events: c_short,
    /// The events that were found.
    pub revents: c_short,
}

impl Entry {
    /// An entry in which nothing was found yet.
    pub fn new(number: c_int, events: c_short) -> Self {
        let revents = 0;
        Self {
            number,
            events,
            revents,
        }
    }
}

/// How the readiness of an entry is found.
#[derive(Clone)]
enum Source {
    /// Skipped: its number is negative.
    None,
    /// Its number names no open file.
    Unknown,
    /// By asking the endpoint.
    Scif,
    /// By asking the counter; events report its changes.
    Counter(Arc<Counter>),
    /// By the clock; events report settings of the timer.
    Timer(Arc<Timer>),
    /// By the caller, who looks at the members; an event means that the set has to be looked at
    /// again.
    Set(Arc<Bell>),
    /// By an event.
    Event,
    /// Always ready for everything: a plain file.
    Always,
    /// The daemon behind the file has ended, which is an error.
    Gone,
}

impl Source {
    fn of(number: c_int) -> Self {
        if number < 0 {
            return Self::None;
        }
        match own::kind(number) {
            Some(own::Kind::Counter(counter)) => return Self::Counter(counter),
            Some(own::Kind::Timer(timer)) => return Self::Timer(timer),
            Some(own::Kind::Set(_, bell)) => return Self::Set(bell),
            None => {}
        }
        let is_open = || fd::fcntl(number as usize, syscall::F_GETFD, 0).is_ok();
        match descriptor::is_scif_file(number) {
            Ok(true) => Self::Scif,
            // Where it could not be found out now, events say at least when to ask again.
            Ok(false) | Err(_) if is_open() => Self::Event,
            Ok(false) | Err(_) => Self::Unknown,
        }
    }

    fn is_event(&self) -> bool {
        matches!(self, Self::Event)
    }

    /// Whether an event does not say what is ready, so that the file has to be asked.
    fn is_asked(&self) -> bool {
        !matches!(
            self,
            Self::None | Self::Unknown | Self::Event | Self::Always | Self::Gone
        )
    }
}

/// How many entries are ready.
pub fn count(entries: &[Entry]) -> usize {
    let ready = entries.iter().filter(|entry| entry.revents != 0);
    ready.count()
}

/// Looks at the entries whenever one of them may have changed, until `judge` returns a result for
/// what was found; `None` after `limit`.
///
/// # Errors
/// `EINTR`: a signal handler has run. Those of event queues: `EMFILE`, `ENOMEM`.
pub fn watch<T>(
    entries: &mut [Entry],
    limit: Option<Duration>,
    mut judge: impl FnMut(&mut [Entry]) -> Option<T>,
) -> Result<Option<T>> {
    let interruption = caught::begin();
    let nanoseconds = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
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
    let is_long = limit.is_none_or(|limit| limit > SHORT_LIMIT);
    let may_pay = is_long && can_sleep_shortly(entries, &sources);
    let mut queue = None;
    if may_pay && IDLE_POLL.may_pay() {
        let signals = interruption.as_ref();
        let result = sleep_shortly(entries, &mut sources, &mut queue, signals, &mut judge)?;
        return match result {
            None => sleep_in_queue(entries, sources, queue, deadline, signals, judge),
            result => Ok(result),
        };
    }
    let begin = Instant::now();
    let signals = interruption.as_ref();
    let result = sleep_in_queue(entries, sources, queue, deadline, signals, judge)?;
    if may_pay && result.is_some() {
        IDLE_POLL.has_waited(begin.elapsed());
    }
    Ok(result)
}

/// Sleeps in an event queue until `judge` returns a result or the deadline has come. A queue that
/// exists already has the entries that only events report: some events come only once.
fn sleep_in_queue<T>(
    entries: &mut [Entry],
    mut sources: Vec<Source>,
    queue: Option<Queue<usize>>,
    deadline: Option<u64>,
    signals: Option<&Interruption>,
    mut judge: impl FnMut(&mut [Entry]) -> Option<T>,
) -> Result<Option<T>> {
    let nothing_but_asked = !sources.iter().any(Source::is_event);
    let has_events = queue.is_some();
    let mut queue = match queue {
        Some(queue) => queue,
        None => Queue::new()?,
    };
    for index in 0..entries.len() {
        if !(has_events && sources[index].is_event()) {
            subscribe(&mut queue, entries, index, &mut sources)?;
        }
    }
    let mut events = Vec::new();
    let mut watched = Vec::new();
    // After subscribing, so that nothing that happens in between is missed.
    look(entries, &sources);
    watch_more(&mut queue, entries, &mut watched);
    // If something is ready already, or a set may be, the first wait only collects events.
    let is_set = |source: &Source| matches!(source, Source::Set(_));
    let mut is_in_haste = count(entries) > 0 || sources.iter().any(is_set);
    if let Some(signals) = signals {
        queue.subscribe(signals.descriptor(), EventFlags::EVENT_READ, WATCHED)?;
        is_in_haste |= signals.has_come();
    }
    loop {
        let left = deadline.map(|deadline| {
            Duration::from_nanos(deadline.saturating_sub(Instant::now().as_nanos()))
        });
        let is_last = left == Some(Duration::ZERO);
        let left = match core::mem::take(&mut is_in_haste) {
            true => Some(Duration::ZERO),
            false => until_timers(entries, &sources, left),
        };
        events.clear();
        // If events report some entries, the queue has to be read even when the limit is zero.
        if !nothing_but_asked || left != Some(Duration::ZERO) {
            queue.wait(left, &mut events)?;
            if queue.was_interrupted() && points::has_to_look() {
                return Err(Error::new(EINTR));
            }
        }
        note(entries, &sources, &events);
        look(entries, &sources);
        watch_more(&mut queue, entries, &mut watched);
        if let Some(result) = judge(entries) {
            return Ok(Some(result));
        }
        if is_last {
            return Ok(None);
        }
        if signals.is_some_and(Interruption::has_come) {
            return Err(Error::new(EINTR));
        }
        for event in events.iter().filter(|event| event.source != WATCHED) {
            renew(&mut queue, entries, &mut sources, event)?;
        }
        forget_events(entries, &sources);
    }
}

/// How long to sleep: at most for `left`, and until the next timer expires that is not ready yet.
fn until_timers(entries: &[Entry], sources: &[Source], left: Option<Duration>) -> Option<Duration> {
    let next = |(entry, source): (&Entry, &Source)| match source {
        Source::Timer(timer) if entry.revents == 0 => timer.until_next(),
        _ => None,
    };
    let nexts = entries.iter().zip(sources).filter_map(next);
    nexts.chain(left).min()
}

/// Stores in the entries what the events report.
fn note(entries: &mut [Entry], sources: &[Source], events: &[Ready<usize>]) {
    for event in events.iter().filter(|event| event.source != WATCHED) {
        let number = entries[event.source].number;
        for (entry, source) in entries.iter_mut().zip(sources) {
            if entry.number == number && source.is_event() {
                entry.revents |= bits(event.flags) & (entry.events | ERR);
            }
        }
    }
}

/// Clears what events have reported; the next event reports it again.
fn forget_events(entries: &mut [Entry], sources: &[Source]) {
    for (entry, source) in entries.iter_mut().zip(sources) {
        if source.is_event() {
            entry.revents = 0;
        }
    }
}

/// Whether there are connections, but not too many, and no entry waits for room to send: a
/// receiver reports room only to senders that ask for it. To be called after a look at the
/// entries.
fn can_sleep_shortly(entries: &[Entry], sources: &[Source]) -> bool {
    let mut count = 0;
    for (entry, source) in entries.iter().zip(sources) {
        if let Source::Scif = source {
            count += 1;
            // What is ready but not enough for `judge` is an edge that was reported before.
            if entry.events & !entry.revents & (OUT | OUT_NORMAL) != 0 {
                return false;
            }
        }
    }
    // A listener needs no words.
    (1..=MAX_WORDS / 2 + 1).contains(&count)
}

fn sign_of(number: c_int) -> Sign {
    match descriptor::is_socket(number) {
        true => skiff_socket_sign(number),
        false => skiff_scif_sign(number),
    }
}

/// Sleeps for a short time in which the kernel polls the words of connections. The events of the
/// other entries end the sleep too; for them it may make a queue. Returns what `judge` makes of
/// what is found then.
fn sleep_shortly<T>(
    entries: &mut [Entry],
    sources: &mut [Source],
    queue: &mut Option<Queue<usize>>,
    signals: Option<&Interruption>,
    judge: &mut impl FnMut(&mut [Entry]) -> Option<T>,
) -> Result<Option<T>> {
    let mut words = Words::default();
    let mut listeners = Vec::new();
    let mut has_events = false;
    for (entry, source) in entries.iter().zip(sources.iter()) {
        let has_room = match source {
            Source::Scif => match sign_of(entry.number) {
                Sign::Words(found) => words.push(&found),
                Sign::Queue(watch) => {
                    listeners.push(watch);
                    true
                }
                Sign::Event => false,
            },
            Source::Counter(counter) => words.push(&[counter.page().word()]),
            Source::Set(_) => words.push(&[own::version_word()]),
            // A short sleep could last beyond its time.
            Source::Timer(_) => false,
            Source::Event => {
                has_events = true;
                true
            }
            Source::None | Source::Unknown | Source::Always | Source::Gone => true,
        };
        if !has_room {
            return Ok(None);
        }
    }
    if words.get().is_empty() {
        return Ok(None);
    }
    if signals.is_some_and(|signals| !words.push(&[signals.word()])) {
        return Ok(None);
    }
    // A single listener has a queue already.
    if has_events || listeners.len() > 1 {
        *queue = Some(queue_of_events(entries, sources, &listeners)?);
    }
    let watched = match &queue {
        Some(queue) => Some(queue.descriptor()),
        None => listeners.first().copied(),
    };
    // What happens after this look changes a word or makes an event.
    find(entries, sources, queue.as_mut())?;
    if let Some(result) = judge(entries) {
        return Ok(Some(result));
    }
    forget_events(entries, sources);
    if IDLE_POLL.sleep_beside(words.get(), watched) != Ended::Changed {
        return Ok(None);
    }
    find(entries, sources, queue.as_mut())?;
    let result = judge(entries);
    if result.is_none() {
        forget_events(entries, sources);
    }
    Ok(result)
}

/// Makes a queue with the given queues of listeners and the entries that only events report.
fn queue_of_events(
    entries: &[Entry],
    sources: &mut [Source],
    listeners: &[usize],
) -> Result<Queue<usize>> {
    let mut queue = Queue::new()?;
    for watch in listeners {
        // A listener that another thread has closed sends no events.
        let _ = queue.subscribe(*watch, EventFlags::EVENT_READ, WATCHED);
    }
    for index in 0..entries.len() {
        if sources[index].is_event() {
            subscribe(&mut queue, entries, index, sources)?;
        }
    }
    Ok(queue)
}

/// Finds for what the entries are ready at this moment.
fn find(entries: &mut [Entry], sources: &[Source], queue: Option<&mut Queue<usize>>) -> Result<()> {
    if let Some(queue) = queue
        && sources.iter().any(Source::is_event)
    {
        let mut events = Vec::new();
        queue.wait(Some(Duration::ZERO), &mut events)?;
        note(entries, sources, &events);
    }
    look(entries, sources);
    Ok(())
}

/// Subscribes an endpoint again if an event announced what another thread has taken since: the
/// peer announces new bytes once for each request.
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
    // One subscription for each descriptor, with the events of all its entries.
    let first = entries.iter().position(|entry| entry.number == number);
    let is_watched = source.is_event() || source.is_asked() && first == Some(index);
    if !is_watched {
        return Ok(());
    }
    let mut wanted = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    if let Source::Event = source {
        let events = entries.iter().filter(|entry| entry.number == number);
        let events = events.fold(0, |events, entry| events | entry.events);
        wanted.set(EventFlags::EVENT_READ, events & (IN | IN_NORMAL) != 0);
        wanted.set(EventFlags::EVENT_WRITE, events & (OUT | OUT_NORMAL) != 0);
    }
    if wanted.is_empty() {
        return Ok(());
    }
    // Not the number of one of this library's, where another thread may have put another file.
    let watched = match source {
        Source::Counter(counter) => counter.page().watched(),
        Source::Timer(timer) => timer.page().watched(),
        Source::Set(bell) => bell.reader(),
        Source::Scif => match sign_of(number) {
            // This costs the driver no request.
            Sign::Queue(watch) => watch,
            _ => number as usize,
        },
        _ => number as usize,
    };
    if watched != number as usize {
        wanted = EventFlags::EVENT_READ;
    }
    match queue.subscribe(watched, wanted, first.unwrap_or(index)) {
        // `dup2` has put a counter or a set there: the subscription is to its pipe, which reports
        // its changes.
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
        // Nothing is known of a file that cannot be watched for want of room.
        Err(error) if matches!(error.errno, ENOMEM | ENOSPC) => return Err(error),
        // A file without events is always ready, as POSIX says of plain files.
        Err(_) if source.is_event() => *source = Source::Always,
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Whether a file has events: plain files have none.
///
/// # Errors
/// `EBADF`, `EMFILE`, `ENOMEM`, `ENOSPC`.
pub fn has_events(number: c_int) -> Result<bool> {
    let mut queue: Queue<usize> = Queue::new()?;
    let wanted = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    match queue.subscribe(descriptor::check(number)?, wanted, 0) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.errno, EBADF | ENOMEM | ENOSPC) => Err(error),
        Err(error) => Ok(error.errno == ENODEV),
    }
}

/// Subscribes the descriptors that sockets have to watch in addition to their own and that are
/// new: connections that listeners are setting up. What has arrived already makes an event.
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
                // A connection that has gone meanwhile sends no events.
                let _ = queue.subscribe(number as usize, EventFlags::EVENT_READ, WATCHED);
                watched.push(number);
            }
        }
    }
}

/// How many bits POLLRDNORM and POLLWRNORM are above POLLIN and POLLOUT.
const NORMAL: u32 = IN_NORMAL.trailing_zeros();

/// These events, with the usual names for the others: endpoints know the usual ones only.
fn with_usual(events: c_short) -> c_short {
    events | (events & (IN_NORMAL | OUT_NORMAL)) >> NORMAL
}

/// What an endpoint is ready for, in the names in which it was asked.
fn as_asked(found: c_short, events: c_short) -> c_short {
    let usual = found & (IN | OUT);
    found & !usual | events & (usual | usual << NORMAL)
}

/// Finds the readiness of all entries that can be asked.
fn look(entries: &mut [Entry], sources: &[Source]) {
    for (entry, source) in entries.iter_mut().zip(sources) {
        entry.revents = match source {
            Source::Scif => {
                let events = with_usual(entry.events).into();
                let found = match descriptor::is_socket(entry.number) {
                    true => skiff_socket_readiness(entry.number, events),
                    false => skiff_scif_readiness(entry.number, events),
                };
                match found {
                    found @ 0.. => as_asked(found as c_short, entry.events),
                    _ => NVAL,
                }
            }
            Source::Counter(counter) => {
                let (reads, writes) = (IN | IN_NORMAL, OUT | OUT_NORMAL);
                let (has_value, has_room) = counter.readiness(entry.events & writes != 0);
                let found = if has_value { reads } else { 0 } | if has_room { writes } else { 0 };
                entry.events & found
            }
            Source::Timer(timer) if timer.has_expired() => entry.events & (IN | IN_NORMAL),
            Source::Always => entry.events & (IN | OUT | IN_NORMAL | OUT_NORMAL),
            Source::Gone => ERR,
            Source::Unknown => NVAL,
            Source::Set(_) | Source::Timer(_) | Source::None => 0,
            Source::Event => entry.revents,
        };
    }
}

/// A time limit in milliseconds as `poll` takes it; a negative one means none.
pub fn limit_of(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}
