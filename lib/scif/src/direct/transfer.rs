//! Sending and receiving on mapped rings.
//!
//! A call takes the lock of its side, moves what can be moved, gives the lock back and wakes the
//! peer if that asked for it. A blocking call that is not done waits: it looks a while, then sleeps
//! in the daemon, which wakes it when the peer has moved something. Once it has moved a part it
//! keeps the lock until the end, so that its bytes stay together.

use platform::direct::{Readable, Writable};
use platform::pause::yield_now;
use scif_abi::flags::{Kicks, Readiness};
use scif_ring::{RingError, RingMemory, Side};
use syscall::error::{EINTR, Error};

use super::memory::Memory;
use super::open::Opened;
use super::patience::{Patience, Waiting};

/// Times a lock that somebody holds is tried again, giving the processor away in between. Then the
/// daemon is asked, where everybody waits in turn.
const LOCK_TRIES: usize = 50;

/// How a call went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It is done; so many bytes were moved.
    Done(usize),
    /// The daemon has to do the rest; so many bytes were moved.
    Daemon(usize),
    /// A signal came before anything was moved.
    Interrupted,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Waited {
    /// Something may be moved; the lock is held.
    Ready,
    /// The daemon has to go on; the lock is not held any more.
    Daemon,
    /// A signal came; the lock is not held any more.
    Interrupted,
}

/// What was moved at once.
#[derive(Clone, Copy)]
pub(super) struct Step {
    bytes: usize,
    /// The peer can see it, and may have asked to be told.
    is_visible: bool,
}

/// A direction of a transfer: what differs between sending and receiving.
pub(super) trait Way {
    const SIDE: Side;
    /// What a sleeper waits for.
    const EVENTS: Readiness;
    /// What the peer waits for.
    const KICKS: Kicks;

    /// Bytes in all.
    fn bytes(&self) -> usize;

    /// Moves what can be moved now of the bytes from `done` on; who calls holds the lock.
    fn step(
        &mut self,
        opened: &Opened,
        memory: &mut Memory<'_>,
        done: usize,
    ) -> Result<Step, RingError<Error>>;

    /// Whether something can be moved.
    fn is_ready(opened: &Opened, memory: &Memory<'_>) -> Result<bool, RingError<Error>>;

    /// Whether it is plain without the lock that nothing can be moved.
    fn is_idle(opened: &Opened, memory: &Memory<'_>) -> bool;

    /// Whether the peer asked to be told, which is thereby done.
    fn must_notify(opened: &Opened, memory: &mut Memory<'_>) -> bool;
}

/// A send.
pub(super) struct Sending<'a>(Readable<'a>);

impl Way for Sending<'_> {
    const SIDE: Side = Side::Send;
    const EVENTS: Readiness = Readiness::OUT;
    const KICKS: Kicks = Kicks::BYTES;

    #[inline]
    fn bytes(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn step(
        &mut self,
        opened: &Opened,
        memory: &mut Memory<'_>,
        done: usize,
    ) -> Result<Step, RingError<Error>> {
        let left = self.0.len() - done;
        let put = |memory: &mut Memory<'_>, offset, from, count| {
            memory.put(offset, self.0.part(done + from, count))
        };
        let bytes = opened.producer.put_with(memory, left, put)?;
        Ok(Step {
            bytes,
            is_visible: bytes > 0,
        })
    }

    #[inline]
    fn is_ready(opened: &Opened, memory: &Memory<'_>) -> Result<bool, RingError<Error>> {
        Ok(opened.producer.room(memory)? > 0)
    }

    #[inline]
    fn is_idle(_: &Opened, _: &Memory<'_>) -> bool {
        // There is room nearly always.
        false
    }

    #[inline]
    fn must_notify(opened: &Opened, memory: &mut Memory<'_>) -> bool {
        opened.producer.must_notify(memory)
    }
}

struct Receiving<'a>(Writable<'a>);

impl Way for Receiving<'_> {
    const SIDE: Side = Side::Receive;
    const EVENTS: Readiness = Readiness::IN;
    const KICKS: Kicks = Kicks::ROOM;

    #[inline]
    fn bytes(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn step(
        &mut self,
        opened: &Opened,
        memory: &mut Memory<'_>,
        done: usize,
    ) -> Result<Step, RingError<Error>> {
        let left = self.0.len() - done;
        let to = &mut self.0;
        let take = |memory: &mut Memory<'_>, offset, from, count| {
            memory.take(offset, &to.part(done + from, count))
        };
        let bytes = opened.consumer.take_with(memory, left, take)?;
        Ok(Step {
            bytes,
            is_visible: bytes > 0 && opened.consumer.give_back(memory)?,
        })
    }

    #[inline]
    fn is_ready(opened: &Opened, memory: &Memory<'_>) -> Result<bool, RingError<Error>> {
        Ok(!opened.consumer.is_empty(memory) && opened.consumer.available(memory)? > 0)
    }

    #[inline]
    fn is_idle(opened: &Opened, memory: &Memory<'_>) -> bool {
        // Programs that poll look here far more often than they find something.
        opened.consumer.is_empty(memory)
    }

    #[inline]
    fn must_notify(opened: &Opened, memory: &mut Memory<'_>) -> bool {
        opened.consumer.must_notify(memory)
    }
}

impl Opened {
    /// `scif_send`. Nothing to send is not asked for. `waiting` is the number of a [`Waiting`].
    #[inline]
    pub(super) fn send(&self, from: Readable<'_>, blocking: bool, waiting: u8) -> Outcome {
        self.run(Sending(from), blocking, waiting)
    }

    /// `scif_recv`. An empty buffer is not asked for. `waiting` as for `send`.
    #[inline]
    pub(super) fn recv(&self, to: Writable<'_>, blocking: bool, waiting: u8) -> Outcome {
        self.run(Receiving(to), blocking, waiting)
    }

    #[inline]
    fn run<W: Way>(&self, mut way: W, blocking: bool, waiting: u8) -> Outcome {
        let Some(mut memory) = self.rings() else {
            return Outcome::Daemon(0);
        };
        if !blocking && W::is_idle(self, &memory) {
            return self.nothing();
        }
        // Nobody would take what is sent after the daemon's end; what was received is good.
        if W::SIDE == Side::Send && self.pulse.is_due_to_send() && !self.is_served() {
            return Outcome::Daemon(0);
        }
        if !memory.try_lock(W::SIDE, self.number) && !self.lock(&mut memory, W::SIDE) {
            return Outcome::Daemon(0);
        }
        let Ok(step) = way.step(self, &mut memory, 0) else {
            // The daemon says what is wrong with the ring.
            memory.unlock(W::SIDE);
            return Outcome::Daemon(0);
        };
        if step.bytes < way.bytes() && blocking {
            return self.rest(way, memory, step, Waiting::from_number(waiting));
        }
        memory.unlock(W::SIDE);
        if step.is_visible && W::must_notify(self, &mut memory) {
            self.tell(W::KICKS);
        }
        match step.bytes {
            0 => self.nothing(),
            bytes => Outcome::Done(bytes),
        }
    }

    /// Nothing can be moved, or the daemon has died.
    #[inline]
    fn nothing(&self) -> Outcome {
        match self.pulse.is_wanted() && !self.is_served() {
            true => Outcome::Daemon(0),
            false => Outcome::Done(0),
        }
    }

    /// Whether the daemon still knows the connection.
    #[cold]
    pub(super) fn is_served(&self) -> bool {
        self.kick(Kicks::empty()).is_ok()
    }

    /// Takes a lock that somebody else holds, if it gets free soon.
    #[cold]
    fn lock(&self, memory: &mut Memory<'_>, side: Side) -> bool {
        (0..LOCK_TRIES).any(|_| {
            yield_now();
            memory.try_lock(side, self.number)
        })
    }

    /// Has the peer woken.
    #[cold]
    fn tell(&self, kicks: Kicks) {
        // It fails when the connection has gone, of which the peer is told anyway.
        let _ = self.kick(kicks);
    }

    /// The rest of a blocking call, which holds the lock.
    #[cold]
    fn rest<W: Way>(
        &self,
        mut way: W,
        mut memory: Memory<'_>,
        mut step: Step,
        waiting: Waiting,
    ) -> Outcome {
        let mut moved = step.bytes;
        loop {
            let mut kicks = Kicks::empty();
            if step.is_visible && W::must_notify(self, &mut memory) {
                kicks = W::KICKS;
            }
            if moved == way.bytes() {
                memory.unlock(W::SIDE);
                if !kicks.is_empty() {
                    self.tell(kicks);
                }
                return Outcome::Done(moved);
            }
            if !kicks.is_empty() && waiting != Waiting::Sleep {
                self.tell(kicks);
                kicks = Kicks::empty();
            }
            match self.wait::<W>(&mut memory, moved > 0, kicks, waiting) {
                Waited::Ready => {}
                Waited::Daemon => return Outcome::Daemon(moved),
                Waited::Interrupted if moved == 0 => return Outcome::Interrupted,
                Waited::Interrupted => return Outcome::Done(moved),
            }
            let Ok(next) = way.step(self, &mut memory, moved) else {
                memory.unlock(W::SIDE);
                return Outcome::Daemon(moved);
            };
            step = next;
            moved += step.bytes;
        }
    }

    /// Waits until something may be moved. The lock is held before.
    pub(super) fn wait<W: Way>(
        &self,
        memory: &mut Memory<'_>,
        has_begun: bool,
        kicks: Kicks,
        waiting: Waiting,
    ) -> Waited {
        let mut patience = Patience::new(waiting, self.is_loopback());
        loop {
            for _ in 0..patience.looks() {
                match W::is_ready(self, memory) {
                    Ok(true) => {
                        // The peer's wish was taken up, and no sleep passes it on.
                        if !kicks.is_empty() {
                            self.tell(kicks);
                        }
                        return Waited::Ready;
                    }
                    Ok(false) => core::hint::spin_loop(),
                    Err(_) => {
                        memory.unlock(W::SIDE);
                        return Waited::Daemon;
                    }
                }
            }
            // Who never sleeps hears of the daemon's end only by asking.
            let asks = waiting == Waiting::Poll && self.pulse.is_due();
            let is_served = !asks || self.is_served();
            if !is_served || !self.is_unchanged() && !self.notice() {
                memory.unlock(W::SIDE);
                return Waited::Daemon;
            }
            if !patience.pause() {
                break;
            }
        }
        // Others may have their turn meanwhile, unless their bytes would come between ours.
        if !has_begun {
            memory.unlock(W::SIDE);
        }
        let ready = self.sleep(W::EVENTS, kicks);
        let was_interrupted = ready == Err(EINTR);
        // What has ended or was closed meanwhile is not worked on any more, whatever is there.
        let is_usable = self.is_unchanged() || self.notice();
        // Nothing at all: windows have gone, which we let go of just now.
        let is_alive =
            is_usable && ready.is_ok_and(|ready| ready.is_empty() || ready.intersects(W::EVENTS));
        let is_locked = match has_begun {
            true => true,
            false => {
                is_alive && (memory.try_lock(W::SIDE, self.number) || self.lock(memory, W::SIDE))
            }
        };
        if is_alive && is_locked {
            return Waited::Ready;
        }
        if is_locked {
            memory.unlock(W::SIDE);
        }
        match was_interrupted {
            true => Waited::Interrupted,
            false => Waited::Daemon,
        }
    }

    /// What the endpoint is ready for, of `events`; `None` when only the daemon can tell.
    pub(super) fn readiness(&self, events: Readiness) -> Option<Readiness> {
        let memory = self.rings()?;
        let mut ready = Readiness::empty();
        if events.contains(Readiness::IN) {
            ready.set(Readiness::IN, self.consumer.look(&memory).ok()?? > 0);
        }
        if events.contains(Readiness::OUT) {
            ready.set(Readiness::OUT, self.producer.look(&memory).ok()?? > 0);
        }
        if self.pulse.is_wanted() && !self.is_served() {
            return None;
        }
        // Bytes that came before the end are told with it.
        self.is_unchanged().then_some(ready)
    }
}
