//! `rm [-f] [-r] path…`: removes files; with `-r` directories and what is in them.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::vec::Vec;

use runtime::fs;
use tools::io;

runtime::main!(main);

/// Directories deeper than this are not removed: removing recurses.
const MAX_DEPTH: u32 = 100;

fn main() -> i32 {
    let (mut force, mut recursive) = (false, false);
    let mut paths = Vec::new();
    for argument in io::arguments() {
        match argument.as_str() {
            "-f" => force = true,
            "-r" => recursive = true,
            "-rf" | "-fr" => (force, recursive) = (true, true),
            _ if argument.starts_with('-') && argument.len() > 1 => {
                return io::usage(Some(&argument));
            }
            _ => paths.push(argument),
        }
    }
    if paths.is_empty() && !force {
        return io::usage(None);
    }
    let mut status = 0;
    for path in &paths {
        match remove(path, recursive, 0) {
            Err(error) if error.errno == syscall::ENOENT && force => {}
            Err(error) => status = io::report("rm", path, error),
            Ok(()) => {}
        }
    }
    status
}

fn remove(path: &str, recursive: bool, depth: u32) -> runtime::Result<()> {
    let directory = fs::metadata(path).is_ok_and(|data| data.is_dir());
    if !(directory && recursive) {
        return fs::remove_file(path);
    }
    if depth >= MAX_DEPTH {
        return Err(runtime::Error::new(syscall::ELOOP));
    }
    // All names first: removing while listing would shift what is still to come.
    let names: runtime::Result<Vec<_>> = fs::read_dir(path)?.collect();
    for entry in names? {
        if !matches!(entry.file_name(), "." | "..") {
            remove(&format!("{path}/{}", entry.file_name()), true, depth + 1)?;
        }
    }
    fs::remove_dir(path)
}
