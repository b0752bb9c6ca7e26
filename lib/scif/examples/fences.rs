//! Fences: waiting for marks of this side's and of the peer's transfers, and a transfer whose last
//! byte arrives last.
#![no_std]
#![no_main]

use core::time::Duration;

use runtime::time::sleep;
use scif::{Endpoint, Initiator, Memory, RmaFlags};
use scif_examples::{Result, ensure, hear, play, tell};

runtime::main!(main);

const BYTES: usize = 1 << 20;

fn main() -> i32 {
    play(5009, server, client)
}

fn server(endpoint: &Endpoint) -> Result {
    let memory = Memory::new(BYTES)?;
    let window = endpoint.register(&memory)?;
    tell(endpoint, window.offset())?;

    // The client has started writing. A mark of the peer's transfers names those.
    hear(endpoint)?;
    let mark = endpoint.fence_mark(Initiator::Peer)?;
    endpoint.fence_wait(mark)?;
    ensure(memory.read::<u8>(0)? == 1, "the first byte is missing")?;
    ensure(
        memory.read::<u8>(BYTES - 1)? == 1,
        "the last byte is missing",
    )?;
    tell(endpoint, 0)?;

    // ORDERED: once the last byte is there, all bytes are. No message is needed.
    let mut looks = 0;
    while memory.read::<u8>(BYTES - 1)? != 2 {
        looks += 1;
        ensure(looks < 20_000, "the last byte did not come within 20 s")?;
        sleep(Duration::from_millis(1));
    }
    for offset in (0..BYTES).step_by(509) {
        ensure(
            memory.read::<u8>(offset)? == 2,
            "a byte came after the last one",
        )?;
    }
    tell(endpoint, 0)
}

fn client(endpoint: &Endpoint) -> Result {
    let remote = hear(endpoint)?;
    let memory = Memory::new(BYTES)?;
    let window = endpoint.register(&memory)?;

    // Without SYNC a call only starts the transfer. The memory must not change before it is done.
    memory.fill(0, BYTES, 1)?;
    for piece in 0..16 {
        let length = BYTES / 16;
        let part = window.part(piece * length..(piece + 1) * length)?;
        endpoint.write_to(part, remote + (piece * length) as i64, RmaFlags::empty())?;
    }
    tell(endpoint, 0)?;
    let mark = endpoint.fence_mark(Initiator::Own)?;
    endpoint.fence_wait(mark)?;

    hear(endpoint)?;
    memory.fill(0, BYTES, 2)?;
    endpoint.write_to(window.all(), remote, RmaFlags::ORDERED)?;
    hear(endpoint)?;
    Ok(())
}
