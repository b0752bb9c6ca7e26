//! `mv`: renames files and directories; the target may be a directory. Across file systems it
//! copies them, and removes the source once everything is there.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use runtime::Result;
use runtime::fs;
use syscall::error::{EXDEV, Error};
use tools::io::{self, CopyError};
use tools::trees;

runtime::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    while let Some((letter, _)) = words.next() {
        if letter != 'f' {
            return io::usage(Some(words.word()));
        }
    }
    let (target, sources) = match words.rest().split_last() {
        Some((target, sources)) if !sources.is_empty() => (target, sources),
        _ => return io::usage(None),
    };
    let directory = fs::metadata(target).is_ok_and(|data| data.is_dir());
    if sources.len() > 1 && !directory {
        runtime::eprintln!("mv: {target}: is not a directory; several files need one");
        return 1;
    }
    let mut status = 0;
    for source in sources {
        let target: String = if directory {
            trees::inside(target, source)
        } else {
            target.clone()
        };
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
