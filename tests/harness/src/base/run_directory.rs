//! A directory for what a run needs while it goes on.

use crate::base::report::{Context, Failure, Result};
use rustix::fs::FlockOperation;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The beginning of its name; the process that made it and a number follow. Processes in other
/// containers may have the same number, so nothing is concluded from it.
const PREFIX: &str = "skiff-run-";
/// Names that are tried, more than can be in use.
const MOST: usize = 1000;

/// A private directory for sockets and files of one run, removed afterwards.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Locked, which says that the directory is in use, however the process ends.
    _lock: File,
}

impl RunDirectory {
    /// Makes one, and removes those of runs that were killed.
    pub fn new() -> Result<Self> {
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        let base = std::env::temp_dir();
        remove_stale(&base);
        for _ in 0..MOST {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            if let Some(directory) = Self::take(base.join(name))? {
                return Ok(directory);
            }
        }
        let base = base.display();
        Err(Failure::from(format!(
            "{base} has {MOST} run directories: remove them"
        )))
    }

    /// Makes the directory; `None` if there is one already, or if another process took it for a
    /// stale one before it was locked.
    fn take(path: PathBuf) -> Result<Option<Self>> {
        let doing = || format!("create the directory {}", path.display());
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            result => result.context(doing)?,
        }
        let lock = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            result => lock(result.context(doing)?, &path)?,
        };
        let number = |data: std::io::Result<std::fs::Metadata>| data.ok().map(|data| data.ino());
        match lock {
            Some(lock) if number(std::fs::metadata(&path)) == number(lock.metadata()) => {
                Ok(Some(Self { path, _lock: lock }))
            }
            _ => Ok(None),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Locks a folder; `None` if it is in use.
pub fn lock(folder: File, path: &Path) -> Result<Option<File>> {
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(folder)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).context(|| format!("lock {}", path.display())),
    }
}

fn remove_stale(base: &Path) {
    for item in std::fs::read_dir(base).into_iter().flatten().flatten() {
        if !item.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = item.path();
        // Those of other users cannot be opened, and are theirs to remove.
        let lock = File::open(&path).map(|folder| lock(folder, &path));
        if let Ok(Ok(Some(_lock))) = lock {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_directories_are_private_and_removed() {
        let first = RunDirectory::new().unwrap();
        let second = RunDirectory::new().unwrap();
        assert_ne!(first.path(), second.path());
        let path = first.path().to_path_buf();
        assert!(path.is_dir());
        drop(first);
        assert!(!path.exists());
    }

    /// The number in the name says nothing: it is of this process, or of one in another container.
    #[test]
    fn directories_that_nobody_holds_are_removed() {
        let base = RunDirectory::new().unwrap();
        let own = std::process::id();
        let stale = base.path().join(format!("{PREFIX}{own}-9"));
        let others = base.path().join("skiff-other-1-0");
        std::fs::create_dir(&stale).unwrap();
        std::fs::create_dir(&others).unwrap();
        let path = base.path().join(format!("{PREFIX}4194999-0"));
        let held = RunDirectory::take(path.clone()).unwrap().unwrap();
        assert!(RunDirectory::take(path).unwrap().is_none());
        remove_stale(base.path());
        assert!(!stale.exists() && held.path().exists() && others.exists());
    }
}
