//! Policies and priorities of `sched.h` and `pthread.h`. All threads have the policy `SCHED_OTHER`,
//! in which the only priority is 0; the others are refused as Linux refuses them to programs
//! without the right.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

use runtime::Result;
use syscall::error::{EINVAL, EOPNOTSUPP, EPERM, ESRCH, Error};

use crate::errno;
use crate::files::Timespec;
use crate::pthread::{self, Record};
use crate::thread_attributes::{Attributes, OTHER};

/// `SCHED_FIFO` and `SCHED_RR`.
const REAL_TIME: core::ops::RangeInclusive<c_int> = 1..=2;
/// `PTHREAD_SCOPE_SYSTEM` and `PTHREAD_SCOPE_PROCESS`.
const SYSTEM: c_int = 0;
const PROCESS: c_int = 1;
/// The time for which a thread that computes keeps the processor while others want it.
const TURN: Timespec = Timespec {
    seconds: 0,
    nanoseconds: 4_000_000,
};

/// C's `struct sched_param`.
#[repr(C)]
struct Parameters {
    priority: c_int,
}

/// Whether there is a policy, and it has the priority.
fn check(policy: c_int, priority: c_int) -> Result<()> {
    let is_known = policy == OTHER || REAL_TIME.contains(&policy);
    match is_known && priority == 0 {
        true => Ok(()),
        false => Err(Error::new(EINVAL)),
    }
}

/// Whether threads can have a policy and a priority.
fn may_have(policy: c_int, priority: c_int) -> Result<()> {
    check(policy, priority)?;
    match policy {
        OTHER => Ok(()),
        _ => Err(Error::new(EPERM)),
    }
}

/// Whether there is a process; 0 is the own one.
fn find(id: c_int) -> Result<()> {
    match id {
        0 => Ok(()),
        1.. => match runtime::signals::send(id as isize, 0) {
            Err(error) if error.errno == ESRCH => Err(error),
            // It is there, whoever may send it signals.
            _ => Ok(()),
        },
        _ => Err(Error::new(EINVAL)),
    }
}

fn number(result: Result<()>) -> c_int {
    result.err().map_or(0, |error| error.errno)
}

// ---- Processes ----

#[unsafe(no_mangle)]
extern "C" fn sched_getscheduler(id: c_int) -> c_int {
    errno::done(find(id))
}

/// The result, the former policy, is that of all threads.
#[unsafe(no_mangle)]
unsafe extern "C" fn sched_setscheduler(
    id: c_int,
    policy: c_int,
    parameters: *const Parameters,
) -> c_int {
    // SAFETY: null, or the caller's structure.
    let wanted = unsafe { parameters.as_ref() }.ok_or(Error::new(EINVAL));
    let set = wanted.and_then(|wanted| {
        check(policy, wanted.priority)?;
        find(id)?;
        may_have(policy, wanted.priority)
    });
    errno::done(set)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_getparam(id: c_int, place: *mut Parameters) -> c_int {
    // SAFETY: null, or the caller's place.
    let place = unsafe { place.as_mut() }.ok_or(Error::new(EINVAL));
    errno::done(place.and_then(|place| {
        find(id)?;
        place.priority = 0;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_setparam(id: c_int, parameters: *const Parameters) -> c_int {
    // SAFETY: the same contract.
    unsafe { sched_setscheduler(id, OTHER, parameters) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_rr_get_interval(id: c_int, place: *mut Timespec) -> c_int {
    let found = find(id);
    if found.is_ok() {
        // SAFETY: the caller's place.
        unsafe { place.write(TURN) };
    }
    errno::done(found)
}

// ---- Threads ----

/// Whether a thread runs.
///
/// # Safety
/// The caller's thread, which was neither joined nor detached and has ended since.
unsafe fn find_thread(thread: *const Record) -> Result<()> {
    // SAFETY: the same contract.
    match unsafe { pthread::share(thread) }.runs() {
        true => Ok(()),
        false => Err(Error::new(ESRCH)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getschedparam(
    thread: *const Record,
    policy: *mut c_int,
    parameters: *mut Parameters,
) -> c_int {
    // SAFETY: the caller's thread and places.
    number(unsafe { find_thread(thread) }.map(|()| unsafe {
        policy.write(OTHER);
        parameters.write(Parameters { priority: 0 });
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setschedparam(
    thread: *const Record,
    policy: c_int,
    parameters: *const Parameters,
) -> c_int {
    // SAFETY: the caller's thread and structure.
    let (found, priority) = unsafe { (find_thread(thread), (*parameters).priority) };
    number(found.and_then(|()| may_have(policy, priority)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setschedprio(thread: *const Record, priority: c_int) -> c_int {
    // SAFETY: the caller's thread.
    number(unsafe { find_thread(thread) }.and_then(|()| may_have(OTHER, priority)))
}

// ---- Attributes ----

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setschedpolicy(place: *mut Attributes, policy: c_int) -> c_int {
    let checked = check(policy, 0);
    if checked.is_ok() {
        // SAFETY: initialised before.
        unsafe { (*place).set_policy(policy) };
    }
    number(checked)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getschedpolicy(
    attributes: *const Attributes,
    policy: *mut c_int,
) -> c_int {
    // SAFETY: initialised before; the caller's place.
    unsafe { policy.write((*attributes).chosen_policy()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setschedparam(
    _attributes: *mut Attributes,
    parameters: *const Parameters,
) -> c_int {
    // SAFETY: the caller's structure.
    number(check(OTHER, unsafe { (*parameters).priority }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getschedparam(
    _attributes: *const Attributes,
    place: *mut Parameters,
) -> c_int {
    // SAFETY: the caller's place.
    unsafe { place.write(Parameters { priority: 0 }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setinheritsched(place: *mut Attributes, choice: c_int) -> c_int {
    if !(0..=1).contains(&choice) {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { (*place).set_explicit(choice != 0) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getinheritsched(
    attributes: *const Attributes,
    choice: *mut c_int,
) -> c_int {
    // SAFETY: initialised before; the caller's place.
    unsafe { choice.write((*attributes).is_explicit().into()) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_attr_setscope(_attributes: *mut Attributes, scope: c_int) -> c_int {
    match scope {
        SYSTEM => 0,
        PROCESS => EOPNOTSUPP,
        _ => EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getscope(
    _attributes: *const Attributes,
    scope: *mut c_int,
) -> c_int {
    // SAFETY: the caller's place.
    unsafe { scope.write(SYSTEM) };
    0
}

/// What the program has asked for, which has no effect: each thread is one of the kernel's.
static CONCURRENCY: AtomicI32 = AtomicI32::new(0);

#[unsafe(no_mangle)]
extern "C" fn pthread_getconcurrency() -> c_int {
    CONCURRENCY.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
extern "C" fn pthread_setconcurrency(level: c_int) -> c_int {
    if level < 0 {
        return EINVAL;
    }
    CONCURRENCY.store(level, Ordering::Relaxed);
    0
}
