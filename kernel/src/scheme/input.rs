//! Reads typed bytes, for the schemes `debug` and `serio`.

use ::syscall::{
    EventFlags,
    data::GlobalSchemes,
    error::{EAGAIN, EINTR, Error, Result},
    flag::O_NONBLOCK,
};

use super::{kernel_id, trigger};
use crate::{
    mm::{UserBuf, zeroes},
    sched::WaitQueue,
};

/// Returns the bytes that are there and fit, `most` at a time. Waits for the first one, or answers
/// `EAGAIN` if `flags` has O_NONBLOCK. `take` stores the bytes and returns their number.
pub fn read(
    buf: UserBuf,
    flags: u32,
    most: usize,
    readers: &WaitQueue,
    mut take: impl FnMut(&mut [u8]) -> usize,
) -> Result<usize> {
    if buf.is_empty() {
        return Ok(0);
    }
    let mut bytes = zeroes(buf.len().min(most))?;
    let mut take = || Some(take(&mut bytes)).filter(|&count| count > 0);
    let count = if flags & O_NONBLOCK as u32 != 0 {
        take().ok_or(Error::new(EAGAIN))?
    } else {
        readers.wait(None, take).map_err(|_| Error::new(EINTR))?
    };
    buf.write(bytes.get(..count).unwrap_or(&[]))
}

/// Reports to event queues that these handles of a scheme can be read.
pub fn announce(scheme: GlobalSchemes, handles: impl Iterator<Item = usize>) {
    for handle in handles {
        trigger(kernel_id(scheme), handle, EventFlags::EVENT_READ);
    }
}
