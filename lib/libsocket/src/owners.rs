//! How many processes have a socket: each `fork` makes one more. Only the last one that closes it
//! ends what is behind it.

use alloc::vec::Vec;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use runtime::sync::Mutex;
use runtime::{fd, sys};
use syscall::PAGE_SIZE;
use syscall::flag::MapFlags;

use crate::Result;

/// The socket has not been in a process that forked.
const ALONE: usize = 0;
/// It is another process's, however many have it.
const FOREIGN: usize = 1;

/// Pages of words that this process shares with those that it was forked from and forks. A word is
/// 0 while it is free, else the number of the processes that have a socket; one that was killed
/// counts for ever.
static PAGES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
const WORDS: usize = PAGE_SIZE / size_of::<AtomicU32>();

/// The processes that have a socket.
#[derive(Default)]
pub struct Owners(AtomicUsize);

fn word_at(address: usize) -> &'static AtomicU32 {
    // SAFETY: an aligned word of a page that is mapped for ever, and changed by atomic operations
    // only.
    unsafe { &*with_exposed_provenance(address) }
}

/// A word that counts one.
fn new_word() -> Result<usize> {
    let mut pages = PAGES.lock();
    let places = |page: usize| (0..WORDS).map(move |index| page + index * size_of::<AtomicU32>());
    let take = |address: &usize| {
        let (order, otherwise) = (Ordering::AcqRel, Ordering::Relaxed);
        let taken = word_at(*address).compare_exchange(0, 1, order, otherwise);
        taken.is_ok()
    };
    if let Some(address) = pages.iter().copied().flat_map(places).find(take) {
        return Ok(address);
    }
    let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let page = unsafe { fd::mmap(sys::NO_FD, 0, PAGE_SIZE, 0, flags) };
    let page = page.map_err(|error| error.errno)?;
    pages.push(page);
    word_at(page).store(1, Ordering::Release);
    Ok(page)
}

impl Owners {
    fn word(&self) -> Option<&'static AtomicU32> {
        match self.0.load(Ordering::Acquire) {
            ALONE | FOREIGN => None,
            address => Some(word_at(address)),
        }
    }

    /// Counts a process more, which is about to be forked.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn add(&self) -> Result<()> {
        if self.0.load(Ordering::Acquire) == ALONE {
            self.0.store(new_word()?, Ordering::Release);
        }
        if let Some(word) = self.word() {
            word.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Counts a process less, which is not the last one: it was not forked after all.
    pub fn remove(&self) {
        if let Some(word) = self.word() {
            word.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Counts this process less; whether it was the last one.
    pub fn leave(&self) -> bool {
        match self.0.swap(FOREIGN, Ordering::AcqRel) {
            ALONE => true,
            FOREIGN => false,
            address => word_at(address).fetch_sub(1, Ordering::AcqRel) == 1,
        }
    }

    /// Counts this process less unless it is the only one; whether it was counted.
    pub fn leave_to_others(&self) -> bool {
        let less = |count: u32| (count > 1).then(|| count - 1);
        let (order, otherwise) = (Ordering::AcqRel, Ordering::Acquire);
        let word = self.word();
        word.is_some_and(|word| word.fetch_update(order, otherwise, less).is_ok())
    }

    /// Ends what [`leave_to_others`](Self::leave_to_others) has done.
    pub fn come_back(&self) {
        if let Some(word) = self.word() {
            word.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Says that it is another process's.
    pub fn disown(&self) {
        self.0.store(FOREIGN, Ordering::Release);
    }
}
