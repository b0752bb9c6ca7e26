//! Push and pull: a header goes there and another comes back, without the operating system.
#![no_std]
#![no_main]

use st::{Listener, Port, PortId, connect};
use st_examples::{Result, ensure, patient, play};
use zerocopy::{FromBytes, Immutable, IntoBytes};

runtime::main!(main);

const ROUNDS: u64 = 1000;

/// A header is what the program wants it to be, up to 32 bytes.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct Ping {
    round: u64,
    answer: u64,
}

fn main() -> i32 {
    play(5401, server, client)
}

fn server(port: Port) -> Result {
    let link = Listener::bind(port)?.accept()?;
    let (mut tx, mut rx) = link.channel(0)?.split();
    for _ in 0..ROUNDS {
        let mut ping: Ping = rx.pull()?;
        ping.answer = ping.round * ping.round;
        tx.push(&ping)?;
    }
    Ok(())
}

fn client(server: PortId) -> Result {
    let link = connect(server, &patient())?;
    let (mut tx, mut rx) = link.channel(0)?.split();
    for round in 0..ROUNDS {
        tx.push(&Ping { round, answer: 0 })?;
        let pong: Ping = rx.pull()?;
        ensure(pong.answer == round * round, "another answer")?;
    }
    runtime::println!("{ROUNDS} headers there and back");
    Ok(())
}
