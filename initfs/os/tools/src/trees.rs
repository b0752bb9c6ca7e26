//! Copies files and directories, and removes directories with their contents.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use libredox::data::TimeSpec;
use runtime::fs::{self, File, Metadata};
use runtime::io::Write;
use runtime::{Error, Result};
use syscall::error::{EEXIST, EINVAL, EISDIR, ELOOP, ENOENT};
use syscall::flag::{O_DIRECTORY, O_EXCL};

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

/// How files and directories are copied.
pub struct Copying {
    program: &'static str,
    recursive: bool,
    /// Whether the copies get owner, mode and time of what they are copies of.
    keep: bool,
    buffer: Buffer,
}

impl Copying {
    /// For this program; directories only if `recursive`.
    pub fn new(program: &'static str, recursive: bool, keep: bool) -> Self {
        Copying {
            program,
            recursive,
            keep,
            buffer: Buffer::new(io::BLOCK),
        }
    }

    /// Copies a file or directory to a path of that name. Reports what cannot be copied, goes on
    /// with the rest, and tells whether all is there.
    pub fn copy(&mut self, source: &str, target: &str) -> bool {
        self.copy_at(source, target, 0)
    }

    fn copy_at(&mut self, source: &str, target: &str, depth: u32) -> bool {
        let (path, error) = match self.try_copy(source, target, depth) {
            Ok(all) => return all,
            Err(CopyError::Enough) => return true,
            Err(CopyError::Input(error)) => (source, error),
            Err(CopyError::Output(error)) => (target, error),
        };
        io::report(self.program, path, error);
        false
    }

    fn try_copy(
        &mut self,
        source: &str,
        target: &str,
        depth: u32,
    ) -> core::result::Result<bool, CopyError> {
        let data = fs::metadata(source).ok();
        let Some(data) = data.filter(Metadata::is_dir) else {
            return self.copy_file(source, target, data.as_ref()).map(|()| true);
        };
        let input = |errno| CopyError::Input(Error::new(errno));
        if !self.recursive {
            return Err(input(EISDIR));
        }
        if depth >= MAX_DEPTH {
            return Err(input(ELOOP));
        }
        // All names are read first; otherwise files that are copied into the directory itself
        // would be found, too.
        let names = names(source).map_err(CopyError::Input)?;
        let made = match fs::metadata(target).is_ok_and(|data| data.is_dir()) {
            true => None,
            false => Some(make_private(target).map_err(CopyError::Output)?),
        };
        if is_same(Some(&data), target) {
            return Err(input(EINVAL));
        }
        let mut all = true;
        for name in names {
            let (source, target) = (format!("{source}/{name}"), format!("{target}/{name}"));
            all &= self.copy_at(&source, &target, depth + 1);
        }
        if let Some(made) = made {
            self.set_attributes(&made, &data)
                .map_err(CopyError::Output)?;
        }
        Ok(all)
    }

    fn copy_file(
        &mut self,
        source: &str,
        target: &str,
        data: Option<&Metadata>,
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
        io::blocks(&mut input, &mut self.buffer, |block| {
            output.write_all(block)
        })?;
        match data {
            Some(data) if self.keep => self
                .set_attributes(&output, data)
                .map_err(CopyError::Output),
            _ => Ok(()),
        }
    }

    /// Gives a copy the mode, and if they are kept the owner and the time. Only root may give
    /// files away, and not every scheme keeps times.
    fn set_attributes(&self, copy: &File, data: &Metadata) -> Result<()> {
        let number = copy.as_raw_fd();
        if self.keep {
            let _ = libredox::call::fchown(number, data.uid(), data.gid());
        }
        libredox::call::fchmod(number, data.mode() & 0o777)?;
        if self.keep {
            let stat = data.stat();
            let time = TimeSpec {
                tv_sec: stat.st_mtime as i64,
                tv_nsec: stat.st_mtime_nsec as _,
            };
            let _ = libredox::call::futimens(number, &[time; 2]);
        }
        Ok(())
    }
}

/// Makes a directory that only its owner may enter, until all is in it.
fn make_private(path: &str) -> Result<File> {
    let mut options = File::options();
    options.create(true).custom_flags(O_EXCL | O_DIRECTORY);
    options.mode(0o700).open(path)
}

/// Whether a path names this file or directory, if its scheme numbers them.
fn is_same(data: Option<&Metadata>, path: &str) -> bool {
    let identity = |data: &Metadata| (data.stat().st_dev, data.stat().st_ino);
    let other = fs::metadata(path).ok();
    data.zip(other)
        .is_some_and(|(data, other)| data.stat().st_ino != 0 && identity(data) == identity(&other))
}

/// Removes a file, or a directory and all that is in it. Reports what cannot be removed, goes on
/// with the rest, and tells whether all has gone. With `force` it does not report what is not
/// there.
pub fn remove(program: &str, path: &str, force: bool) -> bool {
    remove_at(program, path, force, 0)
}

fn remove_at(program: &str, path: &str, force: bool, depth: u32) -> bool {
    let remove = || {
        if !fs::metadata(path).is_ok_and(|data| data.is_dir()) {
            return fs::remove_file(path).map(|()| true);
        }
        if depth >= MAX_DEPTH {
            return Err(Error::new(ELOOP));
        }
        let mut all = true;
        // All names are read first, because removing while listing would shift the remaining
        // entries.
        for name in names(path)? {
            all &= remove_at(program, &format!("{path}/{name}"), force, depth + 1);
        }
        match all {
            true => fs::remove_dir(path).map(|()| true),
            false => Ok(false),
        }
    };
    match remove() {
        Ok(all) => all,
        Err(Error { errno: ENOENT }) if force => true,
        Err(error) => {
            io::report(program, path, error);
            false
        }
    }
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
