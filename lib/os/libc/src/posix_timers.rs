//! `timer_create` and its kin: timers that send a signal or start a thread. A thread of this
//! library waits for the next expiration of all of them, as that of [`alarm`](crate::alarm) does.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::time::Instant;
use runtime::{Error, Result};
use syscall::error::{EAGAIN, EINVAL, EOPNOTSUPP};

use crate::alarm::{SIGALRM, Timer};
use crate::handlers::Origin;
use crate::sync::{self, Shared};
use crate::thread_attributes::Attributes;
use crate::timerfd::{Times, setting_of};
use crate::{arrivals, errno, masks, pthread, time};

/// `SIGEV_SIGNAL`, `SIGEV_NONE`, `SIGEV_THREAD`.
const SIGNAL: c_int = 0;
const NONE: c_int = 1;
const THREAD: c_int = 2;
/// `TIMER_ABSTIME`; other flags have no effect, as on Linux.
const ABSOLUTE: c_int = 1;
/// The clock of the process's time, for which there are no timers.
const PROCESS_TIME: c_int = 2;
/// The most timers that a process can have.
const MOST: usize = 4096;

/// C's `union sigval`, as a number.
type Value = usize;

/// C's `struct sigevent`.
#[repr(C)]
struct Event {
    value: Value,
    signal: c_int,
    notify: c_int,
    function: Option<unsafe extern "C" fn(Value)>,
    attributes: *const Attributes,
}

/// What a timer does when it expires.
#[derive(Clone, Copy)]
enum Notice {
    Nothing,
    Signal(c_int, Value),
    Thread(Start),
}

/// A thread to start: the program's function, and whether its attributes let it be detached.
#[derive(Clone, Copy)]
struct Start {
    function: unsafe extern "C" fn(Value),
    value: Value,
    attributes: Attributes,
}

impl Notice {
    /// What an event of a program asks for.
    ///
    /// # Errors
    /// `EINVAL`.
    ///
    /// # Safety
    /// The attributes are null or initialised.
    unsafe fn of(event: &Event) -> Result<Self> {
        let invalid = Error::new(EINVAL);
        match event.notify {
            NONE => Ok(Self::Nothing),
            SIGNAL => match masks::bit(event.signal) {
                Some(_) => Ok(Self::Signal(event.signal, event.value)),
                None => Err(invalid),
            },
            THREAD => {
                // SAFETY: the same contract.
                let attributes = unsafe { event.attributes.as_ref() };
                Ok(Self::Thread(Start {
                    function: event.function.ok_or(invalid)?,
                    value: event.value,
                    attributes: attributes.copied().unwrap_or(Attributes::USUAL),
                }))
            }
            _ => Err(invalid),
        }
    }
}

/// A timer of a program.
struct Made {
    clock: c_int,
    notice: Notice,
    timer: Timer,
    /// How many more expirations than one the last signal stands for.
    overruns: u64,
}

/// The timers of the process, by their numbers.
pub struct Timers {
    made: BTreeMap<usize, Made>,
    /// The last number that was given.
    last: usize,
    /// Whether their thread was started.
    is_served: bool,
}

pub static TIMERS: Shared<Timers> = Shared::new(Timers {
    made: BTreeMap::new(),
    last: 0,
    is_served: false,
});
/// Counts changes of the timers; their thread sleeps on this word.
static CHANGES: AtomicU32 = AtomicU32::new(0);

fn now() -> u64 {
    Instant::now().as_nanos()
}

/// Called in the child of a fork, which has no timers and no thread for them.
pub fn forked() {
    TIMERS.with(|timers| {
        timers.made.clear();
        timers.is_served = false;
    });
}

impl Timers {
    fn get(&mut self, number: *mut c_void) -> Result<&mut Made> {
        self.made.get_mut(&number.addr()).ok_or(Error::new(EINVAL))
    }

    /// Takes a timer that has expired: its number and what it does. A signal that still waits
    /// stands for its later expirations, too.
    fn take_expired(&mut self) -> Option<(usize, Notice)> {
        let now = now();
        self.made.iter_mut().find_map(|(&number, made)| {
            let count = match made.notice {
                Notice::Nothing => 0,
                _ => made.timer.expirations(now),
            };
            let further = count.checked_sub(1)?;
            match made.notice {
                Notice::Signal(signal, _) if arrivals::holds_of_timer(signal, number) => {
                    made.overruns = made.overruns.saturating_add(count);
                    return None;
                }
                _ => made.overruns = further,
            }
            Some((number, made.notice))
        })
    }

    /// When the next one expires.
    fn next(&self) -> Option<u64> {
        let waited_for = |made: &&Made| !matches!(made.notice, Notice::Nothing);
        let ends = self.made.values().filter(waited_for);
        ends.filter_map(|made| made.timer.end).min()
    }
}

/// The thread of the timers.
unsafe extern "C" fn serve(_unused: *mut c_void) -> *mut c_void {
    loop {
        let changes = CHANGES.load(Ordering::Acquire);
        let (expired, next) = TIMERS.with(|timers| (timers.take_expired(), timers.next()));
        match expired {
            Some((number, Notice::Signal(signal, value))) => {
                arrivals::arrives_outside(signal, Origin::timer(number, value));
            }
            Some((_, Notice::Thread(start))) => start.begin(),
            Some((_, Notice::Nothing)) => {}
            // Whatever ends the wait, the loop looks at the timers again.
            None => drop(sync::wait(&CHANGES, changes, next)),
        }
    }
}

impl Start {
    /// Starts the thread. If there is no room for one, nobody can be told.
    fn begin(self) {
        let is_detached = self.attributes.is_detached();
        let (mut thread, argument) = (null(), Box::into_raw(Box::new(self)));
        // SAFETY: local places; the function takes what `argument` means, once.
        unsafe {
            let attributes = &raw const (*argument).attributes;
            match pthread::pthread_create(&raw mut thread, attributes, run, argument.cast()) {
                0 if is_detached => {}
                0 => drop(pthread::pthread_detach(thread)),
                _ => drop(Box::from_raw(argument)),
            }
        }
    }
}

/// # Safety
/// `argument` is a boxed [`Start`], which becomes this function's.
unsafe extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the same contract; the program's function takes the value that came with it. It may
    // end the thread, so nothing is left to drop here.
    unsafe {
        let Start {
            function, value, ..
        } = *Box::from_raw(argument.cast::<Start>());
        function(value);
    }
    null_mut()
}

/// Makes a timer that is not set. Returns its number.
///
/// # Errors
/// `EAGAIN`, `EINVAL`, `EOPNOTSUPP`.
///
/// # Safety
/// The event's attributes are null or initialised.
unsafe fn make(clock: c_int, event: Option<&Event>) -> Result<usize> {
    match clock {
        PROCESS_TIME => return Err(Error::new(EOPNOTSUPP)),
        _ => time::wall_time(clock).ok_or(Error::new(EINVAL))?,
    };
    // SAFETY: the same contract.
    let notice = event
        .map(|event| unsafe { Notice::of(event) })
        .transpose()?;
    TIMERS.with(|timers| {
        if timers.made.len() >= MOST {
            return Err(Error::new(EAGAIN));
        }
        if !timers.is_served {
            // It is never joined, and looks at the timers when this is done.
            pthread::start_own(serve).map_err(|_| Error::new(EAGAIN))?;
            timers.is_served = true;
        }
        timers.last += 1;
        let made = Made {
            clock,
            notice: notice.unwrap_or(Notice::Signal(SIGALRM, timers.last)),
            timer: Timer::OFF,
            overruns: 0,
        };
        timers.made.insert(timers.last, made);
        Ok(timers.last)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timer_create(
    clock: c_int,
    event: *const Event,
    place: *mut *mut c_void,
) -> c_int {
    // SAFETY: null or the caller's structure.
    let made = unsafe { make(clock, event.as_ref()) };
    // SAFETY: the caller's place.
    errno::done(
        made.map(|number| unsafe { place.write(core::ptr::without_provenance_mut(number)) }),
    )
}

#[unsafe(no_mangle)]
extern "C" fn timer_delete(number: *mut c_void) -> c_int {
    let removed = TIMERS.with(|timers| timers.made.remove(&number.addr()));
    errno::done(removed.map(drop).ok_or(Error::new(EINVAL)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timer_settime(
    number: *mut c_void,
    flags: c_int,
    times: *const Times,
    former: *mut Times,
) -> c_int {
    let set = || {
        // SAFETY: null or the caller's structure.
        let times = unsafe { times.as_ref() }.ok_or(Error::new(EINVAL))?;
        let before = TIMERS.with(|timers| -> Result<_> {
            let made = timers.get(number)?;
            let setting = setting_of(made.clock, flags & ABSOLUTE, times)?;
            let before = made.timer.setting(now());
            made.timer.end = (setting.next > 0).then_some(setting.next);
            made.timer.interval = setting.interval;
            made.overruns = 0;
            Ok(before)
        })?;
        CHANGES.fetch_add(1, Ordering::Release);
        sync::wake(&CHANGES, 1);
        if !former.is_null() {
            // SAFETY: the caller's place for a structure.
            unsafe { former.write(before.into()) };
        }
        Ok(())
    };
    errno::done(set())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timer_gettime(number: *mut c_void, place: *mut Times) -> c_int {
    let left = TIMERS.with(|timers| timers.get(number).map(|made| made.timer.setting(now())));
    // SAFETY: the caller's place for a structure.
    errno::done(left.map(|left| unsafe { place.write(left.into()) }))
}

/// How many more expirations than one the last signal of a timer stands for.
#[unsafe(no_mangle)]
extern "C" fn timer_getoverrun(number: *mut c_void) -> c_int {
    let count = TIMERS.with(|timers| timers.get(number).map(|made| made.overruns));
    errno::give(count.map(|count| c_int::try_from(count).unwrap_or(c_int::MAX)))
}
