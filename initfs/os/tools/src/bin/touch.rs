//! `touch file…`: makes files that do not exist.
#![no_std]
#![no_main]

use runtime::fs::File;
use tools::io;

tools::main!(main);

fn main() -> i32 {
    let paths = io::arguments();
    let mut words = paths.iter().map(|path| path.as_str());
    let wrong = words.find(|word| word.len() > 1 && word.starts_with('-'));
    if paths.is_empty() || wrong.is_some() {
        return io::usage(wrong);
    }
    let mut status = 0;
    for path in &paths {
        if let Err(error) = File::options().write(true).create(true).open(path) {
            status = io::report("touch", path, error);
        }
    }
    status
}
