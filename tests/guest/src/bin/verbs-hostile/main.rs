//! A peer that does without the library of RDMA verbs, and keeps to no rules.
//!
//! `verbs-hostile victim` has memory of all kinds and tells the keys of all of it; one of its queue
//! pairs is connected with a number of the other end's choice, two others with each other.
//! `verbs-hostile NODE SEED` makes lanes to that victim by hand. What was exposed to it, it
//! reaches; nothing else, whatever key it names, with whatever it sends. Its lanes end, the
//! victim's other queue pairs go on. `verbs-hostile crowd NODE` takes all connections of the relay.
#![no_std]
#![no_main]

extern crate alloc;

mod attacker;
mod relay;
mod victim;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::{peer, text};
use runtime::println;
use scif::{Endpoint, RecvFlags, SendFlags};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

runtime::main!(main);

/// Where the victim waits for orders.
const PORT: u16 = 5420;
/// The number that the attacker gives to its queue pair: one of a port that nobody has.
const CLAIMED: u32 = 1 << 8 | 5;
/// Bytes of each region.
const PAGE: usize = 4096;
/// The contents of memory that nobody else may write.
const CANARY: u8 = 0xa5;

type Checked<T = ()> = Result<T, String>;

/// Requests to the victim, and its answers.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct Order {
    verb: u32,
    /// The number of the queue pair that waits for the attacker's.
    qpn: u32,
    /// The number of the attacker's, if it is not [`CLAIMED`].
    claimed: u32,
    /// The key of memory that peers may only write.
    writable: u32,
    /// Keys: peers may do everything, only read, nothing; another domain's.
    keys: [u32; 4],
    /// Where the first region begins.
    address: u64,
    /// Windows of the victim's context.
    windows: u64,
    /// How often its own queue pairs have done their work.
    rounds: u64,
    /// Whether all memory is as it must be.
    is_unharmed: u64,
}

/// Make a queue pair that waits for the attacker's, anew; the answer has all about it.
const PREPARE: u32 = 1;
/// Look.
const LOOK: u32 = 2;
/// Stop.
const QUIT: u32 = 3;

fn say(endpoint: &Endpoint, order: Order) -> Checked {
    let sent = endpoint.send(order.as_bytes(), SendFlags::BLOCK);
    sent.map(drop).map_err(text("say"))
}

fn hear(endpoint: &Endpoint) -> Checked<Order> {
    let mut order = Order::new_zeroed();
    let got = endpoint.recv(order.as_mut_bytes(), RecvFlags::BLOCK);
    match got.map_err(text("hear"))? {
        count if count == size_of::<Order>() => Ok(order),
        _ => Err("the other end has gone".into()),
    }
}

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["victim"] => match victim::serve() {
            Ok(()) => 0,
            Err(what) => {
                println!("verbs-hostile: {what}");
                1
            }
        },
        ["crowd", node] => node.parse().map_or(2, relay::crowd),
        [node, seed] => match (node.parse(), seed.parse()) {
            (Ok(node), Ok(seed)) => attacker::attack(node, seed),
            _ => 2,
        },
        _ => 2,
    }
}
