//! Which descriptor numbers are in use.
//!
//! The kernel lets the caller choose the number of every new descriptor, so a process keeps its own
//! record: the lowest free number of the plain table for ordinary descriptors, and the upper table
//! (numbers with `UPPER_FDTBL_TAG`) for those that belong to libraries and must not be met by a
//! program that counts descriptors.

use alloc::vec::Vec;

use syscall::error::{EBADF, EMFILE, Error, Result};
use syscall::flag::UPPER_FDTBL_TAG;

use crate::sync::Mutex;

/// Numbers per table, the kernel's limit.
const LIMIT: usize = 65_536;
const WORDS: usize = LIMIT / 64;

struct Table {
    used: [u64; WORDS],
    /// No free number lies in a word before this one.
    first_free_word: usize,
}

impl Table {
    const fn new() -> Self {
        Table {
            used: [0; WORDS],
            first_free_word: 0,
        }
    }

    fn reserve(&mut self) -> Option<usize> {
        for word in self.first_free_word..WORDS {
            let bit = self.used[word].trailing_ones() as usize;
            if bit < 64 {
                self.used[word] |= 1 << bit;
                self.first_free_word = word;
                return Some(word * 64 + bit);
            }
        }
        self.first_free_word = WORDS;
        None
    }

    fn mark(&mut self, number: usize) -> bool {
        let bit = 1 << (number % 64);
        let word = &mut self.used[number / 64];
        let was_free = *word & bit == 0;
        *word |= bit;
        was_free
    }

    fn release(&mut self, number: usize) {
        self.used[number / 64] &= !(1 << (number % 64));
        self.first_free_word = self.first_free_word.min(number / 64);
    }
}

static PLAIN: Mutex<Table> = Mutex::new(Table::new());
static UPPER: Mutex<Table> = Mutex::new(Table::new());

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
            let numbers = (0..64).filter(|bit| word >> bit & 1 == 1);
            all.extend(numbers.map(|bit| (index * 64 + bit) | tag));
        }
    }
    all
}

/// Keeps the tables as they are as long as the result lives.
pub(crate) fn hold() -> impl Sized {
    (PLAIN.lock(), UPPER.lock())
}

/// Reserves the lowest free plain number.
pub fn reserve() -> Result<usize> {
    PLAIN.lock().reserve().ok_or(Error::new(EMFILE))
}

/// Reserves a free number of the upper table.
pub fn reserve_upper() -> Result<usize> {
    UPPER
        .lock()
        .reserve()
        .map(|n| n | UPPER_FDTBL_TAG)
        .ok_or(Error::new(EMFILE))
}

/// Records that `fd` is in use (EBADF when the number cannot exist); whether it was free.
pub fn mark(fd: usize) -> Result<bool> {
    let (table, number) = table_of(fd)?;
    Ok(table.lock().mark(number))
}

/// Records that `fd` is free; unknown numbers are ignored.
pub fn release(fd: usize) {
    if let Ok((table, number)) = table_of(fd) {
        table.lock().release(number);
    }
}
