//! Reading of typed bytes, for the schemes `debug` and `serio`.

use alloc::{vec, vec::Vec};

use ::syscall::{
    EventFlags,
    data::GlobalSchemes,
    error::{EAGAIN, EINTR, Error, Result},
    flag::O_NONBLOCK,
};

use super::{kernel_id, trigger};
use crate::{mm::UserBuf, sched::WaitQueue};

/// Gives as many bytes as there are and fit, `most` at a time; waits for the first unless `flags`
/// say not to (`EAGAIN`). `take` stores what is there and says how many that is.
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
    let mut bytes = vec![0_u8; buf.len().min(most)];
    let mut take = || Some(take(&mut bytes)).filter(|&count| count > 0);
    let count = if flags & O_NONBLOCK as u32 != 0 {
        take().ok_or(Error::new(EAGAIN))?
    } else {
        readers.wait(None, take).map_err(|_| Error::new(EINTR))?
    };
    buf.write(bytes.get(..count).unwrap_or(&[]))
}

/// Tells handles of a scheme that something can be read.
pub fn announce(scheme: GlobalSchemes, handles: Vec<usize>) {
    for handle in handles {
        trigger(kernel_id(scheme), handle, EventFlags::EVENT_READ);
    }
}
