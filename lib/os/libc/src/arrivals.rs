//! Signals that come from other processes, and those that no thread takes yet. A thread of this
//! library fetches the ones that the program catches or blocks from the process manager, and calls
//! the handlers. POSIX allows any thread that does not block a signal to do that.
//!
//! What all threads block is held until one of them unblocks it or waits for it (`sigwait`).

use alloc::collections::BTreeMap;
use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::signals::{self, Arrival, Choice};
use runtime::{Error, Result};
use syscall::error::{EAGAIN, EINTR};

use crate::caught::Sent;
use crate::handlers::{self, Disposition, IGNORE, Origin, Outcome};
use crate::sync::{self, Shared};
use crate::{caught, interrupter, masks, points, process, pthread, tls};

/// What the process manager was told to do with signals.
pub struct Told {
    /// Those that have, or had, a handler, or were blocked: the thread of this library does the
    /// rest, so none is taken out again.
    caught: u64,
    ignored: u64,
    /// The thread, if it runs.
    thread: *const pthread::Record,
    /// What was ignored when the program began is in `ignored`.
    has_begun: bool,
    /// The process manager does not know such calls.
    is_refused: bool,
}

pub static TOLD: Shared<Told> = Shared::new(Told {
    caught: 0,
    ignored: 0,
    thread: null(),
    has_begun: false,
    is_refused: false,
});

/// Signals that all threads block.
pub static HELD: Shared<BTreeMap<c_int, Origin>> = Shared::new(BTreeMap::new());
/// What threads wait for in `sigwait`, by their numbers.
pub static AWAITED: Shared<BTreeMap<c_int, u64>> = Shared::new(BTreeMap::new());
/// Counts the signals that were held. Threads wait for it to change.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Tells the process manager of a change of what it has to do with signals.
fn tell(change: impl FnOnce(&mut Told)) {
    TOLD.with(|told| {
        if told.is_refused {
            return;
        }
        if !told.has_begun {
            // What the program before an `exec` has ignored stays so, unless this one chooses.
            match signals::choice() {
                Ok(former) => (told.has_begun, told.ignored) = (true, former.ignored),
                Err(_) => {
                    told.is_refused = true;
                    return;
                }
            }
        }
        let before = (told.caught, told.ignored);
        change(told);
        told.caught &= !masks::FIXED;
        told.ignored &= !masks::FIXED;
        if (told.caught, told.ignored) == before {
            return;
        }
        let choice = Choice {
            caught: told.caught,
            ignored: told.ignored,
        };
        if signals::choose(choice).is_ok() && told.caught != 0 && told.thread.is_null() {
            told.start();
        }
    });
}

impl Told {
    /// Starts the thread that fetches signals. Without one they keep their usual effect.
    fn start(&mut self) {
        match caught::prepare().and_then(|()| pthread::start_own(serve)) {
            Ok(thread) => self.thread = thread,
            Err(_) => {
                self.caught = 0;
                signals::give_up();
            }
        }
    }
}

unsafe extern "C" fn serve(_unused: *mut c_void) -> *mut c_void {
    loop {
        match signals::fetch() {
            Ok(Some(arrival)) => arrives_outside(arrival.number as c_int, origin_of(&arrival)),
            Err(error) if error.errno == EINTR => {}
            // Nothing is caught any more, or the process manager has gone.
            Ok(None) | Err(_) => break,
        }
    }
    null_mut()
}

fn origin_of(arrival: &Arrival) -> Origin {
    let (process, user) = (arrival.process as c_int, arrival.user);
    match arrival.status {
        Some(status) => Origin::child(process, user, status as c_int),
        None => Origin::process(process, user),
    }
}

/// Notes what the program does with a signal now.
pub fn choose(number: c_int, chosen: &Disposition) {
    let Some(bit) = masks::bit(number) else {
        return;
    };
    tell(|told| {
        told.ignored &= !bit;
        match chosen.handler {
            IGNORE => told.ignored |= bit,
            // To ignore it has no other effect on this one.
            handlers::DEFAULT if number == handlers::SIGCHLD && chosen.leaves_nothing() => {
                told.ignored |= bit;
            }
            handlers::DEFAULT => {}
            _ => told.caught |= bit,
        }
    });
    if handlers::is_without_effect(number) {
        // POSIX: a signal that waits is dropped then.
        HELD.with(|held| held.remove(&number));
        points::own().take(bit);
    }
}

/// Handles a signal of this process: one that all threads block, or for which one waits, is held.
fn arrives(number: c_int, origin: Origin) {
    let Some(bit) = masks::bit(number) else {
        return;
    };
    match is_free(bit) {
        true => take_effect(number, origin, Sent::Process),
        false => hold(number, origin),
    }
}

/// As [`arrives`], in a thread of this library: the handler ends the call of the first thread.
pub fn arrives_outside(number: c_int, origin: Origin) {
    let (before, call) = (handlers::ending(), interrupter::call_of_first());
    arrives(number, origin);
    if let Some(call) = call
        && handlers::ending() != before
    {
        call.end();
    }
}

/// Handles a signal that the calling thread sends to itself or to its process.
pub fn arrives_here(number: c_int, origin: Origin, sent: Sent) {
    match masks::bit(number) {
        Some(bit) if masks::own() & bit != 0 => hold(number, origin),
        _ => take_effect(number, origin, sent),
    }
}

fn hold(number: c_int, origin: Origin) {
    if handlers::exchange(number, None).is_some_and(|chosen| chosen.handler == IGNORE) {
        return;
    }
    HELD.with(|held| {
        held.entry(number).or_insert(origin);
    });
    look_again();
    // A thread may have unblocked it meanwhile, and found nothing.
    deliver_held();
}

/// Has the threads that wait for signals look for them.
pub fn look_again() {
    COUNT.fetch_add(1, Ordering::Release);
    sync::wake(&COUNT, usize::MAX >> 1);
}

/// Calls the handler in the calling thread, or does what the signal does otherwise.
fn take_effect(number: c_int, origin: Origin, sent: Sent) {
    if handlers::deliver(number, origin, sent) == Outcome::Ends {
        process::end_by_signal(number);
    }
    // The handler may have blocked others meanwhile.
    deliver_held();
}

/// Takes the first signal of a set that was sent to the calling thread, or that is held.
fn take_any(set: u64) -> Option<(c_int, Origin)> {
    let own = points::own().take(set);
    own.map(|number| (number, Origin::own()))
        .or_else(|| take(set))
}

/// Takes the first signal of a set that is held.
fn take(set: u64) -> Option<(c_int, Origin)> {
    HELD.with(|held| {
        let is_in = |number: &c_int| masks::bit(*number).is_some_and(|bit| set & bit != 0);
        let number = held.keys().copied().find(is_in)?;
        held.remove(&number).map(|origin| (number, origin))
    })
}

/// Whether a thread of the program may take a signal now: one does not block it, and none waits
/// for it.
fn is_free(bit: u64) -> bool {
    let is_awaited = AWAITED.with(|awaited| awaited.values().any(|set| set & bit != 0));
    !is_awaited && masks::count(bit) < pthread::running()
}

/// Handles what is held, if it is not among the `blocked` signals and not all threads block it.
fn deliver_what_is_held(blocked: u64) {
    let may_take = || {
        let waiting = held() & !blocked;
        let bits = (0..u64::BITS).map(|number| 1 << number);
        bits.filter(|bit| waiting & bit != 0 && is_free(*bit))
            .fold(0, |set, bit| set | bit)
    };
    while let Some((number, origin)) = take(may_take()) {
        if handlers::deliver(number, origin, Sent::Process) == Outcome::Ends {
            process::end_by_signal(number);
        }
    }
}

/// Handles what is held, and what the calling thread has sent to itself, as a handler that has run
/// here may have done while it blocked its own signal.
fn deliver_held() {
    loop {
        deliver_what_is_held(masks::own());
        if points::own().signals() & !masks::own() == 0 {
            return;
        }
        points::handle_signals();
    }
}

/// Runs `action` while the calling thread blocks these signals and no others; a handler that runs
/// meanwhile interrupts the wait in it.
pub fn blocking<T>(mask: u64, action: impl FnOnce() -> T) -> T {
    let before = masks::own();
    caught::interrupt_from_now();
    block(mask);
    let result = action();
    // An action that has failed has not waited.
    caught::interrupt_no_more();
    block(before);
    result
}

/// Sets what the calling thread blocks, and handles what it has unblocked.
pub fn block(mask: u64) {
    let added = mask & !masks::own();
    if added != 0 {
        tell(|told| told.caught |= added & !told.ignored);
    }
    masks::set(mask);
    deliver_held();
}

/// The signals that are held.
pub fn held() -> u64 {
    HELD.with(|held| {
        let bits = held.keys().filter_map(|number| masks::bit(*number));
        bits.fold(0, |set, bit| set | bit)
    })
}

/// Whether a signal of this timer is held.
pub fn holds_of_timer(number: c_int, timer: usize) -> bool {
    HELD.with(|held| {
        held.get(&number)
            .is_some_and(|origin| origin.is_timer(timer))
    })
}

/// Waits for a signal of a set, at most until `end` (monotonic clock, nanoseconds).
///
/// # Errors
/// `EAGAIN`: none has come until then; `EINTR`: the thread has to look at what others want of it.
pub fn wait(set: u64, end: Option<u64>) -> Result<(c_int, Origin)> {
    tell(|told| told.caught |= set & !told.ignored);
    let id = tls::gettid();
    AWAITED.with(|awaited| awaited.insert(id, set));
    let found = loop {
        let count = COUNT.load(Ordering::Acquire);
        if let Some(found) = take_any(set) {
            break Ok(found);
        }
        let is_over = |end: u64| runtime::time::Instant::now().as_nanos() >= end;
        if end.is_some_and(is_over) {
            break Err(Error::new(EAGAIN));
        }
        // After any other answer the loop looks again.
        if let Err(error @ Error { errno: EINTR }) =
            points::sleeping(|| sync::wait(&COUNT, count, end))
        {
            break Err(error);
        }
    };
    AWAITED.with(|awaited| awaited.remove(&id));
    // Another one of the set may have come that no thread blocks. What others have sent to this
    // thread alone stays for the caller, whose wait it may have ended.
    deliver_what_is_held(masks::own());
    found
}

/// Handles what is held and not blocked by all threads, after the calling thread has left those
/// that count.
pub fn deliver_to_others() {
    deliver_what_is_held(0);
}

/// Called in the child of a fork: no signal waits for it, and it needs a thread of its own to fetch
/// them.
pub fn forked() {
    masks::forked();
    caught::forked();
    HELD.with(|held| held.clear());
    AWAITED.with(|awaited| awaited.clear());
    signals::forked();
    TOLD.with(|told| {
        told.thread = null();
        // The process manager has passed the choice on; the call opens what the thread reads.
        if told.caught != 0 && signals::choice().is_ok() {
            told.start();
        }
    });
}

/// Ends the threads that fetch signals and interrupt others, as another program is to take the
/// place of this one: it catches nothing at first, and must be the only thread. Returns what
/// [`resume`] needs if that fails.
pub fn leave() -> Option<Choice> {
    interrupter::leave();
    let former = signals::give_up()?;
    let children = masks::bit(handlers::SIGCHLD).unwrap_or_default();
    if former.ignored & children != 0 {
        // The new program has not asked for children that leave nothing.
        let ignored = former.ignored & !children;
        let _ = signals::choose(Choice { caught: 0, ignored });
    }
    let thread = TOLD.with(|told| core::mem::replace(&mut told.thread, null()));
    if !thread.is_null() {
        // SAFETY: started by `start`, and joined by nobody else.
        unsafe { pthread::pthread_join(thread, null_mut()) };
    }
    Some(former)
}

/// Undoes [`leave`].
pub fn resume(choice: Option<Choice>) {
    if let Some(choice) = choice
        && signals::choose(choice).is_ok()
    {
        TOLD.with(Told::start);
    }
}
