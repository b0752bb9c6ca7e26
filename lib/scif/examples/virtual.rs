//! Copying between ordinary memory and the peer's windows, with and without a cache.
#![no_std]
#![no_main]

extern crate alloc;

use scif::{Endpoint, Initiator, Memory, RmaFlags};
use scif_examples::{Result, ensure, hear, play, tell};

runtime::main!(main);

const PAGE: usize = 4096;
const BYTES: usize = 64 * PAGE;

fn main() -> i32 {
    play(5008, server, client)
}

fn server(endpoint: &Endpoint) -> Result {
    let memory = Memory::new(BYTES)?;
    let window = endpoint.register(&memory)?;
    tell(endpoint, window.offset())?;
    hear(endpoint)?;
    Ok(())
}

fn client(endpoint: &Endpoint) -> Result {
    let remote = hear(endpoint)?;

    // Any slice, of any length, to any offset. Complete when the call returns.
    let data: alloc::vec::Vec<u8> = (0..10_001).map(|number| number as u8).collect();
    endpoint.vwrite_to(&data, remote + 3, RmaFlags::empty())?;
    let mut back = alloc::vec![0; data.len()];
    endpoint.vread_from(&mut back, remote + 3, RmaFlags::empty())?;
    ensure(back == data, "other data came back")?;
    // Constants can be written from, too.
    endpoint.vwrite_to(b"a constant", remote, RmaFlags::empty())?;

    // Memory that is used again and again: the daemon remembers it, so that a transfer needs no
    // preparation, and runs on its own.
    let buffer = Memory::ordinary(BYTES)?;
    for round in 0..8_u8 {
        buffer.fill(0, BYTES, round)?;
        endpoint.vwrite_out(&buffer, 0..BYTES, remote, RmaFlags::USECACHE)?;
        let mark = endpoint.fence_mark(Initiator::Own)?;
        endpoint.fence_wait(mark)?;
        let mut byte = [0xff];
        let last = remote + BYTES as i64 - 1;
        endpoint.vread_from(&mut byte, last, RmaFlags::SYNC)?;
        ensure(byte == [round], "a former round's data")?;
    }
    tell(endpoint, 0)
}
