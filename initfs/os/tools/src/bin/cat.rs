//! `cat [file…]`: writes files to standard output, as they come.
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
    let mut buffer = io::Buffer::new(io::BLOCK);
    io::for_each_input("cat", paths, |_, input| {
        io::blocks(input, &mut buffer, io::output)
    })
}
