//! Access rights: the identity of a caller, and the access mode of a handle.

use scif_core::Owner;
use syscall::error::{EACCES, EBADF, EISDIR, ENOTDIR, Error, Result};
use syscall::flag::{O_ACCMODE, O_DIRECTORY, O_RDONLY, O_STAT, O_WRONLY};

/// The opener of a handle. Rights are decided at open: any holder of the file descriptor may use
/// it (requests through it carry the identity of the holder, or none at all).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Caller {
    /// Process id.
    pub pid: usize,
    /// Effective user id; 0 is root.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

impl Caller {
    /// The caller for the engine, which decides the right to bind ports below 1024.
    pub fn owner(self) -> Owner {
        // Process ids are far below 2^32, and the value only serves people and a limit.
        Owner {
            process: self.pid as u32,
            user: self.uid,
        }
    }

    /// Whether the caller may see what belongs to `user`.
    pub fn sees(self, user: u32) -> bool {
        self.uid == 0 || self.uid == user
    }

    /// Whether the caller may take connections from a listener that `owner` opened.
    pub fn may_share(self, owner: Caller) -> bool {
        self.sees(owner.uid)
    }
}

/// The access mode of a handle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Access {
    read: bool,
    write: bool,
}

impl Access {
    /// Reading and writing: the access mode of handles from `dup`.
    pub const BOTH: Self = Self {
        read: true,
        write: true,
    };

    /// The access mode of open flags. The kernel does not check it: the scheme has to enforce it.
    pub fn of_flags(flags: usize) -> Self {
        let mode = flags & O_ACCMODE;
        Self {
            read: mode & O_RDONLY != 0,
            write: mode & O_WRONLY != 0,
        }
    }

    /// # Errors
    /// `EBADF` when the handle was not opened for reading.
    pub fn to_read(self) -> Result<()> {
        if self.read {
            Ok(())
        } else {
            Err(Error::new(EBADF))
        }
    }

    /// # Errors
    /// `EBADF` when the handle was not opened for writing.
    pub fn to_write(self) -> Result<()> {
        if self.write {
            Ok(())
        } else {
            Err(Error::new(EBADF))
        }
    }
}

/// Checks that a directory may be opened with these flags.
///
/// # Errors
/// `EISDIR` when the flags ask for writing.
pub fn open_directory(flags: usize) -> Result<()> {
    if flags & O_STAT == 0 && Access::of_flags(flags).write {
        return Err(Error::new(EISDIR));
    }
    Ok(())
}

/// Checks that a text file may be opened with these flags.
///
/// # Errors
/// `ENOTDIR` when the flags ask for a directory, `EACCES` when they ask for writing.
pub fn open_text(flags: usize) -> Result<()> {
    not_directory(flags)?;
    if flags & O_STAT == 0 && Access::of_flags(flags).write {
        return Err(Error::new(EACCES));
    }
    Ok(())
}

/// # Errors
/// `ENOTDIR` when the flags ask for a directory.
pub fn not_directory(flags: usize) -> Result<()> {
    if flags & O_DIRECTORY != 0 {
        Err(Error::new(ENOTDIR))
    } else {
        Ok(())
    }
}

/// # Errors
/// `EACCES` for everybody but root.
pub(crate) fn root(caller: Caller) -> Result<()> {
    if caller.uid == 0 {
        Ok(())
    } else {
        Err(Error::new(EACCES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscall::flag::O_RDWR;

    #[test]
    fn listeners_are_shared_with_the_same_user_and_root() {
        let root = Caller {
            pid: 1,
            uid: 0,
            gid: 0,
        };
        let user = Caller {
            pid: 2,
            uid: 1000,
            gid: 1000,
        };
        assert!(root.may_share(user) && !user.may_share(root) && user.may_share(user));
        assert!(root.owner().is_privileged() && !user.owner().is_privileged());
    }

    #[test]
    fn access_modes_are_enforced() {
        for (flags, read, write) in [
            (0, false, false),
            (O_RDONLY, true, false),
            (O_WRONLY, false, true),
            (O_RDWR, true, true),
        ] {
            let access = Access::of_flags(flags);
            assert_eq!(
                (access.to_read().is_ok(), access.to_write().is_ok()),
                (read, write)
            );
        }
        assert_eq!(open_text(O_RDWR), Err(Error::new(EACCES)));
        assert_eq!(open_text(O_RDONLY | O_DIRECTORY), Err(Error::new(ENOTDIR)));
        assert_eq!(open_text(O_WRONLY | O_STAT), Ok(()));
        assert_eq!(open_directory(O_WRONLY), Err(Error::new(EISDIR)));
        assert_eq!(open_directory(O_RDONLY | O_DIRECTORY), Ok(()));
    }
}
