//! Lists whose length a program decides.

use alloc::vec::Vec;

use ::syscall::error::{ENOMEM, Error, Result};

/// An empty list with room for `count` entries, or `ENOMEM`. Lists whose length a program decides
/// are made like this: more than a page of them needs contiguous frames, which programs can use up
/// while many single ones are free.
pub fn list_for<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let reserved = list.try_reserve_exact(count);
    reserved.map_err(|_| Error::new(ENOMEM)).map(|()| list)
}

/// As many bytes, all zero, or `ENOMEM`; see [`list_for`].
pub fn zeroes(count: usize) -> Result<Vec<u8>> {
    let mut bytes = list_for(count)?;
    bytes.resize(count, 0);
    Ok(bytes)
}
