//! Mixed random load under faults, with every byte checked: `make soak`.
//!
//! On each node a driver (`scif-soak conduct`) keeps servers and workers running and kills some
//! of them now and then. Workers connect to servers of any node and send, receive, copy, map and
//! register; what they find wrong is a failed step, what ends because a program was killed is
//! counted. Node 0's driver says when all is over, and has nodes killed and booted meanwhile. In
//! the end every node must hold what it held before.
//!
//! ```text
//! scif-soak conduct SECONDS SEED RESTART_S   node 0; RESTART_S: between two node restarts, 0: none
//! scif-soak conduct                          the other nodes
//! scif-soak serve PORT · scif-soak work SEED what drivers start
//! ```
#![no_std]
#![no_main]

extern crate alloc;

mod control;
mod driver;
mod sessions;
mod tally;
mod worker;

use alloc::vec::Vec;

use guest_tests::peer;
use runtime::eprintln;
use runtime::time::{Duration, sleep};

runtime::main!(main);

/// Ports of the servers: this one and those after it.
const FIRST_PORT: u16 = 4100;
/// Servers of each node; each serves one connection at a time.
const SERVERS: u16 = 4;
/// Workers of each node.
const WORKERS: u64 = 4;

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: Vec<&str> = arguments.iter().map(|word| word.as_str()).collect();
    let number = |word: &str| word.parse::<u64>().ok();
    match words[..] {
        ["conduct"] => driver::run(None),
        ["conduct", seconds, seed, restart] => {
            match (number(seconds), number(seed), number(restart)) {
                (Some(seconds), Some(seed), Some(restart_s)) => driver::run(Some(driver::Plan {
                    seconds,
                    seed,
                    restart_s,
                })),
                _ => usage(),
            }
        }
        ["serve", port] => match port.parse() {
            Ok(port) => serve(port),
            Err(_) => usage(),
        },
        ["work", seed] => number(seed).map_or_else(usage, worker::run),
        _ => usage(),
    }
}

/// Serves until killed. A server killed on this port before may not have ended yet.
fn serve(port: u16) -> i32 {
    for _ in 0..200 {
        match peer::serve(port) {
            Ok(()) => return 0,
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
    eprintln!("STEP scif-soak serve: FAIL port {port} does not become free");
    1
}

fn usage() -> i32 {
    eprintln!("usage: scif-soak conduct [SECONDS SEED RESTART_S] | serve PORT | work SEED");
    2
}
