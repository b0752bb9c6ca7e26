//! A key-value store: one thread serves many clients, whichever of them asks, with a `WaitSet`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use st::{Deadline, Error, Interest, Listener, Port, PortId, Receiver, Sender, WaitSet, connect};
use st_examples::{Result, ensure, patient, play};
use zerocopy::{FromBytes, Immutable, IntoBytes};

runtime::main!(main);

const CLIENTS: usize = 3;
const KEYS: u64 = 50;

const SET: u64 = 1;
const GET: u64 = 2;

/// A question, and the answer to it: the value that the key had before.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct Request {
    kind: u64,
    key: u64,
    value: u64,
}

fn main() -> i32 {
    play(5403, server, clients)
}

fn server(port: Port) -> Result {
    let listener = Listener::bind(port)?;
    let mut channels = Vec::new();
    for _ in 0..CLIENTS {
        channels.push(listener.accept()?.channel(0)?.split());
    }
    let mut values = BTreeMap::new();
    let mut set = WaitSet::new()?;
    while !channels.is_empty() {
        let receivers = channels.iter_mut().map(|(_, rx)| Interest::Header(rx));
        let mut interests: Vec<_> = receivers.collect();
        let ready = set.wait(&mut interests, Deadline::Never)?;
        // From the last one on, as those that have ended are removed.
        for &index in ready.iter().rev() {
            let Some((tx, rx)) = channels.get_mut(index) else {
                continue;
            };
            match serve(&mut values, tx, rx) {
                Ok(()) => {}
                Err(error) if error.is_end() => drop(channels.swap_remove(index)),
                Err(error) => return Err(error.into()),
            }
        }
    }
    runtime::println!("{} keys of {CLIENTS} clients", values.len());
    ensure(values.len() as u64 == KEYS, "another number of keys")
}

/// Answers everything that a client has asked up to now.
fn serve(values: &mut BTreeMap<u64, u64>, tx: &mut Sender, rx: &mut Receiver) -> Result<(), Error> {
    while let Some(Request { kind, key, value }) = rx.try_pull()? {
        let former = match kind {
            SET => values.insert(key, value),
            _ => values.get(&key).copied(),
        };
        let value = former.unwrap_or(0);
        tx.push(&Request { kind, key, value })?;
    }
    Ok(())
}

/// Several clients, in one program for once: each sets keys that the next one gets.
fn clients(server: PortId) -> Result {
    let mut channels = Vec::new();
    for _ in 0..CLIENTS {
        channels.push(connect(server, &patient())?.channel(0)?.split());
    }
    let mut ask = |client: usize, kind, key, value| -> Result<u64> {
        let (tx, rx) = channels.get_mut(client % CLIENTS).ok_or("no such client")?;
        tx.push(&Request { kind, key, value })?;
        let answer: Request = rx.pull()?;
        ensure(answer.key == key, "an answer to another question")?;
        Ok(answer.value)
    };
    for key in 0..KEYS {
        let client = key as usize;
        ensure(
            ask(client, SET, key, 3 * key)? == 0,
            "a value before the first",
        )?;
        ensure(ask(client + 1, GET, key, 0)? == 3 * key, "another value")?;
    }
    Ok(())
}
