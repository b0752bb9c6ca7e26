//! `mkdir [-p] directory…`: makes directories; with `-p` also those above, and existing ones are
//! no error.
#![no_std]
#![no_main]

use runtime::fs;
use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let mut parents = false;
    while let Some((letter, _)) = words.next() {
        match letter {
            'p' => parents = true,
            _ => return io::usage(Some(words.word())),
        }
    }
    let paths = words.rest();
    if paths.is_empty() {
        return io::usage(None);
    }
    let mut status = 0;
    for path in paths {
        let result = if parents {
            make_all(path)
        } else {
            fs::create_dir(path)
        };
        if let Err(error) = result {
            status = io::report("mkdir", path, error);
        }
    }
    status
}

fn make_all(path: &str) -> runtime::Result<()> {
    let is_directory = |path: &str| fs::metadata(path).is_ok_and(|data| data.is_dir());
    let ends = path
        .match_indices('/')
        .map(|(at, _)| at)
        .chain([path.len()]);
    let mut result = Ok(());
    for end in ends.filter(|end| *end > 0) {
        let part = &path[..end];
        // Scheme roots and directories above that cannot be made exist already.
        result = if is_directory(part) {
            Ok(())
        } else {
            fs::create_dir(part)
        };
    }
    result
}
