//! `time`: clocks that are read and timers that post an event.

use alloc::{boxed::Box, format, string::String, vec::Vec};

use ::syscall::{
    EventFlags,
    data::{GlobalSchemes, TimeSpec},
    error::{EACCES, EBADF, EINVAL, ENOENT, ENOMEM, Error, Result},
    flag::{CLOCK_MONOTONIC, CLOCK_REALTIME},
};
use spin::Mutex;

use super::{
    Caller, MAX_IO, OpenResult, Scheme,
    handles::{Handles, ROOT},
    kernel_id, trigger,
};
use crate::{
    mm::{UserBuf, frame},
    time::{self, TimerId, spec},
};

const SPEC_SIZE: usize = size_of::<TimeSpec>();

/// The resolution that clocks report, in nanoseconds: the timer tick.
const RESOLUTION_NS: u128 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Default,
    GetTime,
    GetResolution,
    Timer,
}

#[derive(Debug)]
struct Handle {
    clock: usize,
    kind: Kind,
    /// Timers that may not have fired yet, with their deadlines.
    timers: Vec<(u64, TimerId)>,
}

/// Most pending timers of one handle.
const MAX_TIMERS: usize = 1024;

static HANDLES: Mutex<Handles<Handle>> = Mutex::new(Handles::new());

fn handle(number: usize) -> Result<(usize, Kind)> {
    HANDLES
        .lock()
        .get(number)
        .map(|handle| (handle.clock, handle.kind))
}

fn parse(path: &str) -> Option<Handle> {
    let mut parts = path.split('/');
    let clock = parts.next()?.parse().ok()?;
    let kind = match parts.next() {
        None | Some("") => Kind::Default,
        Some("gettime") => Kind::GetTime,
        Some("getres") => Kind::GetResolution,
        Some("timer") => Kind::Timer,
        Some(_) => return None,
    };
    let known = matches!(clock, CLOCK_REALTIME | CLOCK_MONOTONIC);
    known.then(|| Handle {
        clock,
        kind,
        timers: Vec::new(),
    })
}

/// Arms a timer for the handle at an absolute time of its clock; `ENOMEM` when too many are
/// pending.
fn arm(number: usize, clock: usize, time: &TimeSpec) -> Result<()> {
    let at = spec::to_nanos(time);
    let now = time::now_ns();
    let at = if clock == CLOCK_REALTIME {
        // Timers run on the monotonic clock.
        u128::from(now).saturating_add(at.saturating_sub(time::realtime_ns()))
    } else {
        at
    };
    let deadline = u64::try_from(at).unwrap_or(u64::MAX);
    if deadline <= now {
        trigger(
            kernel_id(GlobalSchemes::Time),
            number,
            EventFlags::EVENT_READ,
        );
        return Ok(());
    }
    frame::check_room()?;
    let mut handles = HANDLES.lock();
    let timers = &mut handles.get_mut(number)?.timers;
    timers.retain(|&(deadline, _)| deadline > now);
    if timers.len() >= MAX_TIMERS {
        return Err(Error::new(ENOMEM));
    }
    let action = move || {
        trigger(
            kernel_id(GlobalSchemes::Time),
            number,
            EventFlags::EVENT_READ,
        )
    };
    timers.try_reserve(1).map_err(|_| Error::new(ENOMEM))?;
    timers.push((deadline, time::at(deadline, Box::new(action))));
    Ok(())
}

pub struct TimeScheme;

impl Scheme for TimeScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        _caller: Caller,
    ) -> Result<OpenResult> {
        if number != ROOT {
            return Err(Error::new(EACCES));
        }
        let handle = parse(path).ok_or(Error::new(ENOENT))?;
        OpenResult::plain(HANDLES.lock().insert(handle))
    }

    fn read(&self, number: usize, buf: UserBuf, _flags: u32) -> Result<usize> {
        let (clock, kind) = handle(number)?;
        let buf = buf.prefix(MAX_IO);
        for chunk in buf.chunks(SPEC_SIZE) {
            let nanos = match kind {
                Kind::Default | Kind::GetTime => spec::read(clock)?,
                Kind::GetResolution => RESOLUTION_NS,
                Kind::Timer => return Err(Error::new(EINVAL)),
            };
            chunk.write_all(&spec::bytes(nanos))?;
        }
        Ok(buf.len() / SPEC_SIZE * SPEC_SIZE)
    }

    fn write(&self, number: usize, buf: UserBuf, _flags: u32) -> Result<usize> {
        let (clock, kind) = handle(number)?;
        let mut written = 0;
        for chunk in buf.prefix(MAX_IO).chunks(SPEC_SIZE) {
            let mut time = TimeSpec::default();
            let armed = chunk.read_exact(&mut time).and_then(|()| match kind {
                Kind::Default | Kind::Timer => arm(number, clock, &time),
                Kind::GetTime | Kind::GetResolution => Err(Error::new(EINVAL)),
            });
            match armed {
                Ok(()) => written += SPEC_SIZE,
                // The timers before it count.
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    fn path(&self, number: usize) -> Result<String> {
        let (clock, kind) = handle(number)?;
        let kind = match kind {
            Kind::Default => "",
            Kind::GetTime => "gettime",
            Kind::GetResolution => "getres",
            Kind::Timer => "timer",
        };
        Ok(format!("/scheme/time/{clock}/{kind}"))
    }

    fn fevent(&self, number: usize, _flags: EventFlags) -> Result<EventFlags> {
        handle(number).map(|_| EventFlags::empty())
    }

    fn fsync(&self, number: usize) -> Result<()> {
        if number == ROOT {
            Err(Error::new(EBADF))
        } else {
            handle(number).map(drop)
        }
    }

    fn close(&self, number: usize) {
        let timers = HANDLES.lock().remove(number).map(|handle| handle.timers);
        for (_, timer) in timers.into_iter().flatten() {
            time::cancel(timer);
        }
    }
}
