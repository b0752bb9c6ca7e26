//! Read-only files and directories of schemes.

use syscall::data::Stat;
use syscall::error::{EISDIR, ENOTDIR, Error, Result};
use syscall::flag::{MODE_DIR, MODE_FILE, O_DIRECTORY, O_STAT};

pub use hal::directory::list_directory;

/// Checks that the flags of an open fit the file or directory that is there. Returns whether it is
/// opened only for its status (`O_STAT`).
///
/// # Errors
/// `EISDIR` for a directory without `O_DIRECTORY`, `ENOTDIR` for a file with it.
pub fn check_open(is_directory: bool, flags: usize) -> Result<bool> {
    let stat_only = flags & O_STAT != 0;
    match (is_directory, flags & O_DIRECTORY != 0) {
        _ if stat_only => Ok(true),
        (true, false) => Err(Error::new(EISDIR)),
        (false, true) => Err(Error::new(ENOTDIR)),
        _ => Ok(false),
    }
}

/// The status of a file with `bytes` bytes that everybody may read.
pub fn stat_file(stat: &mut Stat, bytes: usize) {
    stat.st_mode = MODE_FILE | 0o444;
    stat.st_size = bytes as u64;
}

/// The status of a directory that everybody may list.
pub fn stat_directory(stat: &mut Stat) {
    stat.st_mode = MODE_DIR | 0o555;
}

/// Copies the part of `content` from `offset` on that fits into `buf`. Returns the number of
/// bytes, 0 at and beyond the end.
pub fn read_at(content: &[u8], buf: &mut [u8], offset: u64) -> usize {
    let start = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(content.len());
    let count = buf.len().min(content.len() - start);
    buf[..count].copy_from_slice(&content[start..start + count]);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_asks_for_what_is_there() {
        assert_eq!(check_open(true, O_DIRECTORY), Ok(false));
        assert_eq!(check_open(false, 0), Ok(false));
        assert_eq!(check_open(true, 0), Err(Error::new(EISDIR)));
        assert_eq!(check_open(false, O_DIRECTORY), Err(Error::new(ENOTDIR)));
        for is_directory in [false, true] {
            assert_eq!(check_open(is_directory, O_STAT), Ok(true));
            assert_eq!(check_open(is_directory, O_STAT | O_DIRECTORY), Ok(true));
        }
    }

    #[test]
    fn reads_end_with_the_content() {
        let mut buf = [0; 4];
        assert_eq!(
            (read_at(b"abcdef", &mut buf, 4), &buf[..2]),
            (2, &b"ef"[..])
        );
        assert_eq!((read_at(b"abcdef", &mut buf, 1), &buf), (4, b"bcde"));
        assert_eq!(read_at(b"abcdef", &mut buf, 6), 0);
        assert_eq!(read_at(b"abcdef", &mut buf, u64::MAX), 0);
    }
}
