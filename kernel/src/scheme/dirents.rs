//! Directory listings of kernel schemes.

use ::syscall::{
    dirent::{DirEntry, DirentBuf},
    error::{EINVAL, EIO, Error, Result},
};

use crate::mm::{UserBuf, zeroes};

/// Most bytes of a listing that are prepared at a time; a reader asks again for the rest.
const MAX_LISTING: usize = 16 * 1024;

/// Stores as many of `entries` as fit into `buf` and returns their bytes. `EIO` for a header size
/// below that of the header, `EINVAL` when not even the first entry fits.
pub fn store<'a>(
    buf: UserBuf,
    header: u16,
    entries: impl Iterator<Item = DirEntry<'a>>,
) -> Result<usize> {
    let mut bytes = zeroes(buf.len().min(MAX_LISTING))?;
    let mut listing = DirentBuf::new(bytes.as_mut_slice(), header).ok_or(Error::new(EIO))?;
    let mut stored = 0_usize;
    for entry in entries {
        match listing.entry(entry) {
            Ok(()) => stored += 1,
            Err(_) if stored > 0 => break,
            Err(_) => return Err(Error::new(EINVAL)),
        }
    }
    let len = listing.finalize();
    buf.write(bytes.get(..len).unwrap_or(&[]))
}
