//! Records which descriptor numbers are in use.
//!
//! The kernel lets the caller choose the number of every new descriptor, so a process keeps its
//! own record. Ordinary descriptors get the lowest free number of the plain table. Descriptors
//! that belong to libraries get numbers of the upper table (with `UPPER_FDTBL_TAG`), where
//! programs that count descriptors do not find them.
//!
//! Record and kernel change one after the other. In between, the number is *under way*: no other
//! thread may change it then, or the record would differ from the kernel for ever.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use syscall::error::{EBADF, EBUSY, EEXIST, EINVAL, EMFILE, ENOMEM, Error, Result};
use syscall::flag::UPPER_FDTBL_TAG;

use crate::sync::Mutex;
use crate::sys;

/// Numbers per table, the kernel's limit. It also limits the descriptors of both tables together.
const LIMIT: usize = 65_536;
const WORDS: usize = LIMIT / 64;

/// What a thread is doing to a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    /// It is about to get a new descriptor.
    Opens,
    /// Its descriptor, if it has one, is about to be replaced.
    Replaces,
    /// Its descriptor is about to be closed.
    Closes,
}

/// One bit for each number, changed only under the lock of its table. It is not part of the table:
/// a static in which a single value is not zero takes its full size in each program's file.
type Used = [AtomicU64; WORDS];

static PLAIN_USED: Used = [const { AtomicU64::new(0) }; WORDS];
static UPPER_USED: Used = [const { AtomicU64::new(0) }; WORDS];

/// Count of numbers in use in both tables.
static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Table {
    used: &'static Used,
    /// No word before this one has a free number.
    first_free_word: usize,
    /// The numbers under way; each thread has one at most.
    under_way: Vec<(usize, Act)>,
}

impl Table {
    const fn new(used: &'static Used) -> Self {
        Table {
            used,
            first_free_word: 0,
            under_way: Vec::new(),
        }
    }

    /// Reserves the lowest free number that is `least` or more.
    fn reserve(&mut self, least: usize) -> Result<usize> {
        // The kernel has no distinct error for this limit.
        if COUNT.load(Ordering::Relaxed) >= LIMIT {
            return Err(Error::new(EMFILE));
        }
        let first = self.first_free_word.max(least / 64);
        for word in first..WORDS {
            let too_low = match word * 64 < least {
                true => (1 << (least % 64)) - 1,
                false => 0,
            };
            let used = self.used[word].load(Ordering::Relaxed) | too_low;
            let bit = used.trailing_ones() as usize;
            if bit < 64 {
                let number = word * 64 + bit;
                self.begin(number, Act::Opens)?;
                self.mark(number);
                // Words were skipped also for lying below `least`.
                if least == 0 {
                    self.first_free_word = word;
                }
                return Ok(number);
            }
        }
        Err(Error::new(EMFILE))
    }

    fn begin(&mut self, number: usize, act: Act) -> Result<()> {
        let room = self.under_way.try_reserve(1);
        room.map_err(|_| Error::new(ENOMEM))?;
        self.under_way.push((number, act));
        Ok(())
    }

    fn act(&self, number: usize) -> Option<Act> {
        let mut under_way = self.under_way.iter();
        let found = under_way.find(|(other, _)| *other == number);
        found.map(|(_, act)| *act)
    }

    fn end(&mut self, number: usize) {
        self.under_way.retain(|(other, _)| *other != number);
    }

    fn is_used(&self, number: usize) -> bool {
        let word = self.used[number / 64].load(Ordering::Relaxed);
        word >> (number % 64) & 1 == 1
    }

    fn mark(&mut self, number: usize) -> bool {
        let bit = 1 << (number % 64);
        let was_free = self.used[number / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0;
        COUNT.fetch_add(usize::from(was_free), Ordering::Relaxed);
        was_free
    }

    fn release(&mut self, number: usize) {
        self.end(number);
        let bit = 1 << (number % 64);
        let was_used = self.used[number / 64].fetch_and(!bit, Ordering::Relaxed) & bit != 0;
        COUNT.fetch_sub(usize::from(was_used), Ordering::Relaxed);
        self.first_free_word = self.first_free_word.min(number / 64);
    }
}

static PLAIN: Mutex<Table> = Mutex::new(Table::new(&PLAIN_USED));
static UPPER: Mutex<Table> = Mutex::new(Table::new(&UPPER_USED));

fn table_of(fd: usize) -> Result<(&'static Mutex<Table>, usize)> {
    let number = fd & !UPPER_FDTBL_TAG;
    if number >= LIMIT {
        return Err(Error::new(EBADF));
    }
    Ok((
        if fd & UPPER_FDTBL_TAG != 0 {
            &UPPER
        } else {
            &PLAIN
        },
        number,
    ))
}

/// All numbers that are in use or reserved, those of the upper table last.
pub fn used() -> Vec<usize> {
    let mut all = Vec::new();
    for (table, tag) in [(&PLAIN, 0), (&UPPER, UPPER_FDTBL_TAG)] {
        let table = table.lock();
        for (index, word) in table.used.iter().enumerate() {
            let word = word.load(Ordering::Relaxed);
            let numbers = (0..64).filter(|bit| word >> bit & 1 == 1);
            all.extend(numbers.map(|bit| (index * 64 + bit) | tag));
        }
    }
    all
}

/// Locks both tables as long as the result lives.
pub(crate) fn hold() -> impl Sized {
    (PLAIN.lock(), UPPER.lock())
}

/// Reserves the lowest free plain number, until [`opened`] or [`release`].
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
pub fn reserve() -> Result<usize> {
    reserve_from(0)
}

/// As [`reserve`], in the upper table.
pub fn reserve_upper() -> Result<usize> {
    reserve_from(UPPER_FDTBL_TAG)
}

/// As [`reserve`], for the lowest free number from `least` on, in the table of `least`.
///
/// # Errors
/// `EINVAL` if `least` is no number of a descriptor; `EMFILE`, `ENOMEM`.
pub fn reserve_from(least: usize) -> Result<usize> {
    let (table, number) = table_of(least).map_err(|_| Error::new(EINVAL))?;
    let reserved = table.lock().reserve(number)?;
    Ok(reserved | least & UPPER_FDTBL_TAG)
}

/// As [`reserve`], for a certain number of either table.
///
/// # Errors
/// `EBADF` if the number cannot exist; `EEXIST` if it is in use; `ENOMEM`.
pub fn take(fd: usize) -> Result<()> {
    let (table, number) = table_of(fd)?;
    let mut table = table.lock();
    if table.is_used(number) {
        return Err(Error::new(EEXIST));
    }
    table.begin(number, Act::Opens)?;
    table.mark(number);
    Ok(())
}

/// Records that a reserved number now has its descriptor.
pub fn opened(fd: usize) {
    if let Ok((table, number)) = table_of(fd) {
        table.lock().end(number);
    }
}

/// Begins to replace the descriptor `fd`, until [`replaced`]. Returns whether the number is free.
///
/// # Errors
/// `EBADF` if the number cannot exist; `EBUSY` if another thread is about to open it; `ENOMEM`.
pub fn replace(fd: usize) -> Result<bool> {
    let (table, number) = table_of(fd)?;
    alone(table, number, |table, act| match act {
        Some(_) => Err(Error::new(EBUSY)),
        None => {
            table.begin(number, Act::Replaces)?;
            Ok(table.mark(number))
        }
    })
}

/// Ends what [`replace`] began; `is_open`: the number now has a descriptor.
pub fn replaced(fd: usize, is_open: bool) {
    match is_open {
        true => opened(fd),
        false => release(fd),
    }
}

/// Begins to close `fd`, until [`release`].
///
/// # Errors
/// `EBADF` if the number is free, or if another thread is closing it or has not opened it yet.
pub fn close(fd: usize) -> Result<()> {
    let (table, number) = table_of(fd)?;
    alone(table, number, |table, act| match act {
        Some(_) => Err(Error::new(EBADF)),
        // Another thread may take a free number meanwhile, and releasing it would free it again.
        None if !table.is_used(number) => Err(Error::new(EBADF)),
        None => {
            // Closing must not fail for lack of memory; then other threads are not kept from the
            // number.
            let _ = table.begin(number, Act::Closes);
            Ok(())
        }
    })
}

/// Runs `action` with the act under way on a number, once no other thread is replacing it.
fn alone<T>(
    table: &Mutex<Table>,
    number: usize,
    action: impl FnOnce(&mut Table, Option<Act>) -> T,
) -> T {
    loop {
        let mut held = table.lock();
        let act = held.act(number);
        if act != Some(Act::Replaces) {
            return action(&mut held, act);
        }
        drop(held);
        // This lasts as long as one system call.
        sys::yield_now();
    }
}

/// Forgets what other threads were doing, when there are none any more: in the child of a fork, and
/// before another program replaces this one.
pub fn forget_under_way() {
    PLAIN.lock().under_way.clear();
    UPPER.lock().under_way.clear();
}

/// Records that `fd` is in use (EBADF when the number cannot exist).
pub fn mark(fd: usize) -> Result<()> {
    let (table, number) = table_of(fd)?;
    table.lock().mark(number);
    Ok(())
}

/// Records that `fd` is free; unknown numbers are ignored.
pub fn release(fd: usize) {
    if let Ok((table, number)) = table_of(fd) {
        table.lock().release(number);
    }
}
