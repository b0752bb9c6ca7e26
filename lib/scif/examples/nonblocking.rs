//! Connecting without waiting: start, do something else, poll, collect the result.
#![no_std]
#![no_main]

use core::time::Duration;

use runtime::time::sleep;
use scif::{
    Endpoint, Errno, Error, Options, PollEntry, Port, PortId, Readiness, RecvFlags, SendFlags, poll,
};
use scif_examples::{Result, ensure, node_number, play, report};

runtime::main!(main);

const PORT: u16 = 5004;

fn main() -> i32 {
    match runtime::env::args().nth(1).as_deref() {
        Some("serve") => play(PORT, server, server),
        Some(node) => report(client(node)),
        None => report(Err("say `serve`, or the node where it serves".into())),
    }
}

fn server(endpoint: &Endpoint) -> Result {
    endpoint.send(b"welcome", SendFlags::BLOCK)?;
    // Waits until the other side has gone.
    let rest = endpoint.recv(&mut [0], RecvFlags::BLOCK);
    ensure(
        rest == Err(Error::Scif(Errno::ConnectionReset)),
        "more came",
    )
}

fn client(node: &str) -> Result {
    let to = PortId::new(node_number(node)?, PORT);
    let endpoint = Options::new().nonblocking(true).bind()?;
    let mut attempts = 0;
    // The same endpoint may try again after a refusal.
    while let Err(error) = try_connect(&endpoint, to) {
        let refused = error == Error::Scif(Errno::ConnectionRefused);
        ensure(refused && attempts < 200, "connecting failed")?;
        attempts += 1;
        sleep(Duration::from_millis(100));
    }
    let mut text = [0; 7];
    endpoint.recv(&mut text, RecvFlags::BLOCK)?;
    ensure(&text == b"welcome", "a wrong greeting")
}

fn try_connect(endpoint: &Endpoint, to: PortId) -> scif::Result<Port> {
    match endpoint.connect(to) {
        Err(Error::Scif(Errno::InProgress)) => {}
        other => return other,
    }
    // The program may do something else here. OUT comes with either outcome.
    let mut entries = [PollEntry::new(endpoint, Readiness::OUT)];
    poll(&mut entries, None)?;
    // The same call again collects the result.
    endpoint.connect(to)
}
