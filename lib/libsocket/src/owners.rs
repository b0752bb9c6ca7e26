//! How many processes have a socket: each `fork` makes one more. Only the last one that closes it
//! ends what is behind it.

use alloc::vec::Vec;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicUsize, Ordering};

use runtime::sync::Mutex;
use runtime::{fd, sys};
use syscall::PAGE_SIZE;
use syscall::error::ENOMEM;
use syscall::flag::MapFlags;

use crate::Result;
use crate::count::{Count, Turn};

/// The socket has not been in a process that forked.
const ALONE: usize = 0;
/// It is another process's, however many have it.
const FOREIGN: usize = 1;

/// Pages of counts that this process shares with those that it was forked from and forks. A process
/// that was killed counts for ever.
static PAGES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
const WORDS: usize = PAGE_SIZE / size_of::<Count>();

/// The processes that have a socket.
#[derive(Default)]
pub struct Owners(AtomicUsize);

fn count_at(address: usize) -> &'static Count {
    // SAFETY: an aligned word of a page that is mapped for ever, and changed by atomic operations
    // only.
    unsafe { &*with_exposed_provenance(address) }
}

/// The address of a count of one.
fn new_count() -> Result<usize> {
    let mut pages = PAGES.lock();
    let places = |page: usize| (0..WORDS).map(move |index| page + index * size_of::<Count>());
    let take = |address: &usize| count_at(*address).take();
    if let Some(address) = pages.iter().copied().flat_map(places).find(take) {
        return Ok(address);
    }
    let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let page = unsafe { fd::mmap(sys::NO_FD, 0, PAGE_SIZE, 0, flags) };
    let page = page.map_err(|error| error.errno)?;
    pages.push(page);
    // The page is new, and the list is locked.
    count_at(page).take();
    Ok(page)
}

impl Owners {
    fn count(&self) -> Option<&'static Count> {
        match self.0.load(Ordering::Acquire) {
            ALONE | FOREIGN => None,
            address => Some(count_at(address)),
        }
    }

    /// Counts a process more, which is about to be forked.
    ///
    /// # Errors
    /// `ENOMEM`, also when there are as many as can be counted.
    pub fn add(&self) -> Result<()> {
        if self.0.load(Ordering::Acquire) == ALONE {
            self.0.store(new_count()?, Ordering::Release);
        }
        match self.count().is_none_or(Count::add) {
            true => Ok(()),
            false => Err(ENOMEM),
        }
    }

    /// Counts a process less, which is not the last one: it was not forked after all.
    pub fn remove(&self) {
        if let Some(count) = self.count() {
            count.leave();
        }
    }

    /// Whether other processes have it. Once none has, none will: only a process that has it can
    /// fork.
    pub fn is_shared(&self) -> bool {
        match self.0.load(Ordering::Acquire) {
            ALONE => false,
            FOREIGN => true,
            address => count_at(address).is_shared(),
        }
    }

    /// Counts this process less; whether it was the last one.
    pub fn leave(&self) -> bool {
        match self.0.swap(FOREIGN, Ordering::AcqRel) {
            ALONE => true,
            FOREIGN => false,
            address => count_at(address).leave(),
        }
    }

    /// Counts this process less unless it is the only one.
    pub fn leave_to_others(&self) -> Option<Turn> {
        self.count()?.leave_to_others()
    }

    /// Ends what [`leave_to_others`](Self::leave_to_others) has done. If all others have closed the
    /// socket meanwhile, it has ended, and this process has nothing to end.
    pub fn come_back(&self, turn: Turn) {
        if self.count().is_some_and(|count| !count.come_back(turn)) {
            self.disown();
        }
    }

    /// Says that it is another process's.
    pub fn disown(&self) {
        self.0.store(FOREIGN, Ordering::Release);
    }
}
