//! `signal.h`. The system delivers no signal to a program: one that is sent from outside ends it,
//! whatever handler it has set. Handlers are kept, and called by `raise`, `abort`, and `kill` and
//! `pthread_kill` to oneself.

use core::ffi::{c_char, c_int, c_uint};
use core::ptr::null;
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::Error;
use runtime::process as system;
use syscall::error::{EINTR, EINVAL, ENOMEM, ENOSYS};

use crate::process::{self, ABORT};
use crate::sync::{self, Shared};
use crate::tls::{self, Alternate};
use crate::{errno, pthread, strings};

const COUNT: usize = 65;
/// SIGKILL and SIGSTOP cannot be handled.
const FIXED: [c_int; 2] = [9, 19];
/// SIGCHLD, SIGCONT, SIGURG, SIGWINCH do nothing by default.
const HARMLESS: [c_int; 4] = [17, 18, 23, 28];

const DEFAULT: usize = 0;
const IGNORE: usize = 1;
const ERROR: usize = usize::MAX;

pub static HANDLERS: Shared<[usize; COUNT]> = Shared::new([DEFAULT; COUNT]);

fn exchange(number: c_int, handler: Option<usize>) -> Option<usize> {
    let index = usize::try_from(number)
        .ok()
        .filter(|index| (1..COUNT).contains(index))?;
    if handler.is_some() && FIXED.contains(&number) {
        return None;
    }
    Some(HANDLERS.with(|handlers| {
        let old = handlers[index];
        if let Some(handler) = handler {
            handlers[index] = handler;
        }
        old
    }))
}

#[unsafe(no_mangle)]
extern "C" fn signal(number: c_int, handler: usize) -> usize {
    exchange(number, Some(handler)).unwrap_or_else(|| {
        errno::set(EINVAL);
        ERROR
    })
}

/// C's `siginfo_t`.
#[repr(C, align(8))]
struct Information {
    number: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    process: c_int,
    user: c_uint,
    rest: [c_int; 26],
}

/// `SI_USER`: a program has sent the signal.
const BY_PROGRAM: c_int = 0;
/// `SI_KERNEL`: the system has sent the signal.
const BY_SYSTEM: c_int = 128;

/// C's `struct sigaction`, of which only the handler has an effect.
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
    let handler = unsafe { new.as_ref() }.map(|action| action.handler);
    let Some(before) = exchange(number, handler) else {
        return errno::fail(EINVAL);
    };
    if !old.is_null() {
        let action = Action {
            handler: before,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        // SAFETY: the caller's place for the structure.
        unsafe { old.write(action) };
    }
    0
}

/// Calls the program's handler. False if there is none and the signal is one that has an effect.
fn deliver(number: c_int, code: c_int) -> bool {
    match exchange(number, None) {
        Some(IGNORE) => true,
        None | Some(DEFAULT) => HARMLESS.contains(&number),
        Some(handler) => {
            // SAFETY: the program gave it as a function that takes the signal's number. One that
            // expects more (SA_SIGINFO) finds who has sent it, which is this process, and no
            // context.
            let handler: extern "C" fn(c_int, *mut Information, *const u8) =
                unsafe { core::mem::transmute(handler) };
            let mut information = Information {
                number,
                error: 0,
                code,
                padding: 0,
                process: 0,
                user: 0,
                rest: [0; 26],
            };
            if code == BY_PROGRAM {
                information.process = process::getpid();
                information.user = process::getuid();
            }
            handler(number, &raw mut information, null());
            CAUGHT.fetch_add(1, Ordering::Release);
            sync::wake(&CAUGHT, usize::MAX >> 1);
            true
        }
    }
}

/// Runs the program's handler, or does the signal's default action.
#[unsafe(no_mangle)]
pub extern "C" fn raise(number: c_int) -> c_int {
    if exchange(number, None).is_none() {
        return errno::fail(EINVAL);
    }
    if !deliver(number, BY_PROGRAM) {
        process::end_by_signal(number);
    }
    0
}

/// As [`raise`], for a signal that the system has sent.
pub fn arises(number: c_int) {
    if !deliver(number, BY_SYSTEM) {
        process::end_by_signal(number);
    }
}

#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    deliver(ABORT, BY_PROGRAM);
    process::end_abnormally()
}

#[unsafe(no_mangle)]
extern "C" fn kill(process: c_int, number: c_int) -> c_int {
    let send = || {
        let process = u32::try_from(process).map_err(|_| Error::new(EINVAL))?;
        let number = u32::try_from(number).map_err(|_| Error::new(EINVAL))?;
        system::kill(process, number)
    };
    // The system calls no handlers, so a program that sends to itself does as `raise` does.
    match number != 0 && u32::try_from(process) == Ok(system::id()) {
        true => raise(number),
        false => errno::done(send()),
    }
}

/// Does as `raise` for the calling thread. For another thread only number 0 is supported, which
/// says whether the thread exists.
#[unsafe(no_mangle)]
extern "C" fn pthread_kill(thread: *const pthread::Record, number: c_int) -> c_int {
    if thread == pthread::own() {
        return match number {
            0 => 0,
            _ if exchange(number, None).is_none() => EINVAL,
            _ => raise(number),
        };
    }
    match (pthread::handle_of(thread), number) {
        (Err(error), _) => error.errno,
        (Ok(_), 0) => 0,
        (Ok(_), _) => ENOSYS,
    }
}

/// Counts calls of handlers.
static CAUGHT: AtomicU32 = AtomicU32::new(0);

/// Sleeps until another thread has run a handler, that of an alarm for example.
#[unsafe(no_mangle)]
extern "C" fn pause() -> c_int {
    let before = CAUGHT.load(Ordering::Acquire);
    while CAUGHT.load(Ordering::Acquire) == before {
        // Whatever ends the wait, the loop looks at the count again.
        let _ = sync::wait(&CAUGHT, before, None);
    }
    errno::fail(EINTR)
}

// Sets of signals are plain bit sets, so that programs that block signals in threads compile. As
// no signal is delivered, none has to be blocked.

fn bit(number: c_int) -> Option<u64> {
    (1..COUNT as c_int)
        .contains(&number)
        .then(|| 1 << (number - 1))
}

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
    match bit(number) {
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
    match bit(number) {
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
    match bit(number) {
        // SAFETY: the caller's set.
        Some(bit) => (unsafe { *set } & bit != 0).into(),
        None => errno::fail(EINVAL),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(_how: c_int, _set: *const u64, old: *mut u64) -> c_int {
    if !old.is_null() {
        // SAFETY: the caller's set.
        unsafe { *old = 0 };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const u64, old: *mut u64) -> c_int {
    // SAFETY: the same contract.
    unsafe { sigprocmask(how, set, old) }
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

/// Stores the stack, but nothing uses it. Handlers run on the stack of their caller, such as
/// `raise` or `abort`: no signal arrives that would need another stack.
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
