//! The kernel's side of processes: contexts, their attributes, their end.

use alloc::format;

use libredox::Fd;
use libredox::protocol::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTRAP};
use procmgr::process::Attributes;
use procmgr::table::{Contexts, End};
use runtime::{Error, Result, boot, fd, path};
use syscall::data::Event;
use syscall::error::{EAGAIN, EINTR};
use syscall::flag::{ContextStatus, ContextVerb, EventFlags, O_NONBLOCK, O_RDWR};

/// The queue on which the kernel reports ends of contexts, and requests at the socket.
pub struct Deaths {
    queue: Fd,
}

impl Deaths {
    /// An empty queue.
    pub fn new() -> Result<Self> {
        Ok(Deaths {
            queue: Fd::new(path::open_upper("/scheme/event", O_RDWR)?),
        })
    }

    /// Reports events of `fd` under `token`.
    pub fn subscribe(&self, fd: usize, flags: EventFlags, token: usize) -> Result<()> {
        let event = Event {
            id: fd,
            flags,
            data: token,
        };
        fd::write(self.queue.raw(), &event).map(|_| ())
    }

    /// Waits for one event and returns its token; `None` after an interruption.
    pub fn wait(&self) -> Result<Option<usize>> {
        let mut event = Event::default();
        match fd::read_once(self.queue.raw(), &mut event) {
            Ok(_) => Ok(Some(event.data)),
            Err(Error {
                errno: EINTR | EAGAIN,
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes one event if one is there.
    pub fn take(&self) -> Result<Option<usize>> {
        let set = |flags| fd::fcntl(self.queue.raw(), syscall::F_SETFL, flags);
        set(O_NONBLOCK)?;
        let event = self.wait();
        set(0)?;
        event
    }
}

/// The right to make and control contexts.
pub struct Kernel {
    authority: Fd,
    deaths: Deaths,
}

impl Kernel {
    /// Takes the root of the kernel's process scheme.
    pub fn new(authority: Fd, deaths: Deaths) -> Self {
        Kernel { authority, deaths }
    }

    /// Waits for one event; see [`Deaths::wait`].
    pub fn wait_event(&self) -> Result<Option<usize>> {
        self.deaths.wait()
    }

    /// Takes one event if one is there; see [`Deaths::take`].
    pub fn take_event(&self) -> Result<Option<usize>> {
        self.deaths.take()
    }
}

/// A context of the kernel.
pub struct Thread {
    /// The context itself.
    pub context: Fd,
    /// Its state: how it has ended, and by a write its end. It is opened before the context runs,
    /// as an end must not depend on free memory.
    status: Fd,
}

impl Contexts for Kernel {
    type Context = Thread;
    type Given = Fd;

    fn create(&self, token: usize) -> Result<Thread> {
        let context = Fd::new(fd::dup_upper(self.authority.raw(), b"new-context")?);
        self.adopt(context, token)
    }

    fn adopt(&self, context: Fd, token: usize) -> Result<Thread> {
        let name = format!("auth-{}-status", self.authority.raw());
        let status = Fd::new(fd::dup_upper(context.raw(), name.as_bytes())?);
        self.deaths
            .subscribe(context.raw(), EventFlags::EVENT_READ, token)?;
        Ok(Thread { context, status })
    }

    fn set_attributes(&self, thread: &Thread, attributes: &Attributes<'_>) -> Result<()> {
        let attributes = boot::Attributes {
            pid: attributes.pid,
            euid: attributes.euid,
            egid: attributes.egid,
            name: attributes.name,
        };
        boot::set_attributes(thread.context.raw(), self.authority.raw(), &attributes)
    }

    fn kill(&self, thread: &Thread) -> Result<()> {
        let verb = (ContextVerb::ForceKill as usize).to_ne_bytes();
        fd::write(thread.status.raw(), &verb).map(|_| ())
    }

    fn end(&self, thread: &Thread) -> Option<End> {
        const DEAD: usize = ContextStatus::Dead as usize;
        const KILLED: usize = ContextStatus::ForceKilled as usize;
        const EXCEPTION: usize = ContextStatus::UnhandledExcp as usize;
        let mut words = [[0; 8]; 3];
        fd::read(thread.status.raw(), words.as_flattened_mut()).ok()?;
        match usize::from_ne_bytes(words[0]) {
            DEAD => Some(End::Ended),
            KILLED => Some(End::Killed),
            EXCEPTION => Some(End::Exception(signal_of(usize::from_ne_bytes(words[1])))),
            _ => None,
        }
    }

    fn has_begun(&self, thread: &Thread) -> bool {
        const NOT_YET: usize = ContextStatus::NotYetStarted as usize;
        let mut word = [0; 8];
        // One whose status cannot be read is left alone.
        match fd::read(thread.status.raw(), &mut word) {
            Ok(_) => usize::from_ne_bytes(word) != NOT_YET,
            Err(_) => true,
        }
    }
}

/// The signal that a processor exception counts as.
fn signal_of(vector: usize) -> usize {
    match vector {
        0 | 16 | 19 => SIGFPE,
        1 | 3 => SIGTRAP,
        6 => SIGILL,
        13 | 14 => SIGSEGV,
        11 | 12 | 17 => SIGBUS,
        _ => SIGKILL,
    }
}
