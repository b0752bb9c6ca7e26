//! RDMA verbs between two programs, of one node or two, and within one.
//!
//! `verbs-test serve` serves one client after the other until one says that it was the last.
//! `verbs-test victim` serves one client and dies in the middle of it. `verbs-test NODE` checks
//! everything against both on that node. `verbs-test own` checks queue pairs of one context,
//! `verbs-test daemon`, as root, what the daemon of the device knows of one, and kills it.
#![no_std]
#![no_main]

extern crate alloc;

mod client;
mod daemon;
mod end;
mod own;
mod server;
mod sleeping;

use zerocopy::{FromBytes, Immutable, IntoBytes};

runtime::main!(main);

/// Where the server listens.
const PORT: u16 = 5400;
/// Where the victim listens.
const VICTIM_PORT: u16 = 5401;

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
    /// Make a queue pair of type `number`, with access `seed`, and, if `at` is not 0, a shared
    /// receive queue with that limit less 1; then connect it. The answer has the address and the
    /// key of the server's memory.
    pub const PAIR: u32 = 1;
    /// Post `number` receives of `length` bytes, one after the other from `at` on.
    pub const RECEIVE: u32 = 2;
    /// Wait for `number` completions of receives. The answer: how many were good, the bytes of
    /// all, the immediate data of the last one, the status of the first bad one.
    pub const EXPECT: u32 = 3;
    /// Fill a part of the memory with the pattern of the seed.
    pub const FILL: u32 = 4;
    /// Check a part for the pattern of the seed; the answer's number is 1 if it is right.
    pub const CHECK: u32 = 5;
    /// Send `number` messages of `length` bytes from `at` on, and wait for their completions; the
    /// answer's number is how many were good.
    pub const SEND: u32 = 6;
    /// The number of the queue pair's state.
    pub const STATE: u32 = 7;
    /// Wait for an asynchronous event; its number.
    pub const EVENT: u32 = 8;
    /// Destroy the queue pair.
    pub const DESTROY: u32 = 9;
    /// Take the memory back, and register it anew; the new key.
    pub const RENEW: u32 = 10;
    /// Do nothing for this number of milliseconds, then answer.
    pub const SLEEP: u32 = 11;
    /// The double word at `at`.
    pub const WORD: u32 = 12;
    /// Die at once, without an answer.
    pub const DIE: u32 = 13;
    /// Close the connection.
    pub const CLOSE: u32 = 14;
    /// Close the connection and serve no other.
    pub const QUIT: u32 = 15;
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

fn main() -> i32 {
    let word = runtime::env::args().nth(1);
    match word.as_deref() {
        Some("serve") => server::serve(PORT, false),
        Some("victim") => server::serve(VICTIM_PORT, true),
        Some("own") => own::check(),
        Some("daemon") => daemon::check(),
        Some(node) => match node.parse() {
            Ok(node) => client::check(node),
            Err(_) => 64,
        },
        None => 64,
    }
}
