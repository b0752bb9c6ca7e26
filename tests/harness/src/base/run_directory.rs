//! A directory for what a run needs while it goes on.

use crate::base::report::{Context, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The beginning of its name; the process that made it and a number follow.
const PREFIX: &str = "skiff-";

/// A private directory for sockets and files of one run, removed afterwards.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes one, and removes those of runs that were killed.
    pub fn new() -> Result<Self> {
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        let base = std::env::temp_dir();
        remove_stale(&base);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .context(|| format!("create the directory {}", path.display()))?;
        Ok(Self { path })
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

fn remove_stale(base: &Path) {
    for item in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = item.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            let _ = std::fs::remove_dir_all(item.path());
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

    #[test]
    fn directories_of_dead_processes_are_removed() {
        let base = RunDirectory::new().unwrap();
        let stale = base.path().join(format!("{PREFIX}4194999-0"));
        let alive = base
            .path()
            .join(format!("{PREFIX}{}-9", std::process::id()));
        std::fs::create_dir(&stale).unwrap();
        std::fs::create_dir(&alive).unwrap();
        remove_stale(base.path());
        assert!(!stale.exists() && alive.exists());
    }
}
