//! `time.h` and `sys/time.h`. Times are UTC, as there are no other time zones.

use core::ffi::{c_char, c_int, c_long, c_uint};
use core::ptr::null_mut;
use core::time::Duration;

use runtime::time::{self, Instant};
use runtime::{Error, Result};
use syscall::error::{EINTR, EINVAL, EOPNOTSUPP, EOVERFLOW};

use crate::calendar::{self, Date};
use crate::caught;
use crate::date_reading;
use crate::dates;
use crate::errno;
use crate::files::Timespec;
use crate::points;
use crate::strings;
use crate::sync::Shared;
use crate::usage;

/// Numbers of clocks, as in relibc.
pub const CLOCK_REALTIME: c_int = 1;
/// The monotonic clock, as in relibc.
pub const CLOCK_MONOTONIC: c_int = 4;
const CLOCK_PROCESS: c_int = 2;
const CLOCK_RAW: c_int = 5;

/// C's `struct timeval`.
#[repr(C)]
pub struct Timeval {
    seconds: i64,
    microseconds: c_long,
}

impl Timeval {
    /// Converts it to a duration; `None` if it is negative or too large.
    pub fn duration(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.seconds).ok()?;
        // Programs that use Rust's library store only 32 bits there.
        let micros = u64::try_from(self.microseconds as i32).ok()?;
        Duration::from_secs(seconds).checked_add(Duration::from_micros(micros))
    }
}

impl Timespec {
    /// Converts it to a duration; `None` if it is negative or its nanoseconds are out of range.
    pub fn duration(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.seconds).ok()?;
        let nanos = u32::try_from(self.nanoseconds)
            .ok()
            .filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Duration::new(seconds, nanos))
    }
}

impl Timespec {
    /// Converts it to a point in time; those before the beginning of the clock are its beginning,
    /// as both have passed. `None` if its nanoseconds are out of range.
    pub fn deadline(&self) -> Option<Duration> {
        let seconds = self.seconds.max(0);
        Timespec { seconds, ..*self }.duration()
    }
}

impl From<Duration> for Timespec {
    fn from(duration: Duration) -> Self {
        Timespec {
            seconds: duration.as_secs() as i64,
            nanoseconds: duration.subsec_nanos().into(),
        }
    }
}

/// The present time of a clock.
///
/// # Errors
/// `EINVAL`: there is no such clock. That includes `CLOCK_THREAD_CPUTIME_ID`, as the kernel's list
/// does not say how long each thread of a process has run.
fn clock_time(clock: c_int) -> Result<Duration> {
    match clock {
        CLOCK_PROCESS => usage::run_time(),
        _ => wall_time(clock).ok_or(Error::new(EINVAL)),
    }
}

/// The present time of a clock that does not depend on which program runs.
pub fn wall_time(clock: c_int) -> Option<Duration> {
    match clock {
        CLOCK_REALTIME => Some(time::unix_time()),
        CLOCK_MONOTONIC | CLOCK_RAW => Some(Duration::from_nanos(Instant::now().as_nanos())),
        _ => None,
    }
}

/// The time of the monotonic clock, in nanoseconds, at which `clock` shows `deadline`.
pub fn monotonic(clock: c_int, deadline: Duration) -> Option<u64> {
    let left = deadline.saturating_sub(wall_time(clock)?);
    let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    Some(Instant::now().as_nanos().saturating_add(left))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, place: *mut Timespec) -> c_int {
    // SAFETY: the caller's place for the structure.
    errno::done(clock_time(clock).map(|now| unsafe { place.write(now.into()) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_getres(clock: c_int, place: *mut Timespec) -> c_int {
    let step = match clock {
        CLOCK_PROCESS => usage::RUN_TIME_STEP,
        _ if wall_time(clock).is_some() => Duration::from_nanos(1),
        _ => return errno::fail(EINVAL),
    };
    if !place.is_null() {
        // SAFETY: the caller's place for the structure.
        unsafe { place.write(step.into()) };
    }
    0
}

/// C's `struct timezone`, which is all zeros for UTC.
#[repr(C)]
#[derive(Default)]
struct Zone {
    minutes_west: c_int,
    summer_time: c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(place: *mut Timeval, zone: *mut Zone) -> c_int {
    let now = time::unix_time();
    let value = Timeval {
        seconds: now.as_secs() as i64,
        microseconds: now.subsec_micros().into(),
    };
    if !place.is_null() {
        // SAFETY: the caller's place for the structure.
        unsafe { place.write(value) };
    }
    if !zone.is_null() {
        // SAFETY: as above.
        unsafe { zone.write(Zone::default()) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn time(place: *mut i64) -> i64 {
    let now = time::unix_time().as_secs() as i64;
    if !place.is_null() {
        // SAFETY: the caller's place for a number.
        unsafe { *place = now };
    }
    now
}

/// The time that the process has run in microseconds (CLOCKS_PER_SEC is 1 000 000); -1 if unknown.
#[unsafe(no_mangle)]
extern "C" fn clock() -> c_long {
    errno::give(usage::run_time().map(|time| time.as_micros() as c_long))
}

#[unsafe(no_mangle)]
extern "C" fn difftime(end: i64, start: i64) -> f64 {
    end as f64 - start as f64
}

/// Sleeps. Returns the time that is left when a handler has ended the sleep.
fn sleep_long(length: Duration) -> Duration {
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let end = Instant::now().as_nanos().saturating_add(length);
    match points::ended_by_handlers(|| caught::sleep(end)) {
        Ok(()) => Duration::ZERO,
        Err(_) => Duration::from_nanos(end.saturating_sub(Instant::now().as_nanos())),
    }
}

/// Sleeps. Returns 0, or stores the time that is left and returns `EINTR` if a signal handler has
/// ended the sleep.
///
/// # Safety
/// `left` is null or the caller's place.
unsafe fn sleep_for(length: Duration, left: *mut Timespec) -> c_int {
    let rest = sleep_long(length);
    if rest.is_zero() {
        return 0;
    }
    if !left.is_null() {
        // SAFETY: the caller's promise.
        unsafe { left.write(rest.into()) };
    }
    EINTR
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(length: *const Timespec, left: *mut Timespec) -> c_int {
    // SAFETY: the caller's structure.
    let Some(duration) = unsafe { &*length }.duration() else {
        return errno::fail(EINVAL);
    };
    // SAFETY: the same contract.
    match unsafe { sleep_for(duration, left) } {
        0 => 0,
        number => errno::fail(number),
    }
}

/// Returns the error number: `ENOTSUP` for the clock of the process, for which no sleep is
/// possible.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    length: *const Timespec,
    left: *mut Timespec,
) -> c_int {
    const ABSOLUTE: c_int = 1;
    if clock == CLOCK_PROCESS {
        return EOPNOTSUPP;
    }
    // SAFETY: the caller's structure.
    let (Some(length), Some(now)) = (unsafe { &*length }.duration(), wall_time(clock)) else {
        return EINVAL;
    };
    // SAFETY: the same contract; the end of a sleep until a time is known without what is left.
    unsafe {
        match flags & ABSOLUTE {
            0 => sleep_for(length, left),
            _ => sleep_for(length.saturating_sub(now), core::ptr::null_mut()),
        }
    }
}

/// C11's function for the present time of the wall clock; 0 for another base.
#[unsafe(no_mangle)]
unsafe extern "C" fn timespec_get(place: *mut Timespec, base: c_int) -> c_int {
    const UTC: c_int = 1;
    if base != UTC {
        return 0;
    }
    // SAFETY: the caller's place for the structure.
    unsafe { place.write(time::unix_time().into()) };
    UTC
}

/// Names of the time zone, the second one for summer time.
#[repr(transparent)]
struct Names([*const c_char; 2]);

// SAFETY: constant texts, which programs do not change.
unsafe impl Sync for Names {}

#[unsafe(no_mangle)]
static tzname: Names = Names([c"UTC".as_ptr(); 2]);
/// Seconds west of UTC.
#[unsafe(no_mangle)]
static timezone: c_long = 0;
#[unsafe(no_mangle)]
static daylight: c_int = 0;

/// Has nothing to do: the variables are right from the start.
#[unsafe(no_mangle)]
extern "C" fn tzset() {}

#[unsafe(no_mangle)]
extern "C" fn sleep(seconds: c_uint) -> c_uint {
    let left = sleep_long(Duration::from_secs(seconds.into()));
    // At least 1 if the sleep was interrupted.
    left.as_secs() as c_uint + c_uint::from(left.subsec_nanos() > 0)
}

#[unsafe(no_mangle)]
extern "C" fn usleep(micros: c_uint) -> c_int {
    match sleep_long(Duration::from_micros(micros.into())).is_zero() {
        true => 0,
        false => errno::fail(EINTR),
    }
}

/// C's `struct tm`.
#[repr(C)]
pub struct Broken {
    second: c_int,
    minute: c_int,
    hour: c_int,
    day: c_int,
    month: c_int,
    year: c_int,
    weekday: c_int,
    yearday: c_int,
    summer: c_int,
    offset: c_long,
    zone: *const c_char,
}

impl Broken {
    const NONE: Broken = Broken {
        second: 0,
        minute: 0,
        hour: 0,
        day: 0,
        month: 0,
        year: 0,
        weekday: 0,
        yearday: 0,
        summer: 0,
        offset: 0,
        zone: core::ptr::null(),
    };

    fn of(time: i64) -> Option<Broken> {
        let date = calendar::from_seconds(time);
        Some(Broken {
            second: date.second as c_int,
            minute: date.minute as c_int,
            hour: date.hour as c_int,
            day: date.day as c_int,
            month: date.month as c_int,
            year: c_int::try_from(date.year - 1900).ok()?,
            weekday: date.weekday as c_int,
            yearday: date.yearday as c_int,
            summer: 0,
            offset: 0,
            zone: c"UTC".as_ptr(),
        })
    }

    fn date(&self) -> Date {
        Date {
            year: i64::from(self.year) + 1900,
            month: self.month.into(),
            day: self.day.into(),
            hour: self.hour.into(),
            minute: self.minute.into(),
            second: self.second.into(),
            weekday: self.weekday.into(),
            yearday: self.yearday.into(),
        }
    }

    /// The zone for a format. It is only looked at if the format names it, as programs fill in no
    /// more fields than their formats use. In summer time "maybe" the offset is not known.
    ///
    /// # Safety
    /// The name is null or a string, if the format has it.
    unsafe fn time_zone<'a>(&self, format: &[u8]) -> dates::Zone<'a> {
        let name = match format.contains(&b'Z') {
            // SAFETY: the caller's promise.
            true if !self.zone.is_null() => unsafe { strings::bytes(self.zone) },
            true if self.summer >= 0 => b"UTC",
            _ => b"",
        };
        let offset = (self.summer >= 0).then_some(self.offset);
        dates::Zone { offset, name }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gmtime_r(time: *const i64, place: *mut Broken) -> *mut Broken {
    // Wide enough for every year that fits into a C `int`.
    const LIMIT: i64 = 1 << 56;
    // SAFETY: the caller's number.
    let time = unsafe { *time };
    match Some(time)
        .filter(|time| (-LIMIT..LIMIT).contains(time))
        .and_then(Broken::of)
    {
        Some(broken) => {
            // SAFETY: the caller's place for the structure.
            unsafe { place.write(broken) };
            place
        }
        None => {
            errno::set(EOVERFLOW);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn localtime_r(time: *const i64, place: *mut Broken) -> *mut Broken {
    // SAFETY: the same contract.
    unsafe { gmtime_r(time, place) }
}

pub static BROKEN: Shared<Broken> = Shared::new(Broken::NONE);

#[unsafe(no_mangle)]
unsafe extern "C" fn gmtime(time: *const i64) -> *mut Broken {
    // SAFETY: the same contract; the place is this function's own.
    BROKEN.with(|place| unsafe { gmtime_r(time, place) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn localtime(time: *const i64) -> *mut Broken {
    // SAFETY: the same contract.
    unsafe { gmtime(time) }
}

/// Also brings the fields into their ranges.
#[unsafe(no_mangle)]
unsafe extern "C" fn mktime(broken: *mut Broken) -> i64 {
    // SAFETY: the caller's structure.
    let time = calendar::to_seconds(&unsafe { &*broken }.date());
    match Broken::of(time) {
        Some(normal) => {
            // SAFETY: the caller's structure.
            unsafe { broken.write(normal) };
            time
        }
        None => errno::fail(EOVERFLOW),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timegm(broken: *mut Broken) -> i64 {
    // SAFETY: the same contract.
    unsafe { mktime(broken) }
}

/// Returns 0 if the text and its zero byte do not fit.
#[unsafe(no_mangle)]
unsafe extern "C" fn strftime(
    buffer: *mut c_char,
    size: usize,
    format: *const c_char,
    broken: *const Broken,
) -> usize {
    // SAFETY: the caller's string and structure.
    let text = unsafe {
        let format = strings::bytes(format);
        dates::formatted(&(*broken).date(), (*broken).time_zone(format), format)
    };
    if text.len() >= size {
        return 0;
    }
    // SAFETY: the text and its end fit into the caller's buffer.
    unsafe {
        buffer.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        *buffer.add(text.len()) = 0;
    }
    text.len()
}

/// Fields of which the text says nothing stay unchanged.
#[unsafe(no_mangle)]
unsafe extern "C" fn strptime(
    text: *const c_char,
    format: *const c_char,
    broken: *mut Broken,
) -> *mut c_char {
    // SAFETY: the caller's strings and structure.
    let (read, broken) = unsafe {
        let read = date_reading::read(strings::bytes(text), strings::bytes(format));
        (read, &mut *broken)
    };
    let Some((found, length)) = read else {
        return null_mut();
    };
    let fields = [
        (&mut broken.second, found.second),
        (&mut broken.minute, found.minute),
        (&mut broken.hour, found.hour),
        (&mut broken.day, found.day),
        (&mut broken.month, found.month),
        (&mut broken.year, found.year.map(|year| year - 1900)),
        (&mut broken.weekday, found.weekday),
        (&mut broken.yearday, found.yearday),
    ];
    for (place, value) in fields {
        if let Some(value) = value {
            *place = value as c_int;
        }
    }
    if let Some(offset) = found.offset {
        broken.offset = offset;
    }
    text.cast_mut().wrapping_add(length)
}

/// Stores the text of `asctime`.
///
/// # Errors
/// `EOVERFLOW`: it does not fit into `size` bytes.
///
/// # Safety
/// The caller's structure, and a buffer of that size.
unsafe fn date_text(broken: *const Broken, buffer: *mut c_char, size: usize) -> *mut c_char {
    // SAFETY: the caller's promise.
    match unsafe { strftime(buffer, size, c"%a %b %e %H:%M:%S %Y\n".as_ptr(), broken) } {
        0 => {
            errno::set(EOVERFLOW);
            null_mut()
        }
        _ => buffer,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn asctime_r(broken: *const Broken, buffer: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's buffer has 26 bytes, as C demands, which is enough up to the year 9999.
    unsafe { date_text(broken, buffer, 26) }
}

/// Room for the text of every year that fits into a C `int`.
pub static TEXT: Shared<[c_char; 64]> = Shared::new([0; 64]);

#[unsafe(no_mangle)]
unsafe extern "C" fn asctime(broken: *const Broken) -> *mut c_char {
    // SAFETY: the same contract; the buffer is this function's own.
    TEXT.with(|buffer| unsafe { date_text(broken, buffer.as_mut_ptr(), buffer.len()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ctime(time: *const i64) -> *mut c_char {
    let mut broken = Broken::NONE;
    // SAFETY: the caller's number; the structure is a local.
    unsafe {
        match gmtime_r(time, &mut broken).is_null() {
            true => null_mut(),
            false => asctime(&broken),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ctime_r(time: *const i64, buffer: *mut c_char) -> *mut c_char {
    let mut broken = Broken::NONE;
    // SAFETY: the caller's number and its buffer of 26 bytes; the structure is a local.
    unsafe {
        match gmtime_r(time, &mut broken).is_null() {
            true => null_mut(),
            false => asctime_r(&broken, buffer),
        }
    }
}
