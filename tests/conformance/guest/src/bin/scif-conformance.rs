//! The conformance suite on booted nodes.
//!
//! `scif-conformance loopback [WORD]` on one node; `scif-conformance pair NODE [WORD]` with
//! `scif-conformance agent` on that node. WORD selects cases whose name contains it.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use conformance_guest::agent;
use conformance_guest::driver::{Guest, PORT};
use runtime::{eprintln, println};

runtime::main!(main);

fn main() -> i32 {
    let arguments: Vec<String> = runtime::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["agent"] => agent::serve(PORT).map(|()| 0),
        ["agent", port] => match port.parse() {
            Ok(port) => agent::serve(port).map(|()| 0),
            Err(_) => return usage(),
        },
        ["loopback"] => run(None, ""),
        ["loopback", only] => run(None, only),
        ["pair", node] => run(node.parse().ok(), ""),
        ["pair", node, only] => run(node.parse().ok(), only),
        _ => return usage(),
    };
    result.unwrap_or_else(|what| {
        eprintln!("scif-conformance: {what}");
        1
    })
}

fn usage() -> i32 {
    eprintln!("usage: scif-conformance loopback [WORD] | pair NODE [WORD] | agent [PORT]");
    2
}

fn run(node: Option<u16>, only: &str) -> Result<i32, String> {
    let mut guest = Guest::new(node)?;
    let totals = conformance::run(&mut guest, only, &mut |line| println!("{line}"));
    guest.dismiss()?;
    Ok(i32::from(!totals.is_success()))
}
