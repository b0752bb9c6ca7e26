//! Copying between registered memory of both ends: 64 MiB there and back, with the checksums of
//! both ends.
//!
//! `example-rma serve [MIB [NAME]]` and `example-rma NODE [MIB [NAME]]`, both with the same size.
//! The sums are printed as `VALUE NAME-write: …` and `VALUE NAME-read: …`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use core::fmt::Write;

use scif::{Endpoint, Memory, RecvFlags, RmaFlags, SendFlags, View};
use scif_examples::{Result, ensure, hear, play, tell};
use sha2::{Digest, Sha256};

runtime::main!(main);

/// Bytes that are made or summed at a time.
const PIECE: usize = 64 * 1024;

fn main() -> i32 {
    play(5007, server, client)
}

fn length() -> usize {
    let words = runtime::env::args().nth(2);
    let mib = words.and_then(|word| word.parse().ok()).unwrap_or(64_usize);
    mib << 20
}

/// The name of a sum.
fn name(direction: &str) -> String {
    let name = runtime::env::args().nth(3);
    alloc::format!("{}-{direction}", name.as_deref().unwrap_or("rma"))
}

/// Fills memory with numbers without a pattern, so that a page in the wrong place is noticed.
fn fill(memory: &View, mut state: u64) -> Result {
    let mut piece = alloc::vec![0; PIECE];
    for at in (0..memory.len()).step_by(PIECE) {
        for word in piece.as_chunks_mut::<8>().0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state.to_le_bytes();
        }
        memory.copy_in(at, &piece)?;
    }
    Ok(())
}

fn sum(memory: &View) -> Result<String> {
    let mut sha = Sha256::new();
    let mut piece = alloc::vec![0; PIECE];
    for at in (0..memory.len()).step_by(PIECE) {
        memory.copy_out(at, &mut piece)?;
        sha.update(&piece);
    }
    let mut text = String::new();
    for byte in sha.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// Lends its memory, then sums what the client has written.
fn server(endpoint: &Endpoint) -> Result {
    let memory = Memory::new(length())?;
    let window = endpoint.register(&memory)?;
    tell(endpoint, window.offset())?;
    hear(endpoint)?;
    let written = sum(&memory)?;
    runtime::println!("VALUE {}: {written}", name("write"));
    endpoint.send(written.as_bytes(), SendFlags::BLOCK)?;

    fill(&memory, 0x5eed_0002)?;
    let filled = sum(&memory)?;
    runtime::println!("VALUE {}: {filled}", name("read"));
    endpoint.send(filled.as_bytes(), SendFlags::BLOCK)?;
    hear(endpoint)?;
    Ok(())
}

/// Does all the copying.
fn client(endpoint: &Endpoint) -> Result {
    let remote = hear(endpoint)?;
    let memory = Memory::new(length())?;
    let window = endpoint.register(&memory)?;

    fill(&memory, 0x5eed_0001)?;
    let written = sum(&memory)?;
    // SYNC: when the call returns, the data is in the peer's memory.
    endpoint.write_to(window.all(), remote, RmaFlags::SYNC)?;
    runtime::println!("VALUE {}: {written}", name("write"));
    tell(endpoint, 0)?;
    let mut arrived = alloc::vec![0; written.len()];
    endpoint.recv(&mut arrived, RecvFlags::BLOCK)?;
    ensure(
        arrived == written.as_bytes(),
        "the two ends have different sums",
    )?;

    // The server's next sum shows that it has filled its memory anew.
    let mut filled = alloc::vec![0; written.len()];
    endpoint.recv(&mut filled, RecvFlags::BLOCK)?;
    endpoint.read_from(window.all(), remote, RmaFlags::SYNC)?;
    let read = sum(&memory)?;
    runtime::println!("VALUE {}: {read}", name("read"));
    ensure(
        read.as_bytes() == filled,
        "the two ends have different sums",
    )?;
    tell(endpoint, 0)
}
