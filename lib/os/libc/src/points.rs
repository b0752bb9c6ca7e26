//! The points at which a thread learns what others want of it: that it ends (`pthread_cancel`),
//! that it handles a signal (`pthread_kill`), or that its call ends because a handler has run
//! elsewhere. They are in the functions that POSIX calls cancellation points.
//!
//! Another thread that wants something stores it in the thread's [`Notices`]. If the thread is in
//! such a function, [`interrupter`](crate::interrupter) has the kernel interrupt it, again and
//! again until it has looked: the kernel interrupts only a thread that sleeps, and this one may be
//! just about to.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use runtime::Error;
use syscall::error::EINTR;

use crate::sync::Shared;
use crate::{cleanup, jump, tls};

/// C's `PTHREAD_CANCELED`, the result of a thread that was cancelled.
const CANCELED: *mut c_void = usize::MAX as *mut c_void;

/// What has become of signals, in ascending order of what it means for the call that they have
/// interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handled {
    /// No handler has run.
    Nothing,
    /// Handlers with `SA_RESTART` have run: most calls go on.
    Restarts,
    /// A handler without it has run: the call ends.
    EndsCall,
}

/// A call of a thread that can be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call(u32);

/// Whether a count of beginnings and ends belongs to a call.
fn is_call(count: u32) -> bool {
    !count.is_multiple_of(2)
}

/// What others have done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    /// Nothing.
    None,
    /// They may have interrupted it.
    Tried,
    /// It has to end.
    EndsCall,
}

/// Handles a signal in the calling thread.
type Handle = fn(c_int) -> Handled;

/// What handles signals that are sent to one thread; set before the first one is sent.
pub static HANDLE: Shared<Option<Handle>> = Shared::new(None);

/// What others want of a thread; nothing at first.
#[derive(Default)]
pub struct Notices {
    /// Whether it was cancelled.
    is_cancelled: AtomicBool,
    /// Whether it does not let itself be cancelled.
    refuses: AtomicBool,
    /// Whether it ends already.
    is_ending: AtomicBool,
    /// The signals that were sent to it alone and that it has not handled. Signal n is bit n - 1.
    signals: AtomicU64,
    /// Counts the beginnings and the ends of calls that can be interrupted; odd in one.
    calls: AtomicU32,
    /// What [`calls`](Self::calls) is in the call that has to end; 0: none has to.
    ended_call: AtomicU32,
    /// Counts the beginnings and the ends of interruptions by others; odd during one.
    interruptions: AtomicU32,
}

impl Notices {
    // ---- For other threads ----

    /// Cancels the thread.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
    }

    /// Sends the thread a signal, by its bit.
    pub fn send(&self, bit: u64) {
        self.signals.fetch_or(bit, Ordering::SeqCst);
    }

    /// The call of the thread that can be interrupted now.
    pub fn call(&self) -> Option<Call> {
        let call = self.calls.load(Ordering::SeqCst);
        is_call(call).then_some(Call(call))
    }

    /// Ends a call, if the thread is still in it.
    pub fn end_call(&self, call: Call) {
        self.ended_call.store(call.0, Ordering::SeqCst);
    }

    fn has_to_end(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
            && !self.refuses.load(Ordering::SeqCst)
            && !self.is_ending.load(Ordering::SeqCst)
    }

    /// Whether the thread, which blocks these signals, has to look here.
    pub fn has_to_look(&self, blocked: u64) -> bool {
        self.has_to_end()
            || self.signals.load(Ordering::SeqCst) & !blocked != 0
            || self.call() == Some(Call(self.ended_call.load(Ordering::SeqCst)))
    }

    /// Runs `interrupt` if the thread is in a call that can be interrupted.
    pub fn interrupt(&self, interrupt: impl FnOnce()) {
        self.interruptions.fetch_add(1, Ordering::SeqCst);
        if self.call().is_some() {
            interrupt();
        }
        self.interruptions.fetch_add(1, Ordering::SeqCst);
    }

    // ---- For the thread itself ----

    /// The signals that were sent to this thread alone.
    pub fn signals(&self) -> u64 {
        self.signals.load(Ordering::SeqCst)
    }

    /// Takes the first of these signals that was sent to this thread.
    pub fn take(&self, set: u64) -> Option<c_int> {
        let found = self.signals() & set;
        let number = found.trailing_zeros();
        let taken = found != 0 && self.signals.fetch_and(!(1 << number), Ordering::SeqCst) != 0;
        taken.then_some(number as c_int + 1)
    }

    /// Sets whether this thread does not let itself be cancelled; returns what it was.
    pub fn refuse(&self, refuses: bool) -> bool {
        self.refuses.swap(refuses, Ordering::SeqCst)
    }

    /// Ends this thread if it was cancelled and lets that happen.
    fn end_if_cancelled(&self) {
        if self.has_to_end() {
            // SAFETY: what the functions of this library still have on the stack holds nothing:
            // only their outermost frames call this.
            unsafe { pthread_exit(CANCELED) }
        }
    }

    /// Handles the signals.
    fn handle_signals(&self) -> Handled {
        let mut handled = Handled::Nothing;
        while let Some(number) = self.take(!blocked()) {
            if let Some(handle) = HANDLE.with(|handle| *handle) {
                handled = handled.max(handle(number));
            }
        }
        handled
    }

    /// Does what is wanted.
    fn attend(&self) -> Handled {
        let handled = self.handle_signals();
        self.end_if_cancelled();
        handled
    }

    /// Makes a call that others may interrupt. Also returns what they have done.
    fn mark<T>(&self, call: impl FnOnce() -> T) -> (T, Interruption) {
        let before = self.interruptions.load(Ordering::Relaxed);
        let own = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(own, Ordering::Relaxed);
        let result = call();
        self.calls.store(own.wrapping_add(1), Ordering::Relaxed);
        let is_new = || self.interruptions.load(Ordering::SeqCst) != before;
        let was_tried = !before.is_multiple_of(2) || is_new();
        match self.ended_call.load(Ordering::SeqCst) == own {
            true => (result, Interruption::EndsCall),
            false if was_tried => (result, Interruption::Tried),
            false => (result, Interruption::None),
        }
    }

    /// Forgets what was wanted of this thread, as the child of a fork has a copy of it.
    pub fn forked(&self) {
        self.is_cancelled.store(false, Ordering::SeqCst);
        self.signals.store(0, Ordering::SeqCst);
    }
}

/// What others want of the calling thread.
pub fn own<'a>() -> &'a Notices {
    // SAFETY: in the record of the calling thread, which lives as long as it.
    unsafe { &*(*tls::control()).notices.cast() }
}

/// The signals that the calling thread blocks.
fn blocked() -> u64 {
    // SAFETY: the control block of the calling thread, which no other uses.
    unsafe { (*tls::control()).blocked }
}

/// Whether the calling thread has to end its wait, so that [`interruptible`] can look.
pub fn has_to_look() -> bool {
    own().has_to_look(blocked())
}

/// An error, by its number.
pub trait Failure {
    /// The number.
    fn number(&self) -> c_int;
}

impl Failure for Error {
    fn number(&self) -> c_int {
        self.errno
    }
}

impl Failure for c_int {
    fn number(&self) -> c_int {
        *self
    }
}

/// A point in a function that does not wait for long: ends the thread if it was cancelled, and
/// handles its signals.
pub fn pass() {
    if has_to_look() {
        own().attend();
    }
}

/// Ends the thread if it was cancelled. Handles no signals, so that a lock may be taken.
pub fn end_if_cancelled() {
    own().end_if_cancelled();
}

/// Handles the signals that were sent to the calling thread alone.
pub fn handle_signals() {
    own().handle_signals();
}

/// Makes a call that waits, until it ends or the thread [has to look](has_to_look): then the caller
/// has to see to that.
///
/// # Errors
/// `EINTR`: the thread has to look; those of the call.
pub fn sleeping<T>(mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        // In a call that is marked already, the caller of this looks.
        let result = match own().call() {
            Some(_) => call(),
            None => own().mark(&mut call).0,
        };
        match result {
            Err(error) if error.errno == EINTR && !has_to_look() => {}
            result => return result,
        }
    }
}

/// Makes the call of a C function that may wait. Others may interrupt it; if a handler has run that
/// `ends` it, the result is `EINTR`. Otherwise it is made again.
///
/// Only the outermost function of this library may call this, with nothing on its stack that needs
/// to be dropped: a cancelled thread ends here.
fn at_point<T, E: Failure>(
    ends: impl Fn(Handled) -> bool,
    mut call: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    // What was wanted before the call does not end it.
    pass();
    loop {
        let (result, interruption) = own().mark(&mut call);
        let is_over = match (&result, interruption) {
            (Err(error), _) if error.number() != EINTR => true,
            (Ok(_), _) => true,
            (_, Interruption::EndsCall) => ends(own().attend().max(Handled::EndsCall)),
            (_, Interruption::Tried) => ends(own().attend()),
            // The call has this error for a reason of its own.
            (_, Interruption::None) if !has_to_look() => true,
            (_, Interruption::None) => ends(own().attend()),
        };
        if is_over {
            return result;
        }
    }
}

/// Makes a call that handlers without `SA_RESTART` end.
///
/// # Errors
/// `EINTR`; those of the call.
pub fn interruptible<T, E: Failure>(call: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    at_point(|handled| handled == Handled::EndsCall, call)
}

/// Makes a call that all handlers end.
///
/// # Errors
/// As of [`interruptible`].
pub fn ended_by_handlers<T, E: Failure>(call: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    at_point(|handled| handled > Handled::Nothing, call)
}

/// Makes a call that no handler ends.
///
/// # Errors
/// Those of the call.
pub fn lasting<T, E: Failure>(call: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    at_point(|_| false, call)
}

/// Ends the calling thread with this result.
///
/// # Safety
/// C's contract: what the program has on the stack of the thread is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_exit(value: *mut c_void) -> ! {
    // No handler is cancelled.
    own().is_ending.store(true, Ordering::SeqCst);
    cleanup::run_all();
    // SAFETY: every thread of a C program runs below `enter`, which stored the place.
    unsafe {
        let stack = (*tls::control()).leave;
        jump::leave(stack, value.cast())
    }
}
