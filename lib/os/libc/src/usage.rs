//! `sys/resource.h`, `sys/times.h` and `sched.h`: what a process has used, its limits, and the
//! processors on which its threads may run.

use core::ffi::{c_int, c_long, c_uint, c_ulong, c_ushort};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use runtime::spawn::STACK_SIZE;
use runtime::time::Instant;
use runtime::{Error, Result, fs, process, sys};
use syscall::error::{EINVAL, EPERM};

use crate::affinity::{get_set, set_set};
use crate::pthread::{self, Record};
use crate::sync::Shared;
use crate::{children, errno, machine};

/// C's `struct timeval`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Time {
    seconds: i64,
    microseconds: c_long,
}

/// C's `struct rusage`.
#[repr(C)]
#[derive(Default)]
pub struct Usage {
    user: Time,
    system: Time,
    counts: [c_long; 14],
}

/// The resolution of [`run_time`].
pub const RUN_TIME_STEP: Duration = Duration::from_millis(10);

/// The time that the threads of this process have run, including ended ones, according to the
/// kernel's list of all threads.
pub fn run_time() -> Result<Duration> {
    /// The last result, in nanoseconds. If the kernel drops the time of ended threads, as Redox's
    /// does, the clock stands still for a while, but does not go back.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let text = fs::read_to_string("/scheme/sys/context")?;
    let now = run_time_of(&text, process::id()).as_nanos() as u64;
    let last = LAST.fetch_max(now, Ordering::Relaxed);
    Ok(Duration::from_nanos(now.max(last)))
}

/// The sum of the column TIME over the lines of a process.
fn run_time_of(text: &str, process: u32) -> Duration {
    let mut lines = text.lines();
    let column = |name: &str, line: &str| line.split_whitespace().position(|word| word == name);
    let header = lines.next().unwrap_or_default();
    let (Some(pid), Some(time)) = (column("PID", header), column("TIME", header)) else {
        return Duration::ZERO;
    };
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let found: u32 = words.clone().nth(pid)?.parse().ok()?;
        (found == process).then_some(())?;
        parse_time(words.nth(time)?)
    };
    lines.filter_map(of_line).sum()
}

/// Parses hours, minutes and seconds with a fraction, as in `00:01:02.50`.
fn parse_time(text: &str) -> Option<Duration> {
    let mut parts = text.split(':');
    let hours: u64 = parts.next()?.parse().ok()?;
    let minutes: u64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next()?.parse().ok()?;
    let whole = Duration::from_secs(hours * 3600 + minutes * 60);
    Duration::try_from_secs_f64(seconds)
        .ok()
        .map(|part| whole + part)
}

/// Reports all run time as user time, as the kernel's share is unknown.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrusage(who: c_int, place: *mut Usage) -> c_int {
    const SELF: c_int = 0;
    const CHILDREN: c_int = -1;
    let used = match who {
        SELF => run_time(),
        CHILDREN => Ok(Duration::ZERO),
        _ => Err(Error::new(EINVAL)),
    };
    errno::done(used.map(|used| {
        let usage = Usage {
            user: Time {
                seconds: used.as_secs() as i64,
                microseconds: used.subsec_micros().into(),
            },
            system: Time::default(),
            counts: [0; 14],
        };
        // SAFETY: the caller's place for the structure.
        unsafe { place.write(usage) };
    }))
}

/// C's `struct tms`.
#[repr(C)]
#[derive(Default)]
struct Ticks {
    user: c_long,
    system: c_long,
    of_children: [c_long; 2],
}

/// Returns the ticks since the node's start. The ticks that the process has run are those of
/// [`getrusage`], in steps of [`RUN_TIME_STEP`].
#[unsafe(no_mangle)]
unsafe extern "C" fn times(place: *mut Ticks) -> c_long {
    const _: () = assert!(machine::TICKS == 1_000_000, "a tick is a microsecond");
    let ticks = |time: Duration| time.as_micros() as c_long;
    let now = match sys::clock(syscall::CLOCK_MONOTONIC) {
        Ok(now) => ticks(Duration::from_nanos(now)),
        Err(error) => return errno::fail(error.errno),
    };
    if place.is_null() {
        return now;
    }
    match run_time() {
        Ok(used) => {
            let used = Ticks {
                user: ticks(used),
                ..Ticks::default()
            };
            // SAFETY: the caller's place for the structure.
            unsafe { place.write(used) };
            now
        }
        Err(error) => errno::fail(error.errno),
    }
}

/// C's `struct rlimit`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Limit {
    current: u64,
    highest: u64,
}

const RLIMIT_COUNT: usize = 16;
const RLIMIT_STACK: usize = 3;
const RLIMIT_NOFILE: usize = 7;
const INFINITY: u64 = u64::MAX;

/// The limits that the program has set, by resource. Nothing enforces them: servers raise the
/// limit of descriptors to have as many as they need, and they have these anyway.
pub static LIMITS: Shared<[Option<Limit>; RLIMIT_COUNT]> = Shared::new([None; RLIMIT_COUNT]);

/// The index of a resource among the limits.
fn index_of(resource: c_int) -> Result<usize> {
    usize::try_from(resource)
        .ok()
        .filter(|index| *index < RLIMIT_COUNT)
        .ok_or(Error::new(EINVAL))
}

/// The highest limit of a resource.
fn most_of(index: usize) -> u64 {
    match index {
        RLIMIT_NOFILE => machine::OPEN_MAX as u64,
        _ => INFINITY,
    }
}

fn limit_of(index: usize) -> Limit {
    let highest = most_of(index);
    let current = match index {
        // The stack is as large as that from the start, and never grows.
        RLIMIT_STACK => STACK_SIZE as u64,
        _ => highest,
    };
    let first = Limit { current, highest };
    LIMITS.with(|limits| limits[index]).unwrap_or(first)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrlimit(resource: c_int, place: *mut Limit) -> c_int {
    // SAFETY: the caller's place for the structure.
    errno::done(index_of(resource).map(|index| unsafe { place.write(limit_of(index)) }))
}

fn set_limit(resource: c_int, wanted: Limit) -> Result<()> {
    let index = index_of(resource)?;
    if wanted.current > wanted.highest {
        return Err(Error::new(EINVAL));
    }
    // As on Linux, root may raise the highest value again after lowering it.
    let most = match process::own_meta().euid {
        0 => most_of(index),
        _ => limit_of(index).highest,
    };
    if wanted.highest > most {
        return Err(Error::new(EPERM));
    }
    LIMITS.with(|limits| limits[index] = Some(wanted));
    Ok(())
}

/// Stores limits, which can be lowered.
#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit(resource: c_int, limit: *const Limit) -> c_int {
    // SAFETY: the caller's structure.
    errno::done(set_limit(resource, unsafe { *limit }))
}

/// Runs `action` on a thread of a process: the calling thread for 0 and the own process id, the
/// first thread for a child that `fork` has made.
fn with_thread(process: c_int, action: impl FnOnce(usize) -> Result<()>) -> Result<()> {
    match process as u32 {
        pid if pid == 0 || pid == process::id() => action(pthread::handle_of(pthread::own())?),
        pid => children::with_thread(pid, action),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_getaffinity(process: c_int, size: usize, set: *mut u8) -> c_int {
    // SAFETY: the same contract.
    errno::done(with_thread(process, |thread| unsafe {
        get_set(thread, size, set)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_setaffinity(process: c_int, size: usize, set: *const u8) -> c_int {
    // SAFETY: the same contract.
    errno::done(with_thread(process, |thread| unsafe {
        set_set(thread, size, set)
    }))
}

fn number(result: Result<()>) -> c_int {
    result.err().map_or(0, |error| error.errno)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getaffinity_np(
    thread: *const Record,
    size: usize,
    set: *mut u8,
) -> c_int {
    // SAFETY: the same contract.
    number(pthread::handle_of(thread).and_then(|thread| unsafe { get_set(thread, size, set) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setaffinity_np(
    thread: *const Record,
    size: usize,
    set: *const u8,
) -> c_int {
    // SAFETY: the same contract.
    number(pthread::handle_of(thread).and_then(|thread| unsafe { set_set(thread, size, set) }))
}

/// The processor that runs the calling thread, by its initial APIC id (`cpuid` leaf 1).
#[unsafe(no_mangle)]
extern "C" fn sched_getcpu() -> c_int {
    const IDENTITY: u32 = 1;
    let cpu = core::arch::x86_64::__cpuid(IDENTITY).ebx >> 24;
    cpu as c_int
}

/// Programs have no priorities, so the lowest and the highest are 0.
#[unsafe(no_mangle)]
extern "C" fn sched_get_priority_min(policy: c_int) -> c_int {
    priority(policy)
}

#[unsafe(no_mangle)]
extern "C" fn sched_get_priority_max(policy: c_int) -> c_int {
    priority(policy)
}

fn priority(policy: c_int) -> c_int {
    match policy {
        0..=2 => 0,
        _ => errno::fail(EINVAL),
    }
}

/// Checks that there is such a process, whose priority then is 0.
fn check_priority_of(which: c_int, who: c_uint) -> Result<()> {
    /// C's `PRIO_PROCESS`, `PRIO_PGRP` and `PRIO_USER`.
    const KINDS: core::ops::RangeInclusive<c_int> = 0..=2;
    if !KINDS.contains(&which) {
        return Err(Error::new(EINVAL));
    }
    match (which, who) {
        (0, pid) if pid != 0 && pid != process::id() => process::kill(pid, 0),
        _ => Ok(()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn getpriority(which: c_int, who: c_uint) -> c_int {
    errno::done(check_priority_of(which, who))
}

/// Only 0 can be set, the priority of all processes.
#[unsafe(no_mangle)]
extern "C" fn setpriority(which: c_int, who: c_uint, priority: c_int) -> c_int {
    let known = check_priority_of(which, who);
    errno::done(known.and_then(|()| match priority {
        0 => Ok(()),
        _ => Err(Error::new(EPERM)),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nice(change: c_int) -> c_int {
    setpriority(0, 0, change)
}

fn since_start() -> Duration {
    Duration::from_nanos(Instant::now().as_nanos())
}

/// C's `struct sysinfo`.
#[repr(C)]
#[derive(Default)]
struct Machine {
    uptime: c_long,
    loads: [c_ulong; 3],
    memory: c_ulong,
    free: c_ulong,
    other: [c_ulong; 4],
    processes: c_ushort,
    high: [c_ulong; 2],
    unit: c_uint,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sysinfo(place: *mut Machine) -> c_int {
    errno::done(machine::memory().map(|(total, free)| {
        let machine = Machine {
            uptime: since_start().as_secs() as c_long,
            memory: total as c_ulong,
            free: free as c_ulong,
            unit: syscall::PAGE_SIZE as c_uint,
            ..Machine::default()
        };
        // SAFETY: the caller's place for the structure.
        unsafe { place.write(machine) };
    }))
}

/// Fails, as nothing counts how many threads wait for a processor.
#[unsafe(no_mangle)]
extern "C" fn getloadavg(_loads: *mut f64, _count: c_int) -> c_int {
    -1
}

#[unsafe(no_mangle)]
extern "C" fn get_nprocs() -> c_int {
    errno::give(machine::processors().map(|count| count as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn get_nprocs_conf() -> c_int {
    get_nprocs()
}
