//! Sending and receiving on mapped rings.
//!
//! A call takes the lock of its side, moves the bytes that can be moved, releases the lock and
//! wakes the peer if the peer asked for it. A blocking call that is not done waits: it polls for a
//! while, then sleeps in the daemon, which wakes it when the peer has moved something. After its
//! first byte it holds the lock until the end, so that its bytes stay together.

use core::hint::black_box;
use core::sync::atomic::Ordering;
use core::time::Duration;

use client_memory::pages::{Readable, Writable};
use hal::copy::SMALL_BYTES;
use hal::idle_poll::Ended;
use hal::kernel::ends_abandoned_requests;
use hal::pause::yield_now;
use scif_abi::flags::{Kicks, Readiness};
use scif_ring::{RingError, RingMemory, Side};
use syscall::error::{EINTR, Error};

use super::busy_poll::{BusyPoll, Waiting};
use super::memory::RingWords;
use super::open::MappedRings;
use crate::raw;

/// How many times a contended lock is tried, with a yield before each try. After that the call
/// goes through the daemon, which serves callers in order.
const LOCK_TRIES: usize = 50;
/// The pause between two further tries, on kernels where the call must not go through the daemon.
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// The outcome of a call on the rings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The call is done and moved this number of bytes.
    Done(usize),
    /// The call moved this number of bytes; the daemon has to do the rest.
    Daemon(usize),
    /// A signal came before anything was moved.
    Interrupted,
}

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Waited {
    /// Bytes may be moved; the lock is held.
    Ready,
    /// The daemon has to go on; the lock is released.
    Daemon,
    /// A signal came; the lock is released.
    Interrupted,
}

/// The result of moving bytes once.
#[derive(Clone, Copy)]
pub(super) struct Step {
    bytes: usize,
    /// Whether the peer can see the step, and so may have asked for a notification.
    is_visible: bool,
}

/// The number of bytes that a short receive has moved, or nothing, in one register: a call whose
/// result takes two, as an `Option<usize>`, is never made by a jump.
#[derive(Clone, Copy)]
pub(super) struct Count(usize);

impl Count {
    const NOTHING: Self = Self(usize::MAX);

    #[inline(always)]
    fn new(count: Option<usize>) -> Self {
        count.map_or(Self::NOTHING, Self)
    }

    /// The number of bytes. `None`: the receive has done nothing.
    #[inline(always)]
    pub(super) fn get(self) -> Option<usize> {
        (self.0 != Self::NOTHING.0).then_some(self.0)
    }
}

/// The direction of a transfer: the differences between sending and receiving.
pub(super) trait Direction {
    const SIDE: Side;
    /// The event that a sleeping caller waits for.
    const EVENTS: Readiness;
    /// The event that the peer is notified of.
    const KICKS: Kicks;

    /// Moves the bytes that can be moved now, from byte `done` on; the caller holds the lock.
    fn step(
        &mut self,
        rings: &MappedRings,
        memory: &mut RingWords<'_>,
        done: usize,
    ) -> Result<Step, RingError<Error>>;

    /// Whether any byte can be moved.
    fn is_ready(rings: &MappedRings, memory: &RingWords<'_>) -> Result<bool, RingError<Error>>;

    /// Whether the rings show, without the lock, that nothing can be moved.
    fn is_idle(rings: &MappedRings, memory: &RingWords<'_>) -> bool;

    /// Whether the peer asked for a notification. Takes the peer's request back.
    fn must_notify(rings: &MappedRings, memory: &mut RingWords<'_>) -> bool;
}

/// A send.
pub(super) struct Sending<'a>(Readable<'a>);

impl Direction for Sending<'_> {
    const SIDE: Side = Side::Send;
    const EVENTS: Readiness = Readiness::OUT;
    const KICKS: Kicks = Kicks::BYTES;

    #[inline]
    fn step(
        &mut self,
        rings: &MappedRings,
        memory: &mut RingWords<'_>,
        done: usize,
    ) -> Result<Step, RingError<Error>> {
        let left = self.0.len() - done;
        let put = |memory: &mut RingWords<'_>, offset, from, count| {
            memory.put(offset as u64, self.0.part(done + from, count))
        };
        let bytes = rings.producer.put_with(memory, left, put)?;
        Ok(Step {
            bytes,
            is_visible: bytes > 0,
        })
    }

    #[inline]
    fn is_ready(rings: &MappedRings, memory: &RingWords<'_>) -> Result<bool, RingError<Error>> {
        Ok(rings.producer.room(memory)? > 0)
    }

    #[inline]
    fn is_idle(_: &MappedRings, _: &RingWords<'_>) -> bool {
        // There is nearly always room, so the load would be wasted.
        false
    }

    #[inline]
    fn must_notify(rings: &MappedRings, memory: &mut RingWords<'_>) -> bool {
        rings.producer.must_notify(memory)
    }
}

struct Receiving<'a>(Writable<'a>);

impl Direction for Receiving<'_> {
    const SIDE: Side = Side::Receive;
    const EVENTS: Readiness = Readiness::IN;
    const KICKS: Kicks = Kicks::ROOM;

    #[inline]
    fn step(
        &mut self,
        rings: &MappedRings,
        memory: &mut RingWords<'_>,
        done: usize,
    ) -> Result<Step, RingError<Error>> {
        let left = self.0.len() - done;
        let to = &mut self.0;
        let take = |memory: &mut RingWords<'_>, offset, from, count| {
            memory.take(offset as u64, &to.part(done + from, count))
        };
        let bytes = rings.consumer.take_with(memory, left, take)?;
        Ok(Step {
            bytes,
            is_visible: bytes > 0 && rings.consumer.give_back(memory)?,
        })
    }

    #[inline]
    fn is_ready(rings: &MappedRings, memory: &RingWords<'_>) -> Result<bool, RingError<Error>> {
        Ok(!rings.consumer.is_empty(memory) && rings.consumer.available(memory)? > 0)
    }

    #[inline]
    fn is_idle(rings: &MappedRings, memory: &RingWords<'_>) -> bool {
        // Programs that poll call this far more often than they find something.
        rings.consumer.is_empty(memory)
    }

    #[inline]
    fn must_notify(rings: &MappedRings, memory: &mut RingWords<'_>) -> bool {
        rings.consumer.must_notify(memory)
    }
}

impl MappedRings {
    /// `scif_send` of at least one and at most [`SMALL_BYTES`] bytes in the usual case: nothing
    /// has changed, the lock is free, there is room. Returns `sent`. `None`: nothing was sent, and
    /// the general path ([`send`](Self::send)) has to send.
    ///
    /// Except for inlined functions, this function and the receives call another one only as the
    /// last thing that they do, so that everything stays in registers.
    #[inline(always)]
    pub(super) fn send_here<T>(&self, from: Readable<'_>, sent: T) -> Option<T> {
        let mut memory = self.memory.words().undrained();
        if !self.is_sendable_in(memory.state()) || !memory.try_lock(Side::Send, self.number) {
            return None;
        }
        let Some(place) = self.producer.place_short(&memory, from.len()) else {
            memory.unlock(Side::Send);
            return None;
        };
        let put = memory.put_short(place.position, from);
        if put.is_err() || self.producer.put_placed(&mut memory, place).is_err() {
            memory.unlock(Side::Send);
            return None;
        }
        match self.producer.unlock_and_must_notify(&mut memory) {
            true => Some(self.notify_of_bytes(sent)),
            false => Some(sent),
        }
    }

    /// As [`send_here`](Self::send_here), but one function for all callers. Returns whether the
    /// bytes were sent.
    #[inline(never)]
    pub(super) fn send_short(&self, from: Readable<'_>) -> bool {
        self.send_here(from, true).unwrap_or(false)
    }

    /// Ends a short send to a peer that sleeps. Returns `sent`, in a way that hides this from the
    /// compiler: it would save registers around the call to have the value itself, which is four
    /// instructions of each short send. So the call is a jump.
    #[cold]
    #[inline(never)]
    fn notify_of_bytes<T>(&self, sent: T) -> T {
        self.notify_peer(Kicks::BYTES);
        black_box(sent)
    }

    /// `scif_recv` of all of at least one and at most [`SMALL_BYTES`] bytes in the usual case:
    /// nothing has changed, the lock is free, all of the bytes have arrived. Returns their count.
    /// `None`: nothing was received, and the general path ([`recv`](Self::recv)) has to receive.
    #[inline(always)]
    pub(super) fn recv_all_here(&self, to: Writable<'_>) -> Option<usize> {
        let bytes = to.len();
        let wanted = |there: usize| (there >= bytes).then_some(bytes);
        self.take_short(&to, wanted)
    }

    /// As [`recv_all_here`](Self::recv_all_here), but one function for all callers.
    #[inline(never)]
    pub(super) fn recv_all_short(&self, to: Writable<'_>) -> Count {
        Count::new(self.recv_all_here(to))
    }

    /// Whether bytes are there, or come while a peer that polls would answer. Then a short receive
    /// is the rest of a blocking call, which has been through it once and found nothing.
    pub(super) fn bytes_come_soon(&self, waiting: u8) -> bool {
        let waiting = Waiting::from_number(waiting);
        let looks = BusyPoll::new(waiting, self.is_loopback()).spins();
        let memory = self.memory.words();
        (0..looks).any(|_| !self.consumer.is_empty(&memory))
    }

    /// As [`recv_all_here`](Self::recv_all_here), but receives the bytes that have arrived.
    #[inline(always)]
    pub(super) fn recv_some_here(&self, to: Writable<'_>) -> Option<usize> {
        let most = to.len();
        let wanted = |there: usize| {
            let count = there.min(most);
            (1..=SMALL_BYTES).contains(&count).then_some(count)
        };
        self.take_short(&to, wanted)
    }

    /// A receive that does not wait, one function for all callers. Returns 0 if it [finds
    /// nothing](Self::finds_nothing_here), else does as [`recv_some_here`](Self::recv_some_here),
    /// by a jump: a look saves no registers, which only the receive needs.
    #[inline(never)]
    pub(super) fn recv_now_short(&self, to: Writable<'_>) -> Count {
        match self.finds_nothing_here() {
            true => Count(0),
            false => self.recv_some_short(to),
        }
    }

    /// As [`recv_some_here`](Self::recv_some_here), but one function for all callers.
    #[inline(never)]
    pub(super) fn recv_some_short(&self, to: Writable<'_>) -> Count {
        Count::new(self.recv_some_here(to))
    }

    /// Whether a receive that does not wait would find no bytes, and nothing else to report.
    #[inline(always)]
    pub(super) fn finds_nothing_here(&self) -> bool {
        let memory = self.memory.words();
        // The general path reports the end, or probes the daemon.
        memory.state().bits() == self.unfinished.load(Ordering::Relaxed)
            && self.consumer.is_empty(&memory)
            && !self.liveness.may_be_wanted()
    }

    /// Takes as many bytes as `wanted` returns, which is called with the number of bytes that have
    /// arrived.
    #[inline(always)]
    fn take_short(
        &self,
        to: &Writable<'_>,
        wanted: impl FnOnce(usize) -> Option<usize>,
    ) -> Option<usize> {
        let mut memory = self.memory.words();
        if !self.is_current_in(memory) || !memory.try_lock(Side::Receive, self.number) {
            return None;
        }
        let found = self.consumer.find_short(&memory, wanted);
        let Some(found) = found.ok().flatten() else {
            memory.unlock(Side::Receive);
            return None;
        };
        if memory.take_short(found.position, to, found.bytes).is_err() {
            memory.unlock(Side::Receive);
            return None;
        }
        if self.consumer.take_found(&mut memory, found) {
            return Some(self.give_back(found.bytes));
        }
        memory.unlock(Side::Receive);
        Some(found.bytes)
    }

    /// Ends a short receive that gives the room of its bytes back to the peer. The caller holds
    /// the lock, which this releases. Returns `count`.
    #[cold]
    #[inline(never)]
    pub(super) fn give_back(&self, count: usize) -> usize {
        let mut memory = self.memory.words();
        let given = self.consumer.give_back(&mut memory);
        memory.unlock(Side::Receive);
        if given == Ok(true) && self.consumer.must_notify(&mut memory) {
            self.notify_peer(Kicks::ROOM);
        }
        // Hidden as in `notify_of_bytes`.
        black_box(count)
    }

    /// `scif_send` of at least one byte. Waits until `least` bytes are sent. `waiting` is the
    /// number of a [`Waiting`].
    #[inline]
    pub(super) fn send(&self, from: Readable<'_>, least: usize, waiting: u8) -> Outcome {
        self.run(Sending(from), least, waiting)
    }

    /// `scif_recv` into at least one byte. Waits until `least` bytes are received. `waiting` is
    /// the number of a [`Waiting`].
    #[inline]
    pub(super) fn recv(&self, to: Writable<'_>, least: usize, waiting: u8) -> Outcome {
        self.run(Receiving(to), least, waiting)
    }

    #[inline]
    fn run<W: Direction>(&self, mut direction: W, least: usize, waiting: u8) -> Outcome {
        let Some(mut memory) = self.memory() else {
            return Outcome::Daemon(0);
        };
        if least == 0 && W::is_idle(self, &memory) {
            return self.nothing(W::SIDE);
        }
        // Bytes sent after the daemon's death are lost; bytes received after it are good.
        if W::SIDE == Side::Send && self.liveness.is_due() && !self.is_served() {
            return Outcome::Daemon(0);
        }
        let waits = least > 0;
        if !memory.try_lock(W::SIDE, self.number) && !self.lock(&mut memory, W::SIDE, waits) {
            return Outcome::Daemon(0);
        }
        let Ok(step) = direction.step(self, &mut memory, 0) else {
            // The daemon finds what is wrong with the ring and reports the error.
            memory.unlock(W::SIDE);
            return Outcome::Daemon(0);
        };
        if step.bytes < least {
            return self.rest(
                direction,
                memory,
                step,
                least,
                Waiting::from_number(waiting),
            );
        }
        memory.unlock(W::SIDE);
        if step.is_visible && W::must_notify(self, &mut memory) {
            self.notify_peer(W::KICKS);
        }
        match step.bytes {
            0 => self.nothing(W::SIDE),
            bytes => Outcome::Done(bytes),
        }
    }

    /// The outcome when nothing can be moved. The daemon may have died, or the peer may have
    /// finished sending.
    #[inline]
    fn nothing(&self, side: Side) -> Outcome {
        match self.is_over(side) || self.liveness.is_wanted() && !self.is_served() {
            true => Outcome::Daemon(0),
            false => Outcome::Done(0),
        }
    }

    /// Whether the peer sends no more bytes, for a caller that receives and has found nothing. The
    /// daemon then reads the ring once more, and reports the end.
    #[inline]
    fn is_over(&self, side: Side) -> bool {
        side == Side::Receive && self.is_finished()
    }

    /// Asks the daemon whether it still serves the connection.
    #[cold]
    pub(super) fn is_served(&self) -> bool {
        self.kick(Kicks::empty()).is_ok()
    }

    /// Takes a contended lock if it is released soon. On a kernel where the daemon must not wait
    /// with data of a program ([`raw`]), a call that `waits` takes it whenever it is released.
    #[cold]
    fn lock(&self, memory: &mut RingWords<'_>, side: Side, waits: bool) -> bool {
        let is_taken = (0..LOCK_TRIES).any(|_| {
            yield_now();
            memory.try_lock(side, self.number)
        });
        is_taken || waits && !ends_abandoned_requests() && self.lock_patiently(memory, side)
    }

    /// Takes a lock that another transfer holds for long, unless the connection ends.
    fn lock_patiently(&self, memory: &mut RingWords<'_>, side: Side) -> bool {
        while self.is_current() && (!self.liveness.is_due() || self.is_served()) {
            if raw::poll(&mut [], Some(LOCK_PAUSE)).is_err() {
                break;
            }
            if memory.try_lock(side, self.number) {
                return true;
            }
        }
        false
    }

    /// Asks the daemon to wake the peer.
    #[cold]
    pub(super) fn notify_peer(&self, kicks: Kicks) {
        // This fails when the connection has gone, which wakes the peer, too.
        let _ = self.kick(kicks);
    }

    /// Does the rest of a blocking call. The caller holds the lock, which this releases.
    #[cold]
    fn rest<W: Direction>(
        &self,
        mut direction: W,
        mut memory: RingWords<'_>,
        mut step: Step,
        least: usize,
        waiting: Waiting,
    ) -> Outcome {
        let mut moved = step.bytes;
        loop {
            let mut kicks = Kicks::empty();
            if step.is_visible && W::must_notify(self, &mut memory) {
                kicks = W::KICKS;
            }
            if moved >= least {
                memory.unlock(W::SIDE);
                if !kicks.is_empty() {
                    self.notify_peer(kicks);
                }
                return Outcome::Done(moved);
            }
            if !kicks.is_empty() && waiting != Waiting::Sleep {
                self.notify_peer(kicks);
                kicks = Kicks::empty();
            }
            match self.wait::<W>(&mut memory, moved > 0, kicks, waiting) {
                Waited::Ready => {}
                Waited::Daemon => return Outcome::Daemon(moved),
                Waited::Interrupted if moved == 0 => return Outcome::Interrupted,
                Waited::Interrupted => return Outcome::Done(moved),
            }
            let Ok(next) = direction.step(self, &mut memory, moved) else {
                memory.unlock(W::SIDE);
                return Outcome::Daemon(moved);
            };
            step = next;
            moved += step.bytes;
        }
    }

    /// Waits until bytes may be moved. The caller holds the lock; [`Waited`] says whether it still
    /// does.
    pub(super) fn wait<W: Direction>(
        &self,
        memory: &mut RingWords<'_>,
        has_begun: bool,
        mut kicks: Kicks,
        waiting: Waiting,
    ) -> Waited {
        let mut busy_poll = BusyPoll::new(waiting, self.is_loopback());
        loop {
            for _ in 0..busy_poll.spins() {
                match W::is_ready(self, memory) {
                    Ok(true) => {
                        // The peer's request was taken back, and no sleep will pass the
                        // notification on.
                        if !kicks.is_empty() {
                            self.notify_peer(kicks);
                        }
                        return Waited::Ready;
                    }
                    Ok(false) => busy_poll.relax(),
                    Err(_) => return self.leave_to_daemon::<W>(memory, kicks),
                }
            }
            // A caller that never sleeps learns of the daemon's death only by a probe.
            let asks = waiting == Waiting::Poll && self.liveness.is_due();
            let is_served = !asks || self.is_served();
            let is_usable = is_served && (self.is_current() || self.refresh());
            if !is_usable || self.is_over(W::SIDE) {
                return self.leave_to_daemon::<W>(memory, kicks);
            }
            if !busy_poll.give_way() {
                break;
            }
        }
        // Other callers may go first, unless their bytes would come between those of this call.
        if !has_begun {
            memory.unlock(W::SIDE);
        }
        let ready = match self.sleep_shortly::<W>(memory, &mut kicks) {
            Ended::Changed => Ok(W::EVENTS),
            Ended::InVain => self.sleep(W::EVENTS, kicks),
            Ended::Interrupted => Err(EINTR),
        };
        let was_interrupted = ready == Err(EINTR);
        // Nothing is moved on a connection that has ended or was closed, whatever its rings hold.
        let is_usable = self.is_current() || self.refresh();
        // An empty answer means that windows have gone; `refresh` has just unmapped them.
        let is_alive =
            is_usable && ready.is_ok_and(|ready| ready.is_empty() || ready.intersects(W::EVENTS));
        let is_locked = match has_begun {
            true => true,
            false => {
                is_alive
                    && (memory.try_lock(W::SIDE, self.number) || self.lock(memory, W::SIDE, true))
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

    /// Leaves a wait to the daemon before the sleep that would have passed the notification on.
    /// The connection may live on without this descriptor, so the peer is notified here.
    #[cold]
    fn leave_to_daemon<W: Direction>(&self, memory: &mut RingWords<'_>, kicks: Kicks) -> Waited {
        memory.unlock(W::SIDE);
        if !kicks.is_empty() {
            self.notify_peer(kicks);
        }
        Waited::Daemon
    }

    /// Those of `events` for which the endpoint is ready; `None` when only the daemon can tell.
    pub(super) fn readiness(&self, events: Readiness) -> Option<Readiness> {
        let memory = self.memory()?;
        if self.is_finished() {
            return None;
        }
        let mut ready = Readiness::empty();
        if events.contains(Readiness::IN) {
            ready.set(Readiness::IN, self.consumer.peek(&memory).ok()?? > 0);
        }
        if events.contains(Readiness::OUT) {
            ready.set(Readiness::OUT, self.producer.peek(&memory).ok()?? > 0);
        }
        if self.liveness.is_wanted() && !self.is_served() {
            return None;
        }
        // The daemon reports the end of a connection together with the last bytes.
        self.is_current().then_some(ready)
    }
}
