//! Event queues: waiting for several files and for time to pass.
//!
//! The queue is opened as a file, not through the library's wrapper, because only the file offers
//! a time limit.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use syscall::data::{Event, TimeSpec};
use syscall::error::{EAGAIN, EINTR, EIO, Error, Result};
use syscall::flag::{CLOCK_MONOTONIC, EVENT_TIMEOUT_ID, EventFlags, F_DUPFD, UPPER_FDTBL_TAG};

/// Most events that one wait takes.
const EVENTS_PER_READ: usize = 32;

/// The `data` of the clock's events. Those of other events have the index of their source.
const ALARM: usize = usize::MAX;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// An event queue whose sources are identified by values of `T`, usually an enum of the daemon.
pub struct Queue<T> {
    file: Fd,
    sources: Vec<T>,
    /// Descriptors that were subscribed, sorted; some may have been closed since. New ones mostly
    /// have the highest number. (The code of a tree would be a part of all programs.)
    watched: Vec<usize>,
    /// A file of the monotonic clock; see [`open_clock`](Self::open_clock).
    clock: Option<Fd>,
    /// The earliest point of time, in nanoseconds, at which the clock will post an event.
    alarm: Option<u64>,
    /// Whether the last wait was interrupted.
    was_interrupted: bool,
}

/// Something a source reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ready<T> {
    /// Which source.
    pub source: T,
    /// The operations it is ready for.
    pub flags: EventFlags,
}

/// An event queue of one file, which its owner only polls.
pub struct Watcher {
    file: Fd,
}

impl Watcher {
    /// Watches a file for being readable, from now on. A file that is readable already counts as
    /// an event.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`; those of the file.
    pub fn new(fd: usize) -> Result<Self> {
        let file = Fd::open("/scheme/event", O_CLOEXEC | O_RDWR | O_NONBLOCK, 0)?;
        // Moved to the upper descriptors: a program may close or replace any of the lower ones.
        let file = Fd::new(file.fcntl(F_DUPFD, UPPER_FDTBL_TAG)?);
        let (id, flags, data) = (fd, EventFlags::EVENT_READ, 0);
        file.write(&Event { id, flags, data })?;
        Ok(Self { file })
    }

    /// Whether an event has come since the last call that returned `true`. Never waits.
    ///
    /// # Errors
    /// Those of reading the queue.
    pub fn take(&self) -> Result<bool> {
        let mut event = [0; size_of::<Event>()];
        match self.file.read(&mut event).map_err(Error::from) {
            Ok(_) => Ok(true),
            Err(Error { errno: EAGAIN }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The descriptor of the queue, which other queues can watch.
    pub fn descriptor(&self) -> usize {
        self.file.raw()
    }
}

impl<T: Copy + PartialEq> Queue<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// Those of opening the kernel's file, such as `EMFILE`.
    pub fn new() -> Result<Self> {
        let file = Fd::open("/scheme/event", O_CLOEXEC | O_RDWR, 0)?;
        Ok(Self {
            file,
            sources: Vec::new(),
            watched: Vec::new(),
            clock: None,
            alarm: None,
            was_interrupted: false,
        })
    }

    /// The descriptor of the queue.
    pub fn descriptor(&self) -> usize {
        self.file.raw()
    }

    /// Reports events of `fd` as `source` from now on. A file that is ready reports an event at
    /// once (an interrupt never does: look at the device once). The events end with the file's
    /// last descriptor.
    ///
    /// # Errors
    /// `EBADF` when `fd` is not open or is the queue itself, `ENOMEM` when the kernel has no room
    /// for another subscription, `ENOSPC` when queues watch the file as often as they may; those of
    /// the file's scheme, which may refuse.
    pub fn subscribe(&mut self, fd: usize, flags: EventFlags, source: T) -> Result<()> {
        let data = match self.sources.iter().position(|known| *known == source) {
            Some(index) => index,
            None => {
                self.sources.push(source);
                self.sources.len() - 1
            }
        };
        match self.watched.binary_search(&fd) {
            // A file that is subscribed already would keep its former source.
            Ok(_) => {
                let _ = self.control(fd, EventFlags::empty(), 0);
            }
            Err(index) => self.watched.insert(index, fd),
        }
        self.control(fd, flags, data)
    }

    /// Stops reporting events of `fd`. What happens to a file that no queue watches for it costs
    /// the file's daemon nothing.
    ///
    /// # Errors
    /// `EBADF` when `fd` is not open or is the queue itself; those of the file's scheme.
    pub fn unsubscribe(&mut self, fd: usize) -> Result<()> {
        if let Ok(index) = self.watched.binary_search(&fd) {
            self.watched.remove(index);
        }
        self.control(fd, EventFlags::empty(), 0)
    }

    fn control(&self, id: usize, flags: EventFlags, data: usize) -> Result<()> {
        self.file.write(&Event { id, flags, data })?;
        Ok(())
    }

    /// Waits for events, at most `limit` (rounded up to milliseconds; `None`: without limit), and
    /// stores them in `ready`, which is empty after a time-out or an interruption.
    ///
    /// # Errors
    /// `EIO` when the queue stores no whole events; those of its file. Interruption is none.
    pub fn wait(&mut self, limit: Option<Duration>, ready: &mut Vec<Ready<T>>) -> Result<()> {
        ready.clear();
        if let Some(limit) = limit {
            let milliseconds = limit.as_nanos().div_ceil(1_000_000);
            let milliseconds = usize::try_from(milliseconds).unwrap_or(usize::MAX);
            self.control(EVENT_TIMEOUT_ID, EventFlags::EVENT_READ, milliseconds)?;
        }
        self.read(ready)
    }

    /// Waits for events until the monotonic clock shows `deadline` (nanoseconds; `None`: without
    /// limit); `now` is a recent reading of that clock. As [`wait`](Self::wait), but it may also
    /// end earlier with nothing in `ready`: an alarm that was set is never cancelled, so that a
    /// daemon with distant deadlines sleeps with a single call.
    ///
    /// The first call with a deadline opens the clock. A program that gives up its namespace calls
    /// [`open_clock`](Self::open_clock) before.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait) and of [`open_clock`](Self::open_clock).
    pub fn wait_until(
        &mut self,
        deadline: Option<u64>,
        now: u64,
        ready: &mut Vec<Ready<T>>,
    ) -> Result<()> {
        let Some(deadline) = deadline else {
            ready.clear();
            return self.read(ready);
        };
        if deadline <= now {
            return self.wait(Some(Duration::ZERO), ready);
        }
        ready.clear();
        if self.alarm.is_none_or(|alarm| alarm > deadline) {
            self.open_clock()?;
            if self.set_alarm(deadline).is_err() {
                // The kernel has no room for another alarm: wait with a time limit.
                let limit = Duration::from_nanos(deadline - now);
                return self.wait(Some(limit), ready);
            }
        }
        self.read(ready)
    }

    fn set_alarm(&mut self, deadline: u64) -> Result<()> {
        let clock = self.clock.as_ref().ok_or(Error::new(EIO))?;
        clock.write(&TimeSpec {
            tv_sec: i64::try_from(deadline / NANOS_PER_SECOND).unwrap_or(i64::MAX),
            tv_nsec: (deadline % NANOS_PER_SECOND) as i32,
        })?;
        self.alarm = Some(deadline);
        Ok(())
    }

    /// Opens the clock that [`wait_until`](Self::wait_until) needs.
    ///
    /// # Errors
    /// Those of opening the clock's file and of [`subscribe`](Self::subscribe).
    pub fn open_clock(&mut self) -> Result<()> {
        if self.clock.is_none() {
            let path = format!("/scheme/time/{CLOCK_MONOTONIC}");
            let clock = Fd::open(&path, O_CLOEXEC | O_RDWR, 0)?;
            self.control(clock.raw(), EventFlags::EVENT_READ, ALARM)?;
            self.clock = Some(clock);
        }
        Ok(())
    }

    /// Whether the last wait has ended because somebody has interrupted the thread.
    pub fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    /// Waits for events and stores those of the sources.
    fn read(&mut self, ready: &mut Vec<Ready<T>>) -> Result<()> {
        self.was_interrupted = false;
        let mut events = [const {
            Event {
                id: 0,
                flags: EventFlags::empty(),
                data: 0,
            }
        }; EVENTS_PER_READ];
        // SAFETY: `Event` is a C structure of three words without padding, the kernel stores
        // whole ones with valid flags, and the slice covers exactly the array.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut(
                events.as_mut_ptr().cast::<u8>(),
                core::mem::size_of_val(&events),
            )
        };
        let count = match self.file.read(bytes).map_err(Error::from) {
            Ok(count) => count,
            Err(Error { errno: EINTR }) => {
                self.was_interrupted = true;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if count % size_of::<Event>() != 0 {
            return Err(Error::new(EIO));
        }
        for event in events.iter().take(count / size_of::<Event>()) {
            if event.id == EVENT_TIMEOUT_ID {
                continue;
            }
            if event.data == ALARM {
                self.alarm = None;
                continue;
            }
            if let Some(&source) = self.sources.get(event.data) {
                ready.push(Ready {
                    source,
                    flags: event.flags,
                });
            }
        }
        Ok(())
    }
}
