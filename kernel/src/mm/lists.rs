//! Lists whose length a program determines.

use alloc::vec::Vec;

use ::syscall::error::{ENOMEM, Error, Result};

/// An empty list with room for `count` entries, or `ENOMEM`. Every list whose length a program
/// determines is made like this: a list of more than a page needs contiguous frames, which
/// programs can use up while many single frames are free.
pub fn list_for<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let reserved = list.try_reserve_exact(count);
    reserved.map_err(|_| Error::new(ENOMEM)).map(|()| list)
}

/// A list of `count` zero bytes, or `ENOMEM`; see [`list_for`].
pub fn zeroes(count: usize) -> Result<Vec<u8>> {
    let mut bytes = list_for(count)?;
    bytes.resize(count, 0);
    Ok(bytes)
}
