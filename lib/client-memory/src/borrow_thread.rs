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
    /// The pipe that wakes the thread: one byte for each order.
    wake: Fd,
}

/// The thread's end.
pub struct Work<T> {
    shared: Arc<Shared<T>>,
    borrower: Borrower,
    orders: Fd,
    tell: Fd,
}

/// State that the thread and the daemon share.
struct Shared<T> {
    queue: Mutex<Queue<T, Borrowing>>,
    ended: Mutex<Vec<(T, Result<Borrowed>)>>,
}

/// A borrowing that was ordered. To begin one takes memory for the list of the program's mappings,
/// so a job waits for its turn without it. `B` is what has begun.
enum Job<B> {
    /// Not begun: these pages of this address space.
    New(Arc<Fd>, Wanted),
    /// Begun: at most one of each party.
    Begun(B),
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
    let (orders, read) = orders()?;
    let (ended, tell) = pipe(O_NONBLOCK)?;
    let work = Work {
        shared: Arc::clone(&orders.shared),
        borrower: Borrower::new()?,
        orders: read,
        tell,
    };
    Ok((orders, work, ended))
}

/// The daemon's end, and the pipe that wakes the thread.
fn orders<T>() -> Result<(Orders<T>, Fd)> {
    let shared = Arc::new(Shared {
        queue: Mutex::new(Queue::default()),
        ended: Mutex::new(Vec::new()),
    });
    let (read, wake) = pipe(0)?;
    // The thread reads nothing while it borrows, and the daemon must not wait for it.
    wake.fcntl(F_SETFL, O_NONBLOCK as usize)?;
    Ok((Orders { shared, wake }, read))
}

/// Wakes the reader of a pipe whose writing end does not wait. A full pipe wakes its reader
/// anyway, which then takes everything from the lists.
fn wake_reader(pipe: &Fd) -> Result<()> {
    match pipe.write(&[0]).map_err(Error::from) {
        Ok(_) | Err(Error { errno: EAGAIN }) => Ok(()),
        Err(error) => Err(error),
    }
}

impl<T: Copy + PartialEq> Orders<T> {
    /// Gives the thread an order.
    fn order(&self, give: impl FnOnce(&mut Queue<T, Borrowing>)) -> Result<()> {
        give(&mut self.shared.queue.lock());
        wake_reader(&self.wake)
    }

    /// Begins to borrow pages of the program that sent the descriptor `space`. Parties take turns:
    /// one does not get more pages in a time by having more borrowings under way.
    ///
    /// # Errors
    /// Those of the pipe to the thread.
    pub fn borrow(&self, name: T, party: usize, space: Arc<Fd>, wanted: Wanted) -> Result<()> {
        let job = Job::New(space, wanted);
        self.order(|queue| queue.turns.push(party, (name, job)))
    }

    /// Gives up a borrowing. Its result, unless it has ended before, is not reported.
    pub fn cancel(&self, name: T) {
        if let Err(error) = self.order(|queue| queue.cancel(name)) {
            log::error!("the memory for a borrowing that was given up is kept: {error}");
        }
    }

    /// Drops a reference to a descriptor that may be an address space. The daemon drops none by
    /// itself, as it could be the last.
    pub fn release(&self, space: Arc<Fd>) {
        if let Err(error) = self.order(|queue| queue.released.push(space)) {
            log::error!("a program's address space is not released: {error}");
        }
    }

    /// Takes a borrowing that has ended.
    pub fn take_ended(&self) -> Option<(T, Result<Borrowed>)> {
        self.shared.ended.lock().pop()
    }
}

impl<T: Copy + PartialEq> Work<T> {
    /// Borrows pages, a bounded number for each party in turn, until the daemon is gone.
    ///
    /// # Errors
    /// Those of the pipes.
    pub fn run(mut self) -> Result<()> {
        loop {
            let is_idle = self.shared.queue.lock().is_empty();
            if is_idle && self.orders.read(&mut [0; 64])? == 0 {
                return Ok(());
            }
            // Dropped while nothing is locked: it may take long.
            let over = self.shared.queue.lock().take_over();
            drop(over);
            let turn = self.shared.queue.lock().next();
            let Some((party, name, job)) = turn else {
                continue;
            };
            let result = match self.step(job) {
                Ok(borrowing) if borrowing.is_complete() => Ok(borrowing.finish()),
                Ok(borrowing) => {
                    self.shared.queue.lock().put_back(party, name, borrowing);
                    continue;
                }
                Err(error) => Err(error),
            };
            if self.shared.queue.lock().end_turn() {
                self.shared.ended.lock().push((name, result));
                wake_reader(&self.tell)?;
            }
        }
    }

    /// Begins a borrowing, or borrows some more of its pages.
    fn step(&mut self, job: Job<Borrowing>) -> Result<Borrowing> {
        match job {
            Job::New(space, wanted) => self.borrower.begin(space, wanted),
            Job::Begun(mut borrowing) => {
                self.borrower.step(&mut borrowing)?;
                Ok(borrowing)
            }
        }
    }
}

/// What the thread has to do.
struct Queue<T, B> {
    turns: Turns<(T, Job<B>)>,
    /// The job whose turn it is, unless it was cancelled meanwhile.
    current: Option<T>,
    /// Jobs that were cancelled, and references to address spaces, for the thread to drop.
    cancelled: Vec<Job<B>>,
    released: Vec<Arc<Fd>>,
}

impl<T, B> Default for Queue<T, B> {
    fn default() -> Self {
        Self {
            turns: Turns::default(),
            current: None,
            cancelled: Vec::new(),
            released: Vec::new(),
        }
    }
}

impl<T: Copy + PartialEq, B> Queue<T, B> {
    fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.cancelled.is_empty() && self.released.is_empty()
    }

    /// Takes what is to be dropped.
    fn take_over(&mut self) -> (Vec<Job<B>>, Vec<Arc<Fd>>) {
        let cancelled = core::mem::take(&mut self.cancelled);
        (cancelled, core::mem::take(&mut self.released))
    }

    /// Takes the job whose turn it is, with its party and name.
    fn next(&mut self) -> Option<(usize, T, Job<B>)> {
        let (party, (name, job)) = self.turns.pop()?;
        self.current = Some(name);
        Some((party, name, job))
    }

    /// Ends the turn of a borrowing of which pages are left. The party goes on with it.
    fn put_back(&mut self, party: usize, name: T, begun: B) {
        match self.end_turn() {
            true => self.turns.push_front(party, (name, Job::Begun(begun))),
            false => self.cancelled.push(Job::Begun(begun)),
        }
    }

    /// Ends a turn. Returns whether its job was not cancelled meanwhile.
    fn end_turn(&mut self) -> bool {
        self.current.take().is_some()
    }

    fn cancel(&mut self, name: T) {
        if self.current == Some(name) {
            self.current = None;
        }
        if let Some((_, job)) = self.turns.take(|(of, _)| *of == name) {
            self.cancelled.push(job);
        }
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

    /// The things of a party. They are not left empty.
    fn of(&mut self, party: usize) -> &mut VecDeque<B> {
        let place = self.parties.iter().position(|(of, _)| *of == party);
        let place = place.unwrap_or_else(|| {
            self.parties.push_back((party, VecDeque::new()));
            self.parties.len() - 1
        });
        &mut self.parties[place].1
    }

    /// Adds a thing behind the others of its party.
    fn push(&mut self, party: usize, thing: B) {
        self.of(party).push_back(thing);
    }

    /// Adds a thing in front of the others of its party.
    fn push_front(&mut self, party: usize, thing: B) {
        self.of(party).push_front(thing);
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

    /// Takes the first thing that `is_it` selects.
    fn take(&mut self, is_it: impl Fn(&B) -> bool) -> Option<B> {
        for place in 0..self.parties.len() {
            let things = &mut self.parties[place].1;
            if let Some(at) = things.iter().position(&is_it) {
                let thing = things.remove(at);
                if things.is_empty() {
                    self.parties.remove(place);
                }
                return thing;
            }
        }
        None
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
            let (orders, _read) = orders::<()>().unwrap();
            for _ in 0..=ROOM {
                orders.release(Arc::new(Fd::new(3)));
            }
            assert_eq!(orders.shared.queue.lock().released.len(), ROOM + 1);
        });
    }

    const WANTED: Wanted = Wanted {
        address: 0x1000,
        bytes: 0x1000,
        writable: true,
    };

    /// A queue of jobs, by party and name, none of which has begun.
    fn queue(jobs: impl IntoIterator<Item = (usize, u32)>) -> Queue<u32, u32> {
        let mut queue = Queue::default();
        for (party, name) in jobs {
            let job = Job::New(Arc::new(Fd::new(3)), WANTED);
            queue.turns.push(party, (name, job));
        }
        queue
    }

    /// Does a turn of a borrowing that never ends. Returns its party and name, and whether it had
    /// begun before.
    fn turn(queue: &mut Queue<u32, u32>) -> Option<(usize, u32, bool)> {
        let (party, name, job) = queue.next()?;
        queue.put_back(party, name, name);
        Some((party, name, matches!(job, Job::Begun(_))))
    }

    /// Each borrowing that has begun holds a list of mappings.
    #[test]
    fn a_party_begins_one_borrowing_at_a_time_and_on_its_turn() {
        let jobs = (0..100).map(|name| (7, name)).chain([(9, 100)]);
        let mut queue = queue(jobs);
        assert_eq!(turn(&mut queue), Some((7, 0, false)));
        assert_eq!(turn(&mut queue), Some((9, 100, false)), "after one of 7");
        for _ in 0..50 {
            assert_eq!(turn(&mut queue), Some((7, 0, true)));
            assert_eq!(turn(&mut queue), Some((9, 100, true)));
        }
        // The first one ends.
        let (party, name, _) = queue.next().unwrap();
        assert_eq!((party, name, queue.end_turn()), (7, 0, true));
        assert_eq!(turn(&mut queue), Some((9, 100, true)));
        assert_eq!(turn(&mut queue), Some((7, 1, false)));
    }

    #[test]
    fn a_cancelled_borrowing_is_never_begun_and_goes_on_no_more() {
        play(
            |_| Ok(0),
            || {
                let mut queue = queue([(7, 0), (7, 1), (9, 2), (7, 3)]);
                queue.cancel(1);
                queue.cancel(2);
                queue.cancel(55);
                assert_eq!(queue.take_over().0.len(), 2);
                assert_eq!(turn(&mut queue), Some((7, 0, false)));
                // Between two turns.
                queue.cancel(0);
                assert_eq!(turn(&mut queue), Some((7, 3, false)));
                // During its turn.
                let (party, name, _) = queue.next().unwrap();
                queue.cancel(name);
                queue.put_back(party, name, name);
                assert_eq!(turn(&mut queue), None);
                assert_eq!(queue.take_over().0.len(), 2);
                assert!(queue.is_empty());
                // During its last turn.
                queue.turns.push(7, (4, Job::Begun(4)));
                queue.next().unwrap();
                queue.cancel(4);
                assert!(!queue.end_turn(), "nobody waits for the result");
            },
        );
    }
}
