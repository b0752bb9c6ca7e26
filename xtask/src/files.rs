//! Operations on files and directories, and calls of other programs, for the commands that make
//! the SDK.

use harness::base::report::{Context, Failure, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs a program to its end. Its output is shown only if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().context(|| format!("start {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(Failure::from(format!("{name} failed: {}", output.status)))
}

/// Calls `work` for all items, on all processors. Returns the results in the items' order, or the
/// first failure.
pub fn parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return done;
            };
            done.push((index, work(item)));
        }
    };
    let mut done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let threads = threads.into_iter();
        // A thread that panicked has printed the reason.
        threads
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    });
    if done.len() != items.len() {
        return Err(Failure::silent(1));
    }
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

pub fn make_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).context(|| format!("create {}", path.display()))
}

pub fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()).into())
        }
        _ => Ok(()),
    }
}

pub fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let doing = || format!("list {}", directory.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory).context(doing)? {
        entries.push(entry.context(doing)?.path());
    }
    entries.sort();
    Ok(entries)
}

pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| format!("read {}", path.display()))
}

pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for path in entries(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            make_dir(&target)?;
            copy_tree(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Adds the names and the contents of all files below a directory to a sum, wherever it is.
pub fn add_tree(hasher: &mut DefaultHasher, directory: &Path) -> Result<()> {
    for path in entries(directory)? {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.hash(hasher);
        if path.is_dir() {
            add_tree(hasher, &path)?;
            // Otherwise a file beside a directory would count like one in it.
            hasher.write_u8(0);
        } else {
            read(&path)?.hash(hasher);
        }
    }
    Ok(())
}

/// Makes an archive with an index; the same objects give the same bytes.
pub fn archive(path: &Path, objects: &[PathBuf]) -> Result<()> {
    run(Command::new("ar").arg("rcsD").arg(path).args(objects))
}
