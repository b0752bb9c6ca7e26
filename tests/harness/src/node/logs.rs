//! A run's folder below `target/run`, with the consoles of its nodes. While a run goes on it owns
//! its folder: another run of the same name gets a folder with a number behind the name. Later runs
//! overwrite it.

use crate::base::report::{Context, Result};
use crate::base::run_directory;
use crate::base::workspace::{self, Place};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Runs of one name at the same time, more than there will be.
const MOST: usize = 100;
/// The file in a folder that names the directory with the sockets of the run's consoles.
const CONSOLES: &str = "consoles";

/// A folder that is in use as long as this lives, however the process ends.
#[derive(Debug)]
pub struct Logs {
    path: PathBuf,
    /// Locked.
    _folder: File,
}

impl Logs {
    /// Takes a folder for a run of this name, and empties it.
    pub fn take(name: &str) -> Result<Self> {
        Self::take_below(&workspace::make(Place::Run)?, name)
    }

    fn take_below(directory: &Path, name: &str) -> Result<Self> {
        for number in 1..=MOST {
            let path = match number {
                1 => directory.join(name),
                number => directory.join(format!("{name}-{number}")),
            };
            std::fs::create_dir_all(&path).context(|| format!("create {}", path.display()))?;
            let Some(folder) = lock(&path)? else {
                continue;
            };
            for item in std::fs::read_dir(&path).into_iter().flatten().flatten() {
                if item.path().is_file() {
                    let file = item.path();
                    std::fs::remove_file(&file).context(|| format!("remove {}", file.display()))?;
                }
            }
            return Ok(Self {
                path,
                _folder: folder,
            });
        }
        Err(format!("{MOST} runs of the name {name} go on already").into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name, which is that of the run, perhaps with a number.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Notes for `running` where the sockets of the run's consoles are.
    pub fn announce(&self, consoles: &Path) -> Result<()> {
        let path = self.path.join(CONSOLES);
        std::fs::write(&path, consoles.display().to_string())
            .context(|| format!("write {}", path.display()))
    }
}

/// The runs that go on and offer their consoles: their names and the directories of the sockets.
pub fn running() -> Result<Vec<(String, PathBuf)>> {
    running_below(&workspace::make(Place::Run)?)
}

fn running_below(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let items = std::fs::read_dir(directory);
    for item in items.context(|| format!("read {}", directory.display()))? {
        let folder = item.context(|| "read a folder".to_string())?.path();
        let Ok(consoles) = std::fs::read_to_string(folder.join(CONSOLES)) else {
            continue;
        };
        if lock(&folder)?.is_none() {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            found.push((name.into_owned(), PathBuf::from(consoles)));
        }
    }
    found.sort();
    Ok(found)
}

/// Locks a folder; `None` if it is in use.
fn lock(path: &Path) -> Result<Option<File>> {
    let folder = File::open(path).context(|| format!("open {}", path.display()))?;
    run_directory::lock(folder, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::run_directory::RunDirectory;

    #[test]
    fn runs_at_the_same_time_have_folders_of_their_own() {
        let place = RunDirectory::new().unwrap();
        let take = || Logs::take_below(place.path(), "x").unwrap();
        let first = take();
        std::fs::write(first.path().join("node0.log"), "first").unwrap();
        let second = take();
        assert_eq!((first.name(), second.name()), ("x".into(), "x-2".into()));
        assert!(first.path().join("node0.log").is_file());

        assert_eq!(running_below(place.path()).unwrap(), []);
        first.announce(Path::new("/a")).unwrap();
        second.announce(Path::new("/b")).unwrap();
        let both = [("x", "/a"), ("x-2", "/b")];
        let both = both.map(|(name, path)| (name.to_string(), PathBuf::from(path)));
        assert_eq!(running_below(place.path()).unwrap(), both);

        drop(first);
        assert_eq!(running_below(place.path()).unwrap(), both[1..]);
        let third = take();
        assert_eq!(third.name(), "x");
        assert!(!third.path().join("node0.log").exists());
    }
}
