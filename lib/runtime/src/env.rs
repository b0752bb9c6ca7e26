//! Arguments, environment variables and the current directory, after `std::env`.

use alloc::string::String;
use alloc::vec::{IntoIter, Vec};

use syscall::error::{ENOTDIR, Error, Result};
use syscall::flag::{MODE_DIR, MODE_TYPE, O_DIRECTORY, O_STAT};

use crate::{fd, path, state};

/// The program's arguments; the first is its own name.
pub fn args() -> IntoIter<String> {
    state::args().into_iter()
}

/// The value of a variable.
pub fn var(name: &str) -> Option<String> {
    state::environment(|env| {
        env.iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    })
}

/// All variables.
pub fn vars() -> Vec<(String, String)> {
    state::environment(|env| env.clone())
}

/// Sets a variable for this process and the children it starts from now on.
pub fn set_var(name: &str, value: &str) {
    state::environment(
        |env| match env.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.into(),
            None => env.push((name.into(), value.into())),
        },
    );
}

/// Removes a variable.
pub fn remove_var(name: &str) {
    state::environment(|env| env.retain(|(known, _)| known != name));
}

/// The current directory.
pub fn current_dir() -> String {
    state::current_dir()
}

/// Changes the current directory; ENOTDIR or ENOENT when it is none.
pub fn set_current_dir(new: &str) -> Result<()> {
    let new = path::canonical(new)?;
    let directory = path::open_upper(&new, O_STAT | O_DIRECTORY)?;
    let stat = fd::fstat(directory);
    let _ = fd::close(directory);
    // Roots of some schemes have no attributes; what was opened as a directory counts as one.
    if stat.is_ok_and(|stat| stat.st_mode & MODE_TYPE != MODE_DIR) {
        return Err(Error::new(ENOTDIR));
    }
    state::set_current_dir(new);
    Ok(())
}
