//! `scif_poll` by descriptors.

use alloc::vec::Vec;
use core::time::Duration;

use hal::event::{Queue, Ready};
use hal::idle_poll::{Ended, IdlePoll, MAX_WORDS, SHORT_LIMIT, Sign, Watched};
use hal::kernel::ends_abandoned_requests;
use libredox::flag::CLOCK_MONOTONIC;
use scif_abi::flags::Readiness;
use syscall::error::EINTR;
use syscall::flag::EventFlags;

use super::{Result, readiness};

/// The time between two polls of endpoints for which no event has come.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Measures whether short sleeps are worth their cost, for all polls of this program.
static IDLE_POLL: IdlePoll = IdlePoll::new();

/// One endpoint to poll, by its descriptor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PollFd {
    /// The endpoint.
    pub epd: usize,
    /// The events to wait for; `ERR`, `HUP` and `NVAL` are always reported.
    pub events: u16,
    /// The events it is ready for; filled in by [`poll`].
    pub revents: u16,
}

impl PollFd {
    /// An entry that waits for `events`.
    pub const fn new(epd: usize, events: u16) -> Self {
        Self {
            epd,
            events,
            revents: 0,
        }
    }
}

/// `scif_poll`. Waits until at least one entry is ready, at most for `limit` (none: without
/// limit). Returns the number of entries that are ready; 0 once the time is over.
///
/// # Errors
/// `EINTR`; those of the event queue.
pub fn poll(entries: &mut [PollFd], limit: Option<Duration>) -> Result<usize> {
    let ask = |_: usize, entry: &PollFd| readiness(entry.epd, entry.events);
    poll_by(entries, limit, ask, |_, _| Sign::Event)
}

/// As [`poll`], with functions that are called with an entry and its index. `readiness` returns
/// the events that the entry is ready for; `sign` tells where it shows that the entry has become
/// readable.
///
/// # Errors
/// Those of [`poll`].
pub fn poll_by(
    entries: &mut [PollFd],
    limit: Option<Duration>,
    readiness: impl Fn(usize, &PollFd) -> Result<u16>,
    sign: impl Fn(usize, &PollFd) -> Sign,
) -> Result<usize> {
    let ready = poll_once(entries, &readiness);
    if ready > 0 || limit == Some(Duration::ZERO) {
        return Ok(ready);
    }
    let end = Deadline::after(limit)?;
    let is_long = limit.is_none_or(|limit| limit > SHORT_LIMIT);
    let may_pay = is_long && !entries.is_empty();
    if may_pay && IDLE_POLL.may_pay() {
        return match sleep_shortly(entries, &readiness, &sign) {
            0 => sleep_in_queue(entries, &end, &readiness, &sign),
            ready => Ok(ready),
        };
    }
    let begin = now()?;
    let ready = sleep_in_queue(entries, &end, &readiness, &sign)?;
    if may_pay && ready > 0 {
        IDLE_POLL.has_waited(now()?.saturating_sub(begin));
    }
    Ok(ready)
}

/// Sleeps in an event queue until entries are ready, or the end has come. Returns how many are
/// ready.
fn sleep_in_queue(
    entries: &mut [PollFd],
    end: &Deadline,
    readiness: &impl Fn(usize, &PollFd) -> Result<u16>,
    sign: &impl Fn(usize, &PollFd) -> Sign,
) -> Result<usize> {
    let mut queue = Queue::new().map_err(|error| error.errno)?;
    for (index, entry) in entries.iter().enumerate() {
        // A queue has one set of flags for a descriptor, and a descriptor may have several
        // entries.
        let same = entries.iter().filter(|other| other.epd == entry.epd);
        let events = same.fold(0, |all, other| all | other.events);
        let subscribed = match sign(index, entry) {
            // This subscription costs the daemon no request.
            Sign::Queue(watch) => queue.subscribe(watch, EventFlags::EVENT_READ, entry.epd),
            _ => queue.subscribe(entry.epd, wanted(events), entry.epd),
        };
        subscribed.map_err(|error| error.errno)?;
    }
    let mut events = Vec::new();
    loop {
        // Polled after subscribing, so that nothing that happens in between is missed.
        let ready = poll_once(entries, readiness);
        if ready > 0 {
            return Ok(ready);
        }
        if !end.wait(&mut queue, &mut events)? {
            return Ok(0);
        }
    }
}

/// Sleeps for a short time while the kernel watches the words of all entries, and the requests of
/// at most one listener. Does not sleep if there are too many words or an entry waits for room.
/// Returns how many entries are ready afterwards.
fn sleep_shortly(
    entries: &mut [PollFd],
    readiness: &impl Fn(usize, &PollFd) -> Result<u16>,
    sign: &impl Fn(usize, &PollFd) -> Sign,
) -> usize {
    let mut words = [Watched::default(); MAX_WORDS];
    let (mut count, mut queue) = (0, None);
    for (index, entry) in entries.iter().enumerate() {
        let for_room = Readiness::from_bits_truncate(entry.events).contains(Readiness::OUT);
        let place = words.get_mut(count..count + 2);
        match (sign(index, entry), place) {
            (Sign::Words(found), Some(place)) if !for_room => {
                place.copy_from_slice(&found);
                count += 2;
            }
            (Sign::Queue(found), _) if queue.is_none_or(|queue| queue == found) => {
                queue = Some(found);
            }
            _ => return 0,
        }
    }
    // What comes after this poll changes a word, or is an event.
    let ready = poll_once(entries, readiness);
    if ready > 0 || count == 0 || IDLE_POLL.sleep_beside(&words[..count], queue) != Ended::Changed {
        return ready;
    }
    poll_once(entries, readiness)
}

/// The flags of an event queue for these events. `EVENT_WRITE` makes each receive of the peer a
/// notification, so only entries that wait for room get it.
fn wanted(events: u16) -> EventFlags {
    match Readiness::from_bits_truncate(events).contains(Readiness::OUT) {
        true => EventFlags::EVENT_READ | EventFlags::EVENT_WRITE,
        // `EVENT_READ` also tells of the end of a connection.
        false => EventFlags::EVENT_READ,
    }
}

/// The end of waiting by an event queue, in monotonic time; `None`: without end.
pub(crate) struct Deadline(Option<Duration>);

impl Deadline {
    /// The end of a wait that begins now and takes `limit` at most.
    ///
    /// # Errors
    /// Those of the clock.
    pub(crate) fn after(limit: Option<Duration>) -> Result<Self> {
        Ok(Self(match limit {
            Some(limit) => now()?.checked_add(limit),
            None => None,
        }))
    }

    /// Waits once. Returns `false` when the end has come. Where the daemon's death is no event,
    /// the wait ends after [`POLL_INTERVAL`] without an event, so that the caller asks the daemon.
    ///
    /// # Errors
    /// `EINTR`; those of the event queue and the clock.
    pub(crate) fn wait<T: Copy + PartialEq>(
        &self,
        queue: &mut Queue<T>,
        events: &mut Vec<Ready<T>>,
    ) -> Result<bool> {
        let left = match self.0 {
            None => None,
            Some(end) => match end.checked_sub(now()?) {
                None | Some(Duration::ZERO) => return Ok(false),
                left => left,
            },
        };
        let left = match ends_abandoned_requests() {
            true => left,
            false => Some(left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)),
        };
        queue.wait(left, events).map_err(|error| error.errno)?;
        match queue.was_interrupted() {
            true => Err(EINTR),
            false => Ok(true),
        }
    }
}

/// Fills in all `revents`. Returns how many are not empty.
fn poll_once(entries: &mut [PollFd], readiness: &impl Fn(usize, &PollFd) -> Result<u16>) -> usize {
    let mut ready = 0;
    for (index, entry) in entries.iter_mut().enumerate() {
        let found = readiness(index, entry);
        entry.revents = found.unwrap_or(Readiness::NVAL.bits());
        ready += usize::from(entry.revents != 0);
    }
    ready
}

/// Monotonic time.
pub(crate) fn now() -> Result<Duration> {
    let time = libredox::call::clock_gettime(CLOCK_MONOTONIC).map_err(|error| error.errno())?;
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
