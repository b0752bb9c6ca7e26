//! `yes [word…]`: writes the words for ever, or until there is no reader.
#![no_std]
#![no_main]

use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let line = if arguments.is_empty() {
        "y".into()
    } else {
        arguments.join(" ")
    } + "\n";
    let block = line.repeat((4096 / line.len()).max(1));
    loop {
        if let Err(error) = io::output(block.as_bytes()) {
            return io::output_failed("yes", error);
        }
    }
}
