//! `signal.h`. Handlers run in a thread of this library for signals from other processes
//! ([`arrivals`]), and in the calling thread for `raise`, `abort` and `kill` of oneself.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int};

use runtime::process as system;
use runtime::{Error, Result};
use syscall::error::{EINVAL, ENOMEM, ESRCH};

use crate::caught::Sent;
use crate::files::Timespec;
use crate::handlers::{self, DEFAULT, Disposition, Information, Origin, Outcome};
use crate::points::{Handled, Notices};
use crate::process::{self, ABORT};
use crate::tls::{self, Alternate};
use crate::{arrivals, caught, errno, interrupter, jump, masks, points, pthread, strings};

const ERROR: usize = usize::MAX;

/// Changes what the program does with a signal. Returns what it did before.
///
/// # Errors
/// `EINVAL`: there is no such signal, or it cannot be changed.
pub fn choose(number: c_int, new: Option<Disposition>) -> Result<Disposition> {
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
        flags: handlers::RESTARTS,
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

/// Whether a signal would stop the process, which nothing here can do.
fn would_stop(number: c_int) -> bool {
    /// SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
    const STOPPING: core::ops::RangeInclusive<c_int> = 19..=22;
    let usual = || handlers::exchange(number, None).is_some_and(|chosen| chosen.handler == DEFAULT);
    STOPPING.contains(&number) && usual()
}

/// Runs the program's handler, or does the signal's default action.
#[unsafe(no_mangle)]
pub extern "C" fn raise(number: c_int) -> c_int {
    if would_stop(number) || handlers::exchange(number, None).is_none() {
        return errno::fail(EINVAL);
    }
    match masks::bit(number) {
        Some(bit) if masks::own() & bit != 0 => {
            if !ignores(number) {
                // It waits for this thread, whatever other threads block.
                send(points::own(), bit);
            }
        }
        _ => arrivals::arrives_here(number, Origin::own(), Sent::Thread),
    }
    0
}

/// Whether the program ignores a signal.
fn ignores(number: c_int) -> bool {
    handlers::exchange(number, None).is_some_and(|chosen| chosen.handler == handlers::IGNORE)
}

/// Lets threads handle what is sent to them alone.
pub fn prepare() {
    points::HANDLE.with(|handle| *handle = Some(handle_own));
}

/// Sends a signal to the thread with these notices alone.
fn send(notices: &Notices, bit: u64) {
    notices.send(bit);
    arrivals::look_again();
}

#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    handlers::deliver(ABORT, Origin::own(), Sent::Thread);
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
        if would_stop(number) {
            return errno::fail(EINVAL);
        }
        let is_alone = pthread::running() == 1;
        if is_alone && points::own().signals() & masks::own() & bit != 0 {
            // One of each number waits.
            return 0;
        }
        arrivals::arrives_here(number, Origin::own(), Sent::Process);
        return 0;
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

/// Handles a signal that was sent to the calling thread alone.
fn handle_own(number: c_int) -> Handled {
    match handlers::deliver(number, Origin::own(), Sent::Thread) {
        Outcome::Nothing => Handled::Nothing,
        Outcome::Handled { restarts: true } => Handled::Restarts,
        Outcome::Handled { restarts: false } => Handled::EndsCall,
        Outcome::Ends => process::end_by_signal(number),
    }
}

/// Does as `raise` for the calling thread. Another thread handles the signal at its next
/// cancellation point. Number 0 says whether the thread runs.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_kill(thread: *const pthread::Record, number: c_int) -> c_int {
    // SAFETY: the caller's thread, which was neither joined nor detached and has ended since.
    let record = unsafe { pthread::share(thread) };
    let Some(bit) = masks::bit(number) else {
        return match number {
            0 if record.runs() => 0,
            0 => ESRCH,
            _ => EINVAL,
        };
    };
    if thread == pthread::own() {
        drop(record);
        return if raise(number) == 0 { 0 } else { EINVAL };
    }
    if !record.runs() {
        return ESRCH;
    }
    let is_blocked = masks::of(record.id()) & bit != 0;
    let usual = handlers::exchange(number, None).is_some_and(|chosen| chosen.handler == DEFAULT);
    match usual {
        true if would_stop(number) => return EINVAL,
        _ if is_blocked => {}
        _ if handlers::is_without_effect(number) => return 0,
        // The signal ends the process, whatever the thread does.
        true => process::end_by_signal(number),
        false => {}
    }
    send(&record.notices, bit);
    interrupter::interrupt(record).map_or_else(|error| error.errno, |()| 0)
}

/// Sleeps until a handler has run.
#[unsafe(no_mangle)]
extern "C" fn pause() -> c_int {
    let before = caught::seen();
    errno::done(points::ended_by_handlers(|| Err(caught::wait(before))))
}

/// Blocks these signals and no others until a handler has run.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigsuspend(mask: *const u64) -> c_int {
    // SAFETY: the caller's set.
    let mask = unsafe { *mask };
    let before = caught::seen();
    errno::done(points::ended_by_handlers(|| {
        let blocked = masks::own();
        arrivals::block(mask);
        let ended = caught::wait(before);
        arrivals::block(blocked);
        Err(ended)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigpending(place: *mut u64) -> c_int {
    // SAFETY: the caller's place.
    unsafe { place.write((arrivals::held() | points::own().signals()) & masks::own()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigwait(set: *const u64, place: *mut c_int) -> c_int {
    // SAFETY: the caller's set.
    let set = unsafe { *set } & !masks::FIXED;
    match points::lasting(|| arrivals::wait(set, None)) {
        Ok((number, _)) => {
            // SAFETY: the caller's place.
            unsafe { place.write(number) };
            0
        }
        Err(error) => error.errno,
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
    let set = unsafe { *set } & !masks::FIXED;
    match points::interruptible(|| arrivals::wait(set, end)) {
        Ok((number, origin)) => {
            if !place.is_null() {
                // SAFETY: the caller's place.
                unsafe { place.write(origin.information(number)) };
            }
            number
        }
        Err(error) => errno::fail(error.errno),
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
    errno::done(choose(number, Some(Disposition::IGNORED)).map(drop))
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

/// As `setjmp` with the first eight words; the next one keeps the second argument, which says
/// whether the last one keeps the mask of the thread.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn sigsetjmp(_buffer: *mut usize, _keeps_mask: c_int) -> c_int {
    // The stack is the caller's all the way, so `setjmp` finds the place to return to, and each of
    // its returns is one of this function.
    naked_asm!(
        "movsxd rsi, esi",
        "mov [rdi + 64], rsi",
        "test rsi, rsi",
        "jz {setjmp}",
        "push rdi",
        "lea rdi, [rdi + 72]",
        "call {keep}",
        "pop rdi",
        "jmp {setjmp}",
        setjmp = sym jump::setjmp,
        keep = sym keep_mask,
    )
}

/// # Safety
/// `place` is for a mask.
unsafe extern "C" fn keep_mask(place: *mut u64) {
    // SAFETY: the same contract.
    unsafe { place.write(masks::own()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn siglongjmp(buffer: *const usize, value: c_int) -> ! {
    // SAFETY: the ten words that `sigsetjmp` has filled, in a function that has not returned.
    unsafe {
        if *buffer.add(8) != 0 {
            arrivals::block(*buffer.add(9) as u64);
        }
        jump::longjmp(buffer, value)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn psignal(number: c_int, text: *const c_char) {
    let text = match text.is_null() {
        true => &[],
        // SAFETY: the caller's string.
        false => unsafe { strings::bytes(text) },
    };
    // SAFETY: one of the library's constant strings.
    let meaning = unsafe { strings::bytes(handlers::strsignal(number)) };
    let [text, meaning] = [text, meaning].map(alloc::string::String::from_utf8_lossy);
    let between = if text.is_empty() { "" } else { ": " };
    runtime::eprintln!("{text}{between}{meaning}");
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
