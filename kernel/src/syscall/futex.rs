//! FUTEX: sleeping on a word of memory. Keyed by physical address, so that it works across
//! address spaces that share the memory.

use ::syscall::{
    data::TimeSpec,
    error::{EAGAIN, EINTR, EINVAL, ETIMEDOUT, Error, Result},
    flag::{FUTEX_WAIT, FUTEX_WAIT64, FUTEX_WAKE},
};

use crate::{
    mm::UserBuf,
    sched::{self, WaitError, futex},
    time::spec,
};

/// Arguments: address, operation, value, address of an absolute monotonic deadline or 0.
pub fn futex(address: usize, operation: usize, value: usize, deadline: usize) -> Result<usize> {
    let width = match operation {
        FUTEX_WAIT | FUTEX_WAKE => 4,
        FUTEX_WAIT64 => 8,
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
    match futex::wait(key, deadline) {
        Ok(()) => Ok(0),
        Err(WaitError::TimedOut) => Err(Error::new(ETIMEDOUT)),
        Err(WaitError::Interrupted) => Err(Error::new(EINTR)),
    }
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

/// The word's value. Nothing else runs between this and the wait, so no wake-up is lost.
fn load(word: UserBuf) -> Result<u64> {
    let mut bytes = [0_u8; 8];
    word.read(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
