//! `mv`: renames files and directories; the target may be a directory. Across file systems it
//! copies them, and removes the source once everything is there.
#![no_std]
#![no_main]

use runtime::Result;
use runtime::fs;
use syscall::error::{EXDEV, Error};
use tools::io::{self, CopyError};
use tools::trees;

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
        if let Err(error) = move_to(source, &target) {
            status = io::report("mv", source, error);
        }
    }
    status
}

fn move_to(source: &str, target: &str) -> Result<()> {
    match fs::rename(source, target) {
        Err(Error { errno: EXDEV }) => {}
        result => return result,
    }
    match trees::copy(source, target, true) {
        Ok(()) | Err(CopyError::Enough) => trees::remove(source),
        Err(CopyError::Input(error) | CopyError::Output(error)) => Err(error),
    }
}
