//! Paths. relibc resolves them: names of schemes, the current directory, links.

use alloc::string::String;

use syscall::error::{EINVAL, Result};
use syscall::flag::O_CREAT;

use super::number;

/// Opens a path and returns the number of the new descriptor. `flags` are those of the kernel,
/// with the permission bits of a new file in the low bits.
pub fn open(path: &str, flags: usize) -> Result<usize> {
    const MODE: usize = 0o7777;
    let mode = if flags & O_CREAT != 0 {
        flags & MODE
    } else {
        0
    };
    let flags = i32::try_from(flags & !MODE).map_err(|_| syscall::Error::new(EINVAL))?;
    Ok(libredox::call::open(path, flags, mode as u16)?)
}

/// As [`open`]: relibc decides which table a number is in.
pub fn open_upper(path: &str, flags: usize) -> Result<usize> {
    open(path, flags)
}

/// Removes a file, or with `AT_REMOVEDIR` an empty directory.
pub fn unlink(path: &str, flags: usize) -> Result<()> {
    match flags {
        syscall::AT_REMOVEDIR => std::fs::remove_dir(path),
        _ => std::fs::remove_file(path),
    }
    .map_err(number)
}

/// Moves a file or directory, replacing a file or empty directory of that name; `EXDEV` if `to` is
/// in another file system.
pub fn rename(from: &str, to: &str) -> Result<()> {
    std::fs::rename(from, to).map_err(number)
}

/// Nothing to do: relibc decides what a colon means.
pub fn keep_colons() {}

/// The current directory; the root if it has no name.
pub fn current_dir() -> String {
    match std::env::current_dir() {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) => String::from("/"),
    }
}

/// Changes the current directory; ENOTDIR or ENOENT if there is no such directory.
pub fn set_current_dir(new: &str) -> Result<()> {
    std::env::set_current_dir(new).map_err(number)
}
