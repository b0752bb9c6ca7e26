//! `tee [-a] [file…]`: copies standard input to standard output and to files.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;

use runtime::fs::File;
use runtime::io::Write;
use tools::io::{self, CopyError, Input};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let mut append = false;
    while let Some((letter, _)) = words.next() {
        match letter {
            'a' => append = true,
            _ => return io::usage(Some(words.word())),
        }
    }
    let mut status = 0;
    let mut files = Vec::new();
    for path in words.rest() {
        let mut options = File::options();
        options.write(true).create(true);
        if append {
            options.append(true);
        } else {
            options.truncate(true);
        }
        match options.open(path) {
            Ok(file) => files.push((path, file)),
            Err(error) => status = io::report("tee", path, error),
        }
    }
    let mut buffer = io::Buffer::new(io::BLOCK);
    let result = Input::open("-")
        .map_err(CopyError::Input)
        .and_then(|mut input| {
            io::blocks(&mut input, &mut buffer, |block| {
                // A file that fails gets no further blocks.
                files.retain_mut(|(path, file)| match file.write_all(block) {
                    Ok(()) => true,
                    Err(error) => {
                        status = io::report("tee", path, error);
                        false
                    }
                });
                io::output(block)
            })
        });
    match result {
        Ok(()) | Err(CopyError::Enough) => status,
        Err(CopyError::Input(error)) => io::report("tee", "standard input", error),
        Err(CopyError::Output(error)) => io::output_failed("tee", error),
    }
}
