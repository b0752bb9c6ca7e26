//! A thousand connections, opened and closed, leave connections, ports and memory as they were.
//!
//! `scif-churn [NODE [COUNT]]`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::peer::{ECHO, Peer, Request};
use guest_tests::{Suite, counter, settled, text};
use libredox::Fd;
use scif::{RecvFlags, SendFlags};

runtime::main!(main);

/// What must be as it was. The node rings' contents need no memory of their own.
const COUNTERS: &[&str] = &[
    "endpoints",
    "connections",
    "pages",
    "shared_bytes",
    "handles",
];

/// Connections before the first look: the first ones make things that stay (heap, links).
const WARM_UP: usize = 64;

/// Pages that the system's free memory may differ by: heaps of daemons that happen to grow.
const TOLERATED_PAGES: u64 = 64;

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
        .unwrap_or(1000);
    suite.check("warm-up", churn(&peer, WARM_UP));
    // Both ends of the last connection are closed, and the farewell is answered.
    let is_calm = || [counter("connections"), counter("connections_closing")];
    let calm = [Ok(0), Ok(0)];
    suite.equal("connections of the warm-up", settled(is_calm, &calm), calm);
    let before = look();
    suite.check(&alloc::format!("{count} connections"), churn(&peer, count));
    let counters_after = || look().ok().map(|look| look.counters);
    let counters_before = before.as_ref().ok().map(|look| look.counters.clone());
    settled(counters_after, &counters_before);
    let after = look();
    match (before, after) {
        (Ok(before), Ok(after)) => {
            for ((name, before), after) in COUNTERS.iter().zip(before.counters).zip(after.counters)
            {
                suite.equal(name, after, before);
            }
            suite.equal("ports", after.ports, before.ports);
            let lost = before.free_pages.saturating_sub(after.free_pages);
            let result = if lost <= TOLERATED_PAGES {
                Ok(())
            } else {
                Err(alloc::format!(
                    "{lost} pages of {} are gone",
                    before.free_pages
                ))
            };
            suite.check("free memory", result);
        }
        (before, after) => {
            suite.check("counters before", before.map(|_| ()));
            suite.check("counters after", after.map(|_| ()));
        }
    }
    peer.dismiss();
    suite.finish()
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
        // Some are closed unused, some with bytes that nobody reads.
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

struct Look {
    counters: Vec<u64>,
    ports: String,
    free_pages: u64,
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
    let memory = Fd::open("/scheme/memory/zeroed", 0, 0).map_err(text("memory"))?;
    let free_pages = memory.statvfs().map_err(text("memory"))?.f_bavail;
    Ok(Look {
        counters: counters?,
        ports,
        free_pages,
    })
}
