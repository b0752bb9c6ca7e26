//! `printf format [argument…]`.
#![no_std]
#![no_main]

use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let Some((format, arguments)) = io::behind_dashes(&arguments).split_first() else {
        return io::usage(None);
    };
    let (text, result) = tools::printf::text(format, arguments);
    if let Err(error) = io::output(&text) {
        return io::output_failed("printf", error);
    }
    match result {
        Ok(()) => 0,
        Err(message) => {
            runtime::eprintln!("printf: {message}");
            1
        }
    }
}
