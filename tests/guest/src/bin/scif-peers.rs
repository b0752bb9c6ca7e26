//! The other end of test programs that have many connections at once; see `guest_tests::peers`.
//!
//! `scif-peers` serves on port 3100; `scif-peers quit NODE` ends the one on that node.
#![no_std]
#![no_main]

extern crate alloc;

use guest_tests::peer::{self, QUIT, Request};
use guest_tests::peers::{self, PORT};
use scif::{PortId, RecvFlags, SendFlags};
use zerocopy::IntoBytes;

runtime::main!(main);

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: alloc::vec::Vec<&str> = arguments.iter().map(|word| word.as_str()).collect();
    let result = match words[..] {
        [] => peers::serve(),
        ["quit", node] => match node.parse() {
            Ok(node) => quit(node),
            Err(_) => {
                runtime::eprintln!("scif-peers: {node} is no node number");
                return 2;
            }
        },
        _ => {
            runtime::eprintln!("usage: scif-peers [quit NODE]");
            return 2;
        }
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("scif-peers: {error}");
            1
        }
    }
}

fn quit(node: u16) -> scif::Result<()> {
    let request = Request {
        verb: QUIT.into(),
        ..Request::default()
    };
    let endpoint = scif::connect(PortId::new(node, PORT))?;
    endpoint.send(request.as_bytes(), SendFlags::BLOCK)?;
    // Until the other side has read it and ends the connection: this node may be switched off next,
    // and what the other driver has not taken from the link by then is lost.
    let _ = endpoint.recv(&mut [0], RecvFlags::BLOCK);
    Ok(())
}
