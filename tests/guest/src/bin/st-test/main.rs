//! Scheduled Transfers between two programs, of one node or two.
//!
//! `st-test serve` serves one client after the other until one says that it was the last.
//! `st-test victim` serves one client and dies in the middle of it. `st-test NODE` checks
//! everything against both on that node.
#![no_std]
#![no_main]

extern crate alloc;

mod accepts;
mod client;
mod deaths;
mod handover;
mod many;
mod server;
mod silence;

use st::{Options, Result, Sender};
use zerocopy::{FromBytes, Immutable, IntoBytes};

runtime::main!(main);

/// Where the server listens.
const PORT: u16 = 5300;
/// Where the victim listens.
const VICTIM_PORT: u16 = 5301;
/// Bytes that the server maps.
const BYTES: usize = 1 << 20;
/// Where both sides count in it.
const COUNTER: usize = 4096;

/// Requests of the client to the server; the answers have the same form.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, PartialEq)]
#[repr(C)]
struct Message {
    kind: u32,
    seed: u32,
    at: u64,
    length: u64,
    number: u64,
}

/// Kinds of messages.
mod kind {
    /// Push back as many headers as `number` says.
    pub const ECHO: u32 = 1;
    /// Map memory.
    pub const MAP: u32 = 2;
    /// Take it back.
    pub const UNMAP: u32 = 3;
    /// Fill a part with the pattern of the seed.
    pub const FILL: u32 = 4;
    /// Check a part for the pattern of the seed; the answer's number is 1 if it is right.
    pub const CHECK: u32 = 5;
    /// Add `number` times to the counter.
    pub const ADD: u32 = 6;
    /// Pull `number` headers of channel `at`; the answer's number is how many came in order.
    pub const DRAIN: u32 = 7;
    /// Push `number` headers on channel `at`, and only then pull as many.
    pub const CROSS: u32 = 8;
    /// Answer after this number of milliseconds.
    pub const SLEEP: u32 = 9;
    /// Take memory back while it is written, and watch it for `number` milliseconds.
    pub const STORM: u32 = 10;
    /// Send `number` descriptors of level 0 on channel `at` back as they came.
    pub const RAW: u32 = 11;
    /// Die while pushing on channel 1 and putting on channel 0.
    pub const DIE: u32 = 12;
    /// Close the connection.
    pub const CLOSE: u32 = 13;
    /// Close the connection and serve no other.
    pub const QUIT: u32 = 14;
    /// Die at once.
    pub const DIE_QUIETLY: u32 = 15;
    /// Pull `number` headers, and after each look for the pattern of its seed at its place; the
    /// answer's number is how many were right.
    pub const CHECK_EACH: u32 = 16;
}

/// The byte of a pattern.
fn byte(seed: u32, at: usize) -> u8 {
    let mixed = (seed as usize).wrapping_mul(0x9e37_79b9) ^ at.wrapping_mul(0x85eb_ca6b);
    (mixed >> 11) as u8
}

/// A pattern of this length.
fn pattern(seed: u32, length: usize) -> alloc::vec::Vec<u8> {
    (0..length).map(|at| byte(seed, at)).collect()
}

fn options() -> Options {
    Options::new()
}

/// Sends a message.
fn say(tx: &mut Sender, message: Message) -> Result<()> {
    tx.push(&message)
}

fn main() -> i32 {
    let word = runtime::env::args().nth(1);
    match word.as_deref() {
        Some("serve") => server::serve(PORT, false),
        Some("victim") => server::serve(VICTIM_PORT, true),
        Some(node) => match node.parse() {
            Ok(node) => client::check(node),
            Err(_) => 64,
        },
        None => 64,
    }
}
