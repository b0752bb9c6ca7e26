//! `sha256sum [file…]`: prints the SHA-256 of each file.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use sha2::{Digest, Sha256};
use tools::io::{self, CopyError};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let paths = match io::operands(&arguments) {
        Ok(paths) => paths,
        Err(status) => return status,
    };
    let mut buffer = io::Buffer::new(io::BLOCK);
    io::for_each_input("sha256sum", paths, |path, input| {
        let mut hash = Sha256::new();
        io::blocks(input, &mut buffer, |block| {
            hash.update(block);
            Ok(())
        })?;
        let mut text = String::new();
        for byte in hash.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        io::output(format!("{text}  {path}\n").as_bytes()).map_err(CopyError::Output)
    })
}
