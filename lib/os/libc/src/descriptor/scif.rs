//! Which descriptors are those of the `scif:` scheme, so that not every read, write and poll has to
//! ask.

use core::ffi::c_int;
use core::sync::atomic::AtomicU64;

use runtime::{Result, fd};
use syscall::error::{EBADF, EINTR, ENOMEM};

use super::{Bits, MOST, Stage, TABLE, check, entry, has_bit, set_bit, turn};

/// A bit for each descriptor: whether it is known if it is one of the `scif:` scheme. Every read
/// and write looks at it; it changes only under the lock of the table.
static ASKED: Bits = [const { AtomicU64::new(0) }; MOST / 64];

/// A bit for each descriptor of which that is known: whether it is.
static SCIF: Bits = [const { AtomicU64::new(0) }; MOST / 64];

/// Whether the descriptor is one of the `scif:` scheme, for a use as an endpoint.
///
/// # Errors
/// Those of [`is_scif_file`].
pub fn is_scif(number: c_int) -> Result<bool> {
    let is_scif = is_scif_file(number)?;
    if is_scif {
        entry(number, |known| known.is_endpoint = true);
    }
    Ok(is_scif)
}

/// Whether the descriptor is one of the `scif:` scheme, for reading and writing.
///
/// # Errors
/// `EBADF`; `EINTR`, `ENOMEM`: it is not known yet.
pub fn is_scif_file(number: c_int) -> Result<bool> {
    let index = check(number)?;
    if has_bit(&ASKED, number) {
        return Ok(has_bit(&SCIF, number));
    }
    // The table grows only for numbers that are open.
    let turns = TABLE.with(|table| table.get(index).map_or(0, |known| known.turns));
    let mut path = [0; 32];
    let found = match fd::fpath(index, &mut path) {
        Ok(length) => is_scif_path(path.get(..length).unwrap_or(&path)),
        Err(error) if matches!(error.errno, EBADF | EINTR | ENOMEM) => return Err(error),
        Err(_) => false,
    };
    entry(number, |known| {
        // Another thread may have put another file there meanwhile, or be about to.
        if known.turns == turns && known.stage == Stage::Settled {
            know(index, found);
        }
    });
    Ok(found)
}

/// Which of the files that the number has meant it means now, if that is one of the `scif:` scheme.
///
/// # Errors
/// Those of [`is_scif_file`].
pub fn scif_turn(number: c_int) -> Result<Option<u64>> {
    while is_scif_file(number)? {
        let turn = turn(number as usize)?;
        // Another thread may have put another file there between the two.
        if has_bit(&ASKED, number) {
            return Ok(has_bit(&SCIF, number).then_some(turn));
        }
    }
    Ok(None)
}

/// Whether an absolute path is that of a file of the `scif:` scheme.
pub fn is_scif_path(path: &[u8]) -> bool {
    path.starts_with(b"/scheme/scif/") || path.starts_with(b"scif:")
}

/// Records whether the number is one of the `scif:` scheme, so that nobody has to ask. The caller
/// holds the table.
pub(super) fn know(number: usize, is_scif: bool) {
    set_bit(&SCIF, number, is_scif);
    set_bit(&ASKED, number, true);
}

/// Records that it is not known what the number means. The caller holds the table.
pub(super) fn forget(number: usize) {
    set_bit(&ASKED, number, false);
}
