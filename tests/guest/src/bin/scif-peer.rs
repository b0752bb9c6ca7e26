//! The other end of the SCIF test programs: echoes, receives, sends and reports until it gets the
//! order to quit.
//!
//! `scif-peer` serves on port 3000; `scif-peer quit NODE` ends the one on that node.
#![no_std]
#![no_main]

extern crate alloc;

use guest_tests::peer::{self, PORT, QUIT, Request};
use runtime::eprintln;
use scif::{PortId, RecvFlags, SendFlags};
use zerocopy::IntoBytes;

runtime::main!(main);

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: alloc::vec::Vec<&str> = arguments.iter().map(|word| word.as_str()).collect();
    let result = match words[..] {
        [] => peer::serve(PORT),
        ["quit", node] => match node.parse() {
            Ok(node) => quit(node),
            Err(_) => {
                eprintln!("scif-peer: {node} is no node number");
                return 2;
            }
        },
        [port] => match port.parse() {
            Ok(port) => peer::serve(port),
            Err(_) => {
                eprintln!("scif-peer: {port} is no port number");
                return 2;
            }
        },
        _ => {
            eprintln!("usage: scif-peer [PORT | quit NODE]");
            return 2;
        }
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("scif-peer: {error}");
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
