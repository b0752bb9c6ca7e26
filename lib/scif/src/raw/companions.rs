//! The objects behind an endpoint, which a program opens by a name.

use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use syscall::flag::{F_DUPFD, F_SETFD, UPPER_FDTBL_TAG};

use super::{Result, number};

/// Opens the object that `name` means for an endpoint.
pub fn companion(epd: usize, name: &[u8]) -> Result<Fd> {
    let file = Fd::new(libredox::call::dup(epd, name).map_err(number)?);
    close_on_exec(&file)?;
    Ok(file)
}

/// As [`companion`], for an object of the library's own. It gets one of the upper descriptors: a
/// program may close or replace any of the lower ones.
pub fn hidden(epd: usize, name: &[u8]) -> Result<Fd> {
    let file = Fd::new(libredox::call::dup(epd, name).map_err(number)?);
    let file = Fd::new(file.fcntl(F_DUPFD, UPPER_FDTBL_TAG).map_err(number)?);
    close_on_exec(&file)?;
    Ok(file)
}

/// Closes a descriptor when the program executes another one, because there it would keep the
/// connection open, and the locks that were taken through it.
fn close_on_exec(file: &Fd) -> Result<()> {
    // `F_SETFD` takes the same value as the flag of `open`. The flag is for relibc: our own
    // runtime and C library pass on only the descriptors that a program names.
    file.fcntl(F_SETFD, O_CLOEXEC as usize).map_err(number)?;
    Ok(())
}
