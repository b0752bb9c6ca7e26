//! FUTEX: sleeping on a word of memory. Words are identified by physical address, so this works
//! across address spaces that share memory.

use ::syscall::{
    data::TimeSpec,
    error::{EAGAIN, EINTR, EINVAL, EOPNOTSUPP, ETIMEDOUT, Error, Result},
    flag::{FUTEX_WAIT, FUTEX_WAIT64, FUTEX_WAKE},
};

use crate::{
    mm::UserBuf,
    proc,
    sched::{
        self, WaitError, futex,
        idle_poll::{self, Beside, Word, Words},
    },
    scheme::event,
    time::spec,
};

/// An operation that Redox does not have: waits for changes of words to which another machine may
/// store ([`poll`]).
const FUTEX_POLL: usize = 64;
/// Bytes of a word's entry in the list: the address, then the value in the lower half of a word.
const ENTRY: usize = 16;

/// Arguments: address, operation, value, address of an absolute monotonic deadline or 0. Only
/// [`poll`] uses the last one.
pub fn futex(
    address: usize,
    operation: usize,
    value: usize,
    deadline: usize,
    queue: usize,
) -> Result<usize> {
    let width = match operation {
        FUTEX_WAIT | FUTEX_WAKE => 4,
        FUTEX_WAIT64 => 8,
        FUTEX_POLL => return poll(address, value, deadline, queue),
        _ => return Err(Error::new(EINVAL)),
    };
    let word = UserBuf::new(address, width)?;
    let key = sched::current_space()?.phys_at(address)?;
    if operation == FUTEX_WAKE {
        return Ok(futex::wake(key, value));
    }
    if !address.is_multiple_of(width) {
        return Err(Error::new(EINVAL));
    }
    let deadline = UserBuf::optional(deadline, size_of::<TimeSpec>())?.map(read_deadline);
    let deadline = deadline.transpose()?;
    if load(word)? != value as u64 & mask(width) {
        return Err(Error::new(EAGAIN));
    }
    match futex::wait(key, address, deadline) {
        Ok(()) => Ok(0),
        Err(WaitError::TimedOut) => Err(Error::new(ETIMEDOUT)),
        Err(WaitError::Interrupted) => Err(Error::new(EINTR)),
    }
}

/// Waits until one of `count` words (1 to [`idle_poll::MAX_WORDS`]) has another value, or is no
/// longer mapped where it was: 1. Returns 0 after `longest` nanoseconds, a millisecond at most.
/// `list` is the address of the list of the words with their former values. The kernel polls the
/// words; a store by a program needs no `FUTEX_WAKE`, which would have no effect. If `queue` is
/// not 0, an event in the event queue of descriptor `queue - 1` also ends the wait, and stays in
/// the queue. `EAGAIN`: too many words are polled already. `EBADF`: the descriptor is no event
/// queue's. `EINVAL`: another count, or a word that is not aligned. `EOPNOTSUPP`: a word is not in
/// RAM.
fn poll(list: usize, count: usize, longest: usize, queue: usize) -> Result<usize> {
    if !(1..=idle_poll::MAX_WORDS).contains(&count) {
        return Err(Error::new(EINVAL));
    }
    let space = sched::current_space()?;
    let list = UserBuf::new(list, count * ENTRY)?;
    let mut words = Words::default();
    for entry in list.chunks(ENTRY) {
        let (address, value) = (entry.word(0)?, entry.word(1)? as u32);
        UserBuf::new(address, size_of::<u32>())?;
        if !address.is_multiple_of(size_of::<u32>()) {
            return Err(Error::new(EINVAL));
        }
        let phys = space.ram_at(address)?;
        words.push(Word {
            address,
            phys: phys.ok_or(Error::new(EOPNOTSUPP))?,
            value,
        })?;
    }
    let longest = longest as u64;
    let ended = match queue.checked_sub(1) {
        None => idle_poll::wait(&words, longest, None),
        Some(descriptor) => {
            let file = proc::file(descriptor)?;
            let queue = event::queue_of(file.scheme(), file.number())?;
            let beside = Beside {
                queue: queue.readers(),
                has_come: &|| queue.has_events(),
            };
            idle_poll::wait(&words, longest, Some(beside))
        }
    };
    ended.map(usize::from)
}

fn mask(width: usize) -> u64 {
    if width == 4 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    }
}

fn read_deadline(buf: UserBuf) -> Result<u64> {
    let mut time = TimeSpec::default();
    buf.read_exact(&mut time)?;
    Ok(u64::try_from(spec::to_nanos(&time)).unwrap_or(u64::MAX))
}

/// The word's value. No other code runs between this and the wait, so no wake-up is lost.
fn load(word: UserBuf) -> Result<u64> {
    let mut bytes = [0_u8; 8];
    word.read(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
