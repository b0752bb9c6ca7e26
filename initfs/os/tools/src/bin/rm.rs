//! `rm [-f] [-r] path…`: removes files; with `-r` directories and what is in them.
#![no_std]
#![no_main]

use runtime::fs;
use tools::{io, trees};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let (mut force, mut recursive) = (false, false);
    while let Some((letter, _)) = words.next() {
        match letter {
            'f' => force = true,
            'r' | 'R' => recursive = true,
            _ => return io::usage(Some(words.word())),
        }
    }
    if words.rest().is_empty() && !force {
        return io::usage(None);
    }
    let mut status = 0;
    for path in words.rest() {
        if is_kept(path) {
            runtime::eprintln!("rm: {path}: this directory, those above it and the root stay");
            status = 1;
        } else if recursive {
            if !trees::remove("rm", path, force) {
                status = 1;
            }
        } else if let Err(error) = fs::remove_file(path)
            && !(force && error.errno == syscall::ENOENT)
        {
            status = io::report("rm", path, error);
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
