//! `cp`: copies files, and directories with what is in them; the target may be a directory.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use runtime::fs;
use tools::io::{self, CopyError};
use tools::trees;

runtime::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let mut recursive = false;
    while let Some((letter, _)) = words.next() {
        match letter {
            'r' | 'R' => recursive = true,
            _ => return io::usage(Some(words.word())),
        }
    }
    let (target, sources) = match words.rest().split_last() {
        Some((target, sources)) if !sources.is_empty() => (target, sources),
        _ => return io::usage(None),
    };
    let directory = fs::metadata(target).is_ok_and(|data| data.is_dir());
    if sources.len() > 1 && !directory {
        runtime::eprintln!("cp: {target}: is not a directory; several files need one");
        return 1;
    }
    let mut status = 0;
    for source in sources {
        let target: String = if directory {
            trees::inside(target, source)
        } else {
            target.clone()
        };
        status = match trees::copy(source, &target, recursive) {
            Ok(()) | Err(CopyError::Enough) => continue,
            Err(CopyError::Input(error)) => io::report("cp", source, error),
            Err(CopyError::Output(error)) => io::report("cp", &target, error),
        };
    }
    status
}
