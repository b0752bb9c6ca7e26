//! Round trip of small messages and throughput of a stream, as numbers.
//!
//! `scif-pingpong [NODE [ROUNDS]]`. Prints microseconds and megabytes (10^6) per second.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::peer::{self, ECHO, Peer, Request, SINK, SOURCE};
use guest_tests::{Suite, text};
use runtime::println;
use runtime::time::Instant;
use scif::{RecvFlags, SendFlags};

runtime::main!(main);

/// Bytes of the stream that is timed.
const STREAM_BYTES: u64 = 8 << 20;

fn main() -> i32 {
    let mut suite = Suite::new("scif-pingpong");
    let peer = match Peer::from_arguments() {
        Ok(peer) => peer,
        Err(error) => {
            suite.check("peer", Err(error));
            return suite.finish();
        }
    };
    let rounds = runtime::env::args()
        .nth(2)
        .and_then(|word| word.parse().ok())
        .unwrap_or(1000);
    suite.check("round trip of 64 bytes", round_trips(&peer, 64, rounds));
    suite.check("stream to the peer", stream(&peer));
    peer.dismiss();
    suite.finish()
}

fn round_trips(peer: &Peer, size: u32, rounds: usize) -> Result<(), String> {
    let request = Request {
        verb: ECHO.into(),
        message: size.into(),
        ..Request::default()
    };
    let endpoint = peer.connect(&request)?;
    let message = alloc::vec![0x5a; size as usize];
    let mut back = message.clone();
    let mut times: Vec<u64> = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        endpoint
            .send(&message, SendFlags::BLOCK)
            .map_err(text("send"))?;
        endpoint
            .recv(&mut back, RecvFlags::BLOCK)
            .map_err(text("recv"))?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    let micros = |index: usize| times.get(index).map_or(0, |nanos| nanos / 1000);
    println!(
        "round trip of {size} bytes over {}: least {} us, median {} us, 99 of 100 below {} us",
        peer.at,
        micros(0),
        micros(rounds / 2),
        micros(rounds * 99 / 100)
    );
    Ok(())
}

fn stream(peer: &Peer) -> Result<(), String> {
    let request = |verb: u32| Request {
        verb: verb.into(),
        bytes: STREAM_BYTES.into(),
        ..Request::default()
    };
    let endpoint = peer.connect(&request(SINK))?;
    let start = Instant::now();
    peer::source(&endpoint, &request(SOURCE));
    let report = Peer::report(&endpoint)?;
    let micros = start.elapsed().as_micros().max(1) as u64;
    if !report.is_whole(STREAM_BYTES) {
        return Err(alloc::format!("{report:?}"));
    }
    let rate = STREAM_BYTES * 10 / micros;
    println!(
        "stream of 8 MiB to {}: {}.{} MB/s",
        peer.at,
        rate / 10,
        rate % 10
    );
    Ok(())
}
