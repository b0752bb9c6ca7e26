//! `cp`: copies files, and directories with what is in them; the target may be a directory.
#![no_std]
#![no_main]

use tools::{io, trees};

tools::main!(main);

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
    let pairs = match trees::targets("cp", words.rest()) {
        Ok(pairs) => pairs,
        Err(status) => return status,
    };
    let mut copying = trees::Copying::new("cp", recursive, false);
    let mut status = 0;
    for (source, target) in pairs {
        if !copying.copy(source, &target) {
            status = 1;
        }
    }
    status
}
