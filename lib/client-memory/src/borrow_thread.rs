//! A thread that borrows pages of programs for a daemon, and lets go of address spaces.
//!
//! The last reference to the address space of a program that was killed meanwhile may go with the
//! end of a borrowing: the thread that drops it waits for the daemons of the program's mappings,
//! and the daemon may be one of them.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hal::lock::Mutex;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use syscall::error::Result;

use crate::borrow::{Borrowed, Borrower, Borrowing, Wanted};

/// The daemon's end: orders to the thread, and what has come of them. `T` names a borrowing.
pub struct Orders<T> {
    shared: Arc<Shared<T>>,
    /// Wakes the thread: a byte for each job.
    wake: Fd,
}

/// The thread's end.
pub struct Work<T> {
    shared: Arc<Shared<T>>,
    borrower: Borrower,
    jobs: Fd,
    tell: Fd,
}

/// State that the thread and the daemon share.
struct Shared<T> {
    jobs: Mutex<Vec<Job<T>>>,
    ended: Mutex<Vec<(T, Result<Borrowed>)>>,
}

/// An order for the address space of a program.
enum Job<T> {
    /// Borrow pages.
    Borrow(T, Fd, Wanted),
    /// Release it.
    Release(Fd),
}

/// A pipe: the end to read from, with these flags, and the end to write to.
///
/// # Errors
/// Those of the kernel's scheme.
pub fn pipe(flags: i32) -> Result<(Fd, Fd)> {
    let output = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC | flags, 0)?;
    let input = Fd::new(output.dup(b"write")?);
    Ok((output, input))
}

/// Opens the kernel's files for borrowing. The caller gives a thread to the second result
/// ([`Work::run`]). A byte comes out of the third one, which never waits, for each borrowing that
/// has come to its end.
///
/// # Errors
/// `EACCES` for callers other than root; those of the kernel's schemes.
pub fn prepare<T>() -> Result<(Orders<T>, Work<T>, Fd)> {
    let shared = Arc::new(Shared {
        jobs: Mutex::new(Vec::new()),
        ended: Mutex::new(Vec::new()),
    });
    let (jobs, wake) = pipe(0)?;
    let (ended, tell) = pipe(O_NONBLOCK)?;
    let work = Work {
        shared: Arc::clone(&shared),
        borrower: Borrower::new()?,
        jobs,
        tell,
    };
    Ok((Orders { shared, wake }, work, ended))
}

impl<T> Orders<T> {
    /// Gives the thread a job.
    fn order(&self, job: Job<T>) -> Result<()> {
        self.shared.jobs.lock().push(job);
        self.wake.write(&[0])?;
        Ok(())
    }

    /// Begins to borrow pages of the program that sent the descriptor `space`.
    ///
    /// # Errors
    /// Those of the pipe to the thread.
    pub fn borrow(&self, name: T, space: Fd, wanted: Wanted) -> Result<()> {
        self.order(Job::Borrow(name, space, wanted))
    }

    /// Lets go of a descriptor that may be an address space.
    pub fn release(&self, space: Fd) {
        if let Err(error) = self.order(Job::Release(space)) {
            log::error!("a program's address space is not released: {error}");
        }
    }

    /// A borrowing that has come to its end.
    pub fn take_ended(&self) -> Option<(T, Result<Borrowed>)> {
        self.shared.ended.lock().pop()
    }
}

impl<T> Work<T> {
    /// Borrows pages, a bounded piece of each borrowing in turn, until the daemon has gone.
    ///
    /// # Errors
    /// Those of the pipes.
    pub fn run(mut self) -> Result<()> {
        let mut begun: VecDeque<(T, Borrowing)> = VecDeque::new();
        loop {
            if begun.is_empty() && self.jobs.read(&mut [0; 64])? == 0 {
                return Ok(());
            }
            let new = core::mem::take(&mut *self.shared.jobs.lock());
            for job in new {
                match job {
                    Job::Borrow(name, space, wanted) => match self.borrower.begin(space, wanted) {
                        Ok(borrowing) => begun.push_back((name, borrowing)),
                        Err(error) => self.end(name, Err(error))?,
                    },
                    Job::Release(space) => drop(space),
                }
            }
            let Some((name, mut borrowing)) = begun.pop_front() else {
                continue;
            };
            match self.borrower.step(&mut borrowing) {
                Ok(()) if borrowing.is_complete() => self.end(name, Ok(borrowing.finish()))?,
                Ok(()) => begun.push_back((name, borrowing)),
                Err(error) => self.end(name, Err(error))?,
            }
        }
    }

    fn end(&self, name: T, result: Result<Borrowed>) -> Result<()> {
        self.shared.ended.lock().push((name, result));
        self.tell.write(&[0])?;
        Ok(())
    }
}
