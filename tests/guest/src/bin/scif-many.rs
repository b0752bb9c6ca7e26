//! Many connections and many windows: all of them work, the connections by their mapped rings, and
//! nothing of them stays.
//!
//! `scif-many serve [CONNECTIONS]` at one node, then `scif-many NODE [CONNECTIONS [WINDOWS]]` at
//! another: 1,000 connections and 10,000 windows if not given.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::peer;
use guest_tests::{Suite, connect_patiently, counter, settled, text};
use scif::{
    Endpoint, Listener, Memory, NodeId, PortId, RecvFlags, RegisterOptions, RmaFlags, SendFlags,
};

runtime::main!(main);

/// Where the server listens.
const PORT: u16 = 3001;
const CONNECTIONS: usize = 1000;
const WINDOWS: usize = 10_000;

/// Bytes of a window.
const PAGE: usize = hal::mem::PAGE;
/// Pages of the memory that all windows show.
const PAGES: usize = 16;

/// The counters that must be as they were once everything is closed.
const COUNTERS: [&str; 8] = [
    "endpoints",
    "connections",
    "handles",
    "pages",
    "shared_bytes",
    "windows",
    "remote_windows",
    "pinned_pages",
];

fn main() -> i32 {
    let mut suite = Suite::new("scif-many");
    let arguments = peer::arguments();
    let number = |index: usize, default: usize| {
        let word = arguments.get(index);
        word.and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let connections = number(1, CONNECTIONS);
    let node: Option<NodeId> = arguments.first().and_then(|word| word.parse().ok());
    let before = look();
    match node {
        Some(node) => client(&mut suite, node, connections, number(2, WINDOWS)),
        None => suite.check("served", serve(connections)),
    }
    suite.equal("what is left", settled(look, &before), before);
    suite.finish()
}

fn look() -> Result<Vec<u64>, String> {
    COUNTERS.iter().map(|name| counter(name)).collect()
}

/// Sends a number.
fn tell(endpoint: &Endpoint, number: u64) -> Result<(), String> {
    let sent = endpoint.send(&number.to_le_bytes(), SendFlags::BLOCK);
    sent.map(drop).map_err(text("send"))
}

/// Receives a number.
fn hear(endpoint: &Endpoint) -> Result<u64, String> {
    let mut bytes = [0; 8];
    match endpoint.recv(&mut bytes, RecvFlags::BLOCK) {
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        other => Err(format!("receive: {other:?}")),
    }
}

/// Accepts, echoes once on each connection, then reads on the first one its orders: pairs
/// of an offset and the word that is there, until offset 0.
fn serve(connections: usize) -> Result<(), String> {
    let listener = Listener::bind(PORT).map_err(text("listen"))?;
    let mut endpoints = Vec::with_capacity(connections);
    for _ in 0..connections {
        endpoints.push(listener.accept().map_err(text("accept"))?.0);
    }
    prepare(&endpoints)?;
    for endpoint in &endpoints {
        let number = hear(endpoint)?;
        tell(endpoint, number)?;
    }
    let first = endpoints.first().ok_or("no connection")?;
    loop {
        let offset = hear(first)?;
        if offset == 0 {
            break;
        }
        let mut word = [0; 8];
        let read = first.vread_from(&mut word, offset as i64, RmaFlags::SYNC);
        read.map_err(text("vread_from"))?;
        tell(first, u64::from_le_bytes(word))?;
    }
    tell(first, counter("remote_windows")?)?;
    // The client closes all of its ends.
    for (index, endpoint) in endpoints.iter().enumerate() {
        let end = endpoint.read(&mut [0; 8]);
        if !peer::is_reset(&end) {
            return Err(format!("end of connection {index}: {end:?}"));
        }
    }
    Ok(())
}

fn client(suite: &mut Suite, node: NodeId, connections: usize, windows: usize) {
    let endpoints = match connect(node, connections) {
        Ok(endpoints) => endpoints,
        Err(error) => return suite.check("connections", Err(error)),
    };
    suite.check(
        &format!("the rings of {connections} connections are mapped"),
        prepare(&endpoints),
    );
    suite.check(
        &format!("{connections} connections carry bytes"),
        echo(&endpoints),
    );
    if let Some(first) = endpoints.first() {
        suite.check(
            &format!("{windows} windows are there"),
            register(first, windows),
        );
    }
}

fn connect(node: NodeId, count: usize) -> Result<Vec<Endpoint>, String> {
    let to = PortId::new(node, PORT);
    let mut endpoints = Vec::with_capacity(count);
    for index in 0..count {
        // Only the first may find no listener.
        let endpoint = match index {
            0 => connect_patiently(to),
            _ => scif::connect(to),
        };
        endpoints.push(endpoint.map_err(text(&format!("connection {index}")))?);
    }
    Ok(endpoints)
}

/// Maps the rings of all connections.
fn prepare(endpoints: &[Endpoint]) -> Result<(), String> {
    for (index, endpoint) in endpoints.iter().enumerate() {
        let mapped = endpoint.prepare();
        mapped.map_err(text(&format!("rings of connection {index}")))?;
    }
    Ok(())
}

/// All carry a number there first, then all carry it back.
fn echo(endpoints: &[Endpoint]) -> Result<(), String> {
    for (number, endpoint) in endpoints.iter().enumerate() {
        tell(endpoint, number as u64)?;
    }
    for (number, endpoint) in endpoints.iter().enumerate() {
        let back = hear(endpoint)?;
        if back != number as u64 {
            return Err(format!("connection {number}: {back} came back"));
        }
    }
    Ok(())
}

/// Registers windows, has the peer read some of them, and unregisters every other one; the rest
/// goes with the endpoint.
fn register(endpoint: &Endpoint, count: usize) -> Result<(), String> {
    let memory = Memory::new(PAGES * PAGE).map_err(text("memory"))?;
    for page in 0..PAGES {
        let word = (page as u64 + 1) * 0x0101_0101;
        memory.write(page * PAGE, word).map_err(text("write"))?;
    }
    let mut windows = Vec::with_capacity(count);
    for index in 0..count {
        let place = index % PAGES * PAGE;
        let options = RegisterOptions::new();
        let window = endpoint.register_with(&memory, place..place + PAGE, options);
        windows.push(window.map_err(text(&format!("window {index}")))?);
    }
    for (index, window) in windows.iter().enumerate().step_by(count.div_ceil(100)) {
        tell(endpoint, window.offset() as u64)?;
        let word = hear(endpoint)?;
        if word != ((index % PAGES) as u64 + 1) * 0x0101_0101 {
            return Err(format!("window {index}: the peer reads {word:#x}"));
        }
    }
    tell(endpoint, 0)?;
    let known = hear(endpoint)?;
    if known != count as u64 {
        return Err(format!("the peer knows {known} windows"));
    }
    for (index, window) in windows.into_iter().enumerate() {
        if index % 2 == 0 {
            window.unregister().map_err(text("unregister"))?;
        }
    }
    Ok(())
}
