//! Sending and receiving: records of a fixed size, a body whose length they tell, and how a stream
//! ends.
//!
//! SCIF keeps no message boundaries: a receiver asks for as many bytes as it wants.
#![no_std]
#![no_main]

extern crate alloc;

use scif::{Endpoint, Errno, Error, RecvFlags, SendFlags};
use scif_examples::{Result, ensure, play};

runtime::main!(main);

fn main() -> i32 {
    play(5001, server, client)
}

fn client(endpoint: &Endpoint) -> Result {
    for text in ["one", "two and three", ""] {
        // BLOCK: all of it. Without, as much as fits now, which may be nothing.
        endpoint.send(&(text.len() as u32).to_le_bytes(), SendFlags::BLOCK)?;
        endpoint.send(text.as_bytes(), SendFlags::BLOCK)?;
    }
    // Closing, by going out of scope, loses nothing that was sent.
    Ok(())
}

fn server(endpoint: &Endpoint) -> Result {
    let mut bodies = 0;
    loop {
        let mut length = [0; 4];
        // BLOCK: fill the buffer, or as much of it as the other side sent before it went.
        match endpoint.recv(&mut length, RecvFlags::BLOCK) {
            Ok(4) => {}
            Ok(_) => return Err("the stream ends within a record".into()),
            // Everything has been received, and the other side is closed.
            Err(Error::Scif(Errno::ConnectionReset)) => break,
            Err(error) => return Err(error.into()),
        }
        let mut body = alloc::vec![0; u32::from_le_bytes(length) as usize];
        let count = endpoint.recv(&mut body, RecvFlags::BLOCK)?;
        ensure(count == body.len(), "the stream ends within a body")?;
        runtime::println!(
            "received '{}'",
            alloc::string::String::from_utf8_lossy(&body)
        );
        bodies += 1;
    }
    ensure(bodies == 3, "not all three came")
}
