//! `whoami`: prints the user.
#![no_std]
#![no_main]

extern crate alloc;

use tools::io;

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    let name = io::user_name(io::own_user());
    match io::output(alloc::format!("{name}\n").as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("whoami", error),
    }
}
