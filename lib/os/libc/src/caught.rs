//! Calls of signal handlers, as the waits of the program's first thread see them. A handler that
//! another thread runs, for a signal to the process, ends the sleep, `poll`, `select` or
//! `epoll_wait` of the first thread (`EINTR`), and `sigsuspend` and `pause` of each thread. A
//! handler for a signal to one thread ends calls of that thread alone.

use alloc::sync::Arc;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use hal::idle_poll::Watched;
use runtime::time::Instant;
use runtime::{Error, Result, fd};
use syscall::error::EINTR;

use crate::bell::Bell;
use crate::points;
use crate::sync::{self, Shared};
use crate::tls::{self, Seen};

/// Counts calls of handlers for signals to the process. Threads wait for it to change.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Rings at each call, once signals from other processes can come.
pub static BELL: Shared<Option<Arc<Bell>>> = Shared::new(None);
/// Whether there is one: most programs catch no signals, and ask no further.
static HAS_BELL: AtomicBool = AtomicBool::new(false);
/// The number of the first thread; 0: that of the process.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// Whom a signal was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The process, of which any thread may take it.
    Process,
    /// The thread that runs the handler.
    Thread,
}

fn is_first() -> bool {
    match FIRST.load(Ordering::Relaxed) {
        0 => tls::gettid() == runtime::process::id() as c_int,
        first => tls::gettid() == first,
    }
}

/// The handlers that have run, as the calling thread sees them.
pub fn seen() -> Seen {
    Seen {
        process: COUNT.load(Ordering::SeqCst),
        // SAFETY: the control block of the calling thread, which no other uses.
        own: unsafe { (*tls::control()).handled },
    }
}

/// Lets later calls of handlers interrupt the first thread.
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
pub fn prepare() -> Result<()> {
    BELL.with(|bell| {
        if bell.is_none() {
            let (made, number) = Bell::new()?;
            // Nothing of the program reads it.
            fd::close(number)?;
            *bell = Some(Arc::new(made));
            HAS_BELL.store(true, Ordering::Release);
        }
        Ok(())
    })
}

/// Called when a handler has run in the calling thread.
pub fn note(sent: Sent) {
    match sent {
        Sent::Process => note_for_all(),
        // SAFETY: the control block of the calling thread, which no other uses.
        Sent::Thread => unsafe {
            let handled = &mut (*tls::control()).handled;
            *handled = handled.wrapping_add(1);
        },
    }
}

fn note_for_all() {
    COUNT.fetch_add(1, Ordering::SeqCst);
    sync::wake(&COUNT, usize::MAX >> 1);
    // Not under the lock: a thread that is killed at the pipe must not keep it.
    if let Some(bell) = BELL.with(|bell| bell.clone()) {
        bell.ring();
    }
}

/// Sleeps until a handler has run since `before`: `EINTR`, as the calls that this ends return. Also
/// if the thread has to look at what others want of it.
pub fn wait(before: Seen) -> Error {
    while seen() == before {
        // After any other answer the loop looks at the count again.
        if let Err(error @ Error { errno: EINTR }) =
            points::sleeping(|| sync::wait(&COUNT, before.process, None))
        {
            return error;
        }
    }
    Error::new(EINTR)
}

/// What interrupts a wait of the first thread.
pub struct Interruption {
    before: Seen,
    bell: Arc<Bell>,
}

/// Begins a wait of the calling thread. `None`: nothing interrupts it.
pub fn begin() -> Option<Interruption> {
    if !HAS_BELL.load(Ordering::Acquire) || !is_first() {
        return None;
    }
    // SAFETY: the control block of the calling thread, which no other uses.
    let since = unsafe { (*tls::control()).interrupted_since.take() };
    let before = since.unwrap_or_else(seen);
    let bell = BELL.with(|bell| bell.clone())?;
    Some(Interruption { before, bell })
}

/// Lets the calling thread's next wait be interrupted by handlers that run from now on, though the
/// wait has not begun.
pub fn interrupt_from_now() {
    // SAFETY: the control block of the calling thread, which no other uses.
    unsafe { (*tls::control()).interrupted_since = Some(seen()) };
}

/// Undoes [`interrupt_from_now`].
pub fn interrupt_no_more() {
    // SAFETY: as above.
    unsafe { (*tls::control()).interrupted_since = None };
}

impl Interruption {
    /// Whether a handler has run meanwhile.
    pub fn has_come(&self) -> bool {
        seen() != self.before
    }

    /// The word that changes then.
    pub fn word(&self) -> Watched {
        Watched::new(&COUNT, self.before.process)
    }

    /// The descriptor that has an event then.
    pub fn descriptor(&self) -> usize {
        self.bell.reader()
    }
}

/// Sleeps until the monotonic clock shows `end` (nanoseconds).
///
/// # Errors
/// `EINTR`: a handler has ended the sleep, or the thread has to look at what others want of it.
pub fn sleep(end: u64) -> Result<()> {
    /// A word that never changes.
    static NOTHING: AtomicU32 = AtomicU32::new(0);
    let interruption = begin();
    while Instant::now().as_nanos() < end {
        let (word, value) = match &interruption {
            Some(interruption) if interruption.has_come() => return Err(Error::new(EINTR)),
            Some(interruption) => (&COUNT, interruption.before.process),
            None => (&NOTHING, 0),
        };
        // After any other answer the loop looks at the time again.
        if let Err(error @ Error { errno: EINTR }) =
            points::sleeping(|| sync::wait(word, value, Some(end)))
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Called in the child of a fork, whose only thread is the first one.
pub fn forked() {
    FIRST.store(tls::gettid(), Ordering::Relaxed);
    interrupt_no_more();
    // The parent's pipe: its events are the parent's.
    BELL.with(|bell| *bell = None);
    HAS_BELL.store(false, Ordering::Relaxed);
}
