//! `touch file…`: makes files that do not exist.
#![no_std]
#![no_main]

use runtime::fs::File;
use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let paths = match io::operands(&arguments) {
        Ok([]) => return io::usage(None),
        Ok(paths) => paths,
        Err(status) => return status,
    };
    let mut status = 0;
    for path in paths {
        if let Err(error) = File::options().write(true).create(true).open(path) {
            status = io::report("touch", path, error);
        }
    }
    status
}
