//! `rmdir directory…`: removes empty directories.
#![no_std]
#![no_main]

use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let paths = match io::operands(&arguments) {
        Ok(paths) => paths,
        Err(status) => return status,
    };
    if paths.is_empty() {
        return io::usage(None);
    }
    let mut status = 0;
    for path in paths {
        if let Err(error) = runtime::fs::remove_dir(path) {
            status = io::report("rmdir", path, error);
        }
    }
    status
}
