//! `rm [-f] [-r] path…`: removes files; with `-r` directories and what is in them.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;

use runtime::fs;
use tools::{io, trees};

tools::main!(main);

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
        if is_kept(path) {
            runtime::eprintln!("rm: {path}: this directory, those above it and the root stay");
            status = 1;
            continue;
        }
        let removed = match recursive {
            true => trees::remove(path),
            false => fs::remove_file(path),
        };
        match removed {
            Err(error) if error.errno == syscall::ENOENT && force => {}
            Err(error) => status = io::report("rm", path, error),
            Ok(()) => {}
        }
    }
    status
}

/// Whether a path ends with `.` or `..`, or is the root: `rm -r .*` would remove far more than
/// people mean.
fn is_kept(path: &str) -> bool {
    let name = path.trim_end_matches('/').rsplit('/').next();
    !path.is_empty() && matches!(name, Some("" | "." | ".."))
}
