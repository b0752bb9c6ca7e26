//! Event queues: waiting for several files and for time to pass.
//!
//! Opened as a file, not through the library's wrapper, because only the file offers a time limit.

use alloc::vec::Vec;
use core::time::Duration;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use syscall::data::Event;
use syscall::error::{EINTR, EIO, Error, Result};
use syscall::flag::{EVENT_TIMEOUT_ID, EventFlags};

/// Events taken by one wait.
const EVENTS_PER_READ: usize = 32;

/// An event queue whose sources are known by values of `T`, usually an enum of the daemon.
pub struct Queue<T> {
    file: Fd,
    sources: Vec<T>,
}

/// Something a source reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ready<T> {
    /// Which source.
    pub source: T,
    /// What it is ready for.
    pub flags: EventFlags,
}

impl<T: Copy + PartialEq> Queue<T> {
    /// An empty queue.
    pub fn new() -> Result<Self> {
        let file = Fd::open("/scheme/event", O_CLOEXEC | O_RDWR, 0)?;
        Ok(Self {
            file,
            sources: Vec::new(),
        })
    }

    /// Reports events of `fd` as `source` from now on; an event comes at once when the file says
    /// that it is ready (interrupts never say so: look at the device once).
    pub fn subscribe(&mut self, fd: usize, flags: EventFlags, source: T) -> Result<()> {
        let data = match self.sources.iter().position(|known| *known == source) {
            Some(index) => index,
            None => {
                self.sources.push(source);
                self.sources.len() - 1
            }
        };
        // A file that is subscribed already would keep its former source.
        let _ = self.control(fd, EventFlags::empty(), 0);
        self.control(fd, flags, data)
    }

    /// Reports no more events of `fd`. Not needed before its last descriptor is closed.
    pub fn unsubscribe(&mut self, fd: usize) -> Result<()> {
        self.control(fd, EventFlags::empty(), 0)
    }

    fn control(&self, id: usize, flags: EventFlags, data: usize) -> Result<()> {
        self.file.write(&Event { id, flags, data })?;
        Ok(())
    }

    /// Waits for events, at most `limit` (rounded up to milliseconds; none: without limit), and
    /// stores them in `ready`, which is empty after a time-out or an interruption.
    pub fn wait(&mut self, limit: Option<Duration>, ready: &mut Vec<Ready<T>>) -> Result<()> {
        ready.clear();
        if let Some(limit) = limit {
            let milliseconds = limit.as_nanos().div_ceil(1_000_000);
            let milliseconds = usize::try_from(milliseconds).unwrap_or(usize::MAX);
            self.control(EVENT_TIMEOUT_ID, EventFlags::EVENT_READ, milliseconds)?;
        }
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
            Err(Error { errno: EINTR }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if count % size_of::<Event>() != 0 {
            return Err(Error::new(EIO));
        }
        for event in events.iter().take(count / size_of::<Event>()) {
            if event.id == EVENT_TIMEOUT_ID {
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
