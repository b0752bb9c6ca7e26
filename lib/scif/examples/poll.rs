//! Poll: one thread serves many connections, with a listener and all connections in one call.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::time::Duration;

use scif::{
    Endpoint, Errno, Error, Listener, PollEntry, PortId, Readiness, RecvFlags, SendFlags, poll,
};
use scif_examples::{Result, connect, ensure, node_number, report};

runtime::main!(main);

const PORT: u16 = 5003;
/// Connections open at the same time.
const CLIENTS: usize = 5;

fn main() -> i32 {
    match runtime::env::args().nth(1).as_deref() {
        Some("serve") => report(server()),
        Some(node) => report(client(node)),
        None => report(Err("say `serve`, or the node where it serves".into())),
    }
}

/// Opens all connections, then uses them in the other order.
fn client(node: &str) -> Result {
    let to = PortId::new(node_number(node)?, PORT);
    let mut endpoints = Vec::new();
    for _ in 0..CLIENTS {
        endpoints.push(connect(to)?);
    }
    for (number, endpoint) in endpoints.iter().enumerate().rev() {
        let byte = number as u8;
        endpoint.send(&[byte], SendFlags::BLOCK)?;
        let mut answer = [0];
        endpoint.recv(&mut answer, RecvFlags::BLOCK)?;
        ensure(answer == [byte + 100], "a wrong answer")?;
    }
    Ok(())
}

fn server() -> Result {
    let listener = Listener::bind(PORT)?;
    let mut open: Vec<Endpoint> = Vec::new();
    let (mut accepted, mut closed) = (0, 0);
    while closed < CLIENTS {
        // The listener first, then the connections. ERR and HUP are always reported.
        let mut entries: Vec<PollEntry<'_>> = Vec::new();
        entries.push(PollEntry::new(&listener, Readiness::IN));
        for endpoint in &open {
            entries.push(PollEntry::new(endpoint, Readiness::IN));
        }
        let ready = poll(&mut entries, Some(Duration::from_secs(20)))?;
        ensure(ready > 0, "nothing happened for 20 s")?;
        let found: Vec<Readiness> = entries.iter().map(|entry| entry.revents).collect();
        let (listening, connections) = found.split_at(1);

        let mut left = Vec::new();
        for (endpoint, here) in open.drain(..).zip(connections) {
            if here.is_empty() || answer(&endpoint)? {
                left.push(endpoint);
            } else {
                closed += 1;
            }
        }
        open = left;
        if listening[0].contains(Readiness::IN) {
            // The request may have been withdrawn meanwhile.
            if let Some((endpoint, _)) = listener.try_accept()? {
                accepted += 1;
                open.push(endpoint);
            }
        }
    }
    runtime::println!("{accepted} connections served by one thread");
    Ok(())
}

/// Answers the bytes that have arrived. Returns whether the connection lives on.
fn answer(endpoint: &Endpoint) -> Result<bool> {
    let mut byte = [0];
    // HUP does not mean that everything has been received: only the error does.
    match endpoint.recv(&mut byte, RecvFlags::empty()) {
        Ok(0) => Ok(true),
        Ok(_) => {
            endpoint.send(&[byte[0] + 100], SendFlags::BLOCK)?;
            Ok(true)
        }
        Err(Error::Scif(Errno::ConnectionReset)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
