//! `hostname`: prints the name of this machine.
#![no_std]
#![no_main]

extern crate alloc;

use tools::{host, io};

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    let Some(name) = host::name() else {
        let (file, nodes) = (host::FILE, host::NODES);
        runtime::eprintln!("hostname: {file} has no name, and {nodes} does not have this node");
        return 1;
    };
    match io::output(alloc::format!("{name}\n").as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("hostname", error),
    }
}
