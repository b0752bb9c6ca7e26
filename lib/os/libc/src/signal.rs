//! `signal.h`. Handlers run in a thread of this library for signals from other processes
//! ([`arrivals`]), and in the calling thread for `raise`, `abort` and `kill` of oneself.

use core::ffi::{c_char, c_int};

use runtime::process as system;
use runtime::{Error, Result};
use syscall::error::{EAGAIN, EINTR, EINVAL, ENOMEM, ENOSYS, ESRCH};

use crate::files::Timespec;
use crate::handlers::{self, Disposition, Information, Origin};
use crate::process::{self, ABORT};
use crate::tls::{self, Alternate};
use crate::{arrivals, caught, errno, masks, pthread, strings};

const ERROR: usize = usize::MAX;
/// `SA_RESTART`, which has no effect: a handler interrupts sleeps and `poll` and its kin, as POSIX
/// says for all handlers, and no other calls.
const RESTARTS: c_int = 0x0800_0000;

/// Changes what the program does with a signal. Returns what it did before.
fn choose(number: c_int, new: Option<Disposition>) -> Result<Disposition> {
    let before = handlers::exchange(number, new).ok_or(Error::new(EINVAL))?;
    if let Some(new) = new {
        arrivals::choose(number, &new);
    }
    Ok(before)
}

#[unsafe(no_mangle)]
extern "C" fn signal(number: c_int, handler: usize) -> usize {
    let new = Disposition {
        handler,
        flags: RESTARTS,
        mask: 0,
    };
    match choose(number, Some(new)) {
        Ok(before) => before.handler,
        Err(error) => {
            errno::set(error.errno);
            ERROR
        }
    }
}

/// C's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: usize,
    flags: c_int,
    restorer: usize,
    mask: u64,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(number: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: null or the caller's structure.
    let new = unsafe { new.as_ref() }.map(|action| Disposition {
        handler: action.handler,
        flags: action.flags,
        mask: action.mask,
    });
    match choose(number, new) {
        Ok(before) if !old.is_null() => {
            let action = Action {
                handler: before.handler,
                flags: before.flags,
                restorer: 0,
                mask: before.mask,
            };
            // SAFETY: the caller's place for the structure.
            unsafe { old.write(action) };
            0
        }
        Ok(_) => 0,
        Err(error) => errno::fail(error.errno),
    }
}

/// The origin of signals that this process sends.
fn own() -> Origin {
    Origin::process(process::getpid(), process::getuid())
}

/// Runs the program's handler, or does the signal's default action.
#[unsafe(no_mangle)]
pub extern "C" fn raise(number: c_int) -> c_int {
    if handlers::exchange(number, None).is_none() {
        return errno::fail(EINVAL);
    }
    arrivals::arrives_here(number, own());
    0
}

#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    handlers::deliver(ABORT, own());
    process::end_abnormally()
}

/// Sends a signal to a process, to all of a group (`-group`), to the own group (0), or to all
/// processes but init and the own one (-1).
#[unsafe(no_mangle)]
extern "C" fn kill(process: c_int, number: c_int) -> c_int {
    // So that a handler has run, or the signal waits, when this returns. If only this thread blocks
    // it, another one has to take it.
    if u32::try_from(process) == Ok(system::id())
        && let Some(bit) = masks::bit(number)
        && (masks::own() & bit == 0 || masks::count(bit) >= pthread::running())
    {
        return raise(number);
    }
    let number = u32::try_from(number).map_err(|_| Error::new(EINVAL));
    errno::done(number.and_then(|number| runtime::signals::send(process as isize, number)))
}

#[unsafe(no_mangle)]
extern "C" fn killpg(group: c_int, number: c_int) -> c_int {
    match group {
        0.. if group == 0 || group as u32 == system::own_meta().pgid => kill(0, number),
        2.. => kill(-group, number),
        // The group of init, whose negated number stands for all processes.
        1 => errno::fail(ESRCH),
        _ => errno::fail(EINVAL),
    }
}

/// Does as `raise` for the calling thread. For another thread only number 0 is supported, which
/// says whether the thread exists.
#[unsafe(no_mangle)]
extern "C" fn pthread_kill(thread: *const pthread::Record, number: c_int) -> c_int {
    if thread == pthread::own() {
        return match number {
            0 => 0,
            _ if masks::bit(number).is_none() => EINVAL,
            _ => raise(number),
        };
    }
    match (pthread::handle_of(thread), number) {
        (Err(error), _) => error.errno,
        (Ok(_), 0) => 0,
        (Ok(_), _) => ENOSYS,
    }
}

/// Sleeps until a handler has run.
#[unsafe(no_mangle)]
extern "C" fn pause() -> c_int {
    caught::wait(caught::count());
    errno::fail(EINTR)
}

/// Blocks these signals and no others until a handler has run.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigsuspend(mask: *const u64) -> c_int {
    let (before, blocked) = (caught::count(), masks::own());
    // SAFETY: the caller's set.
    arrivals::block(unsafe { *mask });
    caught::wait(before);
    arrivals::block(blocked);
    errno::fail(EINTR)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigpending(place: *mut u64) -> c_int {
    // SAFETY: the caller's place.
    unsafe { place.write(arrivals::held() & masks::own()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigwait(set: *const u64, place: *mut c_int) -> c_int {
    // SAFETY: the caller's set.
    let found = arrivals::wait(unsafe { *set } & !masks::FIXED, None);
    match found {
        Some((number, _)) => {
            // SAFETY: the caller's place.
            unsafe { place.write(number) };
            0
        }
        // Does not occur: the wait has no end.
        None => EAGAIN,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigwaitinfo(set: *const u64, place: *mut Information) -> c_int {
    // SAFETY: the same contract.
    unsafe { sigtimedwait(set, place, core::ptr::null()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigtimedwait(
    set: *const u64,
    place: *mut Information,
    limit: *const Timespec,
) -> c_int {
    // SAFETY: null or the caller's structure.
    let end = match unsafe { limit.as_ref() }.map(Timespec::duration) {
        Some(None) => return errno::fail(EINVAL),
        Some(Some(limit)) => {
            let now = runtime::time::Instant::now().as_nanos();
            let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            Some(now.saturating_add(limit))
        }
        None => None,
    };
    // SAFETY: the caller's set.
    match arrivals::wait(unsafe { *set } & !masks::FIXED, end) {
        Some((number, origin)) => {
            if !place.is_null() {
                // SAFETY: the caller's place.
                unsafe { place.write(origin.information(number)) };
            }
            number
        }
        None => errno::fail(EAGAIN),
    }
}

// ---- System V's calls, by the number of one signal ----

/// The set with one signal, which can be blocked.
fn one(number: c_int) -> Result<u64> {
    let bit = masks::bit(number).filter(|bit| bit & masks::FIXED == 0);
    bit.ok_or(Error::new(EINVAL))
}

#[unsafe(no_mangle)]
extern "C" fn sighold(number: c_int) -> c_int {
    errno::done(one(number).map(|bit| arrivals::block(masks::own() | bit)))
}

#[unsafe(no_mangle)]
extern "C" fn sigrelse(number: c_int) -> c_int {
    errno::done(one(number).map(|bit| arrivals::block(masks::own() & !bit)))
}

#[unsafe(no_mangle)]
extern "C" fn sigignore(number: c_int) -> c_int {
    let ignored = Disposition {
        handler: handlers::IGNORE,
        ..Disposition::USUAL
    };
    errno::done(choose(number, Some(ignored)).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn sigpause(number: c_int) -> c_int {
    match one(number) {
        // SAFETY: a local.
        Ok(bit) => unsafe { sigsuspend(&(masks::own() & !bit)) },
        Err(error) => errno::fail(error.errno),
    }
}

/// Sets a handler and unblocks the signal, or blocks it (`SIG_HOLD`). Returns the handler before,
/// or `SIG_HOLD` if the signal was blocked.
#[unsafe(no_mangle)]
extern "C" fn sigset(number: c_int, handler: usize) -> usize {
    const HOLD: usize = 2;
    let change = || {
        let bit = one(number)?;
        let was_held = masks::own() & bit != 0;
        let new = (handler != HOLD).then_some(Disposition {
            handler,
            ..Disposition::USUAL
        });
        let before = choose(number, new)?.handler;
        match new {
            Some(_) => arrivals::block(masks::own() & !bit),
            None => arrivals::block(masks::own() | bit),
        }
        Ok(if was_held { HOLD } else { before })
    };
    change().unwrap_or_else(|error: Error| {
        errno::set(error.errno);
        ERROR
    })
}

// ---- Sets ----

#[unsafe(no_mangle)]
unsafe extern "C" fn sigemptyset(set: *mut u64) -> c_int {
    // SAFETY: the caller's set.
    unsafe { *set = 0 };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigfillset(set: *mut u64) -> c_int {
    // SAFETY: the caller's set.
    unsafe { *set = u64::MAX };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaddset(set: *mut u64, number: c_int) -> c_int {
    match masks::bit(number) {
        Some(bit) => {
            // SAFETY: the caller's set.
            unsafe { *set |= bit };
            0
        }
        None => errno::fail(EINVAL),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigdelset(set: *mut u64, number: c_int) -> c_int {
    match masks::bit(number) {
        Some(bit) => {
            // SAFETY: the caller's set.
            unsafe { *set &= !bit };
            0
        }
        None => errno::fail(EINVAL),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigismember(set: *const u64, number: c_int) -> c_int {
    match masks::bit(number) {
        // SAFETY: the caller's set.
        Some(bit) => (unsafe { *set } & bit != 0).into(),
        None => errno::fail(EINVAL),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const u64, old: *mut u64) -> c_int {
    // SAFETY: the same contract.
    match unsafe { pthread_sigmask(how, set, old) } {
        0 => 0,
        number => errno::fail(number),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const u64, old: *mut u64) -> c_int {
    let before = masks::own();
    // SAFETY: null or the caller's set.
    let new = match (unsafe { set.as_ref() }, how) {
        (None, _) => None,
        // `SIG_BLOCK`, `SIG_UNBLOCK`, `SIG_SETMASK`.
        (Some(set), 0) => Some(before | set),
        (Some(set), 1) => Some(before & !set),
        (Some(set), 2) => Some(*set),
        _ => return EINVAL,
    };
    if !old.is_null() {
        // SAFETY: the caller's place for a set.
        unsafe { old.write(before) };
    }
    if let Some(new) = new {
        arrivals::block(new);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn psignal(number: c_int, text: *const c_char) {
    let text = match text.is_null() {
        true => &[],
        // SAFETY: the caller's string.
        false => unsafe { strings::bytes(text) },
    };
    runtime::eprintln!(
        "{}: signal {number}",
        alloc::string::String::from_utf8_lossy(text)
    );
}

/// Stores the stack, but nothing uses it. Handlers run on the stack of a thread of this library,
/// or of their caller.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaltstack(new: *const Alternate, old: *mut Alternate) -> c_int {
    // SAFETY: the control block of the calling thread, which no other uses.
    let kept = unsafe { &mut (*tls::control()).alternate };
    // SAFETY: null, or the caller's structures.
    unsafe {
        let before = *kept;
        if let Some(new) = new.as_ref() {
            match new.flags {
                Alternate::DISABLED => *kept = Alternate::NONE,
                0 if new.size < Alternate::LEAST => return errno::fail(ENOMEM),
                0 => *kept = *new,
                _ => return errno::fail(EINVAL),
            }
        }
        if let Some(old) = old.as_mut() {
            *old = before;
        }
    }
    0
}
