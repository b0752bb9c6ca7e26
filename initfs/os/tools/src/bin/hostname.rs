//! `hostname`: prints the name of this node.
#![no_std]
#![no_main]

extern crate alloc;

use tools::{host, io};

runtime::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    let nodes = match runtime::fs::read_to_string(host::NODES) {
        Ok(nodes) => nodes,
        Err(error) => return io::report("hostname", host::NODES, error),
    };
    let Some(name) = host::name(&nodes) else {
        runtime::eprintln!("hostname: this node is not in {}", host::NODES);
        return 1;
    };
    match io::output(alloc::format!("{name}\n").as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("hostname", error),
    }
}
