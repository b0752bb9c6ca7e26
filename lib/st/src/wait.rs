//! Waiting for the peer: polling first, then sleeping until a record comes.
//!
//! The peer wakes a sleeper with a record in the stream, which another thread of this program may
//! take. A thread that waits for a header first sleeps for a short time while the kernel looks at
//! the header's place, before it asks the peer for a record. A thread that waits for one
//! connection and without a deadline sleeps in a request to the driver, which ends with each byte
//! that comes, even if another thread takes it. All other threads sleep in an event queue, which
//! has the connections' descriptors and a bell; a thread that takes a record rings the bell.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use hal::event::Queue;
use hal::idle_poll::{SHORT_LIMIT, Watched};
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use scif::{BusyPoll, Waiting};
use syscall::error::{EINTR, Error};
use syscall::flag::EventFlags;

use crate::deadline::Deadline;
use crate::error::Result;
use crate::shared::Shared;

/// The longest sleep, after which the program looks whether the driver is alive.
const LONGEST: Duration = Duration::from_secs(1);

/// The number of the next sleeper.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A condition that a thread waits for.
pub trait Condition {
    /// Whether it holds.
    ///
    /// # Errors
    /// Those that end the wait.
    fn look(&mut self) -> Result<bool>;

    /// Asks the peer to wake this end when it holds, and looks once more.
    ///
    /// # Errors
    /// Those that end the wait.
    fn arm(&mut self) -> Result<bool>;

    /// Prepares for a sleep that needs no wake-up by the peer, and looks once more.
    ///
    /// # Errors
    /// Those that end the wait.
    fn prepare_short_sleep(&mut self) -> Result<ShortSleep> {
        Ok(ShortSleep::Impossible)
    }
}

/// Whether a thread can sleep without asking for a wake-up.
pub enum ShortSleep {
    /// The condition holds: no sleep is needed.
    No,
    /// The thread sleeps until this word changes.
    Until(Watched),
    /// No word changes with the condition.
    Impossible,
}

/// The event queue of a thread that has a deadline or many connections.
pub struct Sleeper {
    pub id: u64,
    queue: Queue<Source>,
    reader: Fd,
    pub bell: Arc<Fd>,
    /// Waits without a deadline since it was last needed.
    unused: u32,
    events: Vec<hal::event::Ready<Source>>,
}

/// The sources of the event queue, which keeps each for ever: so all connections are one source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Bell,
    Connection,
}

/// A sleeper is given up after more waits without a deadline than this: as long as it exists, the
/// driver also reports each record to it.
const MOST_UNUSED: u32 = 4;

impl Sleeper {
    /// A sleeper that only its bell wakes.
    ///
    /// # Errors
    /// Those of opening an event queue and a pipe.
    pub fn new() -> Result<Self> {
        let mut queue = Queue::new()?;
        let reader = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC | O_NONBLOCK, 0)?;
        let bell = Arc::new(Fd::new(reader.dup(b"write")?));
        queue.subscribe(reader.raw(), EventFlags::EVENT_READ, Source::Bell)?;
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            queue,
            reader,
            bell,
            unused: 0,
            events: Vec::new(),
        })
    }

    /// Makes a connection wake it, too.
    ///
    /// # Errors
    /// Those of the event queue.
    pub fn watch(&mut self, shared: &Shared) -> Result<()> {
        let fd = shared.endpoint.fd();
        self.queue
            .subscribe(fd, EventFlags::EVENT_READ, Source::Connection)?;
        shared.add_sleeper(self.id, &self.bell);
        Ok(())
    }

    /// Sleeps until something wakes it, at most for `limit` (`None`: without limit) and at most
    /// for [`LONGEST`].
    ///
    /// # Errors
    /// `EINTR`; those of the event queue.
    pub fn sleep(&mut self, limit: Option<Duration>) -> Result<()> {
        let limit = limit.map_or(LONGEST, |limit| limit.min(LONGEST));
        self.queue.wait(Some(limit), &mut self.events)?;
        if self.queue.was_interrupted() {
            return Err(Error::new(EINTR).into());
        }
        if self.events.iter().any(|event| event.source == Source::Bell) {
            // It may have rung more often; what is left causes one more wake-up, in vain.
            let _ = self.reader.read(&mut [0; 16]);
        }
        Ok(())
    }
}

/// Waits until a condition holds. When the connection ends it looks once more, because what has
/// arrived comes before the end.
///
/// # Errors
/// Those of the condition, those of the end, `WouldBlock`, `TimedOut`, `EINTR`.
pub fn wait(
    shared: &Shared,
    sleeper: &mut Option<Sleeper>,
    waiting: Waiting,
    deadline: Deadline,
    condition: &mut impl Condition,
) -> Result<()> {
    if condition.look()? {
        return Ok(());
    }
    if deadline == Deadline::Now {
        return take_or(shared, condition, None)?.map_or_else(|| deadline.left().map(drop), Ok);
    }
    if waiting != Waiting::Sleep && poll(shared, waiting, deadline, condition)?.is_some() {
        return Ok(());
    }
    if deadline == Deadline::Never {
        give_up_unused(shared, sleeper);
    }
    if sleep_shortly(shared, deadline, condition)?.is_some() {
        return Ok(());
    }
    if deadline == Deadline::Never && sleep_in_driver(shared, condition)?.is_some() {
        return Ok(());
    }
    sleep_in_queue(shared, sleeper, deadline, condition)
}

/// Gives up a sleeper that was not needed for some time, before a wait that does not need it.
fn give_up_unused(shared: &Shared, sleeper: &mut Option<Sleeper>) {
    let is_unused = |sleeper: &mut Sleeper| {
        sleeper.unused += 1;
        sleeper.unused > MOST_UNUSED
    };
    // It is kept if no wait can do without it.
    if shared.endpoint.arrived().is_some()
        && let Some(unused) = sleeper.take_if(is_unused)
    {
        shared.remove_sleeper(unused.id);
    }
}

/// Polls a condition; `None`: the time for that is used up.
fn poll(
    shared: &Shared,
    waiting: Waiting,
    deadline: Deadline,
    condition: &mut impl Condition,
) -> Result<Option<()>> {
    let mut busy_poll = BusyPoll::new(waiting, shared.is_local);
    // The first looks have no pause: a peer that polls answers meanwhile, and a pause would take
    // half as long as that. Later looks leave the core to others that share it.
    for _ in 0..busy_poll.spins() {
        if condition.look()? {
            return Ok(Some(()));
        }
    }
    loop {
        // No more than a look: a thread that does not sleep must not ask the driver again and
        // again.
        if shared.may_be_readable() && take_or(shared, condition, None)?.is_some() {
            return Ok(Some(()));
        }
        if let Err(end) = shared.check() {
            return last_look(condition, end).map(Some);
        }
        deadline.left()?;
        if !busy_poll.give_way() {
            return Ok(None);
        }
        for _ in 0..busy_poll.spins() {
            if condition.look()? {
                return Ok(Some(()));
            }
            busy_poll.relax();
        }
    }
}

/// Sleeps until a condition holds, while the kernel looks at what the peer stores; `None`: that
/// takes too long, or is impossible. It makes no request to the peer or the driver.
fn sleep_shortly(
    shared: &Shared,
    deadline: Deadline,
    condition: &mut impl Condition,
) -> Result<Option<()>> {
    loop {
        // Such a sleep could last longer than the deadline.
        if deadline.left()?.is_some_and(|left| left <= SHORT_LIMIT) {
            return Ok(None);
        }
        // What comes after the mark and the word's value have been read ends the sleep.
        let Some(mark) = shared.endpoint.arrived() else {
            return Ok(None);
        };
        let word = match condition.prepare_short_sleep()? {
            ShortSleep::No => return Ok(Some(())),
            ShortSleep::Until(word) => word,
            ShortSleep::Impossible => return Ok(None),
        };
        if !shared.sleep_shortly(mark, word)? {
            return Ok(None);
        }
        let taken = shared.take_records_that_are_there();
        if look_after(taken, condition)?.is_some() {
            return Ok(Some(()));
        }
    }
}

/// Sleeps in a request to the driver until a condition holds; `None`: that is impossible.
///
/// The mark is read before everything that is looked at: what changes later comes with a record
/// behind the mark, which ends the sleep. What another thread has received and not yet handled is
/// handled once this thread has the lock.
fn sleep_in_driver(shared: &Shared, condition: &mut impl Condition) -> Result<Option<()>> {
    while let Some(mark) = shared.endpoint.arrived() {
        let taken = shared.take_records_that_are_there();
        if look_after(taken, condition)?.is_some() || condition.arm()? {
            return Ok(Some(()));
        }
        match shared.sleep_past(mark) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(end) => return last_look(condition, end).map(Some),
        }
        if condition.look()? {
            return Ok(Some(()));
        }
    }
    // There is no mark at the end of the connection, and none with some kernels.
    if take_or(shared, condition, None)?.is_some() {
        return Ok(Some(()));
    }
    match shared.check() {
        Ok(()) => Ok(None),
        Err(end) => last_look(condition, end).map(Some),
    }
}

/// Sleeps in an event queue until a condition holds.
fn sleep_in_queue(
    shared: &Shared,
    sleeper: &mut Option<Sleeper>,
    deadline: Deadline,
    condition: &mut impl Condition,
) -> Result<()> {
    let sleeper = match sleeper {
        Some(sleeper) => sleeper,
        None => {
            let mut new = Sleeper::new()?;
            new.watch(shared)?;
            sleeper.insert(new)
        }
    };
    sleeper.unused = 0;
    loop {
        // Records are taken before the peer is asked. One that is taken afterwards may be the
        // peer's answer, sent for what an earlier request has brought already, and then no other
        // one follows.
        match shared.fall_asleep(sleeper.id) {
            Ok(_) if condition.look()? => return Ok(()),
            Ok(_) => {}
            Err(end) => return last_look(condition, end),
        }
        if condition.arm()? {
            return Ok(());
        }
        sleeper.sleep(deadline.left()?)?;
        if take_or(shared, condition, Some(sleeper.id))?.is_some() {
            return Ok(());
        }
        if let Err(end) = shared.check() {
            return last_look(condition, end);
        }
    }
}

/// Takes records, and looks whether the condition holds then.
fn take_or(
    shared: &Shared,
    condition: &mut impl Condition,
    reader: Option<u64>,
) -> Result<Option<()>> {
    look_after(shared.take_records(reader), condition)
}

/// Whether the condition holds after records were taken.
fn look_after(taken: Result<bool>, condition: &mut impl Condition) -> Result<Option<()>> {
    match taken {
        Ok(_) => Ok(condition.look()?.then_some(())),
        Err(end) => last_look(condition, end).map(Some),
    }
}

/// The result of a wait when the connection has ended.
fn last_look(condition: &mut impl Condition, end: crate::Error) -> Result<()> {
    match condition.look()? {
        true => Ok(()),
        false => Err(end),
    }
}
