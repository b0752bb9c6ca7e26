//! A thread that borrows pages of programs for a daemon, and releases address spaces.
//!
//! The end of a borrowing may drop the last reference to the address space of a program that was
//! killed meanwhile. The thread that drops it waits for the daemons of the program's mappings, and
//! this daemon may be one of them.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hal::lock::Mutex;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use syscall::error::{EAGAIN, Error, Result};
use syscall::flag::F_SETFL;

use crate::borrow::{Borrowed, Borrower, Borrowing, Wanted};

/// The daemon's end: sends orders to the thread and takes their results. `T` names a borrowing.
pub struct Orders<T> {
    shared: Arc<Shared<T>>,
    /// The pipe that wakes the thread: one byte for each job.
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

/// A job for the thread, on the address space of a program.
enum Job<T> {
    /// Borrow pages, for a party that takes turns with others.
    Borrow(T, usize, Arc<Fd>, Wanted),
    /// Release the address space.
    Release(Arc<Fd>),
}

/// A pipe: the end to read from, which has these flags, and the end to write to.
///
/// # Errors
/// Those of the kernel's scheme.
pub fn pipe(flags: i32) -> Result<(Fd, Fd)> {
    let output = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC | flags, 0)?;
    let input = Fd::new(output.dup(b"write")?);
    Ok((output, input))
}

/// Opens the kernel's files for borrowing. The caller runs the second result on a thread
/// ([`Work::run`]). The third is the reading end of a pipe: it never waits, and holds a byte for
/// each borrowing that has ended.
///
/// # Errors
/// `EACCES` for callers other than root; those of the kernel's schemes.
pub fn prepare<T>() -> Result<(Orders<T>, Work<T>, Fd)> {
    let (orders, jobs) = orders()?;
    let (ended, tell) = pipe(O_NONBLOCK)?;
    let work = Work {
        shared: Arc::clone(&orders.shared),
        borrower: Borrower::new()?,
        jobs,
        tell,
    };
    Ok((orders, work, ended))
}

/// The daemon's end, and the pipe that wakes the thread.
fn orders<T>() -> Result<(Orders<T>, Fd)> {
    let shared = Arc::new(Shared {
        jobs: Mutex::new(Vec::new()),
        ended: Mutex::new(Vec::new()),
    });
    let (jobs, wake) = pipe(0)?;
    // The thread reads nothing while it borrows, and the daemon must not wait for it.
    wake.fcntl(F_SETFL, O_NONBLOCK as usize)?;
    Ok((Orders { shared, wake }, jobs))
}

/// Wakes the reader of a pipe whose writing end does not wait. A full pipe wakes its reader
/// anyway, which then takes everything from the lists.
fn wake_reader(pipe: &Fd) -> Result<()> {
    match pipe.write(&[0]).map_err(Error::from) {
        Ok(_) | Err(Error { errno: EAGAIN }) => Ok(()),
        Err(error) => Err(error),
    }
}

impl<T> Orders<T> {
    /// Sends the thread a job.
    fn order(&self, job: Job<T>) -> Result<()> {
        self.shared.jobs.lock().push(job);
        wake_reader(&self.wake)
    }

    /// Begins to borrow pages of the program that sent the descriptor `space`. Parties take turns:
    /// one does not get more pages in a time by having more borrowings under way.
    ///
    /// # Errors
    /// Those of the pipe to the thread.
    pub fn borrow(&self, name: T, party: usize, space: Arc<Fd>, wanted: Wanted) -> Result<()> {
        self.order(Job::Borrow(name, party, space, wanted))
    }

    /// Drops a reference to a descriptor that may be an address space. The daemon drops none by
    /// itself, as it could be the last.
    pub fn release(&self, space: Arc<Fd>) {
        if let Err(error) = self.order(Job::Release(space)) {
            log::error!("a program's address space is not released: {error}");
        }
    }

    /// Takes a borrowing that has ended.
    pub fn take_ended(&self) -> Option<(T, Result<Borrowed>)> {
        self.shared.ended.lock().pop()
    }
}

impl<T> Work<T> {
    /// Borrows pages, a bounded number for each party in turn, until the daemon is gone.
    ///
    /// # Errors
    /// Those of the pipes.
    pub fn run(mut self) -> Result<()> {
        let mut begun: Turns<(T, Borrowing)> = Turns::default();
        loop {
            if begun.is_empty() && self.jobs.read(&mut [0; 64])? == 0 {
                return Ok(());
            }
            let new = core::mem::take(&mut *self.shared.jobs.lock());
            for job in new {
                match job {
                    Job::Borrow(name, party, space, wanted) => {
                        match self.borrower.begin(space, wanted) {
                            Ok(borrowing) => begun.push(party, (name, borrowing)),
                            Err(error) => self.end(name, Err(error))?,
                        }
                    }
                    Job::Release(space) => drop(space),
                }
            }
            let Some((party, (name, mut borrowing))) = begun.pop() else {
                continue;
            };
            match self.borrower.step(&mut borrowing) {
                Ok(()) if borrowing.is_complete() => self.end(name, Ok(borrowing.finish()))?,
                Ok(()) => begun.push(party, (name, borrowing)),
                Err(error) => self.end(name, Err(error))?,
            }
        }
    }

    fn end(&self, name: T, result: Result<Borrowed>) -> Result<()> {
        self.shared.ended.lock().push((name, result));
        wake_reader(&self.tell)
    }
}

/// Things of several parties, which take turns.
struct Turns<B> {
    /// The things of each party, the party of the next turn first.
    parties: VecDeque<(usize, VecDeque<B>)>,
}

impl<B> Default for Turns<B> {
    fn default() -> Self {
        Self {
            parties: VecDeque::new(),
        }
    }
}

impl<B> Turns<B> {
    fn is_empty(&self) -> bool {
        self.parties.is_empty()
    }

    /// Adds a thing behind the others of its party.
    fn push(&mut self, party: usize, thing: B) {
        match self.parties.iter_mut().find(|(of, _)| *of == party) {
            Some((_, things)) => things.push_back(thing),
            None => self.parties.push_back((party, [thing].into())),
        }
    }

    /// Takes the first thing of the party whose turn it is.
    fn pop(&mut self) -> Option<(usize, B)> {
        let (party, mut things) = self.parties.pop_front()?;
        let thing = things.pop_front()?;
        if !things.is_empty() {
            self.parties.push_back((party, things));
        }
        Some((party, thing))
    }
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;
    use core::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};

    use hal::testing::host::{Request, play};
    use syscall::error::ENOSYS;

    use super::*;

    /// Bytes that a pipe has room for.
    const ROOM: usize = 65_536;

    /// Pipes that nobody reads. `filled` has the bytes in each, by its writing end, whose number
    /// is one above that of the reading end; `unwaiting` has the ends that never wait.
    #[derive(Default)]
    struct Pipes {
        filled: BTreeMap<usize, usize>,
        unwaiting: BTreeSet<usize>,
    }

    impl Pipes {
        fn answer(&mut self, request: &Request<'_>) -> Result<usize> {
            match *request {
                Request::Open(_) => Ok(10 + 2 * self.filled.len()),
                Request::Dup(end, b"write") => {
                    self.filled.insert(end + 1, 0);
                    Ok(end + 1)
                }
                Request::Write(end, bytes) => {
                    let filled = self.filled.get_mut(&end).unwrap();
                    if *filled == ROOM {
                        assert!(self.unwaiting.contains(&end), "it waits for a reader");
                        return Err(Error::new(EAGAIN));
                    }
                    *filled += bytes.len();
                    Ok(bytes.len())
                }
                Request::Control(end, F_SETFL, flags) => {
                    if flags & O_NONBLOCK as usize != 0 {
                        self.unwaiting.insert(end);
                    }
                    Ok(0)
                }
                Request::Close(_) => Ok(0),
                _ => Err(Error::new(ENOSYS)),
            }
        }
    }

    #[test]
    fn a_party_with_many_borrowings_has_as_many_turns_as_one_with_few() {
        let mut turns = Turns::default();
        for number in 0..100 {
            turns.push(7, number);
        }
        turns.push(9, 100);
        turns.push(3, 101);
        turns.push(3, 102);
        let mut taken = Vec::new();
        while let Some((party, thing)) = turns.pop() {
            taken.push((party, thing));
            // As a borrowing that takes three steps.
            if party == 9 && taken.iter().filter(|(of, _)| *of == 9).count() < 3 {
                turns.push(party, thing);
            }
        }
        let first = [7, 9, 3, 7, 9, 3, 7, 9, 7];
        let parties: Vec<usize> = taken.iter().map(|(party, _)| *party).collect();
        assert_eq!(parties[..first.len()], first);
        assert_eq!(taken.len(), 105);
        let of_many = taken.iter().filter(|(party, _)| *party == 7);
        assert!(of_many.map(|(_, thing)| *thing).eq(0..100), "in order");
        assert!(turns.is_empty());
    }

    #[test]
    fn orders_wait_for_no_thread_that_is_busy() {
        let pipes = Rc::new(RefCell::new(Pipes::default()));
        let system = Rc::clone(&pipes);
        let answer = move |request: Request<'_>| system.borrow_mut().answer(&request);
        play(answer, || {
            let (orders, _jobs) = orders::<()>().unwrap();
            for _ in 0..=ROOM {
                orders.order(Job::Release(Arc::new(Fd::new(3)))).unwrap();
            }
            assert_eq!(orders.shared.jobs.lock().len(), ROOM + 1);
        });
    }
}
