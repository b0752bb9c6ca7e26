//! Paths: resolves the path that a program writes to the scheme that serves it.
//!
//! `/scheme/<name>/<rest>` names an object of the scheme `<name>`; the older spelling
//! `<name>:<rest>` means the same. Every other absolute path belongs to the scheme `file`. A
//! relative path starts at the current directory.

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use libredox::protocol::O_CLOEXEC;
use syscall::error::{
    EINVAL, EISDIR, ENAMETOOLONG, ENODEV, ENOENT, ENOTDIR, ESRCH, EXDEV, Error, Result,
};
use syscall::flag::{MODE_DIR, MODE_TYPE, O_CREAT, O_DIRECTORY, O_FCNTL_MASK, O_STAT};

use crate::fd::Table;
use crate::roots::{self, Root};
use crate::{fd, state, sys};

/// Longest path that the kernel accepts, in bytes.
pub const MAX: usize = 4096;

/// The name of the scheme for paths outside `/scheme`.
const FILE_SCHEME: &str = "file";

/// Makes `path` absolute and removes `.`, `..` and repeated slashes. The result always begins with
/// a slash and only the root ends with one.
///
/// # Errors
/// `ENOENT` for an empty path: the current directory is `.`, and a variable that a script has not
/// set must not stand for it. `EINVAL`, `ENAMETOOLONG`: no path at all.
pub fn canonical(path: &str) -> Result<String> {
    if path.is_empty() {
        return Err(Error::new(ENOENT));
    }
    if path.contains('\0') {
        return Err(Error::new(EINVAL));
    }
    if path.len() > MAX {
        return Err(Error::new(ENAMETOOLONG));
    }
    let mut parts: Vec<&str> = Vec::new();
    let cwd = state::current_dir();
    let rest = match legacy(path) {
        Some((scheme, rest)) => {
            parts.extend(["scheme", scheme]);
            rest
        }
        None => {
            if !path.starts_with('/') {
                parts.extend(cwd.split('/').filter(|part| !part.is_empty()));
            }
            path
        }
    };
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let mut result = String::with_capacity(path.len() + 8);
    for part in &parts {
        result.push('/');
        result.push_str(part);
    }
    if result.is_empty() {
        result.push('/');
    }
    if result.len() > MAX {
        return Err(Error::new(ENAMETOOLONG));
    }
    Ok(result)
}

/// Whether a path can only be that of a directory: schemes get paths without such an end.
fn names_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.")
}

/// Whether `<name>:<rest>` is a path in a scheme only for one name, [`COLON_SCHEME`].
static KEEPS_COLONS: AtomicBool = AtomicBool::new(false);

/// The scheme that every program can also name by a colon.
const COLON_SCHEME: &str = "scif";

/// Lets paths with a colon be names of files from now on, except those of `scif:`. For programs
/// that were written for other systems, and for those that get names of files from people.
pub fn keep_colons() {
    KEEPS_COLONS.store(true, Ordering::Relaxed);
}

/// Whether a path begins with the name of a scheme and a colon.
pub(crate) fn names_scheme(path: &str) -> bool {
    legacy(path).is_some()
}

/// Splits `<name>:<rest>`; a name has no slash and is not empty.
fn legacy(path: &str) -> Option<(&str, &str)> {
    let (name, rest) = path.split_once(':')?;
    let is_scheme = name == COLON_SCHEME || !KEEPS_COLONS.load(Ordering::Relaxed);
    (is_scheme && !name.is_empty() && !name.contains('/')).then_some((name, rest))
}

/// Splits a canonical path into the scheme's name and the path below its root. The name is empty
/// for `/scheme` itself, the directory of all schemes.
pub fn split(canonical: &str) -> (&str, &str) {
    match canonical.strip_prefix("/scheme") {
        Some("") => ("", ""),
        Some(rest) if rest.starts_with('/') => {
            rest[1..].split_once('/').unwrap_or((&rest[1..], ""))
        }
        _ => (FILE_SCHEME, canonical.trim_start_matches('/')),
    }
}

/// Opens the root of the scheme `name`, in the upper table.
fn open_root(name: &str) -> Result<usize> {
    let namespace = state::namespace_fd();
    fd::check(namespace).map_err(|_| Error::new(ENODEV))?;
    let mut path = String::with_capacity(8 + name.len());
    path.push_str("/scheme/");
    path.push_str(name);
    fd::openat_upper(namespace, path.as_bytes(), O_DIRECTORY | O_CLOEXEC, 0)
}

/// Opens the root file of a scheme for writing, into the upper table. It takes no memory, unless
/// other threads are opening files. The path is `/scheme/` and the scheme's name.
#[cfg(not(feature = "std"))]
pub(crate) fn open_without_memory(scheme: &str) -> Result<usize> {
    let (namespace, flags) = (state::namespace_fd(), O_DIRECTORY | O_CLOEXEC);
    let root = fd::openat_upper(namespace, scheme.as_bytes(), flags, 0)?;
    let file = fd::openat_upper(root, b"", syscall::O_WRONLY, 0);
    let _ = fd::close(root);
    file
}

/// Opens a path and returns the number of the new descriptor.
pub fn open(path: &str, flags: usize) -> Result<usize> {
    open_in(Table::Plain, path, flags)
}

/// Opens a path into the upper table.
pub fn open_upper(path: &str, flags: usize) -> Result<usize> {
    open_in(Table::Upper, path, flags)
}

/// Opens a path below the root of its scheme, which may be kept open. Has no type parameters, as
/// every program contains this code.
fn open_in(table: Table, path: &str, flags: usize) -> Result<usize> {
    let flags = match names_directory(path) {
        // No file is made by the name of a directory.
        true if flags & (O_CREAT | O_DIRECTORY) == O_CREAT => return Err(Error::new(EISDIR)),
        true => flags | O_DIRECTORY,
        false => flags,
    };
    let path = canonical(path)?;
    let (scheme, rest) = split(&path);
    let open = |root| fd::openat_in(table, root, rest.as_bytes(), flags, flags & O_FCNTL_MASK);
    if let Some(kept) = Root::of(scheme) {
        let changes = roots::changes();
        let result = kept.get(open_root).and_then(open);
        if roots::changes() != changes {
            // Another thread has closed the root meanwhile: the result may be of any file.
            if let Ok(file) = result {
                let _ = fd::close(file);
            }
            return open_in(table, &path, flags);
        }
        match result {
            // Its daemon may have ended, and a new one may have the name. The new root is not
            // kept, because the old one would have to be closed while another thread may be using
            // it. Redox's kernel returns `ESRCH` here.
            Err(Error {
                errno: ENODEV | ESRCH,
            }) => {}
            result => return result,
        }
    }
    let root = open_root(scheme)?;
    let result = open(root);
    let _ = fd::close(root);
    result
}

/// Removes a file, or with `AT_REMOVEDIR` an empty directory.
pub fn unlink(path: &str, flags: usize) -> Result<()> {
    if names_directory(path) {
        fd::close(open_upper(path, O_STAT | O_CLOEXEC)?)?;
    }
    let path = canonical(path)?;
    let (scheme, rest) = split(&path);
    let root = open_root(scheme)?;
    let arguments = [root, rest.as_ptr() as usize, rest.len(), flags, 0, 0];
    // SAFETY: the path is a live slice; the call writes no user memory.
    let result = unsafe { sys::call(syscall::SYS_UNLINKAT, arguments) };
    let _ = fd::close(root);
    result.map(|_| ())
}

/// Moves a file or directory within its scheme, replacing a file or empty directory of that name;
/// `EXDEV` if `to` is in another scheme.
pub fn rename(from: &str, to: &str) -> Result<()> {
    let kind = match names_directory(from) || names_directory(to) {
        true => O_DIRECTORY,
        false => 0,
    };
    let (from, to) = (canonical(from)?, canonical(to)?);
    if split(&from).0 != split(&to).0 {
        return Err(Error::new(EXDEV));
    }
    let file = open_upper(&from, O_STAT | O_CLOEXEC | kind)?;
    let arguments = [file, to.as_ptr() as usize, to.len(), 0, 0, 0];
    // SAFETY: the path lives across the call, which only reads it.
    let renamed = unsafe { sys::call(syscall::SYS_FRENAME, arguments) };
    let _ = fd::close(file);
    renamed.map(|_| ())
}

/// The current directory.
pub fn current_dir() -> String {
    state::current_dir()
}

/// Changes the current directory; ENOTDIR or ENOENT if there is no such directory.
pub fn set_current_dir(new: &str) -> Result<()> {
    let new = canonical(new)?;
    let directory = open_upper(&new, O_STAT | O_DIRECTORY)?;
    let stat = fd::fstat(directory);
    let _ = fd::close(directory);
    // Roots of some schemes have no attributes; a path that opens as a directory counts as one.
    if stat.is_ok_and(|stat| stat.st_mode & MODE_TYPE != MODE_DIR) {
        return Err(Error::new(ENOTDIR));
    }
    state::set_current_dir(new);
    Ok(())
}
