//! Paths that end with a slash, or with `/.`: they name directories only.
//!
//! The runtime removes these ends, as schemes know one spelling of each path. So the functions
//! here look whether the file is a directory, and fail if it is another file. Programs rely on
//! this: some call `stat("name/")` to find out whether `name` is a directory.

use runtime::{Error, Result, fs, path};
use syscall::error::{EACCES, EEXIST, EISDIR, ENOTDIR};
use syscall::flag::{O_CREAT, O_DIRECTORY};

use crate::linux_names;

/// Whether a path can only be that of a directory.
pub fn names_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.")
}

/// Opens a path.
pub fn open(path: &str, flags: usize) -> Result<usize> {
    let flags = match names_directory(path) {
        // No file is made by the name of a directory.
        true if flags & (O_CREAT | O_DIRECTORY) == O_CREAT => return Err(Error::new(EISDIR)),
        true => flags | O_DIRECTORY,
        false => flags,
    };
    path::open(&linux_names::here(path), flags)
}

/// The attributes of the file at a path.
pub fn metadata(path: &str) -> Result<fs::Metadata> {
    let found = fs::metadata(&linux_names::here(path))?;
    if names_directory(path) && !found.is_dir() {
        return Err(Error::new(ENOTDIR));
    }
    Ok(found)
}

/// Checks that a directory can be made by this name: one that ends with `/.` is in itself.
///
/// # Errors
/// `EEXIST`; those of [`metadata`].
pub fn can_be_made(path: &str) -> Result<()> {
    match path.trim_end_matches('/').ends_with("/.") {
        true => metadata(path).and(Err(Error::new(EEXIST))),
        false => Ok(()),
    }
}

/// Checks that a path can be a program's.
///
/// # Errors
/// `EACCES` for that of a directory; those of [`metadata`].
pub fn can_be_run(path: &str) -> Result<()> {
    match names_directory(path) {
        true => metadata(path).and(Err(Error::new(EACCES))),
        false => Ok(()),
    }
}

/// Removes a file.
pub fn remove_file(path: &str) -> Result<()> {
    if names_directory(path) {
        metadata(path)?;
        return Err(Error::new(EISDIR));
    }
    fs::remove_file(path)
}

/// Whether what is to be renamed is a directory.
///
/// # Errors
/// `ENOTDIR`: it is none, and one of the paths can only be a directory's.
pub fn renames_directory(from: &str, to: &str) -> Result<bool> {
    let is_directory = fs::metadata(from)?.is_dir();
    if !is_directory && (names_directory(from) || names_directory(to)) {
        return Err(Error::new(ENOTDIR));
    }
    Ok(is_directory)
}

/// Moves a file or directory.
pub fn rename(from: &str, to: &str) -> Result<()> {
    if names_directory(from) || names_directory(to) {
        renames_directory(from, to)?;
    }
    fs::rename(from, to)
}
