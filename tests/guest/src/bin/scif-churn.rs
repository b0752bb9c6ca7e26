//! A thousand connections, opened and closed, leave connections, ports and memory as they were.
//!
//! `scif-churn [NODE [COUNT]]`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::memory::{self, Frames};
use guest_tests::peer::{ECHO, Peer, Request};
use guest_tests::{Suite, counter, settled, text};
use scif::{RecvFlags, SendFlags};

runtime::main!(main);

/// The counters that must be as they were. The node rings' contents need no memory of their own.
const COUNTERS: &[&str] = &[
    "endpoints",
    "connections",
    "pages",
    "shared_bytes",
    "handles",
];

/// Connections before the first look: the first ones make things that stay (heap, links).
const WARM_UP: usize = 64;

/// Frames that each half of the connections may cost. The first one may still find a heap that must
/// grow; one that every connection makes grow shows in the second.
const MOST: [i64; 2] = [16, 4];

fn main() -> i32 {
    let mut suite = Suite::new("scif-churn");
    let peer = match Peer::from_arguments() {
        Ok(peer) => peer,
        Err(error) => {
            suite.check("peer", Err(error));
            return suite.finish();
        }
    };
    let count = runtime::env::args()
        .nth(2)
        .and_then(|word| word.parse().ok())
        .unwrap_or(1000_usize);
    suite.check("warm-up", churn(&peer, WARM_UP));
    // Both ends of the last connection are closed, and the last UNREGISTER is answered.
    let is_calm = || [counter("connections"), counter("connections_closing")];
    let calm = [Ok(0), Ok(0)];
    suite.equal("connections of the warm-up", settled(is_calm, &calm), calm);
    match look() {
        Ok(before) => {
            let mut frames = Frames::at_rest();
            for (half, most) in (1..).zip(MOST) {
                halve(&mut suite, &peer, half, count.div_ceil(2), &before);
                let name = alloc::format!("frames after half {half}");
                memory::check(&mut suite, &name, &mut frames, most);
            }
        }
        Err(error) => suite.check("counters before", Err(error)),
    }
    peer.dismiss();
    suite.finish()
}

/// Half of the connections leave what was there before.
fn halve(suite: &mut Suite, peer: &Peer, half: usize, count: usize, before: &Look) {
    let name = alloc::format!("{count} connections, half {half}");
    suite.check(&name, churn(peer, count));
    let after = settled(look, &Ok(before.clone()));
    match after {
        Ok(after) => {
            let counters = before.counters.iter().zip(&after.counters);
            for (name, (before, after)) in COUNTERS.iter().zip(counters) {
                suite.equal(&alloc::format!("{name} after half {half}"), after, before);
            }
            let name = alloc::format!("ports after half {half}");
            suite.equal(&name, &after.ports, &before.ports);
        }
        Err(error) => suite.check(&alloc::format!("counters after half {half}"), Err(error)),
    }
}

/// Opens, uses and closes `count` connections, one after the other.
fn churn(peer: &Peer, count: usize) -> Result<(), String> {
    let request = Request {
        verb: ECHO.into(),
        message: 8.into(),
        ..Request::default()
    };
    for round in 0..count {
        let endpoint = peer.connect(&request)?;
        // Some are closed unused, some with unread bytes.
        if round % 3 != 0 {
            endpoint
                .send(&round.to_le_bytes(), SendFlags::BLOCK)
                .map_err(text("send"))?;
        }
        if round % 3 == 1 {
            let mut back = [0; 8];
            endpoint
                .recv(&mut back, RecvFlags::BLOCK)
                .map_err(text("recv"))?;
            if back != round.to_le_bytes() {
                return Err(alloc::format!("round {round}: echo {back:?}"));
            }
        }
    }
    Ok(())
}

#[derive(Clone, PartialEq)]
struct Look {
    counters: Vec<u64>,
    ports: String,
}

fn look() -> Result<Look, String> {
    let counters: Result<Vec<u64>, String> = COUNTERS.iter().map(|name| counter(name)).collect();
    let ports = runtime::fs::read_to_string("/scheme/scif/ports").map_err(text("ports"))?;
    // Without the columns that name process and endpoint: the peer's listener is an old one.
    let ports = ports.lines().map(|line| {
        line.split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    });
    let ports = ports.collect::<Vec<_>>().join(", ");
    Ok(Look {
        counters: counters?,
        ports,
    })
}
