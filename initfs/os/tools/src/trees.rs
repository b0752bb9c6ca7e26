//! Copies files and directories, and removes directories with their contents.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use runtime::fs::{self, File, Metadata};
use runtime::io::Write;
use runtime::{Error, Result};
use syscall::error::{EEXIST, EINVAL, EISDIR, ELOOP};

use crate::io::{self, Buffer, CopyError, Input};

/// Greatest depth of directories that are entered; every level is a nested call.
const MAX_DEPTH: u32 = 100;

/// The sources that `cp` and `mv` are called with, each with its target: the last word, or the
/// source's name below it if it is a directory.
///
/// # Errors
/// The exit status of the program; the reason is reported.
pub fn targets<'a>(
    program: &str,
    words: &'a [String],
) -> core::result::Result<Vec<(&'a str, String)>, i32> {
    let (target, sources) = match words.split_last() {
        Some((target, sources)) if !sources.is_empty() => (target, sources),
        _ => return Err(io::usage(None)),
    };
    let is_directory = fs::metadata(target).is_ok_and(|data| data.is_dir());
    if sources.len() > 1 && !is_directory {
        runtime::eprintln!("{program}: {target}: is not a directory; several files need one");
        return Err(1);
    }
    let with_target = |source: &'a String| match is_directory {
        true => (source.as_str(), inside(target, source)),
        false => (source.as_str(), target.clone()),
    };
    Ok(sources.iter().map(with_target).collect())
}

/// The path of a file that goes into the directory `target` under its own name.
fn inside(target: &str, source: &str) -> String {
    let name = source.trim_end_matches('/').rsplit('/').next();
    format!(
        "{}/{}",
        target.trim_end_matches('/'),
        name.unwrap_or(source)
    )
}

/// Copies a file, or with `recursive` a directory, to a path of that name.
///
/// # Errors
/// `EISDIR`: a directory, not `recursive`; `EEXIST`: a file to itself; `EINVAL`: a directory into
/// itself; `ELOOP`: too deep.
pub fn copy(source: &str, target: &str, recursive: bool) -> core::result::Result<(), CopyError> {
    let mut buffer = Buffer::new(io::BLOCK);
    copy_at(source, target, recursive, &mut buffer, 0)
}

fn copy_at(
    source: &str,
    target: &str,
    recursive: bool,
    buffer: &mut Buffer,
    depth: u32,
) -> core::result::Result<(), CopyError> {
    let data = fs::metadata(source).ok();
    if !data.as_ref().is_some_and(Metadata::is_dir) {
        return copy_file(source, target, data.as_ref(), buffer);
    }
    let input = |errno| CopyError::Input(Error::new(errno));
    if !recursive {
        return Err(input(EISDIR));
    }
    if depth >= MAX_DEPTH {
        return Err(input(ELOOP));
    }
    // All names are read first; otherwise files that are copied into the directory itself would be
    // found, too.
    let names = names(source).map_err(CopyError::Input)?;
    if !fs::metadata(target).is_ok_and(|data| data.is_dir()) {
        fs::create_dir(target).map_err(CopyError::Output)?;
    }
    if is_same(data.as_ref(), target) {
        return Err(input(EINVAL));
    }
    for name in names {
        let (source, target) = (format!("{source}/{name}"), format!("{target}/{name}"));
        copy_at(&source, &target, true, buffer, depth + 1)?;
    }
    Ok(())
}

fn copy_file(
    source: &str,
    target: &str,
    data: Option<&Metadata>,
    buffer: &mut Buffer,
) -> core::result::Result<(), CopyError> {
    let mut input = Input::open(source).map_err(CopyError::Input)?;
    let data = data.filter(|data| data.is_file());
    // Opening for writing would empty the file before it is read.
    if is_same(data, target) {
        return Err(CopyError::Output(Error::new(EEXIST)));
    }
    let mode = data.map_or(0o644, |data| data.mode() & 0o777);
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    options.mode(mode | 0o200);
    let mut output = options.open(target).map_err(CopyError::Output)?;
    io::blocks(&mut input, buffer, |block| output.write_all(block))
}

/// Whether a path names this file or directory, if its scheme numbers them.
fn is_same(data: Option<&Metadata>, path: &str) -> bool {
    let identity = |data: &Metadata| (data.stat().st_dev, data.stat().st_ino);
    let other = fs::metadata(path).ok();
    data.zip(other)
        .is_some_and(|(data, other)| data.stat().st_ino != 0 && identity(data) == identity(&other))
}

/// Removes a file, or a directory and all that is in it.
pub fn remove(path: &str) -> Result<()> {
    remove_at(path, 0)
}

fn remove_at(path: &str, depth: u32) -> Result<()> {
    if !fs::metadata(path).is_ok_and(|data| data.is_dir()) {
        return fs::remove_file(path);
    }
    if depth >= MAX_DEPTH {
        return Err(Error::new(ELOOP));
    }
    // All names are read first, because removing while listing would shift the remaining entries.
    for name in names(path)? {
        remove_at(&format!("{path}/{name}"), depth + 1)?;
    }
    fs::remove_dir(path)
}

fn names(directory: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name(), "." | "..") {
            names.push(entry.file_name().into());
        }
    }
    Ok(names)
}
