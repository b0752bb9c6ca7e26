//! `mv`: renames files and directories; the target may be a directory. Across file systems it
//! copies them, and removes the source once everything is there.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;

use runtime::fs;
use syscall::error::{EXDEV, Error};
use tools::{io, trees};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    while let Some((letter, _)) = words.next() {
        if letter != 'f' {
            return io::usage(Some(words.word()));
        }
    }
    let pairs = match trees::targets("mv", words.rest()) {
        Ok(pairs) => pairs,
        Err(status) => return status,
    };
    let mut status = 0;
    for (source, target) in pairs {
        if !move_to(source, &target) {
            status = 1;
        }
    }
    status
}

/// Moves a file or directory, and reports it if that fails.
fn move_to(source: &str, target: &str) -> bool {
    match fs::rename(source, target) {
        Ok(()) => true,
        Err(Error { errno: EXDEV }) => {
            let all = trees::Copying::new("mv", true, true).copy(source, target);
            all && trees::remove("mv", source, false)
        }
        // Either of them may be the cause.
        Err(error) => {
            io::report("mv", &format!("{source} to {target}"), error);
            false
        }
    }
}
