//! Finds the files of programs, and says who may run them.

use alloc::string::String;

use syscall::error::{EACCES, EISDIR, ENOENT, ENOTDIR, Error, Result};
use syscall::flag::{MODE_FILE, MODE_TYPE};

use super::own_meta;
use crate::path;
use crate::spawn::ProgramFile;

/// Opens the file of a name with a slash, or else of the first program with that name in the
/// directories of `search`, which colons separate; an empty one is the current directory. Also
/// returns its absolute path.
pub(super) fn find_program(name: &str, search: &str) -> Result<(String, ProgramFile)> {
    let open = |candidate: &str| -> Result<(String, ProgramFile)> {
        let candidate = path::canonical(candidate)?;
        let file = ProgramFile::open(&candidate).map_err(directory_is_no_program)?;
        may_run(&file)?;
        Ok((candidate, file))
    };
    if name.is_empty() {
        return Err(Error::new(ENOENT));
    }
    if name.contains('/') || path::names_scheme(name) {
        return open(name);
    }
    let mut result = Err(Error::new(ENOENT));
    for directory in search.split(':') {
        let directory = if directory.is_empty() { "." } else { directory };
        match open(&alloc::format!("{directory}/{name}")) {
            Ok(found) => return Ok(found),
            Err(Error {
                errno: ENOENT | ENOTDIR,
            }) => {}
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Checks that this process may run a program. Root may run what somebody may. What is no regular
/// file, or has no attributes, need only be readable.
fn may_run(file: &ProgramFile) -> Result<()> {
    let Ok(stat) = file.attributes() else {
        return Ok(());
    };
    let own = own_meta();
    let mode = match own.euid {
        _ if stat.st_mode & MODE_TYPE != MODE_FILE => return Ok(()),
        0 => stat.st_mode | stat.st_mode >> 3 | stat.st_mode >> 6,
        user if user == stat.st_uid => stat.st_mode >> 6,
        _ if own.egid == stat.st_gid => stat.st_mode >> 3,
        _ => stat.st_mode,
    };
    match mode & 1 {
        0 => Err(Error::new(EACCES)),
        _ => Ok(()),
    }
}

/// The error for a file that is no program.
pub(super) fn directory_is_no_program(error: Error) -> Error {
    match error.errno {
        EISDIR => Error::new(EACCES),
        _ => error,
    }
}
